#include "ir/resolve.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "ir/ir.h"
#include "ir/normalise.h"

namespace rgen::ir {

using syntax::Node;

namespace {

constexpr int64_t max_coefficient = int64_t{1} << 31;  // so that no product of two overflows

bool too_large(const Index& i) {
  const auto large = [](int64_t v) { return v > max_coefficient || v < -max_coefficient; };
  return large(i.constant) || std::any_of(i.terms.begin(), i.terms.end(), [&](const Index::Term& t) { return large(t.coef); }) ||
         std::any_of(i.floors.begin(), i.floors.end(),
                     [&](const Index::Floor& f) { return large(f.coef) || large(f.divisor) || too_large(f.inner); });
}

bool is_number(const Index& i) { return i.terms.empty() && i.floors.empty(); }

std::string join(const std::vector<std::string>& names) {
  std::string r;
  for (const std::string& n : names) r += (r.empty() ? "" : ", ") + n;
  return r;
}

/// `e` with the axes of its accesses and index values renumbered; `moved` hears of every access that changes.
template <class F>
ExprPtr renumber(const ExprPtr& e, const std::vector<Index>& with, F&& moved) {
  return transform(e, [&](const ExprPtr& x) -> ExprPtr {
    if (const auto* i = std::get_if<IndexValue>(&x->node)) return index_value(substitute(i->index, with));
    const auto* a = std::get_if<Access>(&x->node);
    if (!a) return nullptr;
    std::vector<Index> indices;
    for (const Index& i : a->index) indices.push_back(substitute(i, with));
    ExprPtr r = access(a->tensor, std::move(indices), a->out_of_bounds);
    moved(x.get(), r.get());
    return r;
  });
}

bool uses_axis(const Expr& e, int axis) {
  return std::visit(
      overloaded{[&](const Access& a) { return std::any_of(a.index.begin(), a.index.end(), [&](const Index& i) { return i.uses(axis); }); },
                 [](const Const&) { return false; }, [&](const IndexValue& i) { return i.index.uses(axis); },
                 [&](const Unary& u) { return uses_axis(*u.x, axis); },
                 [&](const Binary& b) { return uses_axis(*b.x, axis) || uses_axis(*b.y, axis); },
                 [&](const Select& s) { return uses_axis(*s.condition, axis) || uses_axis(*s.yes, axis) || uses_axis(*s.no, axis); },
                 [&](const Cast& c) { return uses_axis(*c.x, axis); }},
      e.node);
}

}  // namespace

Size check_extent(const Size& s, const std::string& what, const std::string& context) {
  if (s.is_const() && (s.value() < 1 || s.value() > max_extent))
    throw Error(ErrorCode::invalid_spec, what + " is " + std::to_string(s.value()) + "; extents are 1 to 2147483648", context);
  return s;
}

std::vector<Size> dense_strides(const std::vector<Size>& shape, const std::string& place) {
  try {
    return row_major(shape);
  } catch (const Error& e) { throw Error(e.code(), e.message(), place); }
}

Size resolve_size(const Node& node, const Sizes& sizes, const std::string& place) {
  const auto arg = [&](size_t i) { return resolve_size(*node.args[i], sizes, place); };
  switch (node.kind) {
    case Node::Kind::number:
      if (node.whole) return Size(int64_t(node.number));
      syntax::fail(place, node.column, "an extent is a whole number, not " + node.text);
    case Node::Kind::name: {
      if (const auto it = sizes.find(node.text); it != sizes.end()) return it->second;
      std::vector<std::string> names;
      for (const auto& entry : sizes) names.push_back(entry.first);
      syntax::fail(place, node.column, "unknown dimension '" + node.text + "'" + did_you_mean(node.text, names));
    }
    case Node::Kind::negate:
      return Size(0) - arg(0);
    case Node::Kind::binary: {
      constexpr std::string_view ops = "+-*/%";
      const size_t op = node.text.size() == 1 ? ops.find(node.text[0]) : std::string_view::npos;
      if (op == std::string_view::npos) break;
      try {
        return Size::make(std::array{Size::Op::add, Size::Op::sub, Size::Op::mul, Size::Op::div, Size::Op::mod}[op], arg(0), arg(1));
      } catch (const Error& e) {
        if (!e.context().empty()) throw;
        syntax::fail(place, node.column, e.message());
      }
    }
    default:
      break;
  }
  syntax::fail(place, node.column, "an extent is made of numbers, dimensions and + - * / % only");
}

Resolver::Resolver(TensorProgram& program, const Sizes& sizes, SourceMap& source, std::set<std::string> reserved)
    : program_(program), sizes_(sizes), source_(source), reserved_(std::move(reserved)) {}

void Resolver::fail(const Node& node, const std::string& message) const { syntax::fail(statement_->place, node.column, message); }

int Resolver::add_tensor(Tensor tensor, const std::string& place) {
  const int id = int(program_.tensors.size());
  tensors_[tensor.name] = id;
  reserved_.insert(tensor.name);
  source_.tensors[id] = place;
  program_.tensors.push_back(std::move(tensor));
  return id;
}

std::string Resolver::unique_name(const std::string& base) {
  std::string name = base;
  for (int i = 2; reserved_.count(name); ++i) name = base + std::to_string(i);
  return name;
}

std::vector<std::string> Resolver::visible_names(const Frame& frame) const {
  std::vector<std::string> names;
  for (const Axis& a : frame.axes) names.push_back(a.name);
  for (const auto& entry : sizes_) names.push_back(entry.first);
  return names;
}

Size Resolver::axis_extent(const syntax::AxisDecl& axis) {
  const std::string context = statement_->place + ": column " + std::to_string(axis.column);
  const auto known = ranges_.find(axis.name);
  if (!axis.extent) {
    if (known != ranges_.end()) return known->second;
    if (const auto it = sizes_.find(axis.name); it != sizes_.end())
      return ranges_[axis.name] = check_extent(it->second, "the extent of axis '" + axis.name + "'", context);
    throw Error(ErrorCode::invalid_spec, "axis '" + axis.name + "' has no range; write " + axis.name + ":EXTENT", context);
  }
  const Size extent =
      check_extent(resolve_size(*axis.extent, sizes_, statement_->place), "the extent of axis '" + axis.name + "'", context);
  if (known != ranges_.end() && !(known->second == extent))
    throw Error(ErrorCode::invalid_spec, "axis '" + axis.name + "' has two different ranges in this statement", context);
  return ranges_[axis.name] = extent;
}

int Resolver::add_stage(std::string name, std::vector<Axis> axes, int n_out, ReduceOp reduce, ExprPtr body) {
  Tensor t;
  t.name = std::move(name);
  for (int i = 0; i < n_out; ++i) t.shape.push_back(axes[size_t(i)].extent);
  t.strides = dense_strides(t.shape, statement_->place);
  body = without_needless_bounds(program_, axes, body);
  t.dtype = stage_dtype(program_, reduce, *body);
  const int id = add_tensor(std::move(t), statement_->place);
  source_.stages[int(program_.stages.size())] = statement_->place;
  program_.stages.push_back({id, std::move(axes), n_out, reduce, std::move(body)});
  return id;
}

Resolver::Frame Resolver::inner_frame(const Node& node, const Frame& frame) {
  Frame inner = frame;
  for (const syntax::AxisDecl& a : node.axes) {
    for (const Axis& outer : frame.axes)
      if (outer.name == a.name)
        syntax::fail(
            statement_->place, a.column,
            "axis '" + a.name + "' is reduced here, but already stands outside this reduction (on the left, or in a reduction around it)");
    inner.axes.push_back({a.name, axis_extent(a)});
  }
  return inner;
}

ExprPtr Resolver::reduction_body(const Node& node, const Frame& inner, size_t n_outer) {
  ExprPtr body = value(*node.args[0], inner).expr;
  for (size_t i = n_outer; i < inner.axes.size(); ++i)
    if (!uses_axis(*body, int(i)))
      syntax::fail(statement_->place, node.axes[i - n_outer].column,
                   "axis '" + inner.axes[i].name + "' is reduced but never used inside '" + node.text + "'");
  return body;
}

void Resolver::add_statement(const syntax::Statement& statement, std::optional<DType> dtype) {
  statement_ = &statement;
  ranges_.clear();
  Frame frame;
  for (const syntax::AxisDecl& a : statement.axes) frame.axes.push_back({a.name, axis_extent(a)});
  const int n_out = int(frame.axes.size());

  const Node* root = statement.value.get();
  ReduceOp reduce = ReduceOp::none;
  ExprPtr body;
  std::vector<Axis> axes = frame.axes;
  if (root->kind == Node::Kind::reduce) {
    reduce = *syntax::reduction(root->text);
    const Frame inner = inner_frame(*root, frame);
    body = reduction_body(*root, inner, frame.axes.size());
    axes = inner.axes;
  } else {
    body = value(*root, frame).expr;
  }
  if (!dtype || *dtype == stage_dtype(program_, reduce, *body)) {
    add_stage(statement.name, std::move(axes), n_out, reduce, std::move(body));
    return;
  }
  if (reduce != ReduceOp::none) {  // a reduction has one dtype: the cast is a stage of its own
    const int sum = add_stage(unique_name(statement.name + "_" + root->text), std::move(axes), n_out, reduce, std::move(body));
    std::vector<Index> all;
    for (int i = 0; i < n_out; ++i) all.push_back(Index::axis(i));
    body = access(sum, std::move(all));
  }
  add_stage(statement.name, frame.axes, n_out, ReduceOp::none, cast(*dtype, std::move(body)));
}

/// The reduction becomes a stage over the outer axes that its body uses; its place is taken by a read of that stage's tensor.
ExprPtr Resolver::nested_reduction(const Node& node, const Frame& frame) {
  const size_t n_outer = frame.axes.size();
  const Frame inner = inner_frame(node, frame);
  ExprPtr body = reduction_body(node, inner, n_outer);
  std::vector<Axis> axes;
  std::vector<Index> with(inner.axes.size()), read;
  for (size_t i = 0; i < inner.axes.size(); ++i) {
    if (i < n_outer && !uses_axis(*body, int(i))) continue;
    with[i] = Index::axis(int(axes.size()));
    axes.push_back(inner.axes[i]);
    if (i < n_outer) read.push_back(Index::axis(int(i)));
  }
  body = renumber(body, with, [&](const Expr* from, const Expr* to) { source_.column_of[to] = source_.column_of[from]; });
  const int id =
      add_stage(unique_name(statement_->name + "_" + node.text), std::move(axes), int(read.size()), *syntax::reduction(node.text), body);
  return access(id, std::move(read));
}

Resolver::Value Resolver::value(const Node& node, const Frame& frame) {
  switch (node.kind) {
    case Node::Kind::number:
      return {constant(node.number), node.whole};
    case Node::Kind::name:
      return name_value(node, frame);
    case Node::Kind::access:
      return {access_value(node, frame)};
    case Node::Kind::call:
      return {call(node, frame)};
    case Node::Kind::reduce:
      return {nested_reduction(node, frame)};
    case Node::Kind::negate: {
      Value v = value(*node.args[0], frame);
      return {unary(UnaryOp::neg, v.expr), v.whole};
    }
    case Node::Kind::binary:
      return binary_value(node, frame);
  }
  throw Error(ErrorCode::internal, "unknown syntax node");
}

Resolver::Value Resolver::name_value(const Node& node, const Frame& frame) {
  for (size_t i = 0; i < frame.axes.size(); ++i)
    if (frame.axes[i].name == node.text) return {index_value(Index::axis(int(i)))};
  if (const auto it = sizes_.find(node.text); it != sizes_.end()) {
    if (it->second.is_const()) return {constant(double(it->second.value())), true};
    return {symbolic_value(node.text, it->second)};
  }
  if (tensors_.count(node.text)) fail(node, "tensor '" + node.text + "' needs its indices: " + node.text + "[…]");
  fail(node, "unknown axis '" + node.text + "'" + did_you_mean(node.text, visible_names(frame)));
}

/// A symbolic dimension as a number: one more than the largest value of an axis of that extent.
ExprPtr Resolver::symbolic_value(const std::string& name, const Size& size) {
  auto it = last_.find(name);
  if (it == last_.end())
    it = last_.emplace(name, add_stage(unique_name("last_" + name), {{"i", size}}, 0, ReduceOp::max, index_value(Index::axis(0)))).first;
  return binary(BinaryOp::add, access(it->second, {}), constant(1));
}

Resolver::Value Resolver::binary_value(const Node& node, const Frame& frame) {
  const Value x = value(*node.args[0], frame), y = value(*node.args[1], frame);
  const auto* i = std::get_if<IndexValue>(&x.expr->node);
  const auto* j = std::get_if<IndexValue>(&y.expr->node);
  if ((i && (j || y.whole)) || (j && x.whole))  // of axes and whole numbers: the notation of indices
    if (node.text == "+" || node.text == "-" || (node.text == "*" && !(i && j)) || ((node.text == "/" || node.text == "%") && i && !j))
      return {index_value(index(node, frame))};
  if (node.text == "%") fail(node, "'%' takes an index (axes and whole numbers) and a positive whole number");
  static constexpr std::pair<std::string_view, BinaryOp> ops[] = {
      {"+", BinaryOp::add}, {"-", BinaryOp::sub}, {"*", BinaryOp::mul}, {"/", BinaryOp::div}, {"<", BinaryOp::lt},
      {"<=", BinaryOp::le}, {">", BinaryOp::gt},  {">=", BinaryOp::ge}, {"==", BinaryOp::eq}, {"!=", BinaryOp::ne}};
  for (const auto& [text, op] : ops)
    if (text == node.text)
      return {binary(op, x.expr, y.expr), x.whole && y.whole && (node.text == "+" || node.text == "-" || node.text == "*")};
  throw Error(ErrorCode::internal, "unknown operator " + node.text);
}

ExprPtr Resolver::call(const Node& node, const Frame& frame) {
  const auto want = [&](size_t n) {
    if (node.args.size() != n)
      fail(node, "'" + node.text + "' takes " + std::to_string(n) + " argument" + (n == 1 ? "" : "s") + ", not " +
                     std::to_string(node.args.size()));
  };
  const auto arg = [&](size_t i) { return value(*node.args[i], frame).expr; };
  if (const auto op = syntax::unary_function(node.text)) return want(1), unary(*op, arg(0));
  if (const auto type = parse_dtype(node.text)) return want(1), cast(*type, arg(0));
  if (node.text == "select") {
    want(3);
    ExprPtr condition = arg(0), yes = arg(1);
    return select(condition, yes, arg(2));
  }
  if (const auto op = syntax::binary_function(node.text)) {
    if (*op == BinaryOp::pow || node.args.size() < 2) want(2);
    ExprPtr x = arg(0);
    for (size_t i = 1; i < node.args.size(); ++i) x = binary(*op, x, arg(i));
    return x;
  }
  if (tensors_.count(node.text)) fail(node, "tensor '" + node.text + "' is indexed with brackets: " + node.text + "[…]");
  fail(node, "unknown function '" + node.text + "'" + did_you_mean(node.text, syntax::function_names()));
}

ExprPtr Resolver::access_value(const Node& node, const Frame& frame) {
  const auto it = tensors_.find(node.text);
  if (it == tensors_.end()) {
    std::vector<std::string> names;
    for (const auto& entry : tensors_) names.push_back(entry.first);
    fail(node, "unknown tensor '" + node.text + "'" + did_you_mean(node.text, names));
  }
  const Tensor& t = program_[it->second];
  if (node.args.size() != t.shape.size())
    fail(node, "tensor '" + node.text + "' has " + std::to_string(t.shape.size()) + " dimension" + (t.shape.size() == 1 ? "" : "s") +
                   ", but is given " + std::to_string(node.args.size()) + " indices");
  std::vector<Index> indices;
  for (const auto& a : node.args) indices.push_back(index(*a, frame));
  std::optional<double> outside = node.out_of_bounds;
  if (const auto o = outside_.find(it->second); !outside && o != outside_.end()) outside = o->second;
  ExprPtr e = access(it->second, std::move(indices), outside);
  source_.column_of[e.get()] = node.column;
  return e;
}

Index Resolver::index(const Node& node, const Frame& frame) {
  Index r;
  switch (node.kind) {
    case Node::Kind::number:
      if (!node.whole) fail(node, "an index is made of whole numbers, not " + node.text);
      r = Index::number(int64_t(node.number));
      break;
    case Node::Kind::name: {
      const auto axis = std::find_if(frame.axes.begin(), frame.axes.end(), [&](const Axis& a) { return a.name == node.text; });
      if (axis != frame.axes.end()) return Index::axis(int(axis - frame.axes.begin()));
      const auto size = sizes_.find(node.text);
      if (size == sizes_.end()) {
        std::vector<std::string> names = visible_names(frame);
        fail(node, "unknown axis '" + node.text + "'" + did_you_mean(node.text, names) +
                       (frame.axes.empty() ? "" : "; here: " + join({names.begin(), names.begin() + long(frame.axes.size())})));
      }
      if (!size->second.is_const()) fail(node, "an index may not contain the symbolic dimension '" + node.text + "'");
      r = Index::number(size->second.value());
      break;
    }
    case Node::Kind::negate:
      r = index(*node.args[0], frame) * -1;
      break;
    case Node::Kind::binary:
      r = index_product(node, frame);
      break;
    default:
      fail(node, "an index is made of axes, whole numbers and + - * / % only");
  }
  if (too_large(r)) fail(node, "a coefficient of this index is larger than 2^31");
  return r;
}

Index Resolver::index_product(const Node& node, const Frame& frame) {
  const Index x = index(*node.args[0], frame), y = index(*node.args[1], frame);
  if (node.text == "+") return x + y;
  if (node.text == "-") return x + y * -1;
  if (node.text == "*") {
    if (!is_number(x) && !is_number(y)) fail(node, "an index is affine: one factor of '*' must be a number");
    return is_number(y) ? x * y.constant : y * x.constant;
  }
  if (node.text == "/" || node.text == "%") {
    if (!is_number(y) || y.constant <= 0) fail(*node.args[1], "an index is divided by positive whole numbers only");
    return node.text == "/" ? floor_div(x, y.constant) : floor_mod(x, y.constant);
  }
  fail(node, "an index is made of axes, whole numbers and + - * / % only");
}

}  // namespace rgen::ir
