// Activations packed before their nest, at every call: panels dealt out to tasks, each filled by vectors. Where the tensor lies along the
// reduction, its groups are lanes, and lanes and rows change places; where it lies along the vectors, rows are interleaved.
#include <algorithm>
#include <functional>
#include <utility>

#include "lower/packed_layout.h"

namespace rgen::lower {

namespace {

/// One panel, for one place of all axes but k and the vectors'.
class PanelCopy {
 public:
  struct Place {
    Address from, to;
    Int columns;    ///< of the tensor from here on
    int64_t valid;  ///< elements along k that there are
    bool edge;      ///< fewer columns than the panel has
  };
  PanelCopy(Builder& b, const PackedLayout& layout, const Place& place, Body& body)
      : b_(b), l_(layout), at_(place), body_(&body), bytes_(size_of(layout.tensor.dtype)), W_(layout.plan.lanes) {}

  void run() {
    const bool along_k = l_.stride(l_.k_axis) == 1;
    const int64_t step = along_k ? W_ * l_.group : l_.group, whole = at_.valid / step * step;
    const auto copy = [&](const Int& k, int64_t valid) { along_k ? transposed(k, valid) : interleaved(k, valid); };
    loop("k", 0, whole, step, [&](const Int& k) { copy(k, step); });
    if (whole < at_.valid) copy(Int(whole), at_.valid - whole);
    const int64_t done = whole < at_.valid ? (along_k ? whole + round_up(at_.valid - whole, l_.group) : whole + step) : whole;
    loop("k", done, round_up(l_.length[size_t(l_.k_axis)], l_.k_step), l_.group, [&](const Int& k) { zeros(k); });
  }

 private:
  Builder& b_;
  const PackedLayout& l_;
  const Place& at_;
  Body* body_;
  const int64_t bytes_, W_;
  int64_t vectors() const { return l_.tile[size_t(l_.plan.vec)] / W_; }
  void put(Stmt s) { body_->push_back(std::move(s)); }

  void loop(const std::string& name, int64_t begin, int64_t end, int64_t step, const std::function<void(const Int&)>& inside) {
    if (begin >= end) return;
    if (begin + step >= end) return inside(Int(begin));
    const int v = b_.variable(name, begin, end - step);
    auto body = std::make_shared<Body>();
    Body* const around = std::exchange(body_, body.get());
    inside(Int::var(v));
    body_ = around;
    put({For{v, Int(begin), Int(end), step, std::move(body)}});
  }

  /// The column, or the last one: padding is of results that nobody stores.
  Int inside(const Int& column) {
    const Int last = at_.columns - Int(1);
    if (b_.range(last - column).first >= 0) return column;
    const int v = b_.variable("column", std::min(b_.range(last).first, column.constant), column.constant);
    put({LetInt{LetInt::Op::min, v, column, last}});
    return Int::var(v);
  }

  void store(const Int& k, int64_t vector, const Arg& groups) {
    const Int at = at_.to.offset + k * l_.packed.value[size_t(l_.k_axis)] + Int(vector * W_ * l_.group);
    put({Op{"vi_store_bytes", -1, false, {Address{at_.to.pointer, at}, groups}}});
  }

  void zeros(const Int& k) {
    const int zero = b_.reg("zero", true);
    put({Op{"vi_set", zero, false, {Int(0)}}});
    for (int64_t j = 0; j < vectors(); ++j) store(k, j, Reg{zero});
  }

  /// A row of each column: as many groups as lanes, `valid` elements.
  void transposed(const Int& k, int64_t valid) {
    const int64_t groups = ceil_div(valid, l_.group);
    for (int64_t j = 0; j < vectors(); ++j) {
      const int r = b_.reg("groups", true, int(W_));
      for (int64_t lane = 0; lane < W_; ++lane) {
        const Int column = at_.edge ? inside(Int(j * W_ + lane)) : Int(j * W_ + lane);
        const Address from{at_.from.pointer, at_.from.offset + column * l_.stride(l_.plan.vec) + k};
        if (valid == W_ * l_.group)
          put({Op{"vi_load_bytes", r, true, {Reg{r, int(lane)}, from}}});
        else
          put({Op{"vi_load_bytes_n", r, true, {Reg{r, int(lane)}, from, Int(valid * bytes_)}}});
      }
      put({Op{"vi_transpose", -1, false, {Reg{r}}}});
      for (int64_t g = 0; g < groups; ++g) store(k + Int(g * l_.group), j, Reg{r, int(g)});
    }
  }

