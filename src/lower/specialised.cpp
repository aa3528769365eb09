// A contraction whose warps specialise: producers copy into a ring of stages, consumers multiply what has arrived, four warps at a time
// straight from shared memory (CUTLASS, "warp-specialised persistent" kernels of Hopper). Two barriers a stage take the place of the
// block's: `full` when its copies have landed, `empty` when its products are done. Blocks are persistent: each walks several tasks, and
// the stages of the next are filled while the sums of the last leave; where groups of warps take them by turns, it is multiplied, too. What
// was packed comes in bulk, one thread asking for it, and in a cluster half of it for the neighbour too; what was not, where tensor maps
// fit it, in boxes that the same thread asks for, else from threads that copy.
#include <optional>

#include "lower/staged.h"
#include "rtile/layout.h"

namespace rgen::lower {

namespace {

class SpecialisedLowering : StagedBlock {
 public:
  explicit SpecialisedLowering(NestContext& c)
      : StagedBlock(c), rounds_(c.plan.k_steps(c.nest) / s_.depth / s_.parts), bytes_b_(s_.depth * block_columns_ * kRowBytes) {}

  int run() {
    Proc p;
    p.name = c_.prefix;
    p.comment = std::to_string(block_rows_) + " × " + std::to_string(block_columns_) + " sums a block, " + std::to_string(s_.stages) +
                " stages of " + std::to_string(memory_.stage) + " bytes; " + std::to_string(s_.warps()) + " warps multiply, " +
                (s_.tensor_copies ? "a thread asks for copies" : std::to_string(s_.producers()) + " copy");
    bodies_.push_back(&p.body);
    const int block = b_.variable("block", 0, s_.grid - 1), thread = b_.variable("thread", 0, s_.threads() - 1);
    p.params = {block, thread};
    block_ = Int::var(block), thread_ = Int::var(thread);
    ring_ = shared("stages", DType::u8, 0, s_.stages * memory_.stage);
    barriers_ = shared("barriers", DType::u8, memory_.barriers, (2 * s_.stages + s_.turns) * kBarrier);
    make_barriers();
    if (s_.parts > 1)
      part_ = remainder("part", block_, s_.parts), first_step_ = part_ * (rounds_ * s_.depth), turns_ = Int(1);
    else
      turns_ = quotient("turns", Int(c_.plan.tasks() - 1 + s_.grid) - block_, s_.grid);
    // roles in which lanes might differ, for all that the compiler knows, would serialise the products
    const int warp = b_.variable("warp", 0, s_.warps() + s_.producers() - 1);
    put({LetInt{LetInt::Op::uniform, warp, quotient("own_warp", thread_, 32), Int(0)}});
    choose(
        {Int(s_.warps() - 1) - Int::var(warp)}, [&] { consume(Int::var(warp)); }, [&] { produce(); });
    if (s_.together() > 1) effect("cluster_sync");  // a block's memory lives as long as its neighbour may use it
    return b_.proc(std::move(p));
  }

 private:
  static constexpr int64_t kBarrier = rtile::BlockMemory::kBarrier;
  const int64_t rounds_;   ///< of a task, or this block's part of it, a stage each
  const int64_t bytes_b_;  ///< of b in a stage
  Int block_, thread_, turns_, part_;
  int barriers_ = -1;

  Address full(const Int& stage) const { return {barriers_, stage * (2 * kBarrier)}; }
  Address empty(const Int& stage) const { return {barriers_, stage * (2 * kBarrier) + Int(kBarrier)}; }

  /// The group's own: the other's products are done. Where blocks share a task: all of this one's are.
  Address turn(const Int& group) const { return {barriers_, group * kBarrier + Int(2 * s_.stages * kBarrier)}; }

