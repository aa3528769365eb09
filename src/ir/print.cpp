// Programs as text of the second form. Reading it back gives the same program: every choice here mirrors resolve.cpp.
#include <charconv>
#include <cmath>

#include "ir/document.h"
#include "ir/ir.h"

namespace rgen::ir {

namespace {

/// How tightly a text binds: a text of a lower level stands in parentheses where a higher one is wanted.
enum Level { comparison, sum, product, factor };

struct Text {
  std::string text;
  Level level;
};

std::string at_level(const Text& t, Level wanted) { return t.level < wanted ? "(" + t.text + ")" : t.text; }

std::string number(double v) {
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[40];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr};
}

/// A number that is no whole number to the parser, which would join one with an axis into an index.
std::string real(double v) {
  const std::string s = number(v);
  return s.find_first_of(".einf") == std::string::npos ? s + ".0" : s;
}

Text of(const Size& s, const std::vector<Dim>& dims) {
  switch (s.op()) {
    case Size::Op::constant:
      return {std::to_string(s.value()), factor};
    case Size::Op::dim:
      return {dims[size_t(s.dim_index())].name, factor};
    default:
      break;
  }
  const bool additive = s.op() == Size::Op::add || s.op() == Size::Op::sub;
  const char* op = s.op() == Size::Op::add   ? " + "
                   : s.op() == Size::Op::sub ? " - "
                   : s.op() == Size::Op::mul ? "*"
                   : s.op() == Size::Op::div ? "/"
                                             : "%";
  return {at_level(of(s.lhs(), dims), additive ? sum : product) + op + at_level(of(s.rhs(), dims), additive ? product : factor),
          additive ? sum : product};
}

Text of(const Index& index, const std::vector<Axis>& axes) {
  std::vector<Text> parts;  // without their signs
  std::vector<bool> negative;
  const auto add = [&](int64_t coef, const Text& what) {
    const int64_t size = coef < 0 ? -coef : coef;
    parts.push_back(size == 1 ? what : Text{std::to_string(size) + "*" + at_level(what, factor), product});
    negative.push_back(coef < 0);
  };
  for (const Index::Term& t : index.terms) add(t.coef, {axes[size_t(t.axis)].name, factor});
  for (const Index::Floor& f : index.floors) add(f.coef, {at_level(of(f.inner, axes), factor) + "/" + std::to_string(f.divisor), product});
  if (index.constant != 0 || parts.empty()) {
    parts.push_back({std::to_string(index.constant < 0 ? -index.constant : index.constant), factor});
    negative.push_back(index.constant < 0);
  }
  if (parts.size() == 1 && !negative[0]) return parts[0];
  const bool scaled = parts[0].text[0] >= '0' && parts[0].text[0] <= '9';  // -3*i is (-3)*i, but -i/2 is not -(i/2)
  std::string text = (negative[0] ? "-" : "") + at_level(parts[0], negative[0] && !scaled ? factor : product);
  for (size_t i = 1; i < parts.size(); ++i) text += (negative[i] ? " - " : " + ") + at_level(parts[i], product);
  return {text, parts.size() > 1 ? sum : parts[0].level};
}

class ExprPrinter {
 public:
  ExprPrinter(const TensorProgram& program, const std::vector<Axis>& axes) : program_(program), axes_(axes) {}

  Text of(const Expr& e) const {
    return std::visit(overloaded{[](const Const& c) {
                                   return Text{number(c.value), factor};
                                 },
                                 [&](const Access& a) { return access(a); }, [&](const IndexValue& i) { return ir::of(i.index, axes_); },
                                 [&](const Unary& u) {
                                   if (u.op == UnaryOp::neg) return Text{"-" + at_level(of(*u.x), factor), factor};
                                   return call(to_string(u.op), {u.x.get()});
                                 },
                                 [&](const Binary& b) { return binary(b); },
                                 [&](const Select& s) {
                                   return call("select", {s.condition.get(), s.yes.get(), s.no.get()});
                                 },
                                 [&](const Cast& c) { return call(to_string(c.dtype), {c.x.get()}); }},
                      e.node);
  }

