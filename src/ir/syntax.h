// Index notation as text → syntax trees. The grammar is in docs/spec.md; names mean nothing yet (assemble.h resolves them).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/tensor_program.h"

namespace rgen::ir::syntax {

struct Node;
using NodePtr = std::unique_ptr<const Node>;

/// `name` or `name:extent`.
struct AxisDecl {
  std::string name;
  int column = 0;
  NodePtr extent;  ///< null: given elsewhere
};

struct Node {
  enum class Kind : uint8_t { number, name, access, call, reduce, negate, binary };
  Kind kind = Kind::number;
  int column = 0;                       ///< 1-based, in the text parsed
  int depth = 1;                        ///< longest path to a leaf; at most `max_depth`
  std::string text;                     ///< the name, the function, or the operator
  double number = 0;                    ///< of a number
  bool whole = false;                   ///< a number written as an integer of at most 2^53
  std::vector<NodePtr> args;            ///< operands, arguments, or one index per dimension
  std::vector<AxisDecl> axes;           ///< of a reduction
  std::optional<double> out_of_bounds;  ///< of an access
};
constexpr int max_depth = 500;

struct Statement {
  std::string name;
  int column = 1;
  std::vector<AxisDecl> axes;
  NodePtr value;
  std::string place;  ///< where the text stands, for errors: "spec.json: /compute/0"
};

/// Throw Error{invalid_spec} with context "PLACE: column N".
Statement parse_statement(std::string_view text, const std::string& place);
NodePtr parse_expression(std::string_view text, const std::string& place);
[[noreturn]] void fail(const std::string& place, int column, const std::string& message);

bool is_name(std::string_view s);
std::optional<UnaryOp> unary_function(std::string_view name);
std::optional<BinaryOp> binary_function(std::string_view name);
std::optional<ReduceOp> reduction(std::string_view name);
/// All functions, reductions and casts, for "did you mean".
std::vector<std::string> function_names();

}  // namespace rgen::ir::syntax