  /// A group's rows, `valid` of them.
  void interleaved(const Int& k, int64_t valid) {
    const std::string load = "vi_load_" + std::string(to_string(l_.tensor.dtype));
    for (int64_t j = 0; j < vectors(); ++j) {
      std::vector<Arg> rows;
      for (int64_t i = 0; i < l_.group; ++i) {
        const int r = b_.reg("row", true);
        rows.push_back(Reg{r});
        const Address from{at_.from.pointer, at_.from.offset + (k + Int(i)) * l_.stride(l_.k_axis) + Int(j * W_)};
        if (i >= valid)
          put({Op{"vi_set", r, false, {Int(0)}}});
        else if (at_.edge)
          put({Op{load + "_range", r, false, {from, Int(0), at_.columns - Int(j * W_), 0.0}}});
        else
          put({Op{load, r, false, {from}}});
      }
      const int groups = b_.reg("groups", true);
      put({Op{l_.group == 2 ? "vi_pair" : "vi_quad", groups, false, std::move(rows)}});
      store(k, j, Reg{groups});
    }
  }
};

class Repacking {
 public:
  Repacking(NestContext& c, int operand) : c_(c), b_(c.builder), to_(c, operand) {
    for (int a : to_.outputs) panels_ *= to_.blocking(a).blocks;
    for (int a : to_.whole) panels_ *= to_.axes[size_t(a)].full;
    for (const auto& [a, step] : to_.chunks) panels_ *= ceil_div(to_.extent(a), step);
    tasks_ = std::min(panels_, c.workers);
  }

  Addressing run() {
    std::vector<int64_t> key{to_.source.buffer, to_.given.constant, to_.elements};
    const Addressing& to = to_.packed;
    for (const auto& each : {to_.given.coef, to.value, to.block, to.inside, to.chunk}) key.insert(key.end(), each.begin(), each.end());
    for (const auto& [its, at] : b_.repacked)
      if (its == key) return at;
    to_.packed.buffer = b_.workspace(to_.tensor.name + "_packed", to_.tensor.dtype, to_.elements, 1, true);
    const int proc = b_.proc(procedure());
    b_.program.regions.push_back({proc, tasks_, "pack " + to_.tensor.name});
    b_.repacked.emplace_back(std::move(key), to_.packed);
    return to_.packed;
  }

 private:
  NestContext& c_;
  Builder& b_;
  PackedLayout to_;
  int64_t panels_ = 1, tasks_ = 1;

  Proc procedure() {
    Proc p;
    p.name = c_.prefix + "_pack_" + to_.tensor.name;
    p.comment = "packs " + to_.tensor.name + " into the order in which the tiles read it, in groups along " + to_.name(to_.k_axis);
    const int task = b_.variable("task", 0, tasks_ - 1);
    p.params.push_back(task);
    const int from = b_.pointer(to_.source.buffer, "src"), to = b_.pointer(to_.packed.buffer, "dst");
    p.body.push_back({LetPtr{from, Int(0)}});
    p.body.push_back({LetPtr{to, Int(0)}});
    const auto [first, last] = b_.share(p.body, task, panels_, tasks_);
    const int panel = b_.variable("panel", 0, panels_ - 1);
    auto body = std::make_shared<Body>();
    copy_panel(*body, from, to, Int::var(panel));
    p.body.push_back({For{panel, first, last, 1, std::move(body)}});
    return p;
  }

  struct Walk {
    Int src, dst;
    std::vector<Int> start;  ///< of the panel, of every axis
  };

