#include "ir/syntax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ir/lexer.h"

namespace rgen::ir::syntax {

std::optional<UnaryOp> unary_function(std::string_view name) {
  for (UnaryOp op : {UnaryOp::exp, UnaryOp::log, UnaryOp::sqrt, UnaryOp::rsqrt, UnaryOp::tanh, UnaryOp::erf, UnaryOp::sigmoid, UnaryOp::abs,
                     UnaryOp::floor})
    if (to_string(op) == name) return op;
  return std::nullopt;
}

std::optional<BinaryOp> binary_function(std::string_view name) {
  for (BinaryOp op : {BinaryOp::min, BinaryOp::max, BinaryOp::pow})
    if (to_string(op) == name) return op;
  return std::nullopt;
}

std::optional<ReduceOp> reduction(std::string_view name) {
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min})
    if (to_string(op) == name) return op;
  return std::nullopt;
}

std::vector<std::string> function_names() {
  return {"sum", "prod", "max",   "min",    "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid",
          "abs", "pow",  "floor", "select", "f32", "f16", "bf16", "s8",    "u8",   "s32"};
}

namespace {

/// Recursive descent over the tokens; one method per rule of the grammar.
class Parser {
 public:
  Parser(std::string_view text, const std::string& place) : place_(place), tokens_(tokenize(text, place)) {}

  Statement statement() {
    Statement s;
    s.place = place_;
    s.column = peek().column;
    s.name = name("the tensor that the statement writes");
    expect("[", "after '" + s.name + "'");
    if (!accept("]")) {
      s.axes = axes();
      expect("]", "after the axes of '" + s.name + "'");
    }
    expect("=", "after '" + s.name + "[…]'");
    s.value = expression();
    end();
    return s;
  }

  NodePtr whole_expression() {
    NodePtr e = expression();
    end();
    return e;
  }

 private:
  using Kind = Node::Kind;

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is(std::string_view symbol) const { return peek().kind == Token::Kind::symbol && peek().text == symbol; }
  bool accept(std::string_view symbol) {
    if (!is(symbol)) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view symbol, const std::string& where) {
    if (!accept(symbol)) fail(place_, peek().column, "expected '" + std::string(symbol) + "' " + where + ", found " + describe(peek()));
  }
  std::string name(const std::string& what) {
    if (peek().kind != Token::Kind::name) fail(place_, peek().column, "expected " + what + ", found " + describe(peek()));
    return std::string(tokens_[at_++].text);
  }
  void end() const {
    if (peek().kind != Token::Kind::end) fail(place_, peek().column, "unexpected " + describe(peek()) + " after the expression");
  }

  std::unique_ptr<Node> node(Kind kind, int column, std::string_view text) const {
    auto n = std::make_unique<Node>();
    n->kind = kind;
    n->column = column;
    n->text = text;
    return n;
  }
  void adopt(Node& parent, NodePtr child) const {
    parent.depth = std::max(parent.depth, child->depth + 1);
    if (parent.depth > max_depth) fail(place_, child->column, "the expression is nested too deeply; split it into several statements");
    parent.args.push_back(std::move(child));
  }
  NodePtr binary(std::string_view op, int column, NodePtr x, NodePtr y) const {
    auto n = node(Kind::binary, column, op);
    adopt(*n, std::move(x));
    adopt(*n, std::move(y));
    return n;
  }

  std::vector<AxisDecl> axes() {
    std::vector<AxisDecl> list;
    do {
      AxisDecl a;
      a.column = peek().column;
      a.name = name("an axis");
      if (accept(":")) a.extent = sum();
      for (const AxisDecl& other : list)
        if (other.name == a.name) fail(place_, a.column, "axis '" + a.name + "' is named twice");
      list.push_back(std::move(a));
    } while (accept(","));
    return list;
  }

  NodePtr expression() {
    NodePtr x = sum();
    for (std::string_view op : {"<", "<=", ">", ">=", "==", "!="}) {
      const int column = peek().column;
      if (accept(op)) return binary(op, column, std::move(x), sum());
    }
    return x;
  }

