// Constants packed once into the order in which the tiles read them. In a packed buffer, innermost first: groups of neighbours along the
// reduction (forms that multiply such), the places of the register tile, the reduced axes within a chunk, what corrects the sums of a
// panel, blocks, chunks.
#include <algorithm>
#include <numeric>

#include "lower/context.h"
#include "rtile/layout.h"

namespace rgen::lower {

using rtile::AtomForm;
using rtile::Blocking;

namespace {

/// A loop nest written from the outside in: each call opens one loop.
class Nested {
 public:
  Nested(Builder& b, Body& body) : b_(b), current_(&body) {}
  Int loop(const std::string& name, int64_t count, int64_t step = 1) {
    if (count <= step) return Int(0);
    const int v = b_.variable(name, 0, (count - 1) / step * step);
    auto body = std::make_shared<Body>();
    current_->push_back({For{v, Int(0), Int(count), step, body}});
    current_ = body.get();
    return Int::var(v);
  }
  Body& body() { return *current_; }

 private:
  Builder& b_;
  Body* current_;
};

class Packing {
 public:
  Packing(NestContext& c, int operand)
      : c_(c),
        b_(c.builder),
        plan_(c.plan),
        axes_(c.nest.axes),
        operand_(size_t(operand)),
        access_(plan_.operands[operand_].access),
        tensor_(c.program[access_.tensor]),
        source_(c.location.at(access_.tensor)),
        given_(rtile::linearise(access_.index, source_.strides, int(axes_.size()))) {
    const bool along = axes_[vec_].reduced && uses(vec_);  // vectors of the reduction
    if (grouped_)
      k_axis_ = plan_.k_axis, group_ = plan_.k_group, k_step_ = plan_.k_step;
    else if (along)
      k_axis_ = plan_.vec, group_ = k_step_ = plan_.lanes;
    packed_.padded = !along;
    if (along) packed_.inside[vec_] = 1;
  }

  void run() {
    find_axes();
    lay_out();
    const int given = tensor_.widens >= 0 ? tensor_.widens : access_.tensor;
    const auto& inputs = c_.program.inputs;
    const int input = int(std::find(inputs.begin(), inputs.end(), given) - inputs.begin());
    const int64_t bytes = round_up(size_ * size_of(tensor_.dtype), 64), elements = bytes / size_of(tensor_.dtype);
    b_.program.buffers.push_back({tensor_.name + "_packed", tensor_.dtype, elements, Buffer::Kind::packed, input, 0, 0, grouped_});
    packed_.buffer = int(b_.program.buffers.size()) - 1;
    c_.addressing[operand_] = packed_;
    const int proc = b_.proc(procedure());
    b_.program.prepacks.push_back({input, source_.buffer, packed_.buffer, proc, bytes});
  }

 private:
  NestContext& c_;
  Builder& b_;
  const rtile::NestPlan& plan_;
  const std::vector<rtile::NestAxis>& axes_;
  const size_t operand_;
  const ir::Access& access_;
  const ir::Tensor& tensor_;
  const Location& source_;
  const rtile::Linear given_;  ///< place in the tensor

  const size_t vec_ = size_t(plan_.vec);
  const bool grouped_ = plan_.interleaved() && int(operand_) == plan_.operand_b;
  const bool fragments_ = grouped_ && (plan_.form == AtomForm::warp || (plan_.staging && plan_.staging->producers() == 0));
  const bool corrected_ = grouped_ && plan_.offset_a;

  // neighbours along an axis of the reduction that stay neighbours, and how far that axis is padded
  int k_axis_ = -1;
  int64_t group_ = 1, k_step_ = 1;

  std::vector<int> outputs_, reduced_;  ///< axes of the operand, outermost first
  std::vector<rtile::Loop> chunks_;     ///< outermost first
  std::vector<int64_t> tile_, length_;  ///< of every axis: in the register tile, and within a chunk
  int64_t columns_ = 1;                 ///< of one panel: all places of the operand in the register tile

  Addressing packed_{-1, zeros(), zeros(), zeros(), zeros()};
  int64_t size_ = 1;  ///< elements laid out so far

