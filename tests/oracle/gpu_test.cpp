// Emitted CUDA, executed on the CPU by the shim, against the f64 reference: every family of the small workloads and the examples, at odd
// extents. Each kernel runs twice, under two schedules, and must give the same bits.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "hwmodel/profile.h"
#include "lower/lower.h"
#include "lower/simulate.h"
#include "rtile/construct.h"
#include "rtile/nest_facts.h"
#include "rtile/rprogram.h"
#include "support/kernel_batch.h"
#include "support/random_program.h"

using namespace rgen;
using test::KernelBatch;

namespace {

void check(const KernelBatch& batch) {
  MESSAGE(batch.size() << " kernels");
  for (const std::string& failure : batch.failures({"g++", {"-O1"}, {}, 2})) FAIL_CHECK(failure);
}

/// The plan whose blocks have two groups of warps that take tasks by turns, if a block of the device holds them.
std::optional<rtile::Candidate> in_turns(const rtile::Candidate& plan, const hw::Profile& profile) {
  auto program = std::make_shared<rtile::RProgram>(*plan.program);
  rtile::NestPlan& last = program->groups.back().nests.back();
  auto staging = std::make_shared<rtile::Staging>(*last.staging);
  if (staging->unit != rtile::Staging::Unit::group || staging->warp_rows != 4 || staging->turns == 2) return {};
  staging->turns = 2, last.staging = staging;
  if (rtile::block_memory(last).bytes > profile.gpu.smem_per_block) return {};
  rtile::Candidate changed = plan;
  changed.program = program;
  return changed;
}

/// The plan whose blocks share the steps of a task, `parts` of them in a cluster, if a block of the device holds that.
std::optional<rtile::Candidate> in_parts(const rtile::Candidate& plan, const hw::Profile& profile, int parts) {
  auto program = std::make_shared<rtile::RProgram>(*plan.program);
  rtile::NestPlan& last = program->groups.back().nests.back();
  const rtile::Nest& nest = program->groups.back().group.nests.back();
  auto staging = std::make_shared<rtile::Staging>(*last.staging);
  if (staging->unit != rtile::Staging::Unit::group || staging->turns == 2 || staging->parts == parts) return {};
  staging->cluster = 1, staging->parts = parts, staging->grid = last.tasks() * parts;
  while (last.k_steps(nest) % (staging->depth * parts)) last.k_multiple *= 2;
  staging->stages = int(std::min<int64_t>(staging->stages, last.k_steps(nest) / staging->depth / parts + 2));
  last.staging = staging;
  const rtile::BlockMemory memory = rtile::block_memory(last);
  if (memory.bytes > profile.gpu.smem_per_block || staging->block_rows() * last.block_columns() * 4 > memory.barriers) return {};
  rtile::Candidate changed = plan;
  changed.program = program;
  return changed;
}

/// Some of every problem's staged plans, from the best to the worst.
void add_staged(KernelBatch& batch, const std::vector<test::Problem>& problems, const hw::Profile& profile) {
  for (const test::Problem& p : problems) {
    const auto plans = rtile::construct(*p.program, profile, {0, 400});
    std::map<std::string, std::vector<int>> of_atom;
    for (size_t i = 0; i < plans.size(); ++i) {
      const rtile::NestPlan& last = plans[i].program->groups.back().nests.back();
      if (last.staging) of_atom[last.atom->name].push_back(int(i));
    }
    CHECK_MESSAGE(!of_atom.empty(), p.program->name);
    for (const auto& [atom, ranks] : of_atom)
      for (size_t i = 0; i < ranks.size(); i += std::max<size_t>(1, ranks.size() / 2)) {
        batch.add(p, profile, 0, ranks[i]);
        if (const auto turns = in_turns(plans[size_t(ranks[i])], profile)) batch.add(p, profile, *turns, p.program->name + ", in turns");
        const int parts = i % 2 ? 2 : 4;
        if (const auto shared = in_parts(plans[size_t(ranks[i])], profile, parts))
          batch.add(p, profile, *shared, p.program->name + ", in parts");
      }
  }
}

/// Of every tile of rows that a warp has alone the best plan that is one kernel, in blocks of 4 warps; returns how many have more tiles
/// than that.
int add_rows(KernelBatch& batch, const test::Problem& problem, const hw::Profile& profile) {
  std::set<int64_t> tiles;
  int several = 0;
  for (rtile::Candidate& c : rtile::construct(*problem.program, profile, {0, 50})) {
    const rtile::GroupPlan& g = c.program->groups.front();
    if (c.program->groups.size() > 1 || g.block_tasks == 0 || g.tile_warps > 1 || !tiles.insert(g.shared.back().hi).second) continue;
    several += g.tasks > 4;
    auto program = std::make_shared<rtile::RProgram>(*c.program);
    program->groups[0].block_tasks = int(std::min<int64_t>(4, g.tasks));
    c.program = program;
    batch.add(problem, profile, c, problem.program->name + ", tiles of " + std::to_string(*tiles.rbegin()));
  }
  CHECK_MESSAGE(!tiles.empty(), problem.program->name);
  return several;
}

/// Of every tile of rows, and of every number of warps that share one, the best plan that is one kernel; returns how many.
int add_shared_rows(KernelBatch& batch, const test::Problem& problem, const hw::Profile& profile) {
  std::set<std::pair<int64_t, int>> tiles;
  for (const rtile::Candidate& c : rtile::construct(*problem.program, profile, {0, 50, 2})) {  // all numbers of warps
    const rtile::GroupPlan& g = c.program->groups.front();
    if (c.program->groups.size() > 1 || g.tile_warps == 1 || !tiles.insert({g.shared.back().hi, g.tile_warps}).second) continue;
    const std::string name =
        problem.program->name + ", tiles of " + std::to_string(g.shared.back().hi) + ", " + std::to_string(g.tile_warps) + " warps";
    const lower::Simulation s = lower::simulate(lower::lower(*problem.program, *c.program), int64_t{1} << 28);
    CHECK_MESSAGE(s.violations.empty(), name, ": ", s.violations.empty() ? "" : s.violations.front());
    batch.add(problem, profile, c, name);
  }
  CHECK_MESSAGE(!tiles.empty(), problem.program->name);
  return int(tiles.size());
}

/// An operator over rows.
std::string of_rows(const std::string& op, const std::string& type, const std::string& shape) {
  return "{\"name\": \"" + op + "_" + type + "\", \"op\": \"" + op + "\", \"dtype\": \"" + type + "\", \"params\": {\"shape\": [" + shape +
         "]}}";
}

}  // namespace

