// A contraction whose warps all copy and all multiply: copies run `ahead` stages before the products (multistage cp.async: CUTLASS,
// "Efficient GEMM in CUDA"). Threads take k in another order than the instruction's figure says (tile_warp.cpp): a warp then reads 512
// neighbouring bytes at a time, and neither a swizzle nor ldmatrix is needed.
#include "lower/staged.h"

namespace rgen::lower {

using rtile::Staging;

namespace {

class MultistageLowering : StagedBlock {
 public:
  explicit MultistageLowering(NestContext& c) : StagedBlock(c) {}

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
    epilogue(b_.local(*bodies_.back(), "rows", integer() ? DType::s32 : DType::f32, column_tiles() * rtile::kFragmentTile), column_tiles());
    return b_.proc(std::move(p));
  }

 private:
  /// Copies run ahead of the products; one barrier a round: what was copied is there for all, and the stage to be filled is free. What is
  /// turned is on its way in registers during a round's products. (Parts of it between them, told apart by branches, cost more.)
  void multiply(const std::vector<Source>& of_a, const std::vector<Source>& of_b) {
    const int64_t rounds = c_.plan.k_steps(c_.nest) / s_.depth, ahead = s_.ahead();
    const std::vector<Turned> turned = to_be_turned(of_a, of_b);
    const int64_t factors = s_.factor_sets * (row_tiles() + column_tiles());
    effect("fragments", {Int(row_tiles() * column_tiles()), Int(factors + std::ssize(turned)), Int(integer())});
    zero_sums();
    const int round = b_.variable("round", 0, rounds + ahead - 1);
    loop(round, rounds + ahead, [&] {
      effect("cp_wait", {Int(ahead - 1)});
      effect("block_sync");
      const auto fill = [&](auto&& inside) {
        when({Int(rounds - 1) - Int::var(round)}, [&] { inside(remainder("fill", Int::var(round), s_.stages)); });
      };
      fill([&](const Int& stage) { copy_stage(of_a, of_b, round, stage), load_turned(turned, round, factors); });
      effect("cp_commit");
      when({Int::var(round) - Int(ahead)}, [&] {  // the stage that was filled `ahead` rounds ago
        multiply_fragments(remainder("use", Int::var(round) + Int(s_.stages - ahead), s_.stages) * memory_.stage);
      });
      if (!turned.empty()) fill([&](const Int& stage) { store_turned(turned, stage, factors); });
    });
    effect("block_sync");  // the sums take the stages' place
  }

  /// 16 bytes of a factor's step that this thread turns in each round.
  struct Turned {
    const Source* source;
    int64_t step, at;  ///< of the stage; bytes from there to the factor's part of that step
  };
  std::vector<Turned> to_be_turned(const std::vector<Source>& of_a, const std::vector<Source>& of_b) const {
    std::vector<Turned> turned;
    for (int64_t d = 0; d < s_.depth; ++d) {
      for (const Source& s : of_a)
        if (s.turned) turned.push_back({&s, d, d * step_bytes_a()});
      for (const Source& s : of_b)
        if (s.turned) turned.push_back({&s, d, part_b_ + d * step_bytes_b()});
    }
    return turned;
  }
  void load_turned(const std::vector<Turned>& turned, int round, int64_t part) {
    std::vector<Int> at;
    for (size_t i = 0; i < turned.size(); ++i) {
      if (i == 0 || turned[i].step != turned[i - 1].step) at = reduced_at(Int::var(round, s_.depth) + Int(turned[i].step));
      load_piece(*turned[i].source, at, part + int64_t(i));
    }
  }
  void store_turned(const std::vector<Turned>& turned, const Int& stage, int64_t part) {
    for (size_t i = 0; i < turned.size(); ++i) store_piece(*turned[i].source, stage * memory_.stage + Int(turned[i].at), part + int64_t(i));
  }

  /// Factors by way of registers, a step at a time.
  void multiply_fragments(const Int& from) {
    if (lanes()) return multiply_lanes(from);
    for (int64_t d = 0; d < s_.depth; ++d) multiply_warps(from + Int(d * step_bytes_a()), from + Int(part_b_ + d * step_bytes_b()));
  }

  void fetch(const std::string& primitive, int64_t part, const Int& at) { effect(primitive, {Int(part), Address{ring_, at}}); }

