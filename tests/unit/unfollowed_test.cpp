// Lines that the second cache delivers without a prefetcher of the first one (rtile/walks.h, Walks::unfollowed).
#include <doctest/doctest.h>

#include <string>

#include "emit/backend.h"
#include "ir/ir.h"
#include "rtile/construct.h"
#include "rtile/residence.h"
#include "rtile/workload.h"

using namespace rgen;

namespace {

/// The plan's only nest with this tile and these loops, one thread.
hw::Workload counted(const hw::Profile& profile, const std::string& spec, const std::vector<rtile::Blocking>& tile,
                     const std::vector<rtile::Loop>& loops) {
  const ir::TensorProgram program = ir::parse_program(spec);
  const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
  const rtile::Nest nest = c.program->groups[0].group.nests[0];
  rtile::NestPlan plan = c.program->groups[0].nests[0];
  REQUIRE(nest.axes.size() == tile.size());
  plan.tile = tile, plan.loops = loops;
  const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
  return rtile::workload(nest, rtile::nest_facts(program, nest), plan, context);
}

/// What the second cache delivers and takes.
hw::LevelTraffic second(const hw::Profile& profile, const std::string& spec, const std::vector<rtile::Blocking>& tile,
                        const std::vector<rtile::Loop>& loops) {
  return counted(profile, spec, tile, loops).levels[1];
}

std::string map_of(int64_t rows, int64_t columns) {
  const std::string m = std::to_string(rows), n = std::to_string(columns);
  return R"({"inputs": {"X": {"shape": [)" + m + ", " + n + R"(]}, "G": {"shape": [)" + m + R"(]}}, "compute": ["Y[i:)" + m + ", j:" + n +
         R"(] = X[i, j] * G[i]"], "outputs": ["Y"]})";
}
std::string sum_of(int64_t rows, int64_t columns, int axis) {
  return R"({"op": "reduce_sum", "dtype": "f32", "params": {"shape": [)" + std::to_string(rows) + ", " + std::to_string(columns) +
         R"(], "axis": )" + std::to_string(axis) + "}}";
}

}  // namespace

TEST_CASE("rows by turns come from the second cache line by line, and go there so") {
  hw::Profile profile = hw::load_profile("zen5");
  profile.levels[1].apart_ns = 1;
  const double line = 64, read = profile.levels[1].read_gbs(1) / line, write = profile.levels[1].write_gbs(1) / line;  // lines a ns
  const auto by_rows = [&](int64_t columns, int64_t rows, int64_t vectors) {
    const hw::LevelTraffic t =
        second(profile, map_of(65536 / columns, columns), {{65536 / columns, 1, rows}, {columns, 16, 16 * vectors}}, {{0, 1}, {1, 1}});
    return std::pair{t.read_bytes / 262144, t.write_bytes / 262144};
  };
  CHECK(by_rows(256, 1, 4).first == doctest::Approx(1).epsilon(0.01));
  CHECK(by_rows(256, 1, 4).second == 1);
  CHECK(by_rows(256, 2, 2).first == doctest::Approx(read).epsilon(0.02));
  CHECK(by_rows(256, 2, 2).second == doctest::Approx(write));
  CHECK(by_rows(64, 2, 4).first == doctest::Approx(1).epsilon(0.02));     // rows that touch, half a KiB of them
  CHECK(by_rows(32, 4, 1).first == doctest::Approx(1).epsilon(0.04));     // seven lines
  CHECK(by_rows(64, 8, 1).first == doctest::Approx(read).epsilon(0.02));  // 29
  const double some = by_rows(64, 4, 1).first;                            // 13
  CHECK((some > 1.1 && some < read - 0.1));
  CHECK(by_rows(8192, 4, 2).first == doctest::Approx(read).epsilon(0.02));
  CHECK(by_rows(8192, 4, 1).first < (1 + read) / 2);  // long rows are followed, a line each
  profile.levels[1].apart_ns = 0;                     // reads at 33 bytes a cycle, stores as others
  CHECK(by_rows(256, 2, 2).first == doctest::Approx(read * line / (33 * profile.ghz)).epsilon(0.02));
  CHECK(by_rows(256, 2, 2).second == 1);
}