TEST_CASE("CUDA kernels in the shim: everything, as planned for an A100") {
  KernelBatch batch;
  const hw::Profile profile = hw::load_profile("a100");
  for (const test::Problem& p : test::small_problems(RGEN_SOURCE_DIR)) batch.add(p, profile);
  check(batch);
}

TEST_CASE("CUDA kernels in the shim: plans that were not the first choice") {
  KernelBatch batch;
  const hw::Profile profile = hw::load_profile("v100");
  for (const test::Problem& p : test::small_problems(RGEN_SOURCE_DIR)) batch.add(p, profile, 0, 7);
  check(batch);
}

TEST_CASE("CUDA kernels in the shim: random programs, random plans") {
  constexpr uint64_t kSeed = 50000;
  constexpr int kPrograms = 120;
  std::vector<test::ProgramPtr> programs;
  for (int i = 0; i < kPrograms; ++i)
    programs.push_back(std::make_shared<const ir::TensorProgram>(test::random_program(kSeed + uint64_t(i), {.work = 1 << 17})));
  const std::vector<test::Problem> problems = test::make_problems(programs);
  KernelBatch batch;
  const hw::Profile profile = hw::load_profile("a100");
  for (int i = 0; i < kPrograms; ++i) batch.add(problems[size_t(i)], profile, 0, i % 5);
  CHECK(batch.mentioning("__dp4a") >= 1);
  check(batch);
}