  void make_barriers() {
    when({Int(0) - thread_}, [&] {
      const int stage = b_.variable("stage", 0, s_.stages - 1);
      loop(stage, s_.stages, [&] {
        effect("barrier_init", {full(Int::var(stage)), Int(s_.tensor_copies ? 1 : copiers_ + (packed() ? 1 : 0))});
        effect("barrier_init", {empty(Int::var(stage)), Int(s_.task_warps() * s_.cluster)});
      });
      for (int g = 0; g < s_.turns && (s_.turns > 1 || s_.parts > 1); ++g) effect("barrier_init", {turn(Int(g)), Int(s_.task_warps())});
      effect("barriers_ready");
    });
    effect(s_.cluster > 1 ? "cluster_sync" : "block_sync");
  }

  /// The tasks of this block, or every `apart`-th from the `first` on; rounds are numbered on through all of them, and go round the stages.
  template <class F>
  void walk(F&& task_of_turn, const Int& first = Int(0), int64_t apart = 1) {
    const auto at = [&](const Int& turn, const Int& own) {
      place(s_.parts > 1 ? quotient("task", block_, s_.parts) : within("task", block_ + turn * s_.grid, c_.plan.tasks()));
      task_of_turn(turn * rounds_, own);
    };
    if (apart == 1 && turns_.is_const() && turns_.constant == 1) return at(Int(0), Int(0));
    const int64_t most = b_.range(turns_).second;
    const int own = b_.variable(apart == 1 ? "turn" : "own", 0, ceil_div(most, apart) - 1);
    if (apart == 1) return loop(own, turns_, [&] { at(Int::var(own), Int::var(own)); });
    loop(own, quotient("own_turns", turns_ + Int(apart - 1) - first, apart),
         [&] { at(within("turn", Int::var(own, apart) + first, most), Int::var(own)); });
  }

  /// A block of three groups begins with 168 registers a thread. Where sums and epilogue need more, those who copy leave them some, if
  /// their addresses allow it. (3 · 168 = 56 + 2 · 224; setmaxnreg)
  void share_registers(const char* primitive, int64_t registers) {
    const auto guards = rtile::guarded_dims(c_.program, operand(c_.plan.operand_a).access, c_.nest.full_extents()).size();
    const int64_t multiplying = 16 * row_tiles() * column_tiles() + 48,
                  copying = 24 + block_rows_ * kPieces / copiers_ * int64_t(2 + guards);
    if (s_.threads() == 3 * 128 && c_.plan.estimate.resident == 1 && multiplying > 168 && copying <= 56)
      effect(primitive, {Int(registers)});
  }

  void consume(const Int& warp) {
    share_registers("registers_raise", 224);
    const Int consumer = within("consumer", warp, s_.warps());
    const int sums =
        shared("rows", integer() ? DType::s32 : DType::f32, memory_.rows, memory_.bytes - memory_.rows, consumer * rtile::kFragmentTile);
    place_warp(remainder("of_group", consumer, s_.task_warps()));
    effect("fragments", {Int(row_tiles() * column_tiles()), Int(0), Int(integer())});
    const Int own_group = quotient("group", consumer, s_.task_warps());
    const auto task = [&](const Int& before, const Int& own) {
      multiply_task(before, own_group, own), settle();
      s_.parts > 1 ? finish_share(consumer, sums) : epilogue(sums, 1);
    };
    walk(task, own_group, s_.turns);
  }

  /// A cluster's blocks have multiplied a part of k each. A warp's sums take the place of the stages, from where the block that finishes
  /// them takes them.
  void finish_share(const Int& consumer, int sums) {
    const int64_t tiles = row_tiles() * column_tiles(), finishing = std::min<int64_t>(tiles, s_.parts);
    constexpr int64_t kTile = 16 * 32;  // sums
    const int given = shared("given", integer() ? DType::s32 : DType::f32, 0, s_.warps() * tiles * kTile * 4, consumer * (tiles * kTile));
    effect("barrier_release", {Int(1), turn(Int(0))});
    effect("barrier_wait", {turn(Int(0)), Int(0)});  // no product needs the stages any more
    for (int64_t t = 0; t < tiles; ++t) effect("fragment_give", {Int(t), Address{given, Int(t * kTile)}});
    effect("cluster_sync");
    for (int64_t p = 0; p < finishing; ++p) {
      const int64_t first = p * tiles / finishing, end = (p + 1) * tiles / finishing;
      when(equal(part_, p), [&] {
        for (int64_t t = first; t < end; ++t)
          for (int64_t q = 1; q < s_.parts; ++q) effect("fragment_take", {Int(t), Address{given, Int(t * kTile)}, Int((p + q) % s_.parts)});
        epilogue(sums, 1, first, end);
      });
    }
  }

