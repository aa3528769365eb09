// A contraction whose thread block stages both factors in shared memory: every thread copies some rows' 16 bytes, asynchronously and
// `stages` steps ahead, while the warps multiply what has arrived (multistage cp.async: CUTLASS, "Efficient GEMM in CUDA"). Rows of a are
// the points of several axes (implicit GEMM); a row outside its tensor is filled with zeros on the way. A step of k is a row of 64 bytes,
// and threads take k in another order than the instruction's figure says (tile_warp.cpp): a warp then reads 512 neighbouring bytes at a
// time, and neither a swizzle nor ldmatrix is needed.
#include <algorithm>

#include "base/error.h"
#include "lower/context.h"
#include "rtile/layout.h"
#include "rtile/nest_facts.h"

namespace rgen::lower {

using rtile::NestPlan;
using rtile::Operand;
using rtile::Placement;
using rtile::Staging;

namespace {

constexpr int64_t kRowBytes = rtile::kStepBytes, kPiece = 16, kPieces = kRowBytes / kPiece;  // of one copy

class StagedLowering {
 public:
  explicit StagedLowering(NestContext& c)
      : c_(c),
        b_(c.builder),
        s_(*c.plan.staging),
        n_(int(c.nest.axes.size())),
        threads_(32 * s_.warps()),
        block_rows_(s_.block_rows()),
        block_columns_(c.plan.block_columns()),
        step_bytes_((block_rows_ + block_columns_) * kRowBytes),
        stage_bytes_(step_bytes_ * s_.depth),
        start_(size_t(n_), Int(0)) {}

  int run() {
    Proc p;
    p.name = c_.prefix;
    p.comment = std::to_string(block_rows_) + " × " + std::to_string(block_columns_) + " sums a block, " + std::to_string(s_.stages) +
                " stages of " + std::to_string(stage_bytes_) + " bytes";
    bodies_.push_back(&p.body);
    const int task = b_.variable("task", 0, c_.plan.tasks() - 1), thread = b_.variable("thread", 0, threads_ - 1);
    p.params = {task, thread};
    thread_ = Int::var(thread);
    place_in_row();
    place(Int::var(task));
    ring_ = shared("stages", stage_bytes_ * s_.stages);
    const Operand &a = operand(c_.plan.operand_a), &b = operand(c_.plan.operand_b);
    const std::vector<Source> rows = gather(a, c_.addressing[size_t(c_.plan.operand_a)], s_.row_axes, first_row_, block_rows_, true);
    const std::vector<Source> columns = b.placement == Placement::prepack ? panel(c_.addressing[size_t(c_.plan.operand_b)])
                                                                          : gather(b, c_.addressing[size_t(c_.plan.operand_b)],
                                                                                   {c_.plan.vec}, first_column_, block_columns_, false);
    multiply(rows, columns);
    epilogue();
    return b_.proc(std::move(p));
  }

 private:
  /// What one thread copies at every step: 16 bytes from `at` + the reduced axes' part, where all conditions hold.
  struct Source {
    int pointer;
    int64_t to;                           ///< bytes from the factor's part of a stage, beside 16 a thread
    std::vector<Int> always;              ///< conditions without reduced axes
    std::vector<std::pair<Int, int>> in;  ///< coordinate at the reduced axes' origin, dimension: 0 <= coordinate + … < extent
    const Operand* operand;
    const Addressing* m;
    bool padded_k;  ///< k goes beyond its extent at the last step
  };

  NestContext& c_;
  Builder& b_;
  const Staging& s_;
  const int n_, threads_;
  const int64_t block_rows_, block_columns_, step_bytes_, stage_bytes_;
  std::vector<Int> start_;  ///< of the batch axes
  std::vector<Body*> bodies_;
  Int thread_, warp_, first_row_, first_column_, row_warp_, column_warp_, column_block_;
  Int row_, piece_, lands_;  ///< which row and 16 bytes of it this thread copies first, and where in a stage they go (bytes)
  int ring_ = -1;

