// The second form as read from a document, before names are resolved: what presets expand to and `assemble` turns into a program.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "ir/tensor_program.h"

namespace rgen::ir {

/// A number, or an expression of dimensions. `place` names it in errors.
struct SizeText {
  std::variant<int64_t, std::string> value;
  std::string place;
};
struct DraftDim {
  std::string name;
  std::variant<SizeText, Dim> value;
  std::string place;
};
struct DraftInput {
  std::string name;
  std::vector<SizeText> shape, strides;  ///< strides: empty = row-major
  DType dtype = DType::f32;
  bool constant = false;
  std::optional<double> out_of_bounds;
  std::string place;
};
struct DraftStatement {
  std::string text, place;
};
struct DraftOutput {
  std::string name;
  std::optional<DType> dtype;
  std::string place;
};
struct Draft {
  std::string name, place;
  Math math = Math::ieee;
  std::vector<DraftDim> dims;
  std::vector<DraftInput> inputs;
  bool infer_inputs = false;  ///< tensors that no statement writes are f32 inputs, of the extents of the axes that index them
  std::vector<DraftStatement> statements;
  std::vector<DraftOutput> outputs;  ///< empty: what is written and never read
};

/// Where the parts of a program stand in their source, for the errors of `verify`.
struct SourceMap {
  std::string place;                               ///< of the program
  std::map<int, std::string> stages, tensors;      ///< by index
  std::unordered_map<const Expr*, int> column_of;  ///< of accesses, in their stage's text
};

/// Resolves names, orders the statements, moves nested reductions to stages of their own, and verifies.
/// Throws Error{invalid_spec}.
TensorProgram assemble(const Draft& draft);

void verify(const TensorProgram& program, const SourceMap& source);

}  // namespace rgen::ir
