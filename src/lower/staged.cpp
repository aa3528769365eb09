// A contraction whose warps all copy and all multiply: copies run `ahead` stages before the products (multistage cp.async: CUTLASS,
// "Efficient GEMM in CUDA"). Threads take k in another order than the instruction's figure says (tile_warp.cpp): a warp then reads 512
// neighbouring bytes at a time, and neither a swizzle nor ldmatrix is needed.
#include "lower/staged.h"

namespace rgen::lower {

using rtile::Staging;

namespace {

class MultistageLowering : StagedBlock {
 public:
  explicit MultistageLowering(NestContext& c) : StagedBlock(c), step_bytes_(step_bytes_a() + step_bytes_b()) {}

  int run() {
    Proc p;
    p.name = c_.prefix;
    p.comment = std::to_string(block_rows_) + " × " + std::to_string(block_columns_) + " sums a block, " + std::to_string(s_.stages) +
                " stages of " + std::to_string(memory_.stage) + " bytes";
    bodies_.push_back(&p.body);
    const int task = b_.variable("task", 0, c_.plan.tasks() - 1), thread = b_.variable("thread", 0, s_.threads() - 1);
    p.params = {task, thread};
    place_copier(Int::var(thread));
    place(Int::var(task));
    place_warp(quotient("warp", Int::var(thread), 32));
    ring_ = shared("stages", DType::u8, 0, s_.stages * memory_.stage);
    const std::vector<Source> of_a = rows(), of_b = columns();
    multiply(of_a, of_b);
    b_.program.buffers.push_back(
        {"rows", integer() ? DType::s32 : DType::f32, column_tiles() * rtile::kFragmentTile, Buffer::Kind::local, -1, 0, 0, false});
    const int sums = b_.pointer(int(b_.program.buffers.size()) - 1, "rows");
    put({LetPtr{sums, Int(0)}});
    epilogue(sums, column_tiles());
    return b_.proc(std::move(p));
  }

 private:
  const int64_t step_bytes_;

  bool rounds() const { return s_.unit == Staging::Unit::warp && factor() == DType::f32; }  // to tf32

  /// Copies run ahead of the products; one barrier a round: what was copied is there for all, and the stage to be filled is free.
  void multiply(const std::vector<Source>& of_a, const std::vector<Source>& of_b) {
    effect("fragments", {Int(row_tiles() * column_tiles()), Int(row_tiles() + column_tiles()), Int(integer())});
    zero_sums();
    const int64_t rounds = c_.plan.k_steps(c_.nest) / s_.depth, ahead = s_.ahead();
    const int round = b_.variable("round", 0, rounds + ahead - 1);
    loop(round, rounds + ahead, [&] {
      effect("cp_wait", {Int(ahead - 1)});
      effect("block_sync");
      when({Int(rounds - 1) - Int::var(round)}, [&] {
        const Int to = remainder("fill", Int::var(round), s_.stages) * memory_.stage;
        for (int64_t d = 0; d < s_.depth; ++d) {
          const std::vector<Int> at = reduced_at(Int::var(round, s_.depth) + Int(d));
          copy(of_a, at, to + Int(d * step_bytes_));
          copy(of_b, at, to + Int(d * step_bytes_ + step_bytes_a()));
        }
      });
      effect("cp_commit");
      when({Int::var(round) - Int(ahead)}, [&] {  // the stage that was filled `ahead` rounds ago
        multiply_fragments(remainder("use", Int::var(round) + Int(s_.stages - ahead), s_.stages) * memory_.stage);
      });
    });
    effect("block_sync");  // the sums take the stages' place
  }

  /// Factors by way of registers, a step at a time. A step of lanes' products, 16 KiB of code for 64 sums a lane, is a loop's body: written
  /// out for all steps of a stage it would leave the instruction cache (1024³ in f32 on an H200: 109 µs, 61 as a loop).
  void multiply_fragments(const Int& from) {
    if (!lanes() || s_.depth == 1) {
      for (int64_t d = 0; d < s_.depth; ++d) multiply_step(from + Int(d * step_bytes_));
      return;
    }
    const int step = b_.variable("step", 0, s_.depth - 1);
    loop(
        step, s_.depth, [&] { multiply_step(from + Int::var(step, step_bytes_)); }, For::Unroll::never);
  }

  void multiply_step(const Int& from) { lanes() ? multiply_lanes(from) : multiply_warps(from); }

  void fetch(const std::string& primitive, int64_t part, const Int& at) { effect(primitive, {Int(part), Address{ring_, at}}); }

  void multiply_warps(const Int& from) {
    const std::string load = std::string("fragment_staged_") + (rounds() ? "tf32_" : ""),
                      product = "mma_" + (rounds() ? "tf32" : factors(c_));
    const Int row = row_warp_ * (row_tiles() * 16 * kRowBytes), column = column_warp_ * (column_tiles() * 32 * kRowBytes);
    for (int64_t i = 0; i < row_tiles(); ++i) fetch(load + "a", i, from + row + Int(i * 16 * kRowBytes));
    for (int64_t j = 0; j < column_tiles(); ++j) {
      fetch(load + "b", row_tiles() + j, from + column + Int((block_rows_ + j * 32) * kRowBytes));
      for (int64_t i = 0; i < row_tiles(); ++i) effect(product, {Int(i * column_tiles() + j), Int(i), Int(row_tiles() + j)});
    }
  }

  /// One k after the other.
  void multiply_lanes(const Int& from) {
    constexpr int64_t kElement = size_of(DType::f32);
    const int k = b_.variable("k", 0, c_.plan.k_step - 1);
    const Int rows = from + Int::var(k, k_bytes_a()) + row_warp_ * (row_tiles() * 16 * kElement),
              columns = from + Int(step_bytes_a()) + Int::var(k, k_bytes_b()) + column_warp_ * (column_tiles() * 32 * kElement);
    const auto one = [&] {
      for (int64_t i = 0; i < row_tiles(); ++i) fetch("fragment_staged_f32_a", i, rows + Int(i * 16 * kElement));
      for (int64_t j = 0; j < column_tiles(); ++j) fetch("fragment_staged_f32_b", row_tiles() + j, columns + Int(j * 32 * kElement));
      effect("products_f32", {Int(row_tiles()), Int(column_tiles())});
    };
    loop(k, c_.plan.k_step, one, For::Unroll::all);
  }
};

}  // namespace

int lower_staged(NestContext& context) {
  return context.plan.staging->producers() > 0 ? lower_specialised(context) : MultistageLowering(context).run();
}

}  // namespace rgen::lower
