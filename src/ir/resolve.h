// Syntax trees → stages.
#pragma once
#include <map>
#include <set>
#include <string>

#include "ir/draft.h"
#include "ir/syntax.h"

namespace rgen::ir {

constexpr int64_t max_extent = int64_t{1} << 31;

/// The values of dimension names: numbers, or expressions of the symbolic dimensions.
using Sizes = std::map<std::string, Size, std::less<>>;

/// The value of an extent's tree. Throws at the column of what is wrong.
Size resolve_size(const syntax::Node& node, const Sizes& sizes, const std::string& place);
/// `s` again. Pre-check of constants: 1 <= s <= 2^31.
Size check_extent(const Size& s, const std::string& what, const std::string& context);

/// row_major(shape), with the place of an overflow.
std::vector<Size> dense_strides(const std::vector<Size>& shape, const std::string& place);

/// Appends stages to a program, one statement after the other; each reads what is already there.
class Resolver {
 public:
  /// `reserved`: names that tensors made for nested reductions may not take.
  Resolver(TensorProgram& program, const Sizes& sizes, SourceMap& source, std::set<std::string> reserved);

  /// Adds an input or an intermediate by name.
  int add_tensor(Tensor tensor, const std::string& place);
  /// The value read outside `tensor` where an access says none itself.
  void set_out_of_bounds(int tensor, double value) { outside_[tensor] = value; }
  /// Adds the stages of a statement; `dtype`: what the tensor is cast to at last, beyond what the statement says.
  void add_statement(const syntax::Statement& statement, std::optional<DType> dtype);

 private:
  struct Value {
    ExprPtr expr;
    bool whole = false;  ///< a number written without a point: beside an axis it makes an index
  };
  struct Frame {
    std::vector<Axis> axes;
  };

  Value value(const syntax::Node& node, const Frame& frame);
  Value name_value(const syntax::Node& node, const Frame& frame);
  Value binary_value(const syntax::Node& node, const Frame& frame);
  ExprPtr call(const syntax::Node& node, const Frame& frame);
  ExprPtr access_value(const syntax::Node& node, const Frame& frame);
  ExprPtr nested_reduction(const syntax::Node& node, const Frame& frame);
  ExprPtr symbolic_value(const std::string& name, const Size& size);
  Index index(const syntax::Node& node, const Frame& frame);
  Index index_product(const syntax::Node& node, const Frame& frame);

  /// `frame` and the axes of the reduction `node`; then its body, with every new axis used.
  Frame inner_frame(const syntax::Node& node, const Frame& frame);
  ExprPtr reduction_body(const syntax::Node& node, const Frame& inner, size_t n_outer);
  Size axis_extent(const syntax::AxisDecl& axis);
  int add_stage(std::string name, std::vector<Axis> axes, int n_out, ReduceOp reduce, ExprPtr body);
  std::string unique_name(const std::string& base);
  std::vector<std::string> visible_names(const Frame& frame) const;
  [[noreturn]] void fail(const syntax::Node& node, const std::string& message) const;

  TensorProgram& program_;
  const Sizes& sizes_;
  SourceMap& source_;
  std::set<std::string> reserved_;
  std::map<std::string, int, std::less<>> tensors_;
  std::map<int, double> outside_;
  std::map<std::string, int> last_;  ///< of a symbolic dimension: the tensor with its largest index
  const syntax::Statement* statement_ = nullptr;
  std::map<std::string, Size, std::less<>> ranges_;  ///< of the statement's axes, as first given
};

}  // namespace rgen::ir
