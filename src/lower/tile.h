// The register tile: every accumulator, load and multiply-add of one block, unrolled, around the loops of the reduced axes. Equal loads
// are made once (value numbering), so operand reuse inside the tile (broadcasts across n, vectors across m, sliding windows) needs no
// case of its own.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "lower/context.h"
#include "rtile/layout.h"

namespace rgen::lower {

using ir::Access;
using ir::ExprPtr;
using rtile::AtomForm;
using rtile::Operand;
using rtile::Placement;
using rtile::Statement;

/// A vector value: f32 or s32 lanes.
struct Value {
  Arg arg;
  bool integer = false;
};

/// One point of the register tile.
struct Point {
  std::vector<int64_t> offset;  ///< per output axis: elements inside the tile (vector axis: of the vector's first lane)
  int lanes = 0;                ///< active lanes
  int number = 0;               ///< position in the tile
};

class Tile {
 public:
  Tile(NestContext& c, const TileParams& params, const TileVariant& v)
      : c_(c), b_(c.builder), params_(params), v_(v), n_axes_(int(c.nest.axes.size())), W_(c.plan.lanes), vec_(c.plan.vec) {
    vec_reduced_ = c.nest.axes[size_t(vec_)].reduced;
    for (int begin : params.begin) reduced_.push_back(begin >= 0 ? Int::var(begin) : Int(0));
    for (size_t a = 0; a < params.begin.size(); ++a) {
      if (params.begin[a] < 0) continue;
      before_ = before_ + Int::var(params.begin[a]);
      after_ = after_ + Int(c.nest.axes[a].extent) - Int::var(params.end[a]);
    }
    known_ = params.known;
    scopes_.emplace_back();
    enumerate_points();
    slides_ = slides();
    // a factor that serves one point only is read by the multiply-add itself, if an instruction can
    if (c.contraction) {
      const int64_t x = uses(*c.contraction->x), y = uses(*c.contraction->y);
      in_place_ = x > 1 && y > 1;
      const Access& alone = x > 1 ? *c.contraction->y : *c.contraction->x;
      one_each_ = (x > 1) != (y > 1) && !vec_reduced_ && !rtile::uses(alone, vec_);
    }
  }

  Body emit();
  /// Of a run (NestPlan::run_axis): the products, `written_out` steps of k at least before any loop; then the sums lie in the buffer.
  Body products(int64_t written_out);
  /// ... and what follows them.
  Body results();

 private:
  struct Asked {
    const Operand* operand = nullptr;
    std::set<int64_t> from;  ///< elements
  };
  struct Scope {
    Body body;
    std::map<std::string, Value> values;
    std::map<std::string, int> pointers;
    std::map<std::pair<int, std::vector<std::pair<int, int64_t>>>, Asked> asked;  ///< by pointer and terms of the offset
    int var = -1;
    bool conditional = false;  ///< a branch: what it loads may not be there otherwise
  };

  NestContext& c_;
  Builder& b_;
  const TileParams& params_;
  const TileVariant& v_;
  const int n_axes_, W_;
  int vec_;  ///< the plan's vector axis; past a reduction along it, the one along which its results are finished
  bool vec_reduced_ = false, slides_ = false;
  bool in_place_ = false;   ///< products are added where their sum lies
  bool one_each_ = false;   ///< ... one factor of each is an element of its own
  std::set<int> left_out_;  ///< points that read padding at this step
  int active_ = 0;          ///< active lanes of a reduced vector axis at this step (0 = all)
  std::vector<Point> points_;
  const Point* point_ = nullptr;
  std::vector<Int> reduced_;  ///< current value of each reduced axis
  int64_t unrolled_ = 0;      ///< which accumulator of a reduced vector axis
  std::vector<Scope> scopes_;
  std::map<std::tuple<int, int, int64_t>, int> accumulators_;  ///< (statement, point, copy) → register
  std::vector<Address> corrections_;                           ///< of each point: what its sum is to be corrected by, if anything
  std::map<std::pair<int, int>, Value> made_;                  ///< (tensor, point) → value made in this nest
  struct Pending {
    const Statement* statement;
    std::map<int, Value> by_point;
  };
  std::vector<Pending> pending_;
  int64_t copies_ = 1;
  bool finishing_ = false;  ///< past the loops of the reduced axes
  Int before_, after_;      ///< of chunked reductions, whose sums wait in memory between them: 0 at the first chunk, at the last
  std::vector<Int> known_;  ///< not negative where code is emitted now: bounds of the loops and branches around it

  // ---- points ----
  bool is_output(int a) const { return !c_.nest.axes[size_t(a)].reduced; }
  bool vector_code() const { return W_ > 1; }

  void enumerate_points();