  /// The rounds of a task. Where groups take turns this is the `own`-th of the group: a stage's barrier tells this filling from the next,
  /// but not from the one after that, so that nobody may wait there before the other's rounds are through.
  void multiply_task(const Int& before, const Int& own_group, const Int& own) {
    const bool in_turn = s_.turns > 1;
    zero_sums();
    if (in_turn) effect("barrier_wait", {turn(own_group), remainder("phase", own + Int(1) - own_group, 2)});
    const int round = b_.variable("round", 0, rounds_ - 1);
    loop(
        round, rounds_,
        [&] {
          const Int number = value("number", before + Int::var(round)), use = remainder("use", number, s_.stages);
          effect("barrier_wait", {full(use), remainder("phase", quotient("times", number, s_.stages), 2)});
          multiply(use * memory_.stage);
          effect("wgmma_wait", {Int(1)});  // the products of the round before are done
          when({Int::var(round) - Int(1)}, [&] { release(number + Int(s_.stages - 1)); });
        },
        For::Unroll::never);  // unrolled, sums would change registers between products
    effect("wgmma_wait", {Int(0)});
    release(before + Int(rounds_ - 1));
    if (in_turn) effect("barrier_release", {Int(1), turn(Int(1) - own_group)});
  }

  void release(const Int& number) { effect("barrier_release", {Int(s_.cluster), empty(remainder("done", number, s_.stages))}); }

  /// Two products a step, of 32 bytes of k each.
  void multiply(const Int& from) {
    const std::string product = "wgmma_" + factors(c_);
    const bool boxes_b = s_.tensor_copies && !packed();
    effect("wgmma_fence");
    for (int64_t half = 0; half < 2 * s_.depth; ++half)
      for (int64_t i = 0; i < row_tiles(); ++i) {
        std::vector<Arg> args{Int(i * column_tiles()), Int(block_columns_)};
        const auto factor = [&](const Int& at, int64_t rows, const Int& first, bool boxes) {
          args.push_back(Address{ring_, from + at + staged_at(half, rows, boxes) + first * (boxes ? TensorMap::kRowBytes : kPiece)});
          args.push_back(Int(boxes ? 0 : rows));
        };
        factor(Int(0), block_rows_, row_warp_ * (row_tiles() * 64) + Int(i * 64), s_.tensor_copies);
        factor(Int(part_b_), block_columns_, Int(0), boxes_b);
        effect(product, std::move(args));
      }
    effect("wgmma_commit");
  }

  /// Where the `half`-th 32 bytes of k of a factor begin: in boxes, four of them in a row; else core matrices, those of 16 bytes of k
  /// behind all rows.
  static Int staged_at(int64_t half, int64_t rows, bool boxes) {
    constexpr int64_t in_row = TensorMap::kRowBytes / (2 * kPiece);
    return boxes ? Int(half / in_row * rows * TensorMap::kRowBytes + half % in_row * 2 * kPiece) : Int(half * rows * 2 * kPiece);
  }

  void produce() {
    share_registers("registers_lower", 56);
    if (s_.tensor_copies)
      when({Int(32 * s_.warps()) - thread_}, [&] { produce_boxes(); });
    else
      produce_copies();
    if (s_.parts > 1) effect("cluster_sync");  // the sums are there
  }