TEST_CASE("sums of whole rows are followed by short bodies, columns and pieces of many rows are not, unless bodies are very long") {
  hw::Profile profile = hw::load_profile("zen5");
  profile.levels[1].apart_ns = 1;
  const double slow = profile.levels[1].read_gbs(1) / 64;
  const auto down = [&](int64_t vectors, int64_t steps) {  // 1600 rows of 64
    const hw::LevelTraffic t = second(profile, sum_of(1600, 64, 0), {{64, 16, 16 * vectors}, {1600, 1, steps}}, {{0, 1}});
    return t.read_bytes / 409600;
  };
  CHECK(down(4, 2) == doctest::Approx(1).epsilon(0.02));
  CHECK(down(4, 8) == doctest::Approx(slow).epsilon(0.02));  // 32 lines
  CHECK(down(4, 7) == doctest::Approx(1).epsilon(0.02));
  CHECK(down(2, 1) == doctest::Approx(slow).epsilon(0.01));  // two lines of four
  CHECK(down(2, 48) == doctest::Approx(slow).epsilon(0.01));
  CHECK(down(2, 80) == doctest::Approx(slow - 0.433 * (slow - 1)).epsilon(0.01));  // 160 loads
  CHECK(down(2, 100) == doctest::Approx(slow - 0.65 * (slow - 1)).epsilon(0.01));
  const auto pieces = [&](int64_t rows) {  // of 16 KiB, one after the other
    const hw::LevelTraffic t = second(profile, map_of(rows, 8192), {{rows, 1, 1}, {8192, 16, 64}}, {{1, 64}, {0, 1}, {1, 1}});
    return t.read_bytes / double(rows * 32768);
  };
  CHECK(pieces(2) == doctest::Approx(1).epsilon(0.02));
  CHECK(pieces(4) == doctest::Approx(slow).epsilon(0.02));
}

TEST_CASE("sums down whole rows are unrolled as far as prefetchers follow, down pieces until they forget each load") {
  const hw::Profile profile = hw::load_profile("zen5");
  struct Tile {
    int64_t vectors, rows, loads = vectors * rows;
  };
  const auto tile = [&](int64_t rows, int64_t columns) {
    const ir::TensorProgram program = ir::parse_program(sum_of(rows, columns, 0));
    const rtile::NestPlan plan = rtile::construct(program, profile, {.threads = 1}).front().program->groups[0].nests[0];
    return Tile{plan.tile[size_t(plan.vec)].hi, plan.tile[plan.vec == 0 ? 1 : 0].hi};
  };
  for (const auto& [rows, columns] : {std::pair{1584, 81}, {1649, 104}, {997, 40}, {400, 300}, {256, 448}}) {  // from the second cache
    INFO(rows << " x " << columns);
    const Tile t = tile(rows, columns);
    CHECK(t.vectors == (columns + 15) / 16);
    CHECK((t.loads > 12 && t.loads <= 28));
  }
  CHECK(tile(96, 81).rows == 8);  // from the first
  for (const auto& [rows, columns] : {std::pair{100, 1536}, {49, 2048}, {101, 1500}}) {
    INFO(rows << " x " << columns);
    CHECK(tile(rows, columns).loads > 144);
  }
}

TEST_CASE("lines that two rows share are stored twice, if the rows are stored by turns") {
  const hw::Profile profile = hw::load_profile("zen5");
  const auto stores = [&](int64_t columns, int64_t rows, int64_t vectors) {  // 240 rows, a row
    return counted(profile, map_of(240, columns), {{240, 1, rows}, {columns, 16, 16 * vectors}}, {{0, 1}, {1, 1}}).stores / 240;
  };
  CHECK(stores(40, 1, 1) == 3);
  CHECK(stores(40, 4, 3) == 3);    // whole rows are one stretch
  CHECK(stores(40, 4, 1) == 4.5);  // half of the vectors end in the next line
  CHECK(stores(48, 4, 1) == 3);    // rows that begin lines
}

TEST_CASE(
    "sums down columns of rows that follow one another load them in that order, those of pieces of rows and windows as the compiler "
    "likes") {
  const hw::Profile profile = hw::load_profile("zen5");
  const std::string pool =
      R"({"op": "maxpool", "dtype": "f32", "params": {"n": 1, "h": 40, "w": 40, "c": 64, "r": 3, "s": 3, "stride": 1, "pad": 0, "layout": "NHWC"}})";
  for (const auto& [spec, wanted] : {std::pair{sum_of(1648, 104, 0), true},
                                     {sum_of(100, 2048, 0), false},
                                     {sum_of(104, 1648, 1), false},
                                     {sum_of(20, 104, 0), false},
                                     {pool, false}}) {
    INFO(spec);
    const ir::TensorProgram program = ir::parse_program(spec);
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    CHECK(c.program->groups[0].nests[0].operands[0].in_order == wanted);
    CHECK((emit::emit_cpp(program, c, profile).source.find("  reload();") != std::string::npos) == wanted);
  }
}
