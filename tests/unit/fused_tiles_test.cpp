// Fused tiles: the next tile's rows come near while this one computes; threads share the tiles and fork once. On a GPU a warp takes a tile
// through all nests.
#include <doctest/doctest.h>

#include "emit/backend.h"
#include "hwmodel/profile.h"
#include "ir/ir.h"
#include "lower/lower.h"
#include "lower/simulate.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"
#include "rtile/workload.h"

using namespace rgen;

namespace {

ir::TensorProgram softmax_program(int rows, int columns = 1000) {
  return ir::parse_program(R"--({"inputs": {"X": {"shape": ["R", "N"]}},
    "dims": {"N": )--" + std::to_string(columns) +
                           R"--(, "R": )--" + std::to_string(rows) +
                           R"--(}, "outputs": ["Y"],
    "compute": ["M[i:R] = max(j:N | X[i, j])", "E[i:R, j:N] = exp(X[i, j] - M[i])", "S[i:R] = sum(j:N | E[i, j])", "Y[i:R, j:N] = E[i, j] / S[i]"]})--");
}

rtile::Candidate softmax(int rows, const hw::Profile& profile, int threads = 1) {
  return rtile::construct(softmax_program(rows), profile, {.threads = threads}).front();
}

/// Elements ahead, of all operands; and the rows of the tile.
std::pair<std::vector<int64_t>, int64_t> ahead(const rtile::Candidate& c) {
  std::pair<std::vector<int64_t>, int64_t> found{{}, 0};
  for (const rtile::GroupPlan& g : c.program->groups)
    for (const rtile::NestPlan& n : g.nests)
      for (const rtile::Operand& o : n.operands)
        if (o.ahead > 0) found.first.push_back(o.ahead), found.second = g.shared.back().hi;
  return found;
}

}  // namespace

TEST_CASE("an input in memory that two nests of a tile read is fetched ahead by tiles, 3 KiB at least, once") {
  const auto [elements, rows] = ahead(softmax(40000, hw::load_profile("zen5")));
  REQUIRE(elements.size() == 1);
  CHECK(elements[0] == 1000 * rows);
}

TEST_CASE("the first nest to read rows from memory keeps its loads in order, and no other") {
  const hw::Profile profile = hw::load_profile("zen4");
  for (const auto& [rows, wanted] : {std::pair{40000, true}, {40, false}}) {
    INFO(rows);
    const rtile::Candidate c = softmax(rows, profile);
    int in_order = 0;
    for (const rtile::GroupPlan& g : c.program->groups)
      for (size_t n = 0; n < g.nests.size(); ++n)
        for (const rtile::Operand& o : g.nests[n].operands) {
          in_order += o.in_order;
          CHECK((!o.in_order || n == 0));
        }
    CHECK(in_order == (wanted ? 1 : 0));
    CHECK((emit::emit_cpp(softmax_program(rows), c, profile).source.find("  reload();") != std::string::npos) == wanted);
  }
}

TEST_CASE("beside results that are streamed, 16 KiB at least") {
  for (const auto& [width, rows_ahead] : {std::pair{1024, 4}, {2048, 2}}) {
    const auto program = ir::parse_program(R"({"op": "layernorm", "params": {"shape": [40000, )" + std::to_string(width) + "]}}");
    const rtile::Candidate c = rtile::construct(program, hw::load_profile("zen5"), {1, 1}).front();
    REQUIRE(c.program->groups.back().nests.back().stream);
    const auto [elements, rows] = ahead(c);
    REQUIRE(elements.size() == 1);
    CHECK(elements[0] == width * ((rows_ahead + rows - 1) / rows * rows));
  }
}

TEST_CASE("what the caches hold is not fetched ahead") { CHECK(ahead(softmax(40, hw::load_profile("zen5"))).first.empty()); }

TEST_CASE("a fused group forks once, and every thread has a tile") {
  const hw::Profile profile = hw::load_profile("zen5");
  for (int rows : {40, 400}) {
    const rtile::Candidate one = softmax(rows, profile), two = softmax(rows, profile, 2);
    REQUIRE(two.program->groups.size() == 1);
    CHECK(two.program->groups[0].tasks == 2);
    CHECK(two.estimate.us < 0.75 * one.estimate.us + profile.fork_join_us);
  }
}