  void produce_copies() {
    place_copier(within("copier", thread_ - Int(32 * s_.warps()), copiers_));
    const int64_t lag = s_.lag();
    walk([&](const Int& before, const Int&) {
      const std::vector<Source> of_a = rows(), of_b = columns();
      const int packed_panel = packed() ? panel_pointer() : -1;
      const int round = b_.variable("round", 0, rounds_ - 1);
      loop(round, rounds_, [&] {
        const Int number = value("number", before + Int::var(round)), fill = remainder("fill", number, s_.stages);
        effect("barrier_wait", {empty(fill), remainder("phase", quotient("times", number, s_.stages) + Int(1), 2)});
        if (packed()) when({Int(0) - copier_}, [&] { fetch_panel(packed_panel, first_step_ + Int::var(round, s_.depth), fill); });
        copy_stage(of_a, of_b, round, fill);
        effect("cp_commit");
        when({number - Int(lag)}, [&] {
          effect("cp_wait", {Int(lag)});
          announce(number + Int(s_.stages - lag));
        });
      });
    });
    effect("cp_wait", {Int(0)});
    for (int64_t last = lag; last > 0; --last) announce(turns_ * rounds_ - Int(last));
  }

  /// All comes in bulk: one thread asks for it.
  void produce_boxes() {
    walk([&](const Int& before, const Int&) {
      const Box of_a = box(c_.plan.operand_a, s_.row_axes, first_row_, block_rows_);
      const std::optional<Box> of_b =
          packed() ? std::nullopt : std::optional(box(c_.plan.operand_b, {c_.plan.vec}, first_column_, block_columns_));
      const int packed_panel = packed() ? panel_pointer() : -1;
      const int round = b_.variable("round", 0, rounds_ - 1);
      loop(round, rounds_, [&] {
        const Int number = value("number", before + Int::var(round)), fill = remainder("fill", number, s_.stages);
        const Int step = first_step_ + Int::var(round, s_.depth);
        effect("barrier_wait", {empty(fill), remainder("phase", quotient("times", number, s_.stages) + Int(1), 2)});
        effect("barrier_expect", {full(fill), Int(of_a.bytes(s_.depth) + (of_b ? of_b->bytes(s_.depth) : bytes_b_))});
        copy_box(of_a, step, fill * memory_.stage, full(fill));
        if (of_b)
          copy_box(*of_b, step, fill * memory_.stage + Int(part_b_), full(fill));
        else
          ask_for_panel(packed_panel, reduced_at(step), fill);
      });
    });
  }

  /// What this thread has copied of a round is there.
  void announce(const Int& number) {
    effect("proxy_fence");
    effect("barrier_arrive", {full(remainder("ready", number, s_.stages))});
  }

  int panel_pointer() {
    const Addressing& m = addressing(c_.plan.operand_b);
    const Int part = remainder("rank", block_, s_.cluster) * (bytes_b_ / s_.cluster / element_bytes(operand(c_.plan.operand_b)));
    const int p = b_.pointer(m.buffer, "packed");
    put({LetPtr{p, panel(m) + part}});
    return p;
  }

  /// All steps of a stage lie side by side. Of a cluster's blocks each brings its part for all.
  void fetch_panel(int panel, const Int& step, const Int& fill) {
    effect("barrier_expect", {full(fill), Int(bytes_b_)});
    ask_for_panel(panel, reduced_at(step), fill);
  }
  void ask_for_panel(int panel, const std::vector<Int>& at, const Int& fill) {
    const int64_t part = bytes_b_ / s_.cluster;
    const Int to = fill * memory_.stage + Int(part_b_) + remainder("rank", block_, s_.cluster) * part;
    std::vector<Arg> args{Address{ring_, to}, Address{panel, along_k(addressing(c_.plan.operand_b), at)}, Int(part), full(fill)};
    if (s_.cluster > 1) args.insert(args.begin(), Int(s_.cluster));
    effect(s_.cluster > 1 ? "bulk_copy_all" : "bulk_copy", std::move(args));
  }
};

}  // namespace

int lower_specialised(NestContext& context) { return SpecialisedLowering(context).run(); }

}  // namespace rgen::lower
