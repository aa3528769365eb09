// Would the shim notice? Faults are planted in emitted CUDA by replacing its text, one at a time, and every mutant must go wrong in at
// least one of the shim's ways; the kernels themselves must be right in all of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <vector>

#include "base/math.h"
#include "hwmodel/profile.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"
#include "support/kernel_batch.h"

using namespace rgen;
using test::Edit;
using test::KernelBatch;

namespace {

struct Subject {
  std::string name, device, spec;
  std::function<bool(const rtile::NestPlan&)> wanted;  ///< of the first plan that is like this; null: the best
  std::function<void(rtile::NestPlan&)> change = nullptr;
  int row_warps = 0;   ///< > 0: several nests in one kernel, a warp a tile of rows, so many warps a block
  int tile_warps = 0;  ///< > 0: ... so many warps share a row
};

std::string product(const std::string& type, int m, int n, int k) {
  std::ostringstream o;
  o << R"({"name": "mm_)" << type << R"(", "op": "matmul", "dtype": ")" << type << R"(", "params": {"m": )" << m << ", \"n\": " << n
    << ", \"k\": " << k << R"(}, "epilogue": ["bias", "relu"]})";
  return o.str();
}

std::string preset(const std::string& op, const std::string& type, const std::string& params) {
  return "{\"name\": \"" + op + "\", \"op\": \"" + op + "\", \"dtype\": \"" + type + "\", \"params\": {" + params + "}}";
}

/// A thread block of staged products, and what it would be for a larger problem: `raster` row blocks side by side.
struct Block {
  int warp_rows, warp_columns, row_tiles, column_tiles;  ///< warps; tiles of 16 × 32 sums of each
  int stages;
  int64_t raster = 1;
};

rtile::Blocking in_blocks(int64_t extent, int64_t unit, int64_t units, int64_t times = 1) {
  rtile::Blocking b;
  b.extent = extent, b.unit = unit, b.hi = units;
  b.blocks = b.n_hi = round_up(ceil_div(extent, unit * units), times);
  return b;
}

/// The plan with this block in place of the one that planning chose.
std::function<void(rtile::NestPlan&)> with(const Block& b) {
  return [b](rtile::NestPlan& p) {
    auto s = std::make_shared<rtile::Staging>(*p.staging);
    s->warp_rows = b.warp_rows, s->warp_columns = b.warp_columns, s->depth = 1, s->tensor_copies = false, s->stages = b.stages,
    s->factor_sets = 1, s->raster = b.raster, s->repeatable = false;
    s->rows = in_blocks(s->rows.extent, 16, b.warp_rows * b.row_tiles, b.raster);
    rtile::Blocking& columns = p.tile[size_t(p.vec)];
    columns = in_blocks(columns.extent, 32, b.warp_columns * b.column_tiles);
    std::erase_if(p.parallel, [&](const rtile::Parallel& x) { return x.axis == s->row_axes.back() || x.axis == p.vec; });
    if (s->rows.blocks > 1) p.parallel.push_back({s->row_axes.back(), s->rows.blocks});
    if (columns.blocks > 1) p.parallel.push_back({p.vec, columns.blocks});
    p.staging = s;
  };
}

/// Blocks of one group of warps, as small as they can be, so that four clusters have several tasks to walk; fewer stages than
/// rounds.
std::function<void(rtile::NestPlan&)> pipeline(int cluster) {
  return [cluster](rtile::NestPlan& p) {
    with({4, 1, 1, 1, 4, cluster})(p);
    auto s = std::make_shared<rtile::Staging>(*p.staging);
    s->cluster = cluster, s->grid = 4 * cluster;
    p.staging = s;
  };
}

/// The same, the copy unit bringing boxes.
std::function<void(rtile::NestPlan&)> boxes(int cluster) {
  return [cluster](rtile::NestPlan& p) {
    pipeline(cluster)(p);
    auto s = std::make_shared<rtile::Staging>(*p.staging);
    s->depth = 2, s->tensor_copies = true;
    p.staging = s;
  };
}

/// More rounds than stages, odd extents, blocks of several warps.
std::vector<Subject> subjects() {
  const auto several_row_tiles = [](const rtile::NestPlan& p) {
    return p.form == rtile::AtomForm::warp && p.tile[size_t(p.m_axis)].hi > 16 && p.tile[size_t(p.vec)].hi > 1 && p.block_tasks > 1;
  };
  const auto staged = [](const rtile::NestPlan& p) { return p.staging != nullptr; };
  const auto groups = [](const rtile::NestPlan& p) { return p.staging && p.staging->unit == rtile::Staging::Unit::group; };
  const auto scores_of = [](int k) {
    const std::string depth = std::to_string(k);
    return R"json({"name": "scores", "inputs": {"Q": {"shape": [3, 37, )json" + depth +
           R"json(], "dtype": "bf16"}, "X": {"shape": [3, 50, )json" + depth +
           R"json(], "dtype": "bf16"}}, "outputs": ["S"], "compute": ["T[b:3,m:37,n:50] = sum(k:)json" + depth +
           R"json( | Q[b,m,k] * X[b,n,k])", "S[b:3,m:37,n:50] = T[b,m,n] * 0.125"]})json";
  };
  const std::string scores = scores_of(80);
  const auto transposes = [](const rtile::NestPlan& p) { return p.store_transpose_axis >= 0; };
  return {
      {"staged f16", "a100", product("f16", 130, 72, 304), staged, with({2, 2, 1, 1, 3})},
      {"staged f16, raster", "a100", product("f16", 128, 136, 144), staged, with({2, 2, 1, 1, 4, 2})},
      {"staged s8", "a100", product("s8", 33, 96, 208), staged, with({1, 2, 2, 1, 2})},
      {"staged f32", "a100", product("f32", 70, 65, 85), staged, with({2, 2, 1, 1, 3})},
      {"staged f32 turned", "a100", product("f32", 70, 65, 84), staged, with({2, 2, 1, 1, 3})},
      {"staged bf16 scores", "a100", scores, staged, with({1, 2, 2, 1, 3})},
      {"staged odd rows", "a100",
       R"json({"name": "odd", "inputs": {"Q": {"shape": [3, 37, 78], "dtype": "f16"}, "X": {"shape": [3, 50, 78], "dtype": "f16"}},
       "compute": ["T[b:3,m:37,n:50] = sum(k:78 | Q[b,m,k] * X[b,n,k])"]})json",
       staged, with({1, 2, 2, 1, 3})},
      {"staged planes", "a100",
       R"({"name": "planes", "op": "conv2d", "params": {"n": 2, "h": 9, "w": 11, "ci": 37, "co": 70, "r": 3, "s": 2, "stride": 1, "pad": 1,
       "layout": "NCHW"}, "epilogue": ["bias", "relu"]})",
       staged, with({2, 2, 2, 1, 3})},
      {"staged convolution", "a100",
       R"({"name": "conv", "op": "conv2d", "dtype": "f16", "params": {"n": 2, "h": 9, "w": 7, "ci": 48, "co": 70, "r": 3,
       "s": 3, "stride": [2, 1], "pad": 1, "layout": "NHWC"}, "epilogue": ["bias", "relu"]})",
       staged, with({2, 2, 1, 1, 3})},
      {"group f16", "h100", product("f16", 130, 72, 304), groups, pipeline(2)},
      {"boxes f16", "h100", product("f16", 130, 72, 632), groups, boxes(2)},
      {"boxes bf16 scores", "h100", scores_of(632), groups, boxes(1)},
      {"pixels f16", "h100",
       R"({"name": "conv", "op": "conv2d", "dtype": "f16", "params": {"n": 2, "h": 9, "w": 7, "ci": 64, "co": 70, "r": 3,
       "s": 3, "stride": [2, 1], "pad": 1, "layout": "NHWC"}, "epilogue": ["bias", "relu"]})",
       groups, boxes(1)},
      {"boxes f16 in turns", "h100", product("f16", 130, 72, 632), groups,
       [](rtile::NestPlan& p) {
         boxes(2)(p);
         auto s = std::make_shared<rtile::Staging>(*p.staging);
         s->turns = 2, s->grid = 2, p.staging = s;
       }},
      {"boxes f16 in lines", "h100", product("f16", 130, 72, 632), groups,
       [](rtile::NestPlan& p) {
         with({4, 1, 1, 2, 4})(p);
         auto s = std::make_shared<rtile::Staging>(*p.staging);
         s->depth = 2, s->tensor_copies = true, s->grid = 4, p.staging = s;
       }},
      {"boxes f16 in parts", "h100", product("f16", 130, 72, 632), groups,
       [](rtile::NestPlan& p) {
         with({8, 1, 1, 2, 4})(p);
         auto s = std::make_shared<rtile::Staging>(*p.staging);
         s->depth = 2, s->tensor_copies = true, s->parts = 2, s->grid = 2 * p.tasks(), p.staging = s;
       }},
      {"group bf16 scores", "h100", scores, groups, pipeline(1)},
      {"warp bf16", "a100", product("bf16", 119, 70, 72), several_row_tiles},
      {"softmax", "a100", preset("softmax", "f32", R"("shape": [13, 37])"), nullptr, nullptr, 4},
      {"layernorm", "a100", preset("layernorm", "f32", R"("shape": [7, 129], "eps": 1e-05)"), nullptr, nullptr, 4},
      {"softmax, shared", "a100", preset("softmax", "f32", R"("shape": [3, 300])"), nullptr, nullptr, 0, 4},
      {"log softmax, shared", "a100",
       R"json({"name": "log_softmax", "inputs": {"X": {"shape": [5, 331]}}, "outputs": ["L", "Y"], "compute": [
       "M[i:5] = max(j:331 | X[i,j])", "S[i:5] = sum(j:331 | exp(X[i,j] - M[i]))", "L[i:5] = log(S[i]) + M[i]",
       "Y[i:5,j:331] = X[i,j] - L[i]"]})json",
       nullptr, nullptr, 0, 4},
      {"transpose", "a100", preset("transpose", "f32", R"("shape": [64, 64], "perm": [1, 0])"), transposes},
      {"relu f16", "a100", preset("relu", "f16", R"("shape": [131])"), nullptr},
      {"sum of rows", "a100", preset("reduce_sum", "f32", R"("shape": [37, 127], "axis": 1)"), nullptr},
      {"maxpool", "a100", preset("maxpool", "f32", R"("n": 1, "h": 15, "w": 13, "c": 19, "r": 3, "stride": 2, "pad": 1, "layout": "NHWC")"),
       nullptr},
  };
}