 private:
  Text access(const Access& a) const {
    std::string text = program_[a.tensor].name + "[";
    for (size_t d = 0; d < a.index.size(); ++d) text += (d ? ", " : "") + ir::of(a.index[d], axes_).text;
    if (a.out_of_bounds && !a.index.empty()) text += " ? " + number(*a.out_of_bounds);
    return {text + "]", factor};
  }

  Text call(std::string_view function, std::initializer_list<const Expr*> args) const {
    std::string text = std::string(function) + "(";
    for (const Expr* const* a = args.begin(); a != args.end(); ++a) text += (a == args.begin() ? "" : ", ") + of(**a).text;
    return {text + ")", factor};
  }

  Text operand(const Expr& e, const Expr& other) const {
    const auto* c = std::get_if<Const>(&e.node);
    return c && std::holds_alternative<IndexValue>(other.node) ? Text{real(c->value), factor} : of(e);
  }

  Text binary(const Binary& b) const {
    const std::string op(to_string(b.op));
    switch (b.op) {
      case BinaryOp::min:
      case BinaryOp::max:
      case BinaryOp::pow:
        return call(op, {b.x.get(), b.y.get()});
      case BinaryOp::add:
      case BinaryOp::sub:
        return {at_level(operand(*b.x, *b.y), sum) + " " + op + " " + at_level(operand(*b.y, *b.x), product), sum};
      case BinaryOp::mul:
      case BinaryOp::div:
        return {at_level(operand(*b.x, *b.y), product) + " " + op + " " + at_level(operand(*b.y, *b.x), factor), product};
      default:
        return {at_level(of(*b.x), sum) + " " + op + " " + at_level(of(*b.y), sum), comparison};
    }
  }

  const TensorProgram& program_;
  const std::vector<Axis>& axes_;
};

std::string declarations(const std::vector<Axis>& axes, size_t begin, size_t end, const std::vector<Dim>& dims) {
  std::string text;
  for (size_t a = begin; a < end; ++a) text += (a > begin ? ", " : "") + axes[a].name + ":" + of(axes[a].extent, dims).text;
  return text;
}

Json json_of(const Size& s, const std::vector<Dim>& dims) {
  if (s.is_const()) return s.value();
  return of(s, dims).text;
}

Json json_of(const std::vector<Size>& sizes, const std::vector<Dim>& dims) {
  Json list = Json::array();
  for (const Size& s : sizes) list.push_back(json_of(s, dims));
  return list;
}

std::string_view name_of(Math math) { return math == Math::tf32 ? "tf32" : math == Math::bf16x3 ? "bf16x3" : "ieee"; }

}  // namespace

std::string print_statement(const TensorProgram& program, const Stage& stage) {
  const size_t n_out = size_t(stage.n_out);
  const std::string left = program[stage.output].name + "[" + declarations(stage.axes, 0, n_out, program.dims) + "] = ";
  const std::string body = ExprPrinter(program, stage.axes).of(*stage.body).text;
  if (stage.reduce == ReduceOp::none) return left + body;
  return left + std::string(to_string(stage.reduce)) + "(" + declarations(stage.axes, n_out, stage.axes.size(), program.dims) + " | " +
         body + ")";
}

std::string print_json(const TensorProgram& program) {
  Json spec;
  spec["name"] = program.name;
  if (program.math != Math::ieee) spec["math"] = name_of(program.math);
  for (const Dim& d : program.dims) spec["dims"][d.name] = {{"min", d.min}, {"max", d.max}, {"multiple_of", d.multiple_of}};
  spec["inputs"] = Json::object();
  for (int i : program.inputs) {
    const Tensor& t = program[i];
    Json& in = spec["inputs"][t.name];
    in["shape"] = json_of(t.shape, program.dims);
    in["dtype"] = to_string(t.dtype);
    if (t.constant) in["constant"] = true;
    if (t.strides != row_major(t.shape)) in["strides"] = json_of(t.strides, program.dims);
  }
  for (const Stage& s : program.stages) spec["compute"].push_back(print_statement(program, s));
  for (int o : program.outputs) spec["outputs"].push_back(program[o].name);
  return spec.dump(2);
}

}  // namespace rgen::ir