  const Operand& operand(int i) const { return c_.plan.operands[size_t(i)]; }
  int64_t extent(int a) const { return c_.nest.axes[size_t(a)].extent; }
  int64_t k_extent() const { return extent(c_.plan.k_axis); }
  void put(Stmt s) { bodies_.back()->push_back(std::move(s)); }
  void effect(const std::string& primitive, std::vector<Arg> args = {}) { put({Op{primitive, -1, false, std::move(args)}}); }
  Int quotient(const std::string& name, const Int& x, int64_t by) { return b_.quotient(*bodies_.back(), name, x, by); }
  Int remainder(const std::string& name, const Int& x, int64_t by) { return b_.remainder(*bodies_.back(), name, x, by); }
  Int value(const std::string& name, const Int& x) {
    if (x.is_const() || (x.terms.size() == 1 && x.constant == 0 && x.terms[0].second == 1)) return x;
    const auto [lo, hi] = b_.range(x);
    const int v = b_.variable(name, lo, hi);
    put({LetInt{LetInt::Op::value, v, x, Int(0)}});
    return Int::var(v);
  }
  int shared(const std::string& name, int64_t bytes) {
    b_.program.buffers.push_back({name, DType::u8, bytes, Buffer::Kind::shared, -1, 0, 0, true});
    const int p = b_.pointer(int(b_.program.buffers.size()) - 1, name);
    put({LetPtr{p, Int(0)}});
    return p;
  }
  template <class F>
  void when(std::vector<Int> conditions, F&& inside) {
    If s{std::move(conditions), std::make_shared<Body>(), std::make_shared<Body>()};
    bodies_.push_back(s.then.get());
    inside();
    bodies_.pop_back();
    put({std::move(s)});
  }
  template <class F>
  void loop(int var, int64_t count, F&& inside) {
    auto body = std::make_shared<Body>();
    bodies_.push_back(body.get());
    inside();
    bodies_.pop_back();
    put({For{var, Int(0), Int(count), 1, std::move(body)}});
  }

  /// Four threads copy a row's 64 bytes. But for fragments, the pieces of a row change places with its number: the swizzle of 64 bytes,
  /// with which eight rows' first pieces lie in different banks (PTX ISA, "Shared Memory Matrix Layout").
  void place_in_row() {
    row_ = quotient("row", thread_, kPieces), piece_ = remainder("piece", thread_, kPieces);
    lands_ = thread_ * kPiece;
    if (s_.unit == Staging::Unit::warp) return;
    const Int turn = remainder("turn", quotient("pair", thread_, 2 * kPieces), kPieces);
    const int at = b_.variable("swizzled", 0, kPieces - 1);
    put({LetInt{LetInt::Op::exclusive_or, at, piece_, turn}});
    lands_ = row_ * kRowBytes + Int::var(at, kPiece);
  }

  /// The block's place among all, and the warp's in the block.
  void place(Int task) {
    const int64_t columns = c_.plan.tile[size_t(c_.plan.vec)].blocks, per_batch = s_.rows.blocks * columns;
    const Int batch = quotient("batch", task, per_batch);
    task = remainder("in_batch", task, per_batch);
    unravel(s_.batch_axes, batch, start_);
    const Int sweep = quotient("sweep", task, s_.raster * columns), in_sweep = remainder("in_sweep", task, s_.raster * columns);
    column_block_ = quotient("column_block", in_sweep, s_.raster);
    const Int row_block = sweep * s_.raster + remainder("row_block", in_sweep, s_.raster);
    first_row_ = row_block * block_rows_, first_column_ = column_block_ * block_columns_;
    warp_ = quotient("warp", thread_, 32);
    if (group())
      row_warp_ = quotient("group", warp_, 4), column_warp_ = Int(0);
    else
      row_warp_ = quotient("row_warp", warp_, s_.warp_columns), column_warp_ = remainder("column_warp", warp_, s_.warp_columns);
  }

  /// Steps of an axis: its elements, of k pieces of `k_step`.
  int64_t count(int a) const { return ceil_div(extent(a), a == c_.plan.k_axis ? c_.plan.k_step : 1); }

  /// The axes' places at the x-th of their points, the last axis fastest. The last quotient is the first axis' place.
  void unravel(const std::vector<int>& axes, Int x, std::vector<Int>& at) {
    const auto name = [&](size_t i) { return c_.nest.axes[size_t(axes[i])].name; };
    for (size_t i = axes.size(); i-- > 0;) {
      at[size_t(axes[i])] = i == 0 ? x : remainder(name(i), x, count(axes[i]));
      if (i > 0) x = quotient(i == 1 ? name(0) : "rest", x, count(axes[i]));
    }
  }
  std::vector<Int> point(const std::vector<int>& axes, const Int& x) {
    std::vector<Int> at = start_;
    unravel(axes, x, at);
    return at;
  }

  static int64_t points(const NestContext& c, const std::vector<int>& axes) {
    int64_t n = 1;
    for (int a : axes) n *= c.nest.axes[size_t(a)].extent;
    return n;
  }