struct Mutation {
  std::string name, subject;
  std::vector<Edit> edits;
};

/// Rows of sums so far apart, not 40: wherever they are stored and read, eight at a time.
std::vector<Edit> sums_apart(int apart) {
  std::vector<Edit> edits{{R"(/ 4 \* 40)", "/ 4 * " + std::to_string(apart)},
                          {R"(\+ 320)", "+ " + std::to_string(8 * apart)},
                          {R"(\+ 40 \* row)", "+ " + std::to_string(apart) + " * row"}};
  for (int row = 1; row < 8; ++row)
    edits.push_back({R"((rows \+ \d+ \* rows\d* \+ ))" + std::to_string(40 * row) + R"(\))", "$01" + std::to_string(apart * row) + ")"});
  return edits;
}

std::vector<Mutation> mutations() {
  const Edit permuted_reads{R"(\* 32 \+ lane\(\)\))", "* 32 + lane() % 4 * 8 + lane() / 4)"};
  const Edit permuted_copies{R"(\bstages \+ 16 \* thread)", "stages + 16 * (thread / 32 * 32 + thread % 4 * 8 + thread % 32 / 4)"};
  return {
      {"no barrier at the head of a round", "staged f16", {{R"((cp_wait<\d>\(\);)\s*__syncthreads\(\);)", "$1"}}},
      {"no barrier before sums take the stages' place", "staged f16", {{R"(\n  __syncthreads\(\);\n)", "\n"}}},
      {"a barrier that one warp does not reach",
       "staged f16",
       {{R"((cp_wait<\d>\(\);)\s*__syncthreads)", "$1 if (thread >= 32) __syncthreads"}}},
      {"wait for one group too few", "staged f16", {{R"(cp_wait<(\d)>\(\);)", "cp_wait<$1 + 1>();"}}},
      {"no wait", "staged convolution", {{R"(cp_wait<\d>\(\);)", ""}}},
      {"no commit", "staged f16", {{R"(cp_commit\(\);)", ""}}},
      {"copies into the next slot", "staged f16", {{R"(fill = round %)", "fill = (round + 1) %"}}},
      {"copies beyond the last slot", "staged f16", {{R"((cp16\(stages.*\* )fill)", "$1(fill + 1)"}}},
      {"products from the next slot", "staged f16", {{R"(use = \(round \+ 1\))", "use = (round + 2)"}}},
      {"products one round early", "staged f16", {{R"(if \(round >= (\d+)\))", "if (round >= $1 - 1)"}}},
      {"copies one round too many", "staged f16", {{R"(if \(round <= (\d+)\))", "if (round <= $1 + 1)"}}},
      {"the last round left out", "staged s8", {{R"(round < (\d+);)", "round < $1 - 1;"}}},
      {"a step of a copied twice", "staged f16", {{R"((cp16\(stages.*, A\d* \+ \d+ \* )round)", "$1(round & ~1)"}}},
      {"packed b of the next step", "staged s8", {{R"(step_at = (\d+) \* round;)", "step_at = $1 * (round + 1);"}}},
      {"every warp multiplies the first columns", "staged s8", {{R"(stages \+ \d+ \* warp \+)", "stages +"}}},
      {"row and column of blocks exchanged",
       "staged f16",
       {{R"(sweep = task / (\d+);\s*const int in_sweep = task % \d+;)", "sweep = task % $1; const int in_sweep = task / $1;"}}},
      {"raster walked the other way",
       "staged f16, raster",
       {{R"(column_block = in_sweep / (\d+);\s*const int row_block = in_sweep % \d+;)",
         "column_block = in_sweep % $1; const int row_block = in_sweep / $1;"}}},
      {"copies of rows beyond the matrix", "staged f16", {{R"(m\d* <= \d+ && )", ""}}},
      {"copies of columns beyond the matrix", "staged bf16 scores", {{R"((cp16\(stages.*, X\d* \+ step_at\d*, )m\d* <= \d+ && )", "$1"}}},
      {"stores of rows beyond the matrix", "staged f16", {{R"(if \(warp_row\d* \+ [\w+* ]*row\d* <= \d+\))", "if (true)"}}},
      {"stores of columns beyond the matrix", "staged f16", {{R"(if \(n\d* <= 71\))", "if (true)"}}},
      {"copies beyond k, a", "staged f16", {{R"( &&[\w *]* piece[-+\w *]* <= \d+)", ""}}},
      {"copies beyond k, both factors", "staged bf16 scores", {{R"([\w *]* piece[-+\w *]* <= \d+)", " true"}}},
      {"the last part of a row copied whole", "staged odd rows", {{R"(left < 16 \? left : 16)", "left > 0 ? 16 : 0"}}},
      {"a part of a row one element short", "staged odd rows", {{R"((cp16_part\(.* \? )(-?\d+))", "$1-2 + $2"}}},
      {"a tail one lane wider", "staged f16", {{R"((vf_store_f16_n\(\w+, \w+, )(\d+)\))", "$1$2 + 1)"}}},
      {"a halo that reads neighbours", "staged convolution", {{R"(at1 \+ s\d* >= 0 && )", ""}}},
      {"no __syncwarp before sums are stored", "staged bf16 scores", {{R"(__syncwarp\(\);  // what was here has been read)", ""}}},
      {"no __syncwarp after sums are stored", "staged bf16 scores", {{R"(\n  __syncwarp\(\);\n\})", "\n}"}}},
      {"sums 32 apart", "staged f16", sums_apart(32)},
      {"staged pieces side by side", "staged f16", {permuted_reads, permuted_copies}},
      {"products before copies are there for them", "group f16", {{R"(proxy_fence\(\);)", ""}}},
      {"copies announced before they have landed", "group f16", {{R"(cp_wait<1>\(\);)", ""}}},
      {"the last copies announced before they have landed", "group bf16 scores", {{R"(cp_wait<0>\(\);)", ""}}},
      {"products of a stage that is not full", "group f16", {{R"(barrier_wait\(barriers \+ \d+ \* use, \w+\);)", ""}}},
      {"copies into a stage that is not empty", "group f16", {{R"(barrier_wait\(barriers \+ \d+ \* fill \+ 8, \w+\);)", ""}}},
      {"gathered copies into a stage that is not empty",
       "group bf16 scores",
       {{R"(barrier_wait\(barriers \+ \d+ \* fill \+ 8, \w+\);)", ""}}},
      {"a stage released one round early", "group f16", {{R"(done = \(number \+ 3\) %)", "done = number %"}}},
      {"the last stage of a task not released", "group f16", {{R"(barrier_release<\d>\(barriers \+ \d+ \* done1 \+ 8\);)", ""}}},
      {"consumers' phases never turn", "group f16", {{R"(phase = times % 2;)", "phase = 0;"}}},
      {"the last copies not announced", "group f16", {{R"(barrier_arrive\(barriers \+ \d+ \* ready1\);)", ""}}},
      {"a barrier for one arrival too few", "group f16", {{R"((barrier_init\(.*, )129\))", "$1 128)"}}},
      {"stages empty for one block of the cluster only", "group f16", {{R"((barrier_init\(.*\+ 8, )8\))", "$1 4)"}}},
      {"half of the bytes expected", "group f16", {{R"((barrier_expect\(.*, )(\d+)\))", "$1$2 / 2)"}}},
      {"more bytes expected than come", "group f16", {{R"((barrier_expect\(.*, )(\d+)\))", "$1$2 + 16)"}}},
      {"the neighbour's half not brought", "group f16", {{R"(bulk_copy_all<2>)", "bulk_copy"}}},
      {"both blocks bring the same half", "group f16", {{R"(rank(\d*) = block % 2)", "rank$1 = 0"}}},
      {"packed b into the next stage", "group f16", {{R"((bulk_copy_all<2>\(stages \+ \d+ \* )fill)", "$1(fill ^ 1)"}}},
      {"the cluster does not meet before it copies", "group f16", {{R"(cluster_sync\(\);(\s+const int turns))", "$1"}}},
      {"a block leaves while its neighbour needs it", "group f16", {{R"(cluster_sync\(\);(\n\}))", "$1"}}},
      {"producers walk other tasks", "group f16", {{R"(block \+ (\d+) \* turn1)", "block + $1 * (turn1 ^ 1)"}}},
      {"core matrices' distances exchanged", "group f16", {{R"(\(vu\)rows << 16\) \| 8ull << 32)", "8u << 16) | (uint64_t)rows << 32"}}},
      {"wait for one group of products too few", "group f16", {{R"(wgmma_wait<1>\(\);)", "wgmma_wait<2>();"}}},
      {"no wait for the last products", "group f16", {{R"(wgmma_wait<0>\(\);)", ""}}},
      {"products never committed", "group f16", {{R"(wgmma_commit\(\);)", ""}}},
      {"a box into a stage that is not empty", "boxes f16", {{R"(barrier_wait\(barriers \+ \d+ \* fill \+ 8, \w+\);)", ""}}},
      {"products of a box that has not come", "boxes f16", {{R"(barrier_wait\(barriers \+ \d+ \* use, \w+\);)", ""}}},
      {"a box's bytes not expected", "boxes f16", {{R"((barrier_expect\(.*, )(\d+)\))", "$1$2 - 8192)"}}},
      {"the box of the next step", "boxes f16", {{R"((tensor_copy_2d\([^,]*, A_map, 64 \* \w+))", "$1 + 64"}}},
      {"the box of other rows", "boxes bf16 scores", {{R"((tensor_copy_3d\([^,]*, Q_map, [^,]*, [^,]*))", "$1 + 8"}}},
      {"a box of another batch", "boxes bf16 scores", {{R"((tensor_copy_3d\([^,]*, X_map, [^,]*, [^,]*, )(\w+))", "$1($2 ^ 1)"}}},
      {"boxes taken for core matrices", "boxes f16", {{R"(\| 64ull << 32 \| 1ull << 62)", "| 64ull << 32"}}},
      {"a step of k beside the swizzle", "boxes f16", {{R"((box_descriptor\(stages[^;]*?) \+ 32\))", "$1 + 64)"}}},
      {"a stage of boxes released one round early", "boxes bf16 scores", {{R"(done = \(number \+ 3\) %)", "done = number %"}}},
      {"a group that does not wait for its turn", "boxes f16 in turns", {{R"(barrier_wait\(barriers \+ 8 \* group \+ \d+, \w+\);)", ""}}},
      {"a turn that is not passed on", "boxes f16 in turns", {{R"(barrier_release<1>\(.*\);)", ""}}},
      {"a turn taken twice", "boxes f16 in turns", {{R"(turn = group \+ 2 \* own)", "turn = 2 * own"}}},
      {"the upper rows of two tiles twice", "boxes f16 in lines", {{R"((fragment_store_pair\(.*), 1\);)", "$1, 0);"}}},
      {"a line's halves exchanged", "boxes f16 in lines", {{R"(0x5410 : 0x7632)", "0x7632 : 0x5410"}}},
      {"sums given before all products are done", "boxes f16 in parts", {{R"(barrier_wait\(barriers \+ \d+, 0\);)", ""}}},
      {"sums taken before they are given",
       "boxes f16 in parts",
       {{R"(cluster_sync\(\);(\s+if \(part == 0\)))", "$1"}, {R"(cluster_sync\(\);(\s+\}\s+cluster_sync))", "$1"}}},
      {"a block leaves while the other takes its sums", "boxes f16 in parts", {{R"(cluster_sync\(\);(\n\}))", "$1"}}},
      {"its own sums taken", "boxes f16 in parts", {{R"((fragment_take\(.*), 1\);)", "$1, 0);"}}},
      {"both parts multiply the same steps", "boxes f16 in parts", {{R"((tensor_copy_2d\(.*)\d{3} \* part \+ )", "$1"}}},
      {"nobody finishes a share", "boxes f16 in parts", {{R"(if \(part == 0\))", "if (part == 2)"}}},
      {"the window's taps exchanged", "pixels f16", {{R"((pixel_copy\(.*), (\w+), (\w+), (barriers))", "$1, $3, $2, $4"}}},
      {"pixels one to the right", "pixels f16", {{R"((pixel_copy\([^,]*, X_map, [^,]*), )", "$1, 1 + "}}},
      {"pixels of the next image", "pixels f16", {{R"((pixel_copy\([^,]*, X_map, [^,]*, [^,]*, [^,]*), )", "$1, 1 + "}}},
      {"a k of the step copied twice", "staged f32", {{R"((cp4\(stages.*, A\d* \+ .*) \+ 8 \* part\d*)", "$1"}}},
      {"a copied beyond its last k", "staged f32", {{R"( && [^,?]* \? 4 : 0)", " ? 4 : 0"}}},
      {"elements of a piece exchanged", "staged f32 turned", {{R"(third \? a\[2\] : a\[0\])", "a[0]"}}},
      {"turned by all from the first on", "staged f32 turned", {{R"(const bool third = lane\(\) & 2;)", "const bool third = false;"}}},
      {"turned into the next stage", "staged f32 turned", {{R"((fragment_staged_turn\(.*\* )(fill\d*)\b)", "$1(($2 + 1) % 3)"}}},
      {"a piece beyond k", "staged f32 turned", {{R"((fragment_load_piece\([^;]*?)(, | && )[^,;&]*piece[^,;&]* <= \d+\);)", "$1);"}}},
      {"rows without four between", "staged f32", {{R"(\b144 \*)", "128 *"}, {R"(\b1152 \*)", "1024 *"}}},
      {"products of the next k's columns", "staged f32", {{R"((fragment_staged_f32_b\(.*)\);)", "$1 + 256);"}}},
      {"a plane's pixels one further", "staged planes", {{R"((cp4\(stages.*, X\d*)( \+))", "$1 + 1$2"}}},
      {"a k of another plane", "staged planes", {{R"((cp4\(stages.*) \* part\b)", "$1 * (part ^ 1)"}}},
      {"planes without a border", "staged planes", {{R"(at\d+ \+ s\d* >= 0 && )", ""}}},
      {"warps share half of their sums' memory", "staged f16", {{R"(kWarpBytes = (\d+))", "kWarpBytes = $1 / 2"}}},
      {"operand words of mma exchanged", "warp bf16", {{R"(a\[4 \+ h\], a\[1 \+ h\])", "a[1 + h], a[4 + h]"}}},
      {"accumulators not zeroed", "warp bf16", {{R"(c\[i\] = 0;)", ";"}}},
      {"rows of a beyond the matrix", "warp bf16", {{R"((fragment_load_a\(parts[^;]*, )1, )", "$0116, "}}},
      {"a beyond k", "warp bf16", {{R"(word_of\(q \+ 4 \* i, bytes - at - 4 \* i\))", "word_of(q + 4 * i, 4)"}}},
      {"b of the next step", "warp bf16", {{R"(packed \+ )", "packed + 1024 + "}}},
      {"packing one element further", "warp bf16", {{R"((dst\[.*)\] = src)", "$1 + 1] = src"}}},
      {"a warp beyond the last task", "softmax", {{R"(if \(task >= 13\) return;)", ""}}},
      {"sum of half a warp", "softmax", {{R"(apart = 16)", "apart = 8"}}},
      {"a lane that does not come to the shuffle",
       "softmax",
       {{R"(acc = (vf_set\(vf_hsum\(acc\)\)))", "if (threadIdx.x % 32 < 31) acc = $1"}}},
      {"a shuffle's mask without its last lane", "layernorm", {{"0xffffffffu", "0x7fffffffu"}}},
      {"a partial sum forgotten", "layernorm", {{R"(acc2 = acc2 \+ acc3;)", ""}}},
      {"no __syncwarp before the exponentials", "softmax", {{R"((reduce0\(t, d00\);\s*)__syncwarp\(\);)", "$1"}}},
      {"no __syncwarp before the quotients", "softmax", {{R"((reduce1\(t, d00\);\s*)__syncwarp\(\);)", "$1"}}},
      {"no __syncwarp between nests", "layernorm", {{R"(__syncwarp\(\);)", ""}}},
      {"warps share their rows", "softmax", {{R"(threadIdx\.x / 32 \* 192)", "0"}}},
      {"warps' rows overlap", "softmax", {{R"(threadIdx\.x / 32 \* 192)", "threadIdx.x / 32 * 96"}}},
      {"the total in the exponentials' place", "softmax", {{R"(\+ 176\))", "+ 16)"}}},
      {"no barrier before the parts' maxima are read",
       "softmax, shared",
       {{R"(__syncthreads\(\);(\s*acc = vf_load_f32_range\(partial, 0, 4, -__int))", "$1"}}},
      {"no barrier before the parts' totals, and exponentials of other warps, are read",
       "softmax, shared",
       {{R"(__syncthreads\(\);(\s*acc = vf_load_f32_range\(partial, 0, 4, 0))", "$1"}}},
      {"a warp that does not come to the barrier",
       "softmax, shared",
       {{R"(__syncthreads\(\);(\s*acc = vf_load_f32_range\(partial, 0, 4, -__int))", "if (warp < 3) __syncthreads();$1"}}},
      {"a barrier that some lanes reach before they have stored",
       "softmax, shared",
       {{R"((vf_store_f32_n\(partial \+ warp, acc, 1\);)\s*__syncthreads\(\);)", "__syncthreads(); $1"}}},
      {"parts' results in one place", "softmax, shared", {{R"(partial \+ warp)", "partial"}}},
      {"the last warp's part forgotten", "softmax, shared", {{R"(\(partial, 0, 4, )", "(partial, 0, 3, "}}},
      {"the rest of a row forgotten", "softmax, shared", {{R"(if \(warp >= 3\))", "if (warp >= 4)"}}},
      {"no barrier before what the first warp has stored is read",
       "log softmax, shared",
       {{R"(__syncthreads\(\);(\s*map\d+\(t, ))", "$1"}}},
      {"stored by another warp than the one that is waited for", "log softmax, shared", {{R"(if \(warp <= 0\))", "if (warp < 0)"}}},
      {"another tile's row", "layernorm", {{R"(d0_tile = task;)", "d0_tile = task ^ 1;"}}},
      {"another row's total", "sum of rows", {{R"(t->X \+ 127 \* d0)", "t->X + 127 * (d0 ^ 1)"}}},
      {"transposition's halves exchanged",
       "transpose",
       {{R"(upper \? r\[i\] : r\[i \+ apart\], apart)", "upper ? r[i + apart] : r[i], apart"}}},
      {"a mask one lane wider", "relu f16", {{R"(if \(lane\(\) < n\))", "if (lane() <= n)"}}},
      {"a window that reads neighbours", "maxpool", {{R"(2 \* q - 1 >= 0 && )", ""}}},
  };
}

