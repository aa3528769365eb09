// Checks a program against the semantics of tensor_program.h.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/math.h"
#include "ir/draft.h"
#include "ir/ir.h"
#include "ir/resolve.h"

namespace rgen::ir {

namespace {

constexpr int64_t max_elements = int64_t{1} << 40;

/// Values of the symbolic dimensions that decide for all: every combination of values near both ends of each range. The extents are
/// quasi-affine in one dimension at a time with small periods, so a window at each end meets every residue.
std::vector<std::vector<int64_t>> sample_dims(const std::vector<Dim>& dims) {
  std::vector<std::vector<int64_t>> points{{}};
  const size_t window = dims.size() <= 1 ? 64 : dims.size() == 2 ? 8 : dims.size() <= 4 ? 2 : 1;
  for (const Dim& d : dims) {
    const int64_t first = round_up(d.min, d.multiple_of), last = rgen::floor_div(d.max, d.multiple_of) * d.multiple_of;
    std::set<int64_t> values;
    for (size_t i = 0; i < window; ++i) {
      values.insert(std::min(last, first + int64_t(i) * d.multiple_of));
      values.insert(std::max(first, last - int64_t(i) * d.multiple_of));
    }
    std::vector<std::vector<int64_t>> next;
    for (const auto& p : points)
      for (int64_t v : values) {
        next.push_back(p);
        next.back().push_back(v);
      }
    points = std::move(next);
    if (points.size() > 4096) points.resize(4096);
  }
  return points;
}

class Verifier {
 public:
  Verifier(const TensorProgram& program, const SourceMap& source) : p_(program), source_(source), points_(sample_dims(program.dims)) {}

  void run() {
    for (size_t i = 0; i < p_.tensors.size(); ++i) tensor(int(i));
    interface();
    for (size_t i = 0; i < p_.stages.size(); ++i) stage(int(i));
    for (int t : p_.outputs)
      if (!written_.count(t)) fail("output '" + p_[t].name + "' is never written", place_of(source_.tensors, t));
    for (int t : p_.inputs)
      if (!read_.count(t)) fail("input '" + p_[t].name + "' is never read", place_of(source_.tensors, t));
    for (int t : written_)
      if (p_[t].kind == TensorKind::intermediate && !read_.count(t))
        fail("'" + p_[t].name + "' is neither read nor an output", place_of(source_.tensors, t));
  }

 private:
  [[noreturn]] static void fail(const std::string& message, const std::string& place) {
    throw Error(ErrorCode::invalid_spec, message, place);
  }
  const std::string& place_of(const std::map<int, std::string>& places, int i) const {
    const auto it = places.find(i);
    return it == places.end() ? source_.place : it->second;
  }
  std::string place_of_access(int stage, const Expr& e) const {
    const std::string& place = place_of(source_.stages, stage);
    const auto it = source_.column_of.find(&e);
    return it == source_.column_of.end() ? place : place + ": column " + std::to_string(it->second);
  }
  /// eval of an extent, with the place of an overflow or a division by zero.
  int64_t eval(const Size& s, const std::vector<int64_t>& dims, const std::string& place) const {
    try {
      return s.eval(dims);
    } catch (const Error& e) { fail(e.message(), place); }
  }
  std::string at_dims(const std::vector<int64_t>& dims) const {
    std::string r;
    for (size_t i = 0; i < dims.size(); ++i) r += (i ? ", " : " where ") + p_.dims[i].name + " = " + std::to_string(dims[i]);
    return r;
  }