  /// Rows as they lie in memory: four threads copy one's 64 bytes.
  std::vector<Source> gather(const Operand& o, const Addressing& m, const std::vector<int>& axes, const Int& first, int64_t rows,
                             bool guarded) {
    const ir::Tensor& t = c_.program[o.access.tensor];
    const int64_t at_once = threads_ / kPieces, all = points(c_, axes), piece = kPiece / size_of(t.dtype);
    const Int in_row = piece_ * piece;
    std::vector<Source> sources;
    for (int64_t pass = 0; pass < rows / at_once; ++pass) {
      const Int x = value("m", first + row_ + Int(pass * at_once));
      const std::vector<Int> at = point(axes, x);
      Source s{b_.pointer(m.buffer, t.name), pass * at_once * kRowBytes, {}, {}, &o, &m, k_extent() % c_.plan.k_step != 0};
      Int offset = Int(m.constant) + in_row;
      for (int a = 0; a < n_; ++a)
        if (!c_.nest.axes[size_t(a)].reduced) offset = offset + at[size_t(a)] * m.value[size_t(a)];
      if (b_.range(x).second >= all) s.always.push_back(Int(all - 1) - x);
      if (guarded)
        for (int d : rtile::guarded_dims(c_.program, o.access, c_.nest.full_extents())) {
          Int coordinate(o.access.index[size_t(d)].constant);
          for (const ir::Index::Term& term : o.access.index[size_t(d)].terms)
            if (!c_.nest.axes[size_t(term.axis)].reduced) coordinate = coordinate + at[size_t(term.axis)] * term.coef;
          s.in.push_back({value("at", coordinate), d});
        }
      put({LetPtr{s.pointer, offset}});
      sources.push_back(std::move(s));
    }
    return sources;
  }

  /// A constant packed in the order of the stages: it is copied as it lies.
  std::vector<Source> panel(const Addressing& m) {
    const Operand& o = operand(c_.plan.operand_b);
    const ir::Tensor& t = c_.program[o.access.tensor];
    Int offset = Int(m.constant) + column_block_ * m.block[size_t(c_.plan.vec)] + thread_ * (kPiece / size_of(t.dtype));
    for (int a : s_.batch_axes) offset = offset + start_[size_t(a)] * m.block[size_t(a)];
    std::vector<Source> sources;
    for (int64_t pass = 0; pass < block_columns_ * kPieces / threads_; ++pass) {
      Source s{b_.pointer(m.buffer, "packed"), pass * threads_ * kPiece, {}, {}, &o, &m, false};
      put({LetPtr{s.pointer, offset + Int(pass * threads_ * kPiece / size_of(t.dtype))}});
      sources.push_back(std::move(s));
    }
    return sources;
  }

  /// The reduced axes' values at a step.
  std::vector<Int> reduced_at(const Int& step) {
    std::vector<Int> at(size_t(n_), Int(0));
    unravel(c_.plan.reduce_order, step, at);
    at[size_t(c_.plan.k_axis)] = at[size_t(c_.plan.k_axis)] * c_.plan.k_step;
    return at;
  }

  void copy(const std::vector<Source>& sources, const std::vector<Int>& at, const Int& to) {
    if (sources.empty()) return;
    const Addressing& m = *sources[0].m;
    const int64_t piece = kPiece / size_of(c_.program[sources[0].operand->access.tensor].dtype);
    Int step(0);
    for (int a : c_.plan.reduce_order) step = step + at[size_t(a)] * m.value[size_t(a)];
    if (sources.size() > 1) step = value("step_at", step);
    for (const Source& s : sources) {
      std::vector<Arg> args{Address{ring_, to + Int(s.to) + lands_}, Address{s.pointer, step}};
      for (const Int& condition : s.always) args.push_back(condition);
      for (const auto& [coordinate, d] : s.in) {
        Int x = coordinate;
        for (const ir::Index::Term& term : s.operand->access.index[size_t(d)].terms)
          if (c_.nest.axes[size_t(term.axis)].reduced) x = x + at[size_t(term.axis)] * term.coef;
        const Int last(c_.program[s.operand->access.tensor].shape[size_t(d)].value() - 1);
        if (b_.range(x).first < 0) args.push_back(x);
        if (b_.range(x).second > last.constant) args.push_back(last - x);
      }
      if (s.padded_k) args.push_back(Int(k_extent() - piece) - at[size_t(c_.plan.k_axis)] - piece_ * piece);
      effect("cp16", std::move(args));
    }
  }