void add(KernelBatch& batch, const test::Problem& problem, const hw::Profile& profile, const Subject& s) {
  const int top_k = s.wanted ? 4000 : s.tile_warps > 0 || s.row_warps > 0 ? 50 : 1;
  for (rtile::Candidate& c : rtile::construct(*problem.program, profile, {0, top_k, s.wanted ? 8 : s.tile_warps > 0 ? 2 : 1})) {
    if (s.wanted && !s.wanted(c.program->groups.back().nests.back())) continue;
    const rtile::GroupPlan& first = c.program->groups.front();
    if (s.tile_warps > 0 && (first.tile_warps != s.tile_warps || first.shared.back().hi > 1)) continue;
    if (s.row_warps > 0 && (first.block_tasks == 0 || first.tile_warps > 1)) continue;
    auto program = std::make_shared<rtile::RProgram>(*c.program);
    if (s.row_warps > 0) program->groups.front().block_tasks = s.row_warps;
    if (s.change) s.change(program->groups.back().nests.back());
    c.program = program;
    return batch.add(problem, profile, c, s.name);
  }
  FAIL_CHECK("no plan of this kind: " << s.name);
}

/// What went wrong, in a word or two.
std::string kind(const std::string& wrong) {
  const std::pair<const char*, const char*> kinds[] = {{"divergence", "divergence"},
                                                       {"own mask", "divergence"},
                                                       {"conflicts", "bank conflicts"},
                                                       {"not wait", "copies without a wait"},
                                                       {"shared memory", "outside shared memory"},
                                                       {"buffers", "outside its buffers"},
                                                       {"not its own", "outside its buffers"},
                                                       {"not end", "hang"},
                                                       {"proxy fence", "missing fence"},
                                                       {"has ended", "a block that has ended"},
                                                       {"no initialised barrier", "no barrier yet"},
                                                       {"got nan", "NaN"}};
  for (const auto& [text, name] : kinds)
    if (wrong.find(text) != std::string::npos) return name;
  return "wrong result";
}