TEST_CASE("half a page lies between the buffers of neighbouring tasks, and short ones of a task share a page") {
  int short_ones = 0;
  for (const char* name : {"zen5", "haswell_avx2"})
    for (const int rows : {40, 1200}) {
      const ir::TensorProgram program = softmax_program(rows, 100);
      const rtile::Candidate c = rtile::construct(program, hw::load_profile(name), {.threads = 3}).front();
      const lower::LoopProgram loops = lower::lower(program, *c.program);
      std::vector<std::pair<int64_t, int64_t>> taken;  // of the first task, from the first page of its short buffers
      for (const lower::Buffer& b : loops.buffers) {
        if (b.kind != lower::Buffer::Kind::workspace || b.per_task == 0) continue;
        const int64_t bytes = b.elements * size_of(b.dtype);
        CHECK(b.per_task >= bytes + 2048);
        if (bytes <= 2048) taken.emplace_back(b.offset, b.offset + bytes), ++short_ones;
      }
      for (size_t k = 1; k < taken.size(); ++k) CHECK(taken[k].second - taken[0].first <= 2048);
      CHECK(lower::simulate(loops, int64_t{1} << 24).violations.empty());
    }
  CHECK(short_ones >= 2);
}

TEST_CASE("a tile stores no more to memory at once than a core goes on beside") {
  const hw::Profile profile = hw::load_profile("zen4");
  const auto rows = [&](int all, int columns) {
    const rtile::Candidate c = rtile::construct(softmax_program(all, columns), profile, {1, 1}).front();
    return c.program->groups.front().shared.front().hi;
  };
  CHECK(rows(100000, 100) <= 2);
  CHECK(rows(60000, 200) == 1);
  CHECK(rows(500, 200) >= 4);  // in the caches
  // in half vectors each line takes two stores, and the queue holds half as many lines
  const ir::TensorProgram norm = ir::parse_program(R"({"op": "layernorm", "params": {"shape": [100000, 96]}})");
  const rtile::Candidate c = rtile::construct(norm, profile, {1, 1}).front();
  CHECK(c.program->groups.back().nests.back().stream);
  CHECK(c.program->vector_bits == 512);
}

TEST_CASE("what all tiles read stays near, wherever the program's tensors are") {
  const hw::Profile profile = hw::load_profile("zen4");
  const double bytes = 30000 * 304 * 4.0;
  const ir::TensorProgram program = ir::parse_program(R"({"op": "layernorm", "params": {"shape": [30000, 304]}})");
  const rtile::Candidate c = rtile::construct(program, profile, {1, 1}).front();
  REQUIRE(c.program->groups.size() == 1);
  CHECK(c.program->groups[0].estimate.level_us.back() < 1.3 * profile.transfer_ns(profile.levels.size() - 1, bytes, 0, bytes, 1) / 1e3);
}

TEST_CASE("rows of tile buffers are whole vectors, and stored so") {
  const ir::TensorProgram odd = softmax_program(1000, 100);
  for (const std::string name : {"zen4", "haswell_avx2", "skylake_avx512"}) {
    INFO(name);
    const hw::Profile profile = hw::load_profile(name);
    const rtile::Candidate c = rtile::construct(odd, profile, {1, 1}).front();
    REQUIRE(c.program->groups.size() == 1);
    const int64_t rows = c.program->groups[0].shared[0].hi, lanes = c.program->vector_bits / 32;
    const lower::LoopProgram loops = lower::lower(odd, *c.program);
    CHECK(lower::simulate(loops, int64_t{1} << 28).violations.empty());
    bool found = false;
    for (const lower::Buffer& b : loops.buffers)
      if (b.name == "E" && b.kind == lower::Buffer::Kind::workspace) found |= b.elements == rows * ((99 / lanes + 1) * lanes);
    CHECK(found);
    const std::string source = emit::emit_cpp(odd, c, profile).source;
    CHECK(source.find("vf_store_f32(E") != std::string::npos);
    CHECK(source.find("vf_store_f32_n(E") == std::string::npos);
    if (100 % lanes != 0) CHECK(source.find("vf_store_f32_n(Y") != std::string::npos);
  }
}

TEST_CASE("a GPU's softmax is one kernel where rows are many, and each comes from memory once") {
  for (const char* device : {"a100", "h100"}) {
    const hw::Profile profile = hw::load_profile(device);
    const rtile::Candidate c = softmax(40000, profile, 0);
    REQUIRE(c.program->groups.size() == 1);
    const rtile::GroupPlan& g = c.program->groups[0];
    CHECK(g.block_tasks > 0);
    CHECK(g.tasks == g.shared[0].blocks);
    CHECK(g.estimate.us < 1.3 * c.limit_us);  // a read and a write of the tensor
    CHECK(emit::emit_cuda(softmax_program(40000), c, profile).launches.size() == 1);
  }
}