  bool integer() const { return accumulation(c_.program[c_.nest.inner[0].tensor].dtype) == DType::s32; }
  bool group() const { return s_.unit == Staging::Unit::group; }
  int64_t row_tiles() const { return s_.row_tiles(); }
  int64_t column_tiles() const { return c_.plan.column_tiles(); }
  DType factor() const { return c_.program[operand(c_.plan.operand_b).access.tensor].dtype; }
  bool rounds() const { return s_.unit == Staging::Unit::warp && factor() == DType::f32; }  // to tf32
  std::string product() const { return (group() ? "wgmma_" : "mma_") + (rounds() ? "tf32" : factors(c_)); }

  /// Copies run ahead of the products; one barrier a round: what was copied is there for all, and the stage to be filled is free.
  void multiply(const std::vector<Source>& rows, const std::vector<Source>& columns) {
    effect("fragments", {Int(row_tiles() * column_tiles()), Int(group() ? 0 : row_tiles() + column_tiles()), Int(integer())});
    for (int64_t t = 0; t < row_tiles() * column_tiles(); ++t) effect("fragment_zero", {Int(t)});
    const int64_t rounds = c_.plan.k_steps(c_.nest) / s_.depth, ahead = s_.ahead();
    const int round = b_.variable("round", 0, rounds + ahead - 1);
    loop(round, rounds + ahead, [&] {
      effect("cp_wait", {Int(ahead - 1)});
      if (group()) effect("proxy_fence");
      effect("block_sync");
      when({Int(rounds - 1) - Int::var(round)}, [&] {
        const Int to = remainder("fill", Int::var(round), s_.stages) * stage_bytes_;
        for (int64_t d = 0; d < s_.depth; ++d) {
          const std::vector<Int> at = reduced_at(Int::var(round, s_.depth) + Int(d));
          copy(rows, at, to + Int(d * step_bytes_));
          copy(columns, at, to + Int(d * step_bytes_ + block_rows_ * kRowBytes));
        }
      });
      effect("cp_commit");
      when({Int::var(round) - Int(ahead)}, [&] {  // the stage that was filled `ahead` rounds ago
        const Int from = remainder("use", Int::var(round) + Int(s_.stages - ahead), s_.stages) * stage_bytes_;
        group() ? multiply_from_shared(from) : multiply_fragments(from);
      });
    });
    if (group()) {
      effect("wgmma_wait", {Int(0)});
      for (int64_t t = 0; t < row_tiles() * column_tiles(); ++t) effect("fragment_settle", {Int(t)});
    }
    effect("block_sync");  // the sums take the stages' place
  }

  /// Factors by way of registers: a step at a time, lanes 16 bytes of it.
  void multiply_fragments(const Int& from) {
    const bool lanes = s_.unit == Staging::Unit::lane;
    const std::string load = std::string("fragment_staged_") + (lanes ? "f32_" : rounds() ? "tf32_" : "");
    const Int row = row_warp_ * (row_tiles() * 16 * kRowBytes), column = column_warp_ * (column_tiles() * 32 * kRowBytes);
    for (int64_t d = 0; d < s_.depth; ++d)
      for (int64_t piece = 0; piece < (lanes ? kPieces : 1); ++piece) {
        const auto fetch = [&](const std::string& factor, int64_t part, const Int& at) {
          std::vector<Arg> args{Int(part), Address{ring_, from + Int(d * step_bytes_) + at}};
          if (lanes) args.push_back(Int(piece));
          effect(load + factor, std::move(args));
        };
        for (int64_t i = 0; i < row_tiles(); ++i) fetch("a", i, row + Int(i * 16 * kRowBytes));
        for (int64_t j = 0; j < column_tiles(); ++j) {
          fetch("b", row_tiles() + j, column + Int((block_rows_ + j * 32) * kRowBytes));
          for (int64_t i = 0; i < row_tiles(); ++i) effect(product(), {Int(i * column_tiles() + j), Int(i), Int(row_tiles() + j)});
        }
      }
  }