TEST_CASE("products staged in shared memory, in the shim: block tiles of every shape, halos, batches, all schedules") {
  std::vector<test::ProgramPtr> programs;
  const auto spec = [&](const std::string& text) {
    programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(text)));
  };
  for (const char* type : {"f16", "bf16", "s8", "f32"})
    for (const auto& [m, n, k] : {std::tuple{64, 96, 128}, {33, 65, 80}, {130, 200, 144}, {100, 31, 64}, {257, 40, 32}})
      spec("{\"name\": \"mm_" + std::string(type) + "_" + std::to_string(m) + "\", \"op\": \"matmul\", \"dtype\": \"" + type +
           "\", \"params\": {\"m\": " + std::to_string(m) + ", \"n\": " + std::to_string(n) + ", \"k\": " + std::to_string(k) +
           "}, \"epilogue\": [\"bias\", \"relu\"]}");
  spec(R"({"name": "conv", "op": "conv2d", "dtype": "f16", "params": {"n": 2, "h": 9, "w": 7, "ci": 48, "co": 70, "r": 3, "s": 3,
       "stride": [2, 1], "pad": 1, "layout": "NHWC"}, "epilogue": ["bias", "relu"]})");
  // pixels under a window: two steps of k in a row of 128 bytes
  spec(R"({"name": "conv_dilated", "op": "conv2d", "dtype": "bf16", "params": {"n": 3, "h": 11, "w": 8, "ci": 64, "co": 40, "r": 3, "s": 2,
       "stride": 1, "dilation": [2, 1], "pad": [2, 0, 1, 1], "layout": "NHWC"}, "epilogue": ["bias"]})");
  spec(R"({"name": "conv_s8", "op": "conv2d", "dtype": "s8", "params": {"n": 2, "h": 7, "w": 10, "ci": 112, "co": 33, "r": 1, "s": 5,
       "stride": [1, 3], "pad": [0, 2, 0, 2], "layout": "NHWC"}})");
  spec(R"({"name": "conv_rows", "op": "conv2d", "dtype": "f16", "params": {"n": 1, "h": 13, "w": 9, "ci": 56, "co": 64, "r": 4, "s": 1,
       "stride": [3, 2], "pad": 0, "layout": "NHWC"}})");
  spec(R"({"name": "conv_single", "op": "conv2d", "dtype": "f16", "params": {"n": 1, "h": 12, "w": 16, "ci": 64, "co": 32, "r": 3, "s": 3,
       "stride": 1, "pad": 1, "layout": "NHWC"}})");
  // every other pixel: rows of two axes that are no image's
  spec(R"({"name": "conv_halved", "op": "conv2d", "dtype": "f16", "params": {"n": 3, "h": 10, "w": 13, "ci": 64, "co": 40, "r": 1, "s": 1,
       "stride": 2, "pad": 0, "layout": "NHWC"}, "epilogue": ["bias"]})");
  spec(R"({"name": "mm_tf32", "op": "matmul", "dtype": "f32", "math": "tf32", "params": {"m": 70, "n": 65, "k": 84}})");
  spec(R"({"name": "mm_tf32_beside", "op": "matmul", "dtype": "f32", "math": "tf32", "params": {"m": 150, "n": 90, "k": 96, "batch": 2,
       "transpose_b": true}})");
  spec(
      R"({"name": "conv_tf32", "op": "conv2d", "dtype": "f32", "math": "tf32", "params": {"n": 2, "h": 9, "w": 7, "ci": 32, "co": 70, "r": 3,
       "s": 3, "stride": [2, 1], "pad": 1, "layout": "NHWC"}, "epilogue": ["bias", "relu"]})");
  for (const std::string b : {"s8", "u8"})
    spec(R"json({"name": "u8)json" + b +
         R"json(", "inputs": {"A": {"shape": [45, 96], "dtype": "u8"}, "B": {"shape": [96, 70], "dtype": ")json" + b +
         R"json(", "constant": true}}, "compute": ["C[m:45,n:70] = sum(k:96 | s32(A[m,k]) * s32(B[k,n]))"]})json");
  spec(R"({"name": "conv_f32", "op": "conv2d", "dtype": "f32", "params": {"n": 2, "h": 8, "w": 9, "ci": 20, "co": 37, "r": 3, "s": 2,
       "stride": 1, "pad": 1, "layout": "NHWC"}, "epilogue": ["bias"]})");
  spec(R"json({"name": "scores", "inputs": {"Q": {"shape": [3, 37, 64], "dtype": "bf16"}, "X": {"shape": [3, 50, 64], "dtype": "bf16"}},
       "outputs": ["S"], "compute": ["T[b:3,m:37,n:50] = sum(k:64 | Q[b,m,k] * X[b,n,k])", "S[b:3,m:37,n:50] = T[b,m,n] * 0.125"]})json");
  const std::vector<test::Problem> problems = test::make_problems(programs);
  KernelBatch batch;
  for (const auto& [device, form, most] : {std::tuple{"a100", "cp_wait", 1}, {"h100", "wgmma_commit", 2}}) {
    const size_t before = batch.mentioning(form);
    hw::Profile profile = hw::load_profile(device);
    profile.cores = 4;  // so that a persistent block has several tasks
    add_staged(batch, problems, profile);
    CHECK(int(batch.mentioning(form) - before) * most >= int(problems.size()));  // f32 has no wgmma
  }
  // matrices of whole pairs of steps come in boxes
  CHECK(batch.mentioning("tensor_copy_2d") >= 6);
  CHECK(batch.mentioning("tensor_copy_3d") >= 1);
  CHECK(batch.mentioning("pixel_copy") >= 6);
  CHECK(batch.mentioning("own_turns") >= 10);
  CHECK(batch.mentioning("fragment_take") >= 10);
  CHECK(batch.mentioning("vf_store_pair_f16") >= 5);
  CHECK(batch.mentioning("vf_store_pair_bf16") >= 5);
  check(batch);
}

