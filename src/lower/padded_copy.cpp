// Padded copies of activations whose accesses leave the tensor or whose rows collide in the cache: rows dealt out to tasks, each copied by
// vectors, whole ones of bytes where its elements are small.
#include <algorithm>

#include "base/error.h"
#include "lower/context.h"
#include "rtile/layout.h"

namespace rgen::lower {

namespace {

/// The copy of one row, inside the tensor or (`outside`) beside it.
class RowCopy {
 public:
  struct Elements {
    DType from, to;
    bool flipped;  ///< signed bytes become unsigned ones, 128 more
    double fill;   ///< where there are none
  };
  struct Row {
    Address from, to;               ///< of the row's first element in the copy (from: if it were in the tensor)
    int64_t before, valid, length;  ///< elements of padding before those of the tensor; those; all
    int64_t stride;                 ///< ... from this row of the copy to the next
  };
  RowCopy(Builder& b, const Elements& e, const Row& row, bool outside) : b_(b), e_(e), row_(row), outside_(outside) {}

  void into(Body& body) {
    const int64_t left = std::min(whole_, round_up(row_.before, lanes_));
    const int64_t right = std::max(left, std::min(whole_, left + (row_.before + row_.valid - left) / lanes_ * lanes_));
    const int64_t even = outside_ || wide_ == lanes_ ? left : left + (right - left) / wide_ * wide_;
    loop(body, 0, left, lanes_, &RowCopy::edge);
    loop(body, left, even, wide_, &RowCopy::bytes);
    if (ends_in_part(even)) return end_in_part(body, even);
    loop(body, even, right, lanes_, &RowCopy::inner);
    loop(body, right, whole_, lanes_, &RowCopy::edge);
    if (whole_ < row_.length) vector(body, Int(whole_), row_.length - whole_, true);
  }

 private:
  Builder& b_;
  const Elements& e_;
  const Row& row_;
  const bool outside_;
  const bool integer_ = !is_float(e_.from);
  const std::string family_ = integer_ ? "vi_" : "vf_";
  const int64_t lanes_ = b_.program.lanes, wide_ = lanes_ * 4 / size_of(e_.from);  // elements of a vector, and of one of whole bytes
  const int64_t whole_ = row_.length / lanes_ * lanes_;

  static Address plus(const Address& a, const Int& at) { return {a.pointer, a.offset + at}; }

  void loop(Body& body, int64_t begin, int64_t end, int64_t step, void (RowCopy::*copy)(Body&, const Int&)) {
    if (begin >= end) return;
    const int at = b_.variable("x", begin, end - step);
    auto inner = std::make_shared<Body>();
    (this->*copy)(*inner, Int::var(at));
    body.push_back({For{at, Int(begin), Int(end), step, inner}});
  }
  void edge(Body& body, const Int& at) { vector(body, at, lanes_, true); }
  void inner(Body& body, const Int& at) { vector(body, at, lanes_, false); }

  void bytes(Body& body, const Int& at) { bytes(body, at, "vi_load_bytes", {plus(row_.from, at)}); }
  void bytes(Body& body, const Int& at, const std::string& load, std::vector<Arg> from) {
    const int x = b_.reg("x", true);
    body.push_back({Op{load, x, false, std::move(from)}});
    if (e_.flipped) combine(body, x, "xor", kSignBits);
    body.push_back({Op{"vi_store_bytes", -1, false, {plus(row_.to, at), Reg{x}}}});
  }

  /// What is left from `at` on lies in the tensor and is less than a vector of whole bytes, for which the copy's row has room: one store,
  /// which a wide load that soon follows can take its bytes from.
  bool ends_in_part(int64_t at) const {
    return !outside_ && wide_ > lanes_ && at < row_.length && at + wide_ > row_.length && at + wide_ <= row_.stride && row_.before <= at &&
           row_.before + row_.valid >= row_.length;
  }
  void end_in_part(Body& body, int64_t at) {
    bytes(body, Int(at), "vi_load_bytes_n", {plus(row_.from, Int(at)), Int((row_.length - at) * size_of(e_.from))});
  }

  void vector(Body& body, const Int& at, int64_t count, bool edge) {
    const int x = b_.reg("x", integer_), offset = e_.flipped ? 128 : 0;
    const std::string load = family_ + "load_" + std::string(to_string(e_.from)),
                      store = family_ + "store_" + std::string(to_string(e_.to));
    const Address from = plus(row_.from, at), to = plus(row_.to, at);
    if (outside_)
      body.push_back({Op{family_ + "set", x, false, {e_.fill + offset}}});
    else if (edge)
      body.push_back({Op{load + "_range", x, false, {from, Int(row_.before) - at, Int(row_.before + row_.valid) - at, e_.fill}}});
    else
      body.push_back({Op{load, x, false, {from}}});
    if (e_.flipped && !outside_) combine(body, x, "add", offset);
    if (count == lanes_)
      body.push_back({Op{store, -1, false, {to, Reg{x}}}});
    else
      body.push_back({Op{store + "_n", -1, false, {to, Reg{x}, Int(count)}}});
  }