/// The first way that caught it, how many did, and how.
std::string row(const Mutation& m, const std::array<std::string, test::kShimWays>& wrong) {
  int first = -1, caught = 0;
  std::string how;
  for (int way = 0; way < test::kShimWays; ++way) {
    const std::string& w = wrong[size_t(way)];
    if (w.empty()) continue;
    if (caught++ == 0) first = way;
    if (how.find(kind(w)) == std::string::npos) how += (how.empty() ? "" : ", ") + kind(w);
  }
  return "| " + m.name + " | " + m.subject + " | " + (first < 0 ? "none" : test::shim_way(first)) + " | " + std::to_string(caught) + " | " +
         how + " |";
}

}  // namespace

TEST_CASE("faults planted in CUDA kernels are noticed by the shim") {
  const std::vector<Subject> all = subjects();
  std::vector<test::ProgramPtr> programs;
  for (const Subject& s : all) programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(s.spec)));
  const std::vector<test::Problem> problems = test::make_problems(programs);
  KernelBatch batch;
  std::map<std::string, size_t> of;
  for (size_t i = 0; i < all.size(); ++i) {
    of[all[i].name] = batch.size();
    add(batch, problems[i], hw::load_profile(all[i].device), all[i]);
  }
  const size_t controls = batch.size();
  REQUIRE(controls == all.size());
  std::vector<Mutation> planted;
  for (const Mutation& m : mutations())
    if (batch.add_mutant(of.at(m.subject), m.name, m.edits))
      planted.push_back(m);
    else
      FAIL_CHECK("this fault's text is in no kernel: " << m.name << ", " << m.subject);

  const auto wrong = batch.survey({"g++", {"-O1", "-ftrivial-auto-var-init=pattern"}, {}, 2});
  for (size_t i = 0; i < controls; ++i)
    for (int way = 0; way < test::kShimWays; ++way) {
      INFO(all[i].name << ", " << test::shim_way(way));
      CHECK(wrong[i][size_t(way)] == "");
    }
  std::ostringstream table;
  for (size_t i = 0; i < planted.size(); ++i) {
    const auto& found = wrong[controls + i];
    table << row(planted[i], found) << "\n";
    INFO(planted[i].name << ", " << planted[i].subject);
    CHECK(std::any_of(found.begin(), found.end(), [](const std::string& w) { return !w.empty(); }));
  }
  MESSAGE(planted.size() << " faults\n" << table.str());
}