  /// Two products a step, of 32 bytes of k each; those of the round before are done when these have begun.
  void multiply_from_shared(const Int& from) {
    const Int row = row_warp_ * (row_tiles() * 64 * kRowBytes);
    effect("wgmma_fence");
    for (int64_t d = 0; d < s_.depth; ++d)
      for (int64_t half = 0; half < kRowBytes; half += 32)
        for (int64_t i = 0; i < row_tiles(); ++i) {
          const Int step = from + Int(d * step_bytes_ + half);
          effect(product(), {Int(i * column_tiles()), Int(block_columns_), Address{ring_, step + row + Int(i * 64 * kRowBytes)},
                             Address{ring_, step + Int(block_rows_ * kRowBytes)}});
        }
    effect("wgmma_commit");
    effect("wgmma_wait", {Int(1)});
  }

  /// Sums of 16 rows at a time pass through the warp's part of shared memory and come back as vectors along the columns.
  void epilogue() {
    b_.program.buffers.push_back(
        {"rows", integer() ? DType::s32 : DType::f32, column_tiles() * rtile::kFragmentTile, Buffer::Kind::local, -1, 0, 0, false});
    const int sums = b_.pointer(int(b_.program.buffers.size()) - 1, "rows");
    put({LetPtr{sums, Int(0)}});
    const int64_t all = points(c_, s_.row_axes);
    // a group's warps have 16 of every 64 rows
    const int64_t apart = group() ? 64 : 16;
    const Int in_group = group() ? remainder("in_group", warp_, 4) * 16 : Int(0);
    const Int warp_row = value("warp_row", first_row_ + row_warp_ * (row_tiles() * apart) + in_group);
    const Int warp_column = value("warp_column", first_column_ + column_warp_ * (column_tiles() * 32));
    for (int64_t i = 0; i < row_tiles(); ++i) {
      for (int64_t j = 0; j < column_tiles(); ++j)
        effect(s_.unit == Staging::Unit::lane ? "fragment_store_f32" : "fragment_store",
               {Int(i * column_tiles() + j), Address{sums, Int(j * rtile::kFragmentTile)}});
      const int row = b_.variable("row", 0, 15);
      loop(row, 16, [&] {
        const Int m = value("m", warp_row + Int(i * apart) + Int::var(row));
        const auto inside = [&] {
          const std::vector<Int> at = point(s_.row_axes, m);
          for (int64_t j = 0; j < column_tiles(); ++j) {
            const Int n = value("n", warp_column + Int(j * 32));
            TileParams params = parameters(at, n);
            params.sums = sums, params.sums_at = Int(j * rtile::kFragmentTile) + Int::var(row, rtile::kFragmentRow);
            columns(params, n);
          }
        };
        if (b_.range(m).second >= all)
          when({Int(all - 1) - m}, inside);
        else
          inside();
      });
    }
  }

  TileParams parameters(const std::vector<Int>& at, const Int& n) {
    const std::vector<int> none(size_t(n_), -1);
    TileParams p{none, none, none, none};
    const auto variable = [&](int a, const Int& x) {
      if (x == Int(0)) return -1;
      if (x.constant == 0 && x.terms.size() == 1 && x.terms[0].second == 1) return x.terms[0].first;
      const auto [lo, hi] = b_.range(x);
      const int v = b_.variable(c_.nest.axes[size_t(a)].name, lo, hi);
      put({LetInt{LetInt::Op::value, v, x, Int(0)}});
      return v;
    };
    for (int a = 0; a < n_; ++a)
      if (!c_.nest.axes[size_t(a)].reduced) p.start[size_t(a)] = variable(a, a == c_.plan.vec ? n : at[size_t(a)]);
    return p;
  }

  /// A vector of columns: whole, the last one of the matrix, or beyond it.
  void columns(const TileParams& params, const Int& n) {
    TileVariant v;
    v.size.assign(size_t(n_), 1);
    const int64_t all = extent(c_.plan.vec);
    const int tail = int(all % 32);
    const bool beyond = b_.range(n).second + 32 > all;
    const auto with = [&](int lanes, Body& into) {
      v.tail = lanes;
      Body body = lower_epilogue(c_, params, v);
      into.insert(into.end(), body.begin(), body.end());
    };
    if (!beyond) return with(32, *bodies_.back());
    If whole{{Int(all - 32) - n}, std::make_shared<Body>(), std::make_shared<Body>()};
    with(32, *whole.then);
    if (tail > 0) {
      If part{{Int(all - 1) - n}, std::make_shared<Body>(), std::make_shared<Body>()};
      with(tail, *part.then);
      whole.otherwise->push_back({std::move(part)});
    }
    put({std::move(whole)});
  }
};

}  // namespace

int lower_staged(NestContext& context) { return StagedLowering(context).run(); }

}  // namespace rgen::lower