TEST_CASE("the warps of a GPU's block share long rows, and few ones; many short ones have a warp each") {
  const hw::Profile profile = hw::load_profile("h200");
  const auto warps = [&](const std::string& op, const std::string& type, int rows, int columns) {
    const ir::TensorProgram program =
        ir::parse_program("{\"name\": \"rows\", \"op\": \"" + op + "\", \"dtype\": \"" + type + "\", \"params\": {\"shape\": [" +
                          std::to_string(rows) + ", " + std::to_string(columns) + "]}}");
    const rtile::Candidate c = rtile::construct(program, profile, {}).front();
    REQUIRE(c.program->groups.size() == 1);
    const rtile::GroupPlan& g = c.program->groups[0];
    const emit::Emitted e = emit::emit_cuda(program, c, profile);
    REQUIRE(e.launches.size() == 1);
    CHECK(e.launches[0].block == 32 * g.block_tasks * g.tile_warps);
    return g.tile_warps;
  };
  CHECK(warps("softmax", "f32", 2048, 32768) >= 8);
  CHECK(warps("layernorm", "f32", 2048, 32768) >= 8);
  CHECK(warps("layernorm", "f32", 8192, 4096) >= 4);
  CHECK(warps("rmsnorm", "f32", 512, 4096) >= 2);
  CHECK(warps("layernorm", "f32", 128, 768) >= 2);
  CHECK(warps("layernorm", "f32", 65536, 128) == 1);
  CHECK(warps("softmax", "f32", 40000, 100) == 1);
}

TEST_CASE("a row that several nests read is loaded once where a warp's part fits its registers") {
  const ir::TensorProgram program =
      ir::parse_program(R"({"name": "ln", "op": "layernorm", "dtype": "f32", "params": {"shape": [8192, 2048], "eps": 1e-05}})");
  const hw::Profile profile = hw::load_profile("h200");
  const rtile::Candidate c = rtile::construct(program, profile, {}).front();
  const rtile::GroupPlan& g = c.program->groups.at(0);
  for (size_t n = 0; n < g.nests.size(); ++n) CHECK(rtile::takes_whole(g.group.nests[n], g.nests[n], g.tile_warps));
  CHECK(emit::emit_cuda(program, c, profile).source.find("vf_ldg_f32(X") != std::string::npos);
}

TEST_CASE("products of a fused group that fill the registers are procedures of their own: the exponential's constants stay out") {
  const ir::TensorProgram program =
      ir::parse_program(R"({"op": "attention", "dtype": "f32", "params": {"heads": 12, "seq": 128, "dim": 64, "scale": 0.125}})");
  const hw::Profile profile = hw::load_profile("zen3");  // 16 registers
  const rtile::Candidate c = rtile::construct(program, profile, {.threads = 2}).front();
  int products = 0;
  for (const rtile::GroupPlan& g : c.program->groups)
    for (const rtile::NestPlan& n : g.nests) products += n.apart;
  CHECK(products == 2);  // of scores, of results
  CHECK(emit::emit_cpp(program, c, profile).source.find("__attribute__((noinline)) void reduce") != std::string::npos);
}

TEST_CASE("a GPU's products stay kernels of their own beside the softmax between them") {
  const ir::TensorProgram program = ir::parse_program(
      R"({"name": "at", "op": "attention", "dtype": "f16", "params": {"heads": 12, "seq": 512, "dim": 64, "scale": 0.125}})");
  const rtile::Candidate c = rtile::construct(program, hw::load_profile("h100"), {}).front();
  std::string kernels;  // copies and sums over parts may be beside them
  for (const rtile::GroupPlan& g : c.program->groups) kernels += g.nests.size() > 1 ? 's' : g.nests[0].staging ? 'p' : '-';
  std::erase(kernels, '-');
  CHECK(kernels == "psp");
}

TEST_CASE("rows that shared memory cannot hold stay in several kernels") {
  const ir::TensorProgram program =
      ir::parse_program(R"({"name": "long", "op": "softmax", "dtype": "f32", "params": {"shape": [600, 100000]}})");
  for (const rtile::Candidate& c : rtile::construct(program, hw::load_profile("a100"), {.top_k = 20}))
    for (const rtile::GroupPlan& g : c.program->groups) CHECK(g.block_tasks == 0);
}