  void multiply_warps(const Int& from_a, const Int& from_b) {
    const std::string load = "fragment_staged_", product = "mma_" + factors(c_);
    const std::string rounded = factor() == DType::f32 ? "tf32_" : "";  // a factor that was packed is already
    const Int row = row_warp_ * (row_tiles() * 16 * kRowBytes), column = column_warp_ * (column_tiles() * 32 * kRowBytes);
    for (int64_t i = 0; i < row_tiles(); ++i) fetch(load + rounded + "a", i, from_a + row + Int(i * 16 * kRowBytes));
    for (int64_t j = 0; j < column_tiles(); ++j) {
      fetch(load + (packed() ? "" : rounded) + "b", row_tiles() + j, from_b + column + Int(j * 32 * kRowBytes));
      for (int64_t i = 0; i < row_tiles(); ++i) effect(product, {Int(i * column_tiles() + j), Int(i), Int(row_tiles() + j)});
    }
  }

  /// One k after the other. Where two have registers, the factors of the next are on their way also across the ends of the loop: a warp
  /// that has a scheduler for itself began each round of it with the wait for them.
  void multiply_lanes(const Int& from) {
    const int64_t at_once = written_out(), all = s_.depth * c_.plan.k_step;
    const int part = b_.variable("part", 0, all / at_once - 1);
    const Int first = Int::var(part, at_once);
    if (s_.factor_sets == 1) {
      const int k = b_.variable("k", 0, at_once - 1);
      const auto one = [&] { fetch_lanes(from, first + Int::var(k), 0), multiply_one(0); };
      return loop(
          part, all / at_once, [&] { loop(k, at_once, one, For::Unroll::all); }, For::Unroll::never);
    }
    const auto two = [&](const Int& k, bool last) {
      fetch_lanes(from, k + Int(1), 1);
      multiply_one(0);
      const auto next = [&] { fetch_lanes(from, k + Int(2), 0); };
      if (!last)
        next();
      else if (all > at_once)
        when({Int(all - at_once - 1) - first}, next);
      multiply_one(1);
    };
    fetch_lanes(from, Int(0), 0);
    loop(
        part, all / at_once,
        [&] {
          if (at_once > 2) {
            const int k = b_.variable("k", 0, at_once / 2 - 2);
            loop(
                k, at_once / 2 - 1, [&] { two(first + Int::var(k, 2), false); }, For::Unroll::all);
          }
          two(first + Int(at_once - 2), true);
        },
        For::Unroll::never);
  }
  /// Of the loop over k so much is its body as an SM's cache of instructions (32 KiB) holds beside what else there is. (H200, one warp a
  /// scheduler: of 34 KiB a third of the time was lost; 1024³, 64 KiB: 109 µs, 61 as a loop.)
  int64_t written_out() const {
    constexpr int64_t kMultiplyAdds = 1536;  // of 16 bytes each
    int64_t k = c_.plan.k_step;
    while (k > 2 && k * row_tiles() * column_tiles() * 16 > kMultiplyAdds) k /= 2;
    return k;
  }

  void fetch_lanes(const Int& from, const Int& k, int64_t buffer) {
    constexpr int64_t kElement = size_of(DType::f32);
    const int64_t first = buffer * (row_tiles() + column_tiles());
    const Int rows = from + k * k_bytes_a() + row_warp_ * (row_tiles() * 16 * kElement),
              columns = from + Int(part_b_) + k * k_bytes_b() + column_warp_ * (column_tiles() * 32 * kElement);
    for (int64_t i = 0; i < row_tiles(); ++i) fetch("fragment_staged_f32_a", first + i, rows + Int(i * 16 * kElement));
    for (int64_t j = 0; j < column_tiles(); ++j) fetch("fragment_staged_f32_b", first + row_tiles() + j, columns + Int(j * 32 * kElement));
  }
  void multiply_one(int64_t buffer) {
    effect("products_f32", {Int(row_tiles()), Int(column_tiles()), Int(buffer * (row_tiles() + column_tiles()))});
  }
};

}  // namespace

int lower_staged(NestContext& context) {
  return context.plan.staging->producers() > 0 ? lower_specialised(context) : MultistageLowering(context).run();
}

}  // namespace rgen::lower