TEST_CASE("products of one row, in the shim: its stages have 63 rows that nobody brings") {
  std::vector<test::ProgramPtr> programs;
  const auto spec = [&](const std::string& text) {
    programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(text)));
  };
  for (const auto& [type, n, k] : {std::tuple{"f16", 96, 256}, {"bf16", 203, 1000}, {"s8", 70, 320}})
    spec("{\"name\": \"row_" + std::string(type) + "\", \"op\": \"matmul\", \"dtype\": \"" + type + "\", \"params\": {\"m\": 1, \"n\": " +
         std::to_string(n) + ", \"k\": " + std::to_string(k) + "}, \"epilogue\": [\"bias\", \"relu\"]}");
  spec(R"json({"name": "scores", "inputs": {"Q": {"shape": [3, 128], "dtype": "bf16"}, "X": {"shape": [3, 50, 128], "dtype": "bf16"}},
       "compute": ["T[b:3,n:50] = sum(k:128 | Q[b,k] * X[b,n,k])"]})json");
  const std::vector<test::Problem> problems = test::make_problems(programs);
  KernelBatch batch;
  hw::Profile profile = hw::load_profile("h100");
  profile.cores = 4;
  add_staged(batch, problems, profile);
  CHECK(batch.mentioning("rows of one") == batch.size());
  check(batch);
}