  void copy_panel(Body& body, int from, int to, const Int& panel) {
    Places places(b_, body, panel, panels_);
    Walk w{Int(to_.given.constant), Int(0), std::vector<Int>(to_.axes.size(), Int(0))};
    for (const auto& [a, step] : to_.chunks) {
      const Int first = places.next(to_.name(a) + "_chunk", ceil_div(to_.extent(a), step)) * step;
      w.start[size_t(a)] = first;
      w.dst = w.dst + first * (to_.packed.chunk[size_t(a)] + to_.packed.value[size_t(a)]);
    }
    for (int a : to_.whole) {
      const Int x = w.start[size_t(a)] = places.next(to_.name(a), to_.axes[size_t(a)].full);
      w.dst = w.dst + x * to_.packed.value[size_t(a)];
    }
    for (int a : to_.outputs) {
      const Int block = places.next(to_.name(a) + "_block", to_.blocking(a).blocks);
      w.start[size_t(a)] = start_of(b_, body, to_.blocking(a), block);
      w.dst = w.dst + block * to_.packed.block[size_t(a)];
    }
    const Int panel_at = w.dst;
    for (size_t a = 0; a < to_.axes.size(); ++a) w.src = w.src + w.start[a] * to_.stride(int(a));
    std::vector<int> inside;  // axes whose places are walked one after the other
    for (int a : to_.reduced)
      if (a != to_.k_axis) inside.push_back(a);
    for (int a : to_.outputs)
      if (a != to_.plan.vec) inside.push_back(a);
    walk(body, w, inside, 0, from, to);
    if (to_.corrected) correct_sums(b_, to_, body, to, panel_at);
  }

  void walk(Body& body, const Walk& w, const std::vector<int>& inside, size_t depth, int from, int to) {
    if (depth == inside.size()) return choose(body, w, from, to);
    const int a = inside[depth];
    const bool reduced = to_.axes[size_t(a)].reduced;
    const int64_t count = reduced ? to_.length[size_t(a)] : to_.tile[size_t(a)];
    const int64_t step = reduced ? to_.packed.value[size_t(a)] : to_.packed.inside[size_t(a)];
    if (count == 1) return walk(body, w, inside, depth + 1, from, to);
    const int v = b_.variable(to_.name(a), 0, count - 1);
    auto within = std::make_shared<Body>();
    Int place = Int::var(v);
    const Int most = Int(to_.extent(a) - 1) - w.start[size_t(a)];  // places past the last are copies of it, which nobody uses
    if (b_.range(most).first < count - 1) {
      const int least = b_.variable(to_.name(a) + "_in", 0, count - 1);
      within->push_back({LetInt{LetInt::Op::min, least, place, most}});
      place = Int::var(least);
    }
    walk(*within, {w.src + place * to_.stride(a), w.dst + Int::var(v, step), w.start}, inside, depth + 1, from, to);
    body.push_back({For{v, Int(0), Int(count), 1, std::move(within)}});
  }

  /// Whether the panel is whole along k, and along the vectors.
  void choose(Body& body, const Walk& w, int from, int to) {
    const int k = to_.k_axis, vec = to_.plan.vec;
    const int64_t length = std::min(to_.length[size_t(k)], to_.extent(k)), rest = to_.extent(k) % length;
    const Int columns = Int(to_.extent(vec)) - w.start[size_t(vec)];
    const auto branch = [&](Body& into, const Int& condition, const std::function<void(Body&)>& then,
                            const std::function<void(Body&)>& otherwise) {
      const auto [least, most] = b_.range(condition);
      if (least >= 0) return then(into);
      if (most < 0) return otherwise(into);
      auto yes = std::make_shared<Body>(), no = std::make_shared<Body>();
      then(*yes), otherwise(*no);
      into.push_back({If{{condition}, std::move(yes), std::move(no)}});
    };
    const auto copy = [&](Body& into, int64_t valid) {
      const PanelCopy::Place whole{{from, w.src}, {to, w.dst}, columns, valid, false};
      branch(
          into, columns - Int(to_.tile[size_t(vec)]), [&](Body& b) { PanelCopy(b_, to_, whole, b).run(); },
          [&](Body& b) {
            PanelCopy::Place edge = whole;
            edge.edge = true;
            PanelCopy(b_, to_, edge, b).run();
          });
    };
    if (rest == 0) return copy(body, length);
    branch(
        body, Int(to_.extent(k) - length) - w.start[size_t(k)], [&](Body& b) { copy(b, length); }, [&](Body& b) { copy(b, rest); });
  }
};

}  // namespace

void lower_repack(NestContext& c, int operand) { c.addressing[size_t(operand)] = Repacking(c, operand).run(); }

}  // namespace rgen::lower