  std::vector<int64_t> zeros() const { return std::vector<int64_t>(axes_.size(), 0); }
  int64_t stride(int axis) const { return given_.coef[size_t(axis)]; }
  bool uses(size_t axis) const { return given_.coef[axis] != 0; }
  const std::string& name(int axis) const { return axes_[size_t(axis)].name; }
  int64_t extent(int axis) const { return axes_[size_t(axis)].extent; }
  int64_t length(int axis) const { return length_[size_t(axis)]; }
  const Blocking& tile(int axis) const { return plan_.tile[size_t(axis)]; }

  void find_axes() {
    tile_.assign(axes_.size(), 1);
    for (size_t a = 0; a < axes_.size(); ++a)
      if (!axes_[a].reduced && uses(a) && a != vec_) outputs_.push_back(int(a));
    if (!axes_[vec_].reduced && uses(vec_)) outputs_.push_back(int(vec_));
    for (int a : outputs_) columns_ *= tile_[size_t(a)] = tile(a).hi * tile(a).unit;
    for (int a : plan_.reduce_order)
      if (uses(size_t(a))) reduced_.push_back(a);
    for (const rtile::NestAxis& a : axes_) length_.push_back(a.extent);
    for (const rtile::Loop& x : plan_.loops)
      if (std::find(reduced_.begin(), reduced_.end(), x.axis) != reduced_.end()) chunks_.push_back(x), length_[size_t(x.axis)] = x.step;
  }

  void lay_out() {
    size_ = group_;
    for (size_t i = outputs_.size(); i-- > 0;) {
      packed_.inside[size_t(outputs_[i])] = size_;
      size_ *= tile_[size_t(outputs_[i])];
    }
    for (size_t i = reduced_.size(); i-- > 0;) {
      const int a = reduced_[i];
      const bool k = a == k_axis_;
      packed_.value[size_t(a)] = k ? size_ / group_ : size_;  // per element of the axis; k advances by whole groups
      size_ *= k ? round_up(length(a), k_step_) / group_ : length(a);
    }
    if (corrected_) {
      packed_.correction = size_;
      size_ += columns_ * 4;
    }
    for (size_t i = outputs_.size(); i-- > 0;) {
      packed_.block[size_t(outputs_[i])] = size_;
      size_ *= tile(outputs_[i]).blocks;
    }
    for (size_t i = chunks_.size(); i-- > 0;) {
      const auto [a, step] = chunks_[i];
      const int64_t line = 64 / size_of(tensor_.dtype);
      size_ = round_up(size_, std::lcm(step, line));  // the address of a chunk is linear in its first element
      packed_.chunk[size_t(a)] = size_ / step - packed_.value[size_t(a)];
      size_ *= ceil_div(extent(a), step);
    }
  }

  Proc procedure() {
    Proc p;
    p.name = "prepack_" + tensor_.name;
    p.comment = "packs " + tensor_.name + " into the order in which the tiles read it; padding is zero";
    const int from = b_.pointer(source_.buffer, "src"), to = b_.pointer(packed_.buffer, "dst");
    p.body.push_back({LetPtr{from, Int(0)}});
    p.body.push_back({LetPtr{to, Int(0)}});
    Walk w{Nested(b_, p.body), Int(given_.constant), Int(0), {}, {}, std::vector<Int>(axes_.size(), Int(0))};
    walk_chunks(w);
    walk_blocks(w);
    Body& panel = w.loops.body();
    const Int panel_at = w.dst;
    for (int a : reduced_) walk_reduction(w, a);
    for (const auto& [a, block] : w.blocks) walk_tile(w, a, block);

    const Op copy{"copy_element", -1, false, {Address{to, w.dst}, Address{from, w.src}}};
    const Op pad{"zero_element", -1, false, {Address{to, w.dst}}};
    if (w.inside.empty())
      w.loops.body().push_back({copy});
    else
      w.loops.body().push_back({If{w.inside, std::make_shared<Body>(Body{{copy}}), std::make_shared<Body>(Body{{pad}})}});
    if (corrected_)
      for (int64_t lane = 0; lane < columns_; lane += plan_.lanes) correct(panel, to, panel_at, lane);
    return p;
  }