TEST_CASE("products of single lanes, in the shim: factors of any length and alignment, along k or across it") {
  std::vector<test::ProgramPtr> programs;
  const auto spec = [&](const std::string& text) {
    programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(text)));
  };
  for (const auto& [n, k] : {std::pair{40, 70}, {33, 21}})
    spec("{\"name\": \"mm_odd_" + std::to_string(k) + "\", \"op\": \"matmul\", \"params\": {\"m\": 67, \"n\": " + std::to_string(n) +
         ", \"k\": " + std::to_string(k) + "}, \"epilogue\": [\"bias\"]}");
  for (const auto& [m, n, k] : {std::tuple{67, 40, 72}, {130, 70, 52}, {64, 64, 64}})  // rows begin at multiples of 16 bytes
    spec("{\"name\": \"mm_turned_" + std::to_string(k) + "\", \"op\": \"matmul\", \"params\": {\"m\": " + std::to_string(m) +
         ", \"n\": " + std::to_string(n) + ", \"k\": " + std::to_string(k) + "}}");
  spec(R"json({"name": "scores", "inputs": {"Q": {"shape": [3, 37, 44]}, "X": {"shape": [3, 50, 44]}},
       "compute": ["T[b:3,m:37,n:50] = sum(k:44 | Q[b,m,k] * X[b,n,k])"]})json");
  spec(R"({"name": "images", "op": "conv2d", "params": {"n": 2, "h": 9, "w": 11, "ci": 20, "co": 37, "r": 3, "s": 2, "layout": "NHWC",
       "stride": 1, "pad": 1}})");
  spec(R"({"name": "ta", "op": "matmul", "params": {"m": 133, "n": 40, "k": 45, "transpose_a": true}})");
  spec(R"json({"name": "values", "inputs": {"P": {"shape": [3, 37, 61]}, "V": {"shape": [3, 61, 50]}},
       "compute": ["O[b:3,i:37,d:50] = sum(j:61 | P[b,i,j] * V[b,j,d])"]})json");
  spec(R"json({"name": "both", "inputs": {"A": {"shape": [50, 33]}, "B": {"shape": [50, 29]}},
       "compute": ["C[i:33,j:29] = sum(k:50 | A[k,i] * B[k,j])"]})json");
  for (const auto& [stride, pad] : {std::pair{1, 1}, {2, 0}})
    spec("{\"name\": \"planes_" + std::to_string(stride) +
         R"(", "op": "conv2d", "params": {"n": 2, "h": 9, "w": 11, "ci": 19, "co": 37, "r": 3, "s": 2, "layout": "NCHW", "stride": )" +
         std::to_string(stride) + ", \"pad\": " + std::to_string(pad) + R"(}, "epilogue": ["bias", "relu"]})");
  const std::vector<test::Problem> problems = test::make_problems(programs);
  KernelBatch batch;
  for (const char* device : {"a100", "h100"}) add_staged(batch, problems, hw::load_profile(device));
  CHECK(batch.mentioning("products_f32") == batch.size());
  CHECK(batch.mentioning("fragment_staged_turn") >= 10);
  CHECK(batch.size() >= 2 * problems.size());
  check(batch);
}

TEST_CASE("reductions in parts, in the shim: products, sums and maxima of few results") {
  std::vector<test::ProgramPtr> programs;
  const auto spec = [&](const std::string& text) {
    programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(text)));
  };
  for (const char* type : {"f16", "bf16", "s8", "f32"})
    for (const auto& [m, n, k] : {std::tuple{17, 40, 512}, {65, 33, 360}, {1, 70, 1000}, {33, 40, 521}})
      spec("{\"name\": \"mm_" + std::string(type) + "_" + std::to_string(m) + "\", \"op\": \"matmul\", \"dtype\": \"" + type +
           "\", \"params\": {\"m\": " + std::to_string(m) + ", \"n\": " + std::to_string(n) + ", \"k\": " + std::to_string(k) +
           "}, \"epilogue\": [\"bias\", \"gelu_erf\"]}");
  for (const std::string layout : {"NHWC", "NCHW"})
    spec("{\"name\": \"conv_" + layout +
         R"(", "op": "conv2d", "dtype": "f32", "params": {"n": 1, "h": 6, "w": 5, "ci": 96, "co": 37, "r": 3,
         "s": 3, "stride": 1, "pad": 1, "layout": ")" +
         layout + R"("}, "epilogue": ["bias", "relu"]})");
  spec(R"({"name": "rows", "op": "reduce_sum", "dtype": "f32", "params": {"shape": [5, 2048], "axis": 1}})");
  spec(R"({"name": "prime_rows", "op": "reduce_max", "dtype": "f32", "params": {"shape": [5, 2039], "axis": 1}})");
  spec(R"({"name": "columns", "op": "reduce_max", "dtype": "f16", "params": {"shape": [600, 37], "axis": 0}})");
  spec(R"({"name": "average", "op": "gavgpool", "dtype": "f32", "params": {"n": 2, "h": 16, "w": 15, "c": 33, "layout": "NHWC"}})");
  const std::vector<test::Problem> problems = test::make_problems(programs);
  KernelBatch batch;
  for (const char* device : {"a100", "h100", "v100"}) {
    hw::Profile profile = hw::load_profile(device);
    profile.call_us = 1e-3;  // so that parts are tried for problems this small
    for (const test::Problem& p : problems) {
      const auto plans = rtile::construct(*p.program, profile, {0, 4000});
      const auto in_parts = std::find_if(plans.begin(), plans.end(), [](const rtile::Candidate& c) {
        return c.program->extended && c.program->extended->tensors.back().name.ends_with("_parts");
      });
      REQUIRE_MESSAGE(in_parts != plans.end(), p.program->name);
      batch.add(p, profile, *in_parts, device);
    }
  }
  CHECK(batch.mentioning("_parts") == batch.size());
  check(batch);
}