  // ---- emission ----
  Scope& scope() { return scopes_.back(); }
  Body ordered(Body body) const { return b_.program.warps() ? loads_first(b_.program, std::move(body)) : std::move(body); }
  void put(Stmt s) {
    if (const LetInt* let = std::get_if<LetInt>(&s.node)) let_depth_.emplace(let->var, scopes_.size() - 1);
    scope().body.push_back(std::move(s));
  }
  void effect(std::string primitive, std::vector<Arg> args) { put({Op{std::move(primitive), -1, false, std::move(args)}}); }
  int define_reg(size_t depth, const std::string& name, bool integer, std::string primitive, std::vector<Arg> args);
  void assign(int r, std::string primitive, std::vector<Arg> args) { put({Op{std::move(primitive), r, true, std::move(args)}}); }

  /// Builder::range, in a tile of this size, which ends inside of the axis.
  std::pair<int64_t, int64_t> range(const Int& i) const;
  /// Not negative, as far as can be told.
  bool holds(const Int& i) const;

  /// The outermost scope in which all variables of the expression are known.
  size_t depth_of(const Int& i) const;
  std::map<int, size_t> let_depth_;  ///< variables defined by integer lets → scope

  /// To the key under which a scope knows a value: expressions that differ get different text.
  static void append(std::ostream& key, const Int& i);
  /// What a scope around here has computed; nullptr if none has.
  const Value* known(const std::string& key) const;
  /// `name(args)`, computed once per scope. Pure operations only; hoisted to the outermost scope where its arguments exist,
  /// but not out of a branch.
  Value pure(const std::string& name, bool integer, std::vector<Arg> args, const std::string& hint);
  std::map<int, size_t> reg_depth_, pointer_depth_;
  size_t reg_depth(int r) const;
  size_t pointer_depth(int p) const;

  // ---- addresses ----
  Int start(int a, bool tile_local) const;
  Int block(int a) const { return params_.block[size_t(a)] >= 0 ? Int::var(params_.block[size_t(a)]) : Int(0); }
  /// The axis value at the current point (lane 0), as seen by the program.
  Int axis_value(int a) const { return is_output(a) ? start(a, false) + Int(point_->offset[size_t(a)]) : reduced_[size_t(a)]; }

  Int offset_of(const Addressing& m) const;
  /// The address through a pointer that carries everything but the innermost loops' terms, so that the loop body sees short offsets.
  Address address(const Addressing& m, const std::string& name, int64_t extra = 0);

  // ---- values ----
  Value as_float(Value v);
  /// Literals become registers.
  Value vectorised(Value v);
  static double identity(ir::ReduceOp op, bool integer);
  static std::string combine(ir::ReduceOp op, bool integer);
  static std::string horizontal(ir::ReduceOp op, bool integer);

  Value index_value(const ir::Index& i);
  /// floor(x / divisor) as a variable (scalar code: no lane dependence), the same one for the same x.
  Int quotient(const std::string& name, const Int& x, int64_t divisor);
  Int affine(const ir::Index& i);

  Value load(const Access& a);
  /// Reads all of a vector of which it needs a part.
  bool reads_on(int operand) const;
  /// The load of one that is not transposed, where nothing of it is outside.
  Op unguarded(int operand);
  Value load_inside(int operand);
  int lanes() const { return vec_reduced_ ? (active_ ? active_ : W_) : point_->lanes; }
  /// `pure`, and where few products share the vector it is held in its register.
  Value shared_load(const Operand& o, const std::string& primitive, bool integer, std::vector<Arg> args, const std::string& hint);
  /// `pure`; of the elements of a row that passes by, the first that a body of the loop broadcasts asks for their line.
  Value broadcast(const Operand& o, const std::string& primitive, bool integer, std::vector<Arg> args);
  void fetch_ahead(const Operand& o, const Address& where);
  /// Of rows that pass by, at the first step of a body: this point's; where they lie one after the other, all by the tile's first point.
  void fetch_row_ahead(const Operand& o, const Address& where);
  /// The later step's line that corresponds to this one (Operand::next_step) is asked for at the beginning of the loop's body.
  void ask_for_later(const Operand& o, const Address& where);
  Body asked();
  /// The vector is the first of its line that a tile reads, if the tile begins a line.
  bool begins_line(const Operand& o, const Address& where) const;
  /// Does no place of the tile before this one, or of the tile before it along o.slides, read the same line? True where it is not known.
  bool first_read(const Operand& o) const;
  /// Of the steps of a window along a row, the first: the others read the same lines.
  bool first_of_row(const Operand& o) const;

  /// Points of the tile that one load serves.
  int64_t uses(const Access& x) const;

  /// Indices with floors: scalar code, the address computed by integer lets.
  Value load_quasi(const Access& a, const Addressing& m);

