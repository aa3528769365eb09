#include "ir/builder.h"

#include "base/error.h"
#include "ir/ir.h"
#include "ir/normalise.h"
#include "ir/syntax.h"

namespace rgen::ir {

static void check_name(const std::string& name) {
  if (!syntax::is_name(name) || name == "inf")
    throw Error(ErrorCode::invalid_spec, "'" + name + "' is not a letter followed by letters, digits or '_'", "builder");
}

Ex TensorRef::padded(double outside, const std::vector<Ax>& indices) const {
  std::vector<Index> list;
  for (const Ax& a : indices) list.push_back(a.index);
  return access(id_, std::move(list), outside);
}

Builder::Builder(std::string name, Math math) {
  program_.name = std::move(name);
  program_.math = math;
}

Size Builder::dim(const std::string& name, int64_t min, int64_t max, int64_t multiple_of) {
  check_name(name);
  if (min < 1 || max < min || max > int64_t{1} << 31 || multiple_of < 1 || max / multiple_of * multiple_of < min)
    throw Error(ErrorCode::invalid_spec, "dimension '" + name + "' needs 1 <= min <= max <= 2^31 and a multiple of multiple_of between",
                "builder");
  program_.dims.push_back({name, min, max, multiple_of});
  return Size::dim(int(program_.dims.size()) - 1);
}

Ax Builder::axis(const std::string& name, const Size& extent) {
  check_name(name);
  axes_.push_back({name, extent});
  return {Index::axis(int(axes_.size()) - 1)};
}

TensorRef Builder::input(const std::string& name, std::vector<Size> shape, DType dtype, InputOptions options) {
  check_name(name);
  Tensor t;
  t.name = name;
  t.dtype = dtype;
  t.kind = TensorKind::input;
  t.constant = options.constant;
  t.strides = options.strides.empty() ? row_major(shape) : std::move(options.strides);
  t.shape = std::move(shape);
  // Inputs stand before all other tensors, as in the JSON form: those already read by stages keep their numbers only if none follows.
  if (!program_.stages.empty()) throw Error(ErrorCode::invalid_spec, "input '" + name + "' comes after the first stage", "builder");
  program_.tensors.push_back(std::move(t));
  program_.inputs.push_back(int(program_.tensors.size()) - 1);
  return TensorRef(program_.inputs.back());
}

TensorRef Builder::stage(const std::string& name, const std::vector<Ax>& axes, const Ex& body) {
  return add_stage(name, axes, axes.size(), ReduceOp::none, body.expr);
}

TensorRef Builder::stage(const std::string& name, const std::vector<Ax>& axes, const Reduction& reduction) {
  std::vector<Ax> all = axes;
  all.insert(all.end(), reduction.axes.begin(), reduction.axes.end());
  return add_stage(name, all, axes.size(), reduction.op, reduction.body.expr);
}

/// The builder's axes become the stage's: each by its position in `axes`.
TensorRef Builder::add_stage(const std::string& name, const std::vector<Ax>& axes, size_t n_out, ReduceOp reduce, const ExprPtr& body) {
  check_name(name);
  std::vector<Index> position(axes_.size(), Index::number(-1));
  std::vector<Axis> own;
  for (const Ax& a : axes) {
    const bool plain = a.index.is_affine() && a.index.constant == 0 && a.index.terms.size() == 1 && a.index.terms[0].coef == 1;
    if (!plain) throw Error(ErrorCode::invalid_spec, "the axes of stage '" + name + "' are plain axes, not expressions of them", "builder");
    const size_t id = size_t(a.index.terms[0].axis);
    position[id] = Index::axis(int(own.size()));
    own.push_back(axes_[id]);
  }
  const auto local = [&](const Index& index) {
    for (size_t a = 0; a < axes_.size(); ++a)
      if (index.uses(int(a)) && position[a] == Index::number(-1))
        throw Error(ErrorCode::invalid_spec, "axis '" + axes_[a].name + "' is not an axis of stage '" + name + "'", "builder");
    return substitute(index, position);
  };
  ExprPtr renumbered = transform(body, [&](const ExprPtr& e) -> ExprPtr {
    if (const auto* i = std::get_if<IndexValue>(&e->node)) return index_value(local(i->index));
    const auto* a = std::get_if<Access>(&e->node);
    if (!a) return nullptr;
    if (a->index.size() != program_[a->tensor].shape.size())
      throw Error(ErrorCode::invalid_spec,
                  "'" + program_[a->tensor].name + "' is given " + std::to_string(a->index.size()) + " indices for " +
                      std::to_string(program_[a->tensor].shape.size()) + " dimensions",
                  "builder");
    std::vector<Index> indices;
    for (const Index& i : a->index) indices.push_back(local(i));
    return access(a->tensor, std::move(indices), a->out_of_bounds);
  });
  renumbered = without_needless_bounds(program_, own, renumbered);

  Tensor t;
  t.name = name;
  for (size_t i = 0; i < n_out; ++i) t.shape.push_back(own[i].extent);
  t.strides = row_major(t.shape);
  t.dtype = stage_dtype(program_, reduce, *renumbered);
  program_.tensors.push_back(std::move(t));
  const int id = int(program_.tensors.size()) - 1;
  program_.stages.push_back({id, std::move(own), int(n_out), reduce, std::move(renumbered)});
  return TensorRef(id);
}

TensorProgram Builder::build(const std::vector<TensorRef>& outputs) const {
  TensorProgram p = program_;
  for (const TensorRef& o : outputs) {
    if (p[o.id()].kind == TensorKind::input)
      throw Error(ErrorCode::invalid_spec, "'" + p[o.id()].name + "' is an input, not an output", "builder");
    p.tensors[size_t(o.id())].kind = TensorKind::output;
    p.outputs.push_back(o.id());
  }
  verify(p, "builder");
  return p;
}

}  // namespace rgen::ir