TEST_CASE("factors that cannot be staged as they lie, in the shim: copied, then staged") {
  std::vector<test::ProgramPtr> programs;
  const auto spec = [&](const std::string& text) {
    programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(text)));
  };
  for (const char* type : {"f16", "s8"})
    spec("{\"name\": \"conv_" + std::string(type) + "\", \"op\": \"conv2d\", \"dtype\": \"" + type +
         R"(", "params": {"n": 2, "h": 7, "w": 9, "ci": 48, "co": 37, "r": 3, "s": 3, "stride": 1, "pad": 1, "layout": "NCHW"}})");
  spec(R"({"name": "ta", "op": "matmul", "dtype": "f16", "params": {"m": 67, "n": 40, "k": 72, "transpose_a": true}})");
  spec(R"json({"name": "values", "inputs": {"P": {"shape": [3, 37, 64], "dtype": "bf16"}, "V": {"shape": [3, 64, 50], "dtype": "bf16"}},
       "compute": ["O[b:3,i:37,d:50] = sum(j:64 | P[b,i,j] * V[b,j,d])"]})json");
  spec(R"json({"name": "both", "inputs": {"A": {"shape": [80, 33], "dtype": "f16"}, "B": {"shape": [80, 29], "dtype": "f16"}},
       "compute": ["C[i:33,j:29] = sum(k:80 | A[k,i] * B[k,j])"]})json");
  // rows that are no whole pieces of 16 bytes
  for (const auto& [type, k] : {std::pair{"f16", 123}, {"bf16", 77}, {"s8", 100}})
    spec("{\"name\": \"mm_" + std::string(type) + "\", \"op\": \"matmul\", \"dtype\": \"" + type +
         "\", \"params\": {\"m\": 67, \"n\": 40, \"k\": " + std::to_string(k) + "}, \"epilogue\": [\"bias\"]}");
  spec(R"json({"name": "odd_both", "inputs": {"A": {"shape": [2, 33, 61], "dtype": "f16"}, "B": {"shape": [2, 29, 61], "dtype": "f16"}},
       "compute": ["C[b:2,i:33,j:29] = sum(k:61 | A[b,i,k] * B[b,j,k])"]})json");
  spec(R"({"name": "channels", "op": "conv2d", "dtype": "f16", "params": {"n": 2, "h": 7, "w": 9, "ci": 42, "co": 37, "r": 3, "s": 3,
       "stride": 1, "pad": 1, "layout": "NHWC"}})");
  // few channels: what a row of the window reads, side by side
  for (const std::string size : {R"("ci": 3, "co": 37, "r": 7, "s": 7, "stride": 2, "pad": 3)",
                                 R"("ci": 3, "co": 40, "r": 2, "s": 5, "stride": [2, 1], "pad": [0, 1, 0, 2])",
                                 R"("ci": 5, "co": 33, "r": 3, "s": 3, "stride": 1, "pad": 0)"})
    spec(R"({"name": "few_channels", "op": "conv2d", "dtype": "bf16", "params": {"n": 2, "h": 12, "w": 11, )" + size +
         R"(, "layout": "NHWC"}, "epilogue": ["bias", "relu"]})");
  // two types
  spec(R"json({"name": "mixed", "inputs": {"P": {"shape": [3, 37, 64]}, "V": {"shape": [3, 64, 50], "dtype": "f16"}},
       "compute": ["O[b:3,i:37,d:50] = sum(j:64 | P[b,i,j] * V[b,j,d])"]})json");
  const std::vector<test::Problem> problems = test::make_problems(programs);
  KernelBatch batch;
  for (const char* device : {"a100", "h100"}) {
    const hw::Profile profile = hw::load_profile(device);
    for (const test::Problem& p : problems) {
      const auto plans = rtile::construct(*p.program, profile, {0, 4000});
      const auto copied = std::find_if(plans.begin(), plans.end(), [](const rtile::Candidate& c) {
        return c.program->extended && std::any_of(c.program->groups.begin(), c.program->groups.end(),
                                                  [](const rtile::GroupPlan& g) { return g.nests.back().staging != nullptr; });
      });
      REQUIRE_MESSAGE(copied != plans.end(), p.program->name);
      batch.add(p, profile, *copied, device);
    }
  }
  CHECK(batch.mentioning("X_rows") >= 6);
  check(batch);
}

