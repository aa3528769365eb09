// Operands that lie along the reduction (Q·Kᵀ): vectors would be gathered or transposed again for every tile. Or across it (planes of
// channels): instructions that sum neighbours find none, and each step of the reduction takes lines of its own. A copy of the tensor with
// the other axis innermost, made once before the nest, is a nest of its own; the model says which way is faster. For a CPU: stageable.h is
// what a GPU wants.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "rtile/nest.h"

namespace rgen::rtile {

/// The nests with those that copy (Nest::copies), each behind what it reads. Nothing if no product gains.
/// Pre: `nests` are those of the program, all or none of them copying.
std::optional<Rewritten> relayout(const ir::TensorProgram& program, const std::vector<Nest>& nests);
/// ... of the factors that lie across the reduction, the reduction's dimension innermost.
std::optional<Rewritten> reduction_innermost(const ir::TensorProgram& program, const std::vector<Nest>& nests);

/// Is each element read often enough, along output axes on which it does not depend, for a copy to pay?
bool read_often(const Nest& nest, const ir::Access& a);

/// How a factor should lie: this dimension innermost, in this type, its rows on lines or, of less than a line, one after the other.
struct FactorCopy {
  size_t dimension;
  DType dtype;
  bool dense = false;
};
/// The nests with copies of the products' factors that `wanted` gives (factor, the other one) another form: of both factors of those to be
/// staged (Nest::stage), else of one, whose other has an axis of its own. Nothing if there is none.
std::optional<Rewritten> copy_factors(
    const ir::TensorProgram& program, const std::vector<Nest>& nests, bool stage,
    const std::function<std::optional<FactorCopy>(const Nest&, const ir::Access&, const ir::Access&)>& wanted);

/// The strides of a copy, its last dimension innermost.
std::vector<ir::Size> copied_strides(const std::vector<ir::Size>& shape, DType dtype, bool dense);

/// nests[reader], and before it a nest that copies what it reads through `a` into such a tensor.
/// Pre: a.index is not empty; the type holds the tensor's values.
void copy_before(size_t reader, const ir::Access& a, const FactorCopy& form, ir::TensorProgram& program, std::vector<Nest>& nests);
/// The number of the nest that copies into this tensor (Nest::copies); −1: there is none.
int copying_nest(const std::vector<Nest>& nests, int tensor);
/// The nest's reads through `a` replaced by those of a tensor `to` through `with`.
void replace_reads(Nest& nest, const ir::Access& a, const ir::Access& with);

}  // namespace rgen::rtile