  /// `fill`, or the primitive's result where all conditions hold.
  Value conditional(std::vector<Int> conditions, const std::string& primitive, std::vector<Arg> args, bool integer, double fill);

  Value load_guarded(int operand, const std::vector<int>& guards);
  Int chosen(LetInt::Op op, const Int& x, const Int& y);

  /// W vectors along the axis that is contiguous in memory, transposed in registers into vectors along the vector axis.
  Value load_transposed(const Operand& o, const Addressing& m);
  /// Vectors of neighbours, loaded one after the other and taken apart into vectors along the vector axis.
  Value load_separated(const Operand& o, const Addressing& m);
  static constexpr std::string_view kSeparated = "separated|";  ///< keys of what it has made
  /// The next step of a product's reduction uses what was taken apart in this one.
  bool more_of_separated() const;

  Value eval(const ExprPtr& e);
  static bool literal_type(const Value& v, const Value&) { return std::holds_alternative<double>(v.arg); }

  Value eval_cast(DType to, Value v);

  Value eval_unary(const ir::Unary& u);

  Value eval_binary(const ir::Binary& b);

  // ---- statements ----
  bool integer_sum(const Statement& s) const;

  /// An elementwise statement: the value is known from here on, and stored if anyone else reads it.
  void define(const Statement& s);

  Addressing statement_addressing(const Statement& s, const Location& at) const;

  void store(const Statement& s, const Value& v);
  void store_at(const Statement& s, const Value& v);
  int physical() const { return b_.program.lanes; }

  /// The first lanes of a vector; whole ones past the caches where the plan says so.
  void store_first(const Statement& s, bool integer, const Address& to, const Arg& vector, int64_t lanes);
  /// What is stored in part ends a row of a buffer that has room for all of the vector.
  bool ends_row(const Statement& s) const;
  bool stores_transposed(const Statement& s) const;
  /// An array register: the vectors of the points from `first` on along `axis`, `rows` of them; zeros past the tile's last.
  int rows_along(int axis, const Point& first, int rows, bool integer, const std::function<Arg(const Point&)>& vector);
  /// Vectors along the vector axis, transposed in registers so that they can be stored along the axis contiguous in memory.
  void flush_transposed_stores();
  void store_interleaved(const Pending& pending, const Addressing& m);

  // ---- reductions ----
  void start_accumulators();
  void add_corrections();

  void reduce(size_t level);
  int64_t chunk_step(int axis) const;
  void hold_sums(Body& body) const;  ///< of the innermost loop of the reduction

  // ---- steps that read padding ----
  /// [begin, end) of a loop over taps, without those of which no point of the tile reads inside.
  std::pair<Int, Int> inside(const rtile::PaddedTaps& t, const Int& begin, const Int& end);
  /// The first and the last place of the tile along the taps' output axis.
  std::pair<Int, Int> places(const rtile::PaddedTaps& t) const;
  /// Not negative where some place of the tile reads inside at this tap.
  std::vector<Int> reads_inside(const rtile::PaddedTaps& t, const Int& tap) const;
  /// Points that read outside at the current step, by number: wherever the tile is, or at the first (the last) places of the axis; and
  /// the index that decides for all of them.
  struct Outside {
    std::set<int> always, front, back;
    Int last_front, first_back;
  };
  Outside outside(const rtile::PaddedTaps& t);
  /// Emits where these are not negative.
  void knowing(const std::vector<Int>& more, const std::function<void()>& emit);
  void when(std::vector<Int> all_nonnegative, const std::function<void()>& then, const std::function<void()>& otherwise);
  /// The steps of a loop over taps one after the other, each without the points that read outside.
  void write_out(size_t level, const rtile::PaddedTaps& t);

  void body();

  static const ir::Binary* product(const ExprPtr& e);

  /// Does a step of the reduction read again what another step has read for a neighbouring point, and keeps no window of it?
  bool slides() const;
  /// Is its reduction written out whole, or what a loop leaves of it, and has the next tile more factors in common with that than
  /// registers? A compiler would load them once for both, and keep them on the stack (8 × 16 sums of 34 bytes, 10 of them behind the
  /// loop: 42.3 µs for 104 × 1192; 20.9 without; GCC 12, Zen 4).
  bool shares_many() const;
  static constexpr int64_t kRest = 4;  ///< steps that a loop may leave to be written out
  void accumulate(const Statement& s, int acc);
  /// Zero in the lanes past the end of a reduced vector axis, as the loads of its last vector leave them.
  bool zero_beyond(const ir::Expr& e) const;

  void accumulate_group(int acc);