  struct Walk {
    Nested loops;
    Int src, dst;
    std::vector<Int> inside;                  ///< conditions
    std::vector<std::pair<int, Int>> blocks;  ///< axis, block number
    std::vector<Int> first;                   ///< of the chunk, of every axis
  };

  void walk_chunks(Walk& w) {
    for (const auto& [a, step] : chunks_) {
      const Int first = w.first[size_t(a)] = w.loops.loop(name(a) + "_chunk", extent(a), step);
      w.dst = w.dst + first * (packed_.chunk[size_t(a)] + packed_.value[size_t(a)]);
      w.src = w.src + first * stride(a);
    }
  }

  void walk_blocks(Walk& w) {
    for (int a : outputs_) {
      const Int block = w.loops.loop(name(a) + "_block", tile(a).blocks);
      w.blocks.push_back({a, block});
      w.dst = w.dst + block * packed_.block[size_t(a)];
    }
  }

  void walk_reduction(Walk& w, int a) {
    const bool k = a == k_axis_;
    const int64_t within = length(a), value = packed_.value[size_t(a)];
    Int r = w.loops.loop(name(a), k ? round_up(within, k_step_) : within, k ? group_ : 1);
    w.src = w.src + r * stride(a);
    if (k && fragments_) {  // a step of k is a row of 64 bytes
      const Int step = b_.quotient(w.loops.body(), "q", r, k_step_);
      w.dst = w.dst + step * (k_step_ * value) + r - step * k_step_;
    } else {
      w.dst = w.dst + r * value;
    }
    if (k && group_ > 1) {
      const Int g = w.loops.loop("g", group_);
      w.src = w.src + g * stride(a), w.dst = w.dst + g, r = r + g;
    }
    if (extent(a) % within || (k && within % k_step_)) w.inside.push_back(Int(extent(a) - 1) - w.first[size_t(a)] - r);
  }

  void walk_tile(Walk& w, int a, const Int& block) {
    const Blocking& t = tile(a);
    const Int i = w.loops.loop(name(a), tile_[size_t(a)]);
    Int at = block * (t.hi * t.unit) + i;
    if (t.ragged()) {
      const int over = b_.variable("short", 0, t.blocks - t.n_hi);
      w.loops.body().push_back({LetInt{LetInt::Op::max, over, block - Int(t.n_hi), Int(0)}});
      at = at - Int::var(over, t.unit);
    }
    w.src = w.src + at * stride(a);
    // fragments: rows of 64 bytes, one a column; 512 bytes that a warp reads at once are 8 of them
    w.dst = w.dst + i * (fragments_ && a == plan_.vec ? k_step_ : packed_.inside[size_t(a)]);
    if (t.start(t.blocks - 1) + tile_[size_t(a)] > t.extent || t.ragged()) w.inside.push_back(Int(t.extent - 1) - at);
  }

  /// After the panel: −128·Σ b for every column, because the signed operand is read with its sign bit flipped.
  void correct(Body& panel, int to, const Int& panel_at, int64_t lane) {
    auto body = std::make_shared<Body>();
    const int acc = b_.reg("sum", true), ones = b_.reg("offset", true), x = b_.reg("b", true), zero = b_.reg("zero", true);
    panel.push_back({Op{"vi_set", acc, false, {Int(0)}}});
    panel.push_back({Op{"vi_set", ones, false, {Int(kSignBits)}}});
    panel.push_back({Op{"vi_set", zero, false, {Int(0)}}});
    const int64_t step = columns_ * group_;
    const int at = b_.variable("at", 0, packed_.correction - step);
    body->push_back({Op{"vi_load_group", x, false, {Address{to, panel_at + Int::var(at) + Int(lane * group_)}}}});
    body->push_back({Op{"vi_dpbusd", acc, true, {Reg{acc}, Reg{ones}, Reg{x}}}});
    panel.push_back({For{at, Int(0), Int(packed_.correction), step, body}});
    panel.push_back({Op{"sub", acc, true, {Reg{zero}, Reg{acc}}}});
    panel.push_back({Op{"vi_store_s32", -1, false, {Address{to, panel_at + Int(packed_.correction + lane * 4)}, Reg{acc}}}});
  }
};

}  // namespace

void lower_prepack(NestContext& c, int operand) { Packing(c, operand).run(); }

}  // namespace rgen::lower