TEST_CASE("CUDA kernels in the shim: rows of several nests, a warp each") {
  std::vector<test::ProgramPtr> programs;
  const auto spec = [&](const std::string& text) {
    programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(text)));
  };
  const auto preset = [&](const std::string& op, const std::string& type, const std::string& shape) { spec(of_rows(op, type, shape)); };
  for (const char* shape : {"1, 1000", "31, 37", "33, 129", "1000, 67", "37, 5", "3, 11, 64"})
    for (const char* op : {"softmax", "layernorm", "rmsnorm"}) preset(op, "f32", shape);
  for (const char* type : {"f16", "bf16"})
    for (const char* op : {"softmax", "layernorm", "rmsnorm"}) preset(op, type, "33, 131");
  // outputs that the next nest reads: a number a row; the row, backwards
  spec(R"json({"name": "log_softmax", "inputs": {"X": {"shape": [33, 131]}}, "outputs": ["L", "Y"], "compute": [
       "M[i:33] = max(j:131 | X[i,j])", "S[i:33] = sum(j:131 | exp(X[i,j] - M[i]))", "L[i:33] = log(S[i]) + M[i]",
       "Y[i:33,j:131] = X[i,j] - L[i]"]})json");
  spec(R"json({"name": "scaled", "inputs": {"X": {"shape": [70, 67]}, "G": {"shape": [67]}}, "outputs": ["E", "Y"], "compute": [
       "A[i:70] = max(j:67 | abs(X[i,j]))", "E[i:70,j:67] = exp(X[i,j] / (A[i] + 1))", "T[i:70] = sum(j:67 | E[i,j] * G[j])",
       "Y[i:70,j:67] = E[i,66-j] * T[i]"]})json");
  const std::vector<test::Problem> problems = test::make_problems(programs);
  KernelBatch batch;
  int several = 0;
  for (const test::Problem& p : problems) several += add_rows(batch, p, hw::load_profile("a100"));
  CHECK(several >= int(problems.size()));
  CHECK(batch.mentioning("__syncwarp();") == batch.size());  // the nests are in one kernel
  for (const test::Problem& p : problems) batch.add(p, hw::load_profile("h100"));
  check(batch);
}