  void tensor(int id) {
    const Tensor& t = p_[id];
    const std::string& place = place_of(source_.tensors, id);
    if (!names_.insert(t.name).second) fail("two tensors are named '" + t.name + "'", place);
    if (t.strides.size() != t.shape.size()) fail("tensor '" + t.name + "' has as many strides as dimensions or it has none", place);
    if (t.kind != TensorKind::input && t.strides != row_major(t.shape))
      fail("tensor '" + t.name + "' is written and must be row-major", place);
    for (const auto& dims : points_) {
      int64_t elements = 1, span = 1;
      for (size_t i = 0; i < t.shape.size(); ++i) {
        const int64_t extent = eval(t.shape[i], dims, place);
        if (extent < 1 || extent > max_extent)
          fail("extent " + std::to_string(i) + " of '" + t.name + "' is " + std::to_string(extent) + at_dims(dims) +
                   "; extents are 1 to 2147483648",
               place);
      }
      for (size_t i = 0; i < t.shape.size(); ++i) {
        const int64_t extent = eval(t.shape[i], dims, place), stride = eval(t.strides[i], dims, place);
        if (stride < 0 || stride > max_elements)
          fail("stride " + std::to_string(i) + " of '" + t.name + "' is " + std::to_string(stride) + at_dims(dims) +
                   "; strides are positive, or 0 to repeat an element",
               place);
        if (__builtin_mul_overflow(elements, extent, &elements) || elements > max_elements)
          fail("tensor '" + t.name + "' has more than 2^40 elements", place);
        int64_t reach = 0;
        if (__builtin_mul_overflow(extent - 1, stride, &reach) || (span += reach) > max_elements)
          fail("tensor '" + t.name + "' spans more than 2^40 elements", place);
      }
    }
  }

  void interface() const {
    if (p_.outputs.empty()) fail("the program has no output", source_.place);
    const auto listed = [](const std::vector<int>& list, int t) { return std::count(list.begin(), list.end(), t); };
    for (size_t i = 0; i < p_.tensors.size(); ++i) {
      const bool in = p_.tensors[i].kind == TensorKind::input, out = p_.tensors[i].kind == TensorKind::output;
      if (listed(p_.inputs, int(i)) != in || listed(p_.outputs, int(i)) != out)
        fail("tensor '" + p_.tensors[i].name + "' is not listed once among the program's inputs or outputs as its kind says",
             source_.place);
    }
  }

  void stage(int id) {
    const Stage& s = p_.stages[size_t(id)];
    const std::string& place = place_of(source_.stages, id);
    const Tensor& out = p_[s.output];
    if (out.kind == TensorKind::input) fail("'" + out.name + "' is an input; a stage cannot write it", place);
    if (size_t(s.n_out) != out.shape.size() || s.axes.size() < size_t(s.n_out))
      fail("'" + out.name + "' has " + std::to_string(out.shape.size()) + " dimensions but is written with " + std::to_string(s.n_out) +
               " axes",
           place);
    if ((s.reduce == ReduceOp::none) != (s.n_reduce() == 0)) fail("a stage has reduction axes exactly when it reduces", place);
    for (int i = 0; i < s.n_out; ++i)
      if (!(s.axes[size_t(i)].extent == out.shape[size_t(i)]))
        fail("axis '" + s.axes[size_t(i)].name + "' does not have the extent of dimension " + std::to_string(i) + " of '" + out.name + "'",
             place);
    std::set<std::string> axis_names;
    for (const Axis& a : s.axes)
      if (!axis_names.insert(a.name).second)
        fail("axis '" + a.name + "' stands twice" + (s.n_reduce() > 0 ? "; a reduced axis cannot stand on the left" : ""), place);
    used_.assign(s.axes.size(), false);
    extents_.clear();
    for (const auto& dims : points_) extents_.push_back(stage_extents(s, dims, place));
    expression(id, *s.body);
    for (size_t i = size_t(s.n_out); i < s.axes.size(); ++i)
      if (!used_[i]) fail("axis '" + s.axes[i].name + "' is reduced but never used", place);
    if (const DType computed = stage_dtype(p_, s.reduce, *s.body); computed != out.dtype)
      fail("'" + out.name + "' is " + std::string(to_string(out.dtype)) + " but its stage computes " + std::string(to_string(computed)) +
               "; add a cast: " + std::string(to_string(out.dtype)) + "(…)",
           place);
    if (!written_.insert(s.output).second) fail("tensor '" + out.name + "' is written twice", place);
  }

