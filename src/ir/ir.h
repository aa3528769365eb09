// The passes of the front end. Order: parse → verify → (rtile takes over). `reference` is independent of all that follows.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/tensor_program.h"

namespace rgen::ir {

/// The operators of `ops/`, which are compiled into the library: nothing is read at run time.
struct PresetParameter {
  std::string name, type, meaning;
  bool required;
};
struct PresetInfo {
  std::string name, summary, expression;
  std::vector<PresetParameter> parameters;
};
std::vector<PresetInfo> list_presets();

/// All programs of a JSON document (an object, an array, or {"workloads": […]}), in order. `origin` names the source in errors
/// (a file name or "-"). A parse error of the document throws; an error in one entry throws only when that entry is built.
struct SpecEntry {
  std::string name;                      ///< "" when the entry has none or is malformed
  std::function<TensorProgram()> build;  ///< parse + verify; throws Error{invalid_spec}
};
std::vector<SpecEntry> parse_specs(std::string_view json_text, std::string_view origin);
/// The short form: statements separated by ';', extents by name, all inputs are f32.
/// 'C[m,n] = sum(k | A[m,k]*B[k,n])' with {m:128,…}: an axis without a range takes its extent from `extents`.
TensorProgram parse_short(std::string_view statements, const std::map<std::string, int64_t>& extents,
                          std::string_view origin = "expression");
/// parse_specs of exactly one program.
TensorProgram parse_program(std::string_view json_text, std::string_view origin = "spec");

/// The dtype in which an expression is computed: f32 or s32; none for what has no dtype of its own (whole numbers, axes, comparisons).
/// Exact integers stay s32 under + - * min max; a quotient, a power, or any floating operand makes f32; a cast to T computes in T's
/// accumulation.
std::optional<DType> expr_dtype(const TensorProgram& program, const Expr& e);
/// The dtype of the tensor that a stage writes: that of the body's outermost cast, else the accumulation dtype of the body.
DType stage_dtype(const TensorProgram& program, ReduceOp reduce, const Expr& body);

/// Shapes, dtypes, bounds (for every value of the symbolic dimensions), reductions, unused axes and tensors, order and cycles.
/// Throws Error{invalid_spec}. Post: every access is inside its tensor or has out_of_bounds.
void verify(const TensorProgram& program, std::string_view origin);

/// The program as a JSON document of the second form; parse_program(print_json(p)) is p again.
std::string print_json(const TensorProgram& program);
/// One statement a line, as in "compute".
std::string print_statement(const TensorProgram& program, const Stage& stage);

/// Same tensors, stages, dimensions and interface, by structure; names count, stored positions in memory do not.
bool equal(const TensorProgram& a, const TensorProgram& b);

/// The oracle: every stage in f64, naively, in the order of the program. Inputs and outputs are typed buffers in the manifest's
/// order with the tensors' strides; outputs are written as f64, row-major, *before* rounding to the output dtype.
/// `dim_values` has one value per symbolic dimension. Above `exact_limit` scalar operations only a sample is computed (see Reference).
struct Reference {
  std::vector<std::vector<double>> outputs;    ///< row-major f64, one per output; 0 where not computed
  std::vector<std::vector<double>> magnitude;  ///< per element Σ|terms| (what the rounding error scales with); same shape
  std::vector<std::vector<int64_t>> sampled;   ///< per output the flat positions computed; empty = all
};
Reference evaluate_reference(const TensorProgram& program, std::span<const void* const> inputs, const std::vector<int64_t>& dim_values = {},
                             int64_t exact_limit = int64_t{1} << 26);

}  // namespace rgen::ir
