// Which outputs the reference computes, and what of each stage they need: boxes of elements.
#pragma once
#include <optional>
#include <vector>

#include "ir/tensor_program.h"

namespace rgen::ir::reference {

/// lo <= x < hi per dimension.
struct Box {
  std::vector<int64_t> lo, hi;
  int64_t volume() const;
};

/// A program whose symbolic dimensions have values.
struct Extents {
  std::vector<std::vector<int64_t>> tensor;  ///< shapes
  std::vector<std::vector<int64_t>> stage;   ///< axes
  Extents(const TensorProgram& program, const std::vector<int64_t>& dim_values);
};

/// Per stage, the smallest box known to hold what the box `out` of tensor `output` needs of its tensor; none: nothing.
std::vector<std::optional<Box>> demand(const TensorProgram& program, const Extents& extents, int output, const Box& out);
/// Scalar operations of computing all of `demanded`; `operations`: per stage and point.
double cost(const TensorProgram& program, const Extents& extents, const std::vector<std::optional<Box>>& demanded,
            const std::vector<int64_t>& operations);

/// Boxes of an output for about `budget` operations: the corners, seeded runs of neighbours, and the first and last elements along each
/// axis, whole where the budget allows and seeded runs of them where not.
std::vector<Box> sample(const TensorProgram& program, const Extents& extents, int output, const std::vector<int64_t>& operations,
                        double budget);

}  // namespace rgen::ir::reference
