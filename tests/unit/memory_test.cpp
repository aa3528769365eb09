// Tensors that wait in memory: what the last cache kept of them, and lines that are asked for ahead of their use.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>

#include "hwmodel/estimate.h"
#include "hwmodel/profile.h"
#include "ir/ir.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"

using namespace rgen;

namespace {

std::string dims(int64_t m, int64_t n, int64_t k) {
  return R"--("dims": {"M": )--" + std::to_string(m) + R"--(, "N": )--" + std::to_string(n) + R"--(, "K": )--" + std::to_string(k) + "}";
}

rtile::Candidate product(int64_t m, int64_t n, int64_t k, const hw::Profile& profile) {
  const ir::TensorProgram program = ir::parse_program(
      R"--({"inputs": {"A": {"shape": ["M", "K"]}, "B": {"shape": ["K", "N"], "constant": true}}, "outputs": ["C"],
            "compute": ["C[m:M, n:N] = sum(k:K | A[m,k] * B[k,n])"], )--" +
      dims(m, n, k) + "}");
  return rtile::construct(program, profile, {.threads = 1}).front();
}

/// Bytes ahead, of the packed weights of a product; 0: not asked for.
int64_t ahead(int64_t m, int64_t n, int64_t k, const hw::Profile& profile) {
  const rtile::Candidate c = product(m, n, k, profile);
  for (const rtile::Operand& o : c.program->groups[0].nests[0].operands)
    if (o.placement == rtile::Placement::prepack) return o.ahead * 4;
  return -1;
}

double sum_us(int64_t mib, const hw::Profile& profile) {
  const ir::TensorProgram program =
      ir::parse_program(R"--({"inputs": {"X": {"shape": ["M", "K"]}}, "outputs": ["Y"], "compute": ["Y[m:M] = sum(k:K | X[m,k])"], )--" +
                        dims(mib * 256, 1, 1024) + "}");
  return rtile::construct(program, profile, {.threads = 1}).front().estimate.us;
}

}  // namespace

TEST_CASE("transpositions into rows that share sets of the first-level cache go on along the rows") {
  const hw::Profile profile = hw::load_profile("zen5");
  const auto transposed_us = [&](int64_t columns) {
    const ir::TensorProgram program =
        ir::parse_program(R"--({"inputs": {"X": {"shape": ["M", "N"]}}, "outputs": ["Y"], "compute": ["Y[n:N, m:M] = X[m,n]"], )--" +
                          dims(columns, 196, 1) + "}");
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::GroupPlan& g = c.program->groups[0];
    CHECK((columns % 1024 != 0 || g.group.nests[0].axes[size_t(g.nests[0].loops.back().axis)].extent == columns));
    return c.estimate.us;
  };
  CHECK(transposed_us(1024) > 1.1 * transposed_us(1023));  // rows of 4096 bytes, all in one set
}

TEST_CASE("packed weights in memory are asked for as many bytes ahead as must be under way") {
  const hw::Profile profile = hw::load_profile("zen5");
  const hw::MemoryLevel& memory = profile.levels.back();
  const double under_way = memory.latency_ns * memory.read_gbs(1);
  for (const int64_t m : {6, 12, 100}) {
    const auto bytes = double(ahead(m, 8192, 8192, profile));
    CHECK(bytes >= 2 * under_way);
    CHECK(bytes < 2 * under_way + 64);
    CHECK(int64_t(bytes) % memory.line_bytes == 0);
  }
}

TEST_CASE("weights that the caches hold, or beside a few rows' products, are not asked for ahead") {
  const hw::Profile profile = hw::load_profile("zen5");
  CHECK(ahead(12, 512, 512, profile) == 0);
  CHECK(ahead(1, 512, 512, profile) == 0);
  CHECK(ahead(1, 8192, 8192, profile) > 0);
  CHECK(ahead(4, 8192, 8192, hw::load_profile("zen4")) == 0);
}