  std::vector<int64_t> stage_extents(const Stage& s, const std::vector<int64_t>& dims, const std::string& place) const {
    std::vector<int64_t> extents;
    long double points = 1;
    for (const Axis& a : s.axes) {
      extents.push_back(eval(a.extent, dims, place));
      if (extents.back() < 1 || extents.back() > max_extent)
        fail("the extent of axis '" + a.name + "' is " + std::to_string(extents.back()) + at_dims(dims) + "; extents are 1 to 2147483648",
             place);
      points *= (long double)extents.back();
    }
    if (points > 4.6e18L) fail("the stage of '" + p_[s.output].name + "' has more than 2^62 points", place);
    return extents;
  }

  void mark_used(const Index& index) {
    for (const Index::Term& t : index.terms) used_.at(size_t(t.axis)) = true;
    for (const Index::Floor& f : index.floors) mark_used(f.inner);
  }

  void expression(int stage, const Expr& e) {
    std::visit(overloaded{[&](const Const& c) {
                            if (std::isnan(c.value)) fail("a constant is not a number", place_of(source_.stages, stage));
                          },
                          [&](const Access& a) { access(stage, e, a); }, [&](const IndexValue& i) { mark_used(i.index); },
                          [&](const Unary& u) { expression(stage, *u.x); },
                          [&](const Binary& b) {
                            expression(stage, *b.x);
                            expression(stage, *b.y);
                          },
                          [&](const Select& s) {
                            expression(stage, *s.condition);
                            expression(stage, *s.yes);
                            expression(stage, *s.no);
                          },
                          [&](const Cast& c) { expression(stage, *c.x); }},
               e.node);
  }

  void access(int stage, const Expr& e, const Access& a) {
    if (a.tensor < 0 || size_t(a.tensor) >= p_.tensors.size())
      fail("an access names tensor " + std::to_string(a.tensor) + ", which does not exist", place_of(source_.stages, stage));
    const Tensor& t = p_[a.tensor];
    const std::string place = place_of_access(stage, e);
    if (a.index.size() != t.shape.size())
      fail("tensor '" + t.name + "' has " + std::to_string(t.shape.size()) + " dimensions, but is given " + std::to_string(a.index.size()) +
               " indices",
           place);
    if (t.kind != TensorKind::input && !written_.count(a.tensor)) fail("'" + t.name + "' is read before it is written", place);
    read_.insert(a.tensor);
    for (const Index& i : a.index) mark_used(i);
    if (a.out_of_bounds) {
      if (std::isnan(*a.out_of_bounds)) fail("the value outside '" + t.name + "' is not a number", place);
      if (!is_float(t.dtype) && *a.out_of_bounds != std::floor(*a.out_of_bounds))
        fail("the value outside '" + t.name + "' is a fraction, but its elements are " + std::string(to_string(t.dtype)) +
                 "; take a whole number, or convert the tensor to f32 first",
             place);
      return;
    }
    for (size_t d = 0; d < a.index.size(); ++d)
      for (size_t k = 0; k < points_.size(); ++k) {
        const auto [lo, hi] = bounds(a.index[d], extents_[k]);
        const int64_t extent = eval(t.shape[d], points_[k], place);
        if (lo >= 0 && hi < extent) continue;
        fail("index " + std::to_string(d) + " of '" + t.name + "' runs from " + std::to_string(lo) + " to " + std::to_string(hi) +
                 at_dims(points_[k]) + ", outside 0 to " + std::to_string(extent - 1) + "; if that is meant, say what is read there: '" +
                 t.name + "[… ? 0 …]' or \"out_of_bounds\"",
             place);
      }
  }

  const TensorProgram& p_;
  const SourceMap& source_;
  const std::vector<std::vector<int64_t>> points_;  ///< of the symbolic dimensions
  std::vector<std::vector<int64_t>> extents_;       ///< of the stage's axes, per point
  std::vector<bool> used_;                          ///< of the stage's axes
  std::set<std::string> names_;
  std::set<int> written_, read_;
};

}  // namespace

void verify(const TensorProgram& program, const SourceMap& source) { Verifier(program, source).run(); }

void verify(const TensorProgram& program, std::string_view origin) {
  SourceMap source;
  source.place = origin;
  verify(program, source);
}

}  // namespace rgen::ir