  NodePtr sum() {
    NodePtr x = product();
    while (is("+") || is("-")) {
      const Token op = tokens_[at_++];
      x = binary(op.text, op.column, std::move(x), product());
    }
    return x;
  }

  NodePtr product() {
    NodePtr x = factor();
    while (is("*") || is("/") || is("%")) {
      const Token op = tokens_[at_++];
      x = binary(op.text, op.column, std::move(x), factor());
    }
    return x;
  }

  NodePtr factor() {
    if (++nesting_ > max_depth / 2) fail(place_, peek().column, "the expression is nested too deeply; split it into several statements");
    NodePtr x;
    const int column = peek().column;
    if (accept("-")) {
      auto n = node(Kind::negate, column, "-");
      adopt(*n, factor());
      x = std::move(n);
    } else {
      x = primary();
    }
    --nesting_;
    return x;
  }

  NodePtr primary() {
    const Token t = peek();
    if (t.kind == Token::Kind::number) {
      ++at_;
      auto n = node(Kind::number, t.column, t.text);
      n->number = t.number;
      n->whole = t.whole;
      return n;
    }
    if (accept("(")) {
      NodePtr x = expression();
      expect(")", "to close the '(' of column " + std::to_string(t.column));
      return x;
    }
    if (t.kind != Token::Kind::name) fail(place_, t.column, "expected a number, a tensor, an axis or '(', found " + describe(t));
    ++at_;
    if (is("[")) return access(t);
    if (is("(")) return reduction(t.text) && is_reduction(t.text) ? reduce(t) : call(t);
    if (t.text == "inf") {
      auto n = node(Kind::number, t.column, t.text);
      n->number = std::numeric_limits<double>::infinity();
      return n;
    }
    return node(Kind::name, t.column, t.text);
  }

  NodePtr access(const Token& t) {
    auto n = node(Kind::access, t.column, t.text);
    expect("[", "");
    if (accept("]")) return n;
    do {
      adopt(*n, sum());
      if (is("?")) {
        const int column = peek().column;
        ++at_;
        const double value = outside_value();
        if (n->out_of_bounds && *n->out_of_bounds != value)
          fail(place_, column, "one access has two values outside its shape; it takes one");
        n->out_of_bounds = value;
      }
    } while (accept(","));
    expect("]", "after the indices of '" + std::string(t.text) + "'");
    return n;
  }

  double outside_value() {
    const bool negative = accept("-");
    const Token t = peek();
    const bool inf = t.kind == Token::Kind::name && t.text == "inf";
    if (!inf && t.kind != Token::Kind::number) fail(place_, t.column, "expected a number or 'inf' after '?', found " + describe(t));
    ++at_;
    const double v = inf ? std::numeric_limits<double>::infinity() : t.number;
    return negative ? -v : v;
  }

  /// max and min are reductions when a '|' stands between their parentheses, functions otherwise.
  bool is_reduction(std::string_view text) const {
    if (text == "sum" || text == "prod") return true;
    int depth = 0;
    for (size_t i = at_; i < tokens_.size(); ++i) {
      if (tokens_[i].kind != Token::Kind::symbol) continue;
      const std::string_view s = tokens_[i].text;
      depth += s == "(" || s == "[";
      depth -= s == ")" || s == "]";
      if (depth == 0) return false;
      if (depth == 1 && s == "|") return true;
    }
    return false;
  }

  NodePtr reduce(const Token& t) {
    auto n = node(Kind::reduce, t.column, t.text);
    expect("(", "");
    n->axes = axes();
    expect("|", "after the axes of '" + std::string(t.text) + "'");
    adopt(*n, expression());
    expect(")", "to close '" + std::string(t.text) + "('");
    return n;
  }

  NodePtr call(const Token& t) {
    auto n = node(Kind::call, t.column, t.text);
    expect("(", "");
    do adopt(*n, expression());
    while (accept(","));
    expect(")", "to close '" + std::string(t.text) + "('");
    return n;
  }

  const std::string& place_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace

Statement parse_statement(std::string_view text, const std::string& place) { return Parser(text, place).statement(); }
NodePtr parse_expression(std::string_view text, const std::string& place) { return Parser(text, place).whole_expression(); }

}  // namespace rgen::ir::syntax