TEST_CASE("CUDA kernels in the shim: rows of several nests, shared by the warps of a block") {
  std::vector<test::ProgramPtr> programs;
  const auto spec = [&](const std::string& text) {
    programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(text)));
  };
  const auto preset = [&](const std::string& op, const std::string& type, const std::string& shape) { spec(of_rows(op, type, shape)); };
  for (const char* shape : {"1, 1024", "3, 2051", "5, 129", "2, 3, 520"})
    for (const char* op : {"softmax", "layernorm", "rmsnorm"}) preset(op, "f32", shape);
  for (const char* type : {"f16", "bf16"})
    for (const char* op : {"softmax", "layernorm", "rmsnorm"}) preset(op, type, "3, 515");
  // outputs that the next nest reads: a number a row, which the first warp stores; the row, backwards, of which each warp has stored a part
  spec(R"json({"name": "log_softmax", "inputs": {"X": {"shape": [5, 331]}}, "outputs": ["L", "Y"], "compute": [
       "M[i:5] = max(j:331 | X[i,j])", "S[i:5] = sum(j:331 | exp(X[i,j] - M[i]))", "L[i:5] = log(S[i]) + M[i]",
       "Y[i:5,j:331] = X[i,j] - L[i]"]})json");
  spec(R"json({"name": "scaled", "inputs": {"X": {"shape": [5, 167]}, "G": {"shape": [167]}}, "outputs": ["E", "Y"], "compute": [
       "A[i:5] = max(j:167 | abs(X[i,j]))", "E[i:5,j:167] = exp(X[i,j] / (A[i] + 1))", "T[i:5] = sum(j:167 | E[i,j] * G[j])",
       "Y[i:5,j:167] = E[i,166-j] * T[i]"]})json");
  // the other reductions, and of integers
  spec(R"json({"name": "spread", "inputs": {"X": {"shape": [3, 300]}}, "compute": [
       "A[i:3] = min(j:300 | X[i,j])", "P[i:3] = prod(j:300 | 1 + 0.01 * (X[i,j] - A[i]))", "Y[i:3,j:300] = X[i,j] * P[i] - A[i]"]})json");
  spec(R"json({"name": "centred", "inputs": {"X": {"shape": [3, 300], "dtype": "s8"}}, "compute": [
       "S[i:3] = sum(j:300 | s32(X[i,j]))", "Y[i:3,j:300] = f32(X[i,j]) * 300 - f32(S[i])"]})json");
  // along columns, whose tiles are as wide as a warp; over two axes
  spec(R"json({"name": "columns", "inputs": {"X": {"shape": [211, 70]}}, "compute": [
       "M[j:70] = max(i:211 | X[i,j])", "E[i:211,j:70] = exp(X[i,j] - M[j])", "S[j:70] = sum(i:211 | E[i,j])",
       "Y[i:211,j:70] = E[i,j] / S[j]"]})json");
  spec(R"json({"name": "groups", "inputs": {"X": {"shape": [3, 7, 65]}, "G": {"shape": [7]}}, "compute": [
       "S[n:3] = sum(c:7,p:65 | X[n,c,p])", "V[n:3] = sum(c:7,p:65 | (X[n,c,p] - S[n] / 455) * (X[n,c,p] - S[n] / 455))",
       "Y[n:3,c:7,p:65] = (X[n,c,p] - S[n] / 455) * rsqrt(V[n] / 455 + 0.001) * G[c]"]})json");
  const std::vector<test::Problem> problems = test::make_problems(programs);
  KernelBatch batch;
  int shared = 0;
  for (const test::Problem& p : problems) shared += add_shared_rows(batch, p, hw::load_profile("h200"));
  CHECK(shared >= 3 * int(problems.size()));
  CHECK(10 * batch.mentioning("__syncthreads();") >= 9 * batch.size());  // in others warps share rows, not parts of them
  check(batch);
}

TEST_CASE("products on tensor cores in the shim: every type, odd extents, several tiles") {
  std::vector<test::ProgramPtr> programs;
  for (const char* type : {"f16", "bf16", "s8"})
    for (const auto& [m, n, k] : {std::tuple{64, 96, 128}, {33, 65, 72}, {17, 200, 129}, {100, 31, 64}, {5, 64, 320}}) {
      const std::string spec = "{\"name\": \"mm_" + std::string(type) + "_" + std::to_string(m) + "x" + std::to_string(n) + "x" +
                               std::to_string(k) + "\", \"op\": \"matmul\", \"dtype\": \"" + type +
                               "\", \"params\": {\"m\": " + std::to_string(m) + ", \"n\": " + std::to_string(n) +
                               ", \"k\": " + std::to_string(k) + "}, \"epilogue\": [\"bias\", \"relu\"]}";
      programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(spec)));
    }
  const std::vector<test::Problem> problems = test::make_problems(programs);
  KernelBatch batch;
  const hw::Profile profile = hw::load_profile("a100");
  for (const test::Problem& p : problems) {
    for (int rank : {0, 9}) batch.add(p, profile, 0, rank);
    // rows that begin anywhere are loaded byte by byte, which is seldom the first choice
    const auto plans = rtile::construct(*p.program, profile, {0, 4000, 8});
    const auto warp = std::find_if(plans.begin(), plans.end(), [](const rtile::Candidate& c) {
      return c.program->groups.back().nests.back().form == rtile::AtomForm::warp;
    });
    REQUIRE_MESSAGE(warp != plans.end(), p.program->name);
    batch.add(p, profile, *warp, "a warp's own rows");
  }
  CHECK(batch.mentioning("mma_") >= problems.size());
  CHECK(batch.mentioning("fragment_load_a_unaligned(parts") >= 3);
  check(batch);
}