TEST_CASE("packed weights in a last cache that cores wait for are asked for ahead where they pass once") {
  hw::Profile profile = hw::load_profile("sapphire_rapids");
  REQUIRE(profile.levels[2].overlap > 0.15);
  profile.levels[2].capacity_bytes = int64_t{256} << 20;
  CHECK(ahead(8, 1024, 4096, profile) > 0);     // one tile has all rows
  CHECK(ahead(128, 1024, 4096, profile) == 0);  // the second cache has them for the others
  CHECK(ahead(8, 512, 512, profile) == 0);      // ... or all of them
  CHECK(ahead(1, 1024, 4096, profile) == 0);    // prefetchers keep up
  profile.levels[2].overlap = 0;
  CHECK(ahead(8, 1024, 4096, profile) == 0);
}

TEST_CASE("what a cache delivers ahead hides whatever its level exposes, all the time") {
  const hw::Profile profile = hw::load_profile("sapphire_rapids");
  hw::Workload w;
  w.levels.resize(profile.levels.size());
  w.atoms.push_back({std::make_shared<const hw::Atom>(*profile.find_atom(DType::f32, DType::f32, DType::f32)), 1e6});
  w.levels[2].read_bytes = 2e6, w.levels[2].concentration = 4;
  const double waited_for = hw::estimate(w, profile).us;
  w.levels[2].ahead_bytes = w.levels[2].read_bytes;
  const hw::Estimate e = hw::estimate(w, profile);
  CHECK(e.us < waited_for);
  CHECK(e.us == doctest::Approx(std::cbrt(std::pow(e.compute_us, 3) + std::pow(e.level_us[2], 3)) + e.overhead_us));
  w.levels[2].concentration = 1;
  CHECK(hw::estimate(w, profile).us == doctest::Approx(e.us));
}

TEST_CASE("long rows that are summed are asked for ahead where memory is what binds") {
  const auto asked = [](int64_t rows, int64_t columns, int axis, const char* profile) {
    const ir::TensorProgram program =
        ir::parse_program(R"--({"op": "reduce_sum", "dtype": "f32", "params": {"shape": [)--" + std::to_string(rows) + ", " +
                          std::to_string(columns) + R"--(], "axis": )--" + std::to_string(axis) + "}}");
    const rtile::Candidate c = rtile::construct(program, hw::load_profile(profile), {.threads = 1}).front();
    return 4 * c.program->groups.front().nests.front().operands[0].ahead;
  };
  const hw::Profile zen4 = hw::load_profile("zen4");
  const double under_way = 2 * zen4.levels.back().latency_ns * zen4.levels.back().read_gbs(1);
  CHECK(asked(3, 5000001, 1, "zen4") > 0);
  CHECK(asked(4096, 4096, 1, "zen4") == doctest::Approx(under_way / 4).epsilon(0.03));  // rows of four parts, together
  CHECK(asked(4096, 4096, 0, "zen4") == doctest::Approx(under_way / 8).epsilon(0.06));
  CHECK(asked(400, 400, 1, "zen4") == 0);  // in a cache
  CHECK(asked(400000, 63, 1, "zen4") == 0);
}

TEST_CASE("the last cache keeps less and less of what is walked again and again") {
  const hw::Profile profile = hw::load_profile("zen5");
  const hw::MemoryLevel &memory = profile.levels.back(), &cache = profile.levels[profile.levels.size() - 2];
  const int64_t mib = cache.capacity_bytes >> 20;
  double last = 0;
  for (const double footprint : {0.3, 0.6, 1.0, 1.5, 2.0, 4.0, 8.0, 32.0}) {
    const int64_t n = int64_t(footprint * double(mib));
    const double us = sum_us(n, profile), per_mib = us / double(n);
    CHECK(per_mib > last);  // no step back where the home changes
    last = per_mib;
    CHECK(us <= 1.3 * double(n << 20) * (1 / memory.read_gbs(1) + 1 / cache.read_gbs(1)) / 1e3);
  }
  CHECK(last > 0.9 * double(1 << 20) / memory.read_gbs(1) / 1e3);
}