  // ---- matrix tiles (tile_matrix.cpp) ----
  void multiply_tiles();
  /// The sums leave the tile registers as soon as they are there, not row tile by row tile as results are due.
  bool stored_together() const { return c_.plan.chunked() || params_.sums >= 0; }
  void store_tiles();
  int waiting_sums();         ///< the pointer to where this tile's wait
  int64_t to_write_out_ = 0;  ///< steps of k, of which the loops leave out the first
  /// Elements of the axis of reduce_order that are written out before its loop.
  int64_t written_out(size_t level) const;
  void tile_body();
  int register_of_a(int64_t row_tile) const;
  int register_of_b(int64_t column) const;
  std::string load_of(int operand) const;
  void load_a(int64_t row_tile);
  void load_b(int64_t column);
  void multiply(int64_t row_tile, int64_t column);
  /// Of the tile registers: accumulators, then a's, then b's.
  struct TileShapes {
    std::vector<int64_t> rows;  ///< of each row tile
    int64_t columns = 0;
    int64_t accumulators() const { return int64_t(rows.size()) * columns; }
  };
  /// Those of the plan's whole tiles, which the registers have, if this tile can be made of them, else its own. It takes the registers at
  /// its places among the whole tile's; where it has a row less, the row before it goes along.
  void choose_shapes();
  void restore_shapes();
  int accumulator(size_t row_tile, int64_t column) const;
  TileShapes shapes_, main_shapes_;
  struct RowTile {
    int64_t number;  ///< its place among shapes_.rows
    int64_t before;  ///< rows that go along
  };
  std::vector<RowTile> row_tiles_;
  bool reshaped_ = false;
  void store_row_tile(size_t tile);
  /// The last step of k is shorter than a tile row: its rows of a are copied and padded, since what follows them is none of ours. They
  /// wait in partial_rows_ while the whole steps go on. Pre: reduced_ and active_ are that step's.
  void copy_partial_rows();
  /// Matrix: rows of a that the tile reads where they lie may be outside their tensor, where there are zeros. A row tile with such rows is
  /// copied for each step that reads it.
  bool leaves_tensor() const;
  struct RowsInside {
    Int first;                                                      ///< index of a row tile's first row along a dimension that can be left
    int64_t by, extent;                                             ///< ... of the next row so much further on; of the dimension
    Int below(int64_t row) const { return first + Int(row * by); }  ///< both not negative: inside
    Int above(int64_t row) const { return Int(extent - 1 - row * by) - first; }
  };
  int64_t rows_of(int64_t row_tile) const;
  std::vector<RowsInside> rows_inside(int64_t row_tile);
  void copy_rows_inside(int64_t row_tile, const Address& rows, const std::vector<RowsInside>& dimensions);
  int64_t partial_tile() const;            ///< elements of a row tile there
  Int place_of_sum(const Point& p) const;  ///< in sums_
  /// The register with the point's sums, in the order of the points. Row tiles are stored as their results are due: the products of the
  /// others go on meanwhile.
  int load_sum(const Point& p);
  /// At the end of a loop's body.
  void store_now_and_then();
  int sums_ = -1;         ///< pointer to the buffer through which sums leave the tile registers
  int64_t products_ = 0;  ///< issued since the last store, in the code that is emitted
  // ---- tiles in a warp's registers (tile_warp.cpp) ----
  void multiply_fragments();
  void fragment_body();
  bool steps_over_k(int variable) const;
  void load_sums();

  // ---- row tiles, of both (tile_rows.cpp) ----
  void collect_row_tiles();
  bool starts_row_tile(const Point& p) const;
  Point tile_corner(size_t row_tile) const;
  /// The row of `p` in the row tile at that corner, if it lies there.
  std::optional<int64_t> row_in_tile(const Point& p, const Point& corner) const;
  std::vector<int64_t> tile_rows_;  ///< rows of each accumulator tile
  int partial_rows_ = -1;           ///< pointer to the padded copy of a's last, partial step (matrix)

  void finish_accumulators();
  /// The warps of a tile, each with a part of the reduction, meet: all get all of the result.
  void meet();
  /// Where a point's result of the statement is (inner[i]), the first warp's; and from one warp's to the next.
  std::pair<Address, int64_t> partial(size_t i);
  /// Results are the same in all lanes.
  bool one_number() const { return vec_reduced_ || !vector_code(); }
  /// Visits each point's sums, with the statement's number among the inner ones and the place where the sum waits for the next chunk.
  void for_each_partial(const std::function<void(int, const Statement&, const Address&)>& visit);
  Value load_partial(const Statement& s, const Address& at);
  void add_partial_sums();
  void store_partial_sums();
  /// What follows the reduction, at its last chunk.
  void epilogue();
  /// Accumulators of a reduced vector axis become vectors of results along NestPlan::finish_axis, a lane each.
  void finish_rows();
};

/// A procedure that takes the variables of a tile's place.
Proc tile_procedure(const NestContext& context, const TileParams& params, const TileVariant& variant, const std::string& name);

}  // namespace rgen::lower
