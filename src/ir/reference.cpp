// The oracle: runs the stages of a program in f64, over the boxes that the chosen outputs need.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ir/ir.h"
#include "ir/reference_block.h"
#include "ir/reference_sample.h"

namespace rgen::ir {

using namespace reference;

namespace {

struct Accumulator {
  double value, magnitude;
};

Accumulator identity(ReduceOp op) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  return op == ReduceOp::prod  ? Accumulator{1, 1}
         : op == ReduceOp::max ? Accumulator{-inf, 0}
         : op == ReduceOp::min ? Accumulator{inf, 0}
                               : Accumulator{0, 0};
}

void accumulate(ReduceOp op, Accumulator& a, const double* v, const double* m, int n) {
  switch (op) {
    case ReduceOp::none:
      throw Error(ErrorCode::internal, "nothing is reduced");
    case ReduceOp::sum:
      for (int i = 0; i < n; ++i) a.value += v[i], a.magnitude += m[i];
      break;
    case ReduceOp::prod:
      for (int i = 0; i < n; ++i) {
        const double f = a.value * v[i];
        a.magnitude = std::isfinite(f) ? std::abs(a.value) * m[i] + a.magnitude * std::abs(v[i]) - std::abs(f) : 0;
        a.value = f;
      }
      break;
    case ReduceOp::max:
    case ReduceOp::min:
      for (int i = 0; i < n; ++i) {
        a.value = op == ReduceOp::max ? std::max(a.value, v[i]) : std::min(a.value, v[i]);
        a.magnitude = std::max(a.magnitude, m[i]);
      }
      break;
  }
}

/// One step of an odometer, last digit fastest, over lo <= at < hi; false after the last.
bool advance(std::vector<int64_t>& at, const std::vector<int64_t>& lo, const std::vector<int64_t>& hi) {
  for (size_t d = at.size(); d-- > 0;) {
    if (++at[d] < hi[d]) return true;
    at[d] = lo[d];
  }
  return false;
}

int64_t flat(const std::vector<int64_t>& at, const std::vector<int64_t>& strides) {
  int64_t i = 0;
  for (size_t d = 0; d < strides.size(); ++d) i += at[d] * strides[d];
  return i;
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Computes the unknown elements of boxes of one stage's tensor. Points pass through the code in blocks: all reduction points of one
/// element, then those of the next.
class StageRunner {
 public:
  StageRunner(const Stage& stage, const std::vector<int64_t>& extents, StageCode& code, Plane& plane)
      : stage_(stage),
        extents_(extents),
        code_(code),
        plane_(plane),
        strides_(dense_strides({extents.begin(), extents.begin() + stage.n_out})) {
    block_.axis.resize(extents.size());
    block_.fixed.assign(extents.size(), true);
    at_.assign(extents.size(), 0);
    for (size_t a = size_t(stage.n_out); a < extents.size(); ++a) reduction_points_ *= extents[a];
  }

  void run(const Box& box) {
    std::vector<int64_t> element = box.lo;
    if (stage_.reduce == ReduceOp::none && !element.empty()) {
      do add_row(element, box.hi.back());
      while (advance(element, box.lo, box.hi));
    } else {
      do {
        const int64_t i = flat(element, strides_);
        if (!plane_.known(i)) add_element(element, i);
      } while (advance(element, box.lo, box.hi));
    }
    flush();
  }

 private:
  /// Points that belong together: of one element's reduction, or of neighbouring elements where nothing is reduced.
  struct Segment {
    int64_t element;
    int begin, end;
    bool last;  ///< the element's last points
  };

  /// The unknown elements from `element` to the end of its row; leaves `element` at the row's last.
  void add_row(std::vector<int64_t>& element, int64_t end) {
    int64_t i = flat(element, strides_);
    for (int64_t& x = element.back(); x < end;) {
      int64_t n = 0;
      while (x + n < end && block_.size + n < block_size && !plane_.known(i + n)) ++n;
      if (n > 0) {
        at_ = element;
        segments_.push_back({i, block_.size, block_.size + int(n), true});
        append_run(int(n));
        if (block_.size == block_size) flush();
      }
      const int64_t step = std::max<int64_t>(n, 1);
      x += step;
      i += step;
    }
    element.back() = end - 1;
  }

  void add_element(const std::vector<int64_t>& element, int64_t i) {
    if (at_.empty()) {  // a scalar of scalars
      block_.size = 1;
      segments_.push_back({i, 0, 1, true});
      return;
    }
    std::copy(element.begin(), element.end(), at_.begin());
    std::fill(at_.begin() + long(element.size()), at_.end(), 0);
    for (int64_t left = reduction_points_; left > 0;) {
      const int begin = block_.size;
      while (block_.size < block_size && left > 0) {
        const int64_t run = std::min<int64_t>({left, block_size - block_.size, extents_.back() - at_.back()});
        append_run(int(run));
        left -= run;
        at_.back() += run;
        for (size_t a = at_.size() - 1; at_[a] == extents_[a] && a > size_t(stage_.n_out); --a) at_[a] = 0, ++at_[a - 1];
      }
      segments_.push_back({i, begin, block_.size, left == 0});
      if (block_.size == block_size) flush();
    }
  }

  /// `n` points that differ in the last axis only.
  void append_run(int n) {
    const size_t begin = size_t(block_.size), end = begin + size_t(n);
    for (size_t a = 0; a < at_.size(); ++a) {
      IntRow& row = block_.axis[a];
      const int64_t step = a + 1 == at_.size() ? 1 : 0;
      if (begin > 0 && row[0] != at_[a]) block_.fixed[a] = false;
      if (step && n > 1) block_.fixed[a] = false;
      for (size_t i = begin; i < end; ++i) row[i] = at_[a] + step * int64_t(i - begin);
    }
    block_.size = int(end);
  }

  void flush() {
    if (block_.size == 0) return;
    const Row *value = nullptr, *magnitude = nullptr;
    code_.run(block_, value, magnitude);
    for (const Segment& s : segments_) {
      if (stage_.reduce == ReduceOp::none) {
        for (int i = s.begin; i < s.end; ++i) set(s.element + i - s.begin, (*value)[size_t(i)], (*magnitude)[size_t(i)]);
        continue;
      }
      accumulate(stage_.reduce, sum_, value->data() + s.begin, magnitude->data() + s.begin, s.end - s.begin);
      if (!s.last) continue;
      set(s.element, sum_.value, sum_.magnitude);
      sum_ = identity(stage_.reduce);
    }
    segments_.clear();
    block_.size = 0;
    block_.fixed.assign(block_.fixed.size(), true);
  }

  void set(int64_t element, double value, double magnitude) { plane_.set(element, value, std::isfinite(value) ? magnitude : 0); }

  const Stage& stage_;
  const std::vector<int64_t>& extents_;
  StageCode& code_;
  Plane& plane_;
  const std::vector<int64_t> strides_;
  int64_t reduction_points_ = 1;
  Block block_;
  std::vector<int64_t> at_;
  std::vector<Segment> segments_;
  Accumulator sum_ = identity(stage_.reduce);
};

class Evaluation {
 public:
  Evaluation(const TensorProgram& program, std::span<const void* const> inputs, const std::vector<int64_t>& dim_values)
      : program_(program), extents_(program, dim_values), sources_(program.tensors.size()) {
    for (size_t t = 0; t < program.tensors.size(); ++t) {
      sources_[t].dtype = program.tensors[t].dtype;
      sources_[t].shape = extents_.tensor[t];
      for (const Size& s : program.tensors[t].strides) sources_[t].strides.push_back(s.eval(dim_values));
    }
    for (size_t i = 0; i < program.inputs.size(); ++i) sources_[size_t(program.inputs[i])].data = inputs[i];
    for (const Stage& s : program.stages) add_stage(s);
  }

  Reference run(double exact_limit) {
    double total = 0;
    const std::vector<int64_t> operations = operation_counts();
    for (int o : program_.outputs) total += cost(program_, extents_, demand(program_, extents_, o, all_of(o)), operations);
    const bool exact = total <= exact_limit;
    for (int o : program_.outputs) {
      if (exact) {
        compute(o, all_of(o));
      } else {
        for (const Box& b : sample(program_, extents_, o, operations, exact_limit / double(program_.outputs.size()))) compute(o, b);
      }
    }
    Reference r;
    for (int o : program_.outputs) collect(o, exact, r);
    return r;
  }

 private:
  Box all_of(int tensor) const {
    const auto& shape = extents_.tensor[size_t(tensor)];
    return {std::vector<int64_t>(shape.size(), 0), shape};
  }

  void add_stage(const Stage& s) {
    const bool output = program_[s.output].kind == TensorKind::output && s.reduce == ReduceOp::none;
    codes_.push_back(std::make_unique<StageCode>(*s.body, sources_, program_, !output));
    planes_.push_back(std::make_unique<Plane>(all_of(s.output).volume()));
    Source& source = sources_[size_t(s.output)];
    source.plane = planes_.back().get();
    source.round_on_read = output && std::holds_alternative<Cast>(s.body->node);
    const bool order_free = s.reduce == ReduceOp::none || s.reduce == ReduceOp::max || s.reduce == ReduceOp::min;
    source.exact = codes_.back()->exact() && (order_free || source.dtype == DType::s32);
  }

  std::vector<int64_t> operation_counts() const {
    std::vector<int64_t> r;
    for (size_t s = 0; s < codes_.size(); ++s) r.push_back(codes_[s]->operations() + (program_.stages[s].n_reduce() > 0));
    return r;
  }

  void compute(int output, const Box& box) {
    const auto demanded = demand(program_, extents_, output, box);
    for (size_t s = 0; s < program_.stages.size(); ++s)
      if (demanded[s]) StageRunner(program_.stages[s], extents_.stage[s], *codes_[s], *planes_[s]).run(*demanded[s]);
  }

  /// Moves an output's plane into the result.
  void collect(int output, bool exact, Reference& r) {
    size_t stage = 0;
    while (program_.stages[stage].output != output) ++stage;
    const size_t n = size_t(all_of(output).volume());
    r.outputs.emplace_back(n);
    r.magnitude.emplace_back(n);
    r.sampled.emplace_back();
    for (size_t p = 0; p < planes_[stage]->n_pages(); ++p) {
      const auto page = planes_[stage]->take_page(p);
      if (!page) continue;
      const size_t begin = p << Plane::page_bits;
      for (size_t i = 0; i < page->value.size() && begin + i < n; ++i) {
        if (!page->known[i]) continue;
        r.outputs.back()[begin + i] = page->value[i];
        r.magnitude.back()[begin + i] = page->magnitude[i];
        if (!exact) r.sampled.back().push_back(int64_t(begin + i));
      }
    }
  }

  const TensorProgram& program_;
  const Extents extents_;
  std::vector<Source> sources_;
  std::vector<std::unique_ptr<StageCode>> codes_;
  std::vector<std::unique_ptr<Plane>> planes_;  ///< per stage
};

}  // namespace

Reference evaluate_reference(const TensorProgram& program, std::span<const void* const> inputs, const std::vector<int64_t>& dim_values,
                             int64_t exact_limit) {
  if (inputs.size() != program.inputs.size() || dim_values.size() != program.dims.size())
    throw Error(ErrorCode::usage, "the reference of '" + program.name + "' takes " + std::to_string(program.inputs.size()) +
                                      " inputs and " + std::to_string(program.dims.size()) + " dimensions");
  return Evaluation(program, inputs, dim_values).run(double(exact_limit));
}

}  // namespace rgen::ir