  void combine(Body& body, int x, const std::string& op, int32_t constant) {
    const int y = b_.reg("offset", true);
    body.push_back({Op{"vi_set", y, false, {Int(constant)}}});
    body.push_back({Op{op, x, true, {Reg{x}, Reg{y}}}});
  }
};

class PaddedCopy {
 public:
  PaddedCopy(NestContext& c, int operand)
      : c_(c),
        b_(c.builder),
        operand_(operand),
        access_(c.plan.operands[size_t(operand)].access),
        tensor_(c.program[access_.tensor]),
        source_(c.location.at(access_.tensor)),
        box_(rtile::box_layout(tensor_, access_, c.nest.full_extents(), c.plan.operands[size_t(operand)].on_lines)) {
    if (source_.strides[run_] != inner_) throw Error(ErrorCode::internal, "a padded copy needs a contiguous innermost dimension");
    for (size_t d = 0; d < run_; ++d) rows_ *= box_.count[d];
    const int64_t tasks = c.plan.copies_alone ? 1 : std::max<int64_t>(1, c.plan.tasks());
    for (; rows_ < tasks && run_ + 1 < shape_.size(); inner_ /= shape_[run_]) rows_ *= box_.count[run_++];  // enough for all
    tasks_ = std::min(rows_, tasks);
  }

  void run() {
    // what a group of the last elements needs beyond them is multiplied by zeros
    const bool groups = !is_float(element_.to);
    buffer_ = b_.workspace(tensor_.name + "_padded", element_.to, box_.elements + (groups ? 4 / size_of(element_.to) - 1 : 0));

    rtile::Linear l = rtile::linearise(access_.index, box_.strides, int(c_.nest.axes.size()));
    for (size_t d = 0; d < shape_.size(); ++d) l.constant -= box_.strides[d] * box_.lo[d];
    const std::vector<int64_t> zeros(l.coef.size(), 0);
    c_.addressing[size_t(operand_)] = {buffer_, l.coef, zeros, l.coef, zeros, l.constant};
    c_.addressing[size_t(operand_)].groups = groups;

    const int proc = b_.proc(procedure());
    b_.program.regions.push_back({proc, tasks_, "pad " + tensor_.name, c_.plan.block_tasks});
  }

 private:
  NestContext& c_;
  Builder& b_;
  const int operand_;
  const ir::Access& access_;
  const ir::Tensor& tensor_;
  const Location& source_;
  const rtile::BoxLayout box_;
  const std::vector<int64_t>& shape_ = box_.shape;
  const bool flipped_ = operand_ == c_.plan.operand_a && c_.plan.copy_flips();
  const RowCopy::Elements element_{tensor_.dtype, flipped_ ? DType::u8 : tensor_.dtype, flipped_, access_.out_of_bounds.value_or(0)};
  size_t run_ = box_.run;  ///< of dimensions from here on, contiguous in the tensor, a row is made: all of the box's, or fewer
  int64_t inner_ = box_.inner, rows_ = 1, tasks_ = 1;
  int buffer_ = -1;

  Proc procedure() {
    Proc p;
    p.name = c_.prefix + "_pad_" + tensor_.name;
    p.comment = "copies " + tensor_.name + " into rows that the tiles can read without bounds checks";
    if (flipped_) p.comment += ", sign bits flipped";
    const int task = b_.variable("task", 0, tasks_ - 1);
    p.params.push_back(task);
    const int from = b_.pointer(source_.buffer, "src"), to = b_.pointer(buffer_, "dst");
    p.body.push_back({LetPtr{from, Int(0)}});
    p.body.push_back({LetPtr{to, Int(0)}});
    const auto [first, last] = b_.share(p.body, task, rows_, tasks_);
    const int row = b_.variable("row", 0, rows_ - 1);
    p.body.push_back({For{row, first, last, 1, copy_of_row(from, to, row)}});
    return p;
  }

  /// A row outside the tensor, as long as whole steps of k; of those inside, the vector that ends them makes them so long.
  RowCopy::Row made_up(RowCopy::Row r) const {
    if (c_.plan.operands[size_t(operand_)].whole_steps) r.length = round_up(r.length, c_.plan.k_step);
    return r;
  }

  std::shared_ptr<Body> copy_of_row(int from, int to, int row) {
    auto body = std::make_shared<Body>();
    Int src(0), dst(0);
    std::vector<Int> inside;
    Places places(b_, *body, Int::var(row), rows_);
    for (size_t d = 0; d < run_; ++d) {
      const int64_t lo = box_.lo[d], count = box_.count[d];
      const Int x = places.next("i", count);
      src = src + (x + Int(lo)) * source_.strides[d], dst = dst + x * box_.strides[d];
      if (lo < 0) inside.push_back(x + Int(lo));
      if (lo + count > shape_[d]) inside.push_back(Int(shape_[d] - 1 - lo) - x);
    }
    const int64_t before = -box_.lo[run_] * inner_, valid = shape_[run_] * inner_;
    const RowCopy::Row r{
        {from, src - Int(before)}, {to, dst}, before, valid, inner_ * box_.count[run_], run_ > 0 ? box_.strides[run_ - 1] : 0};
    if (inside.empty()) {
      RowCopy(b_, element_, r, false).into(*body);
    } else {
      auto yes = std::make_shared<Body>(), no = std::make_shared<Body>();
      RowCopy(b_, element_, r, false).into(*yes);
      RowCopy(b_, element_, made_up(r), true).into(*no);
      body->push_back({If{inside, yes, no}});
    }
    return body;
  }
};

}  // namespace

void lower_box(NestContext& c, int operand) { PaddedCopy(c, operand).run(); }

}  // namespace rgen::lower
