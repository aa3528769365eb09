// Windows whose values are summed, or of which the largest counts, one dimension after the other: R · S values of a window are R rows of S,
// and neighbouring windows share their rows: rows first, then columns of what they leave, take R + S steps a result where strides are 1.
// (Three steps do for windows of any length, one dimension after the other: van Herk 1992, Pattern Recognition Letters 13; Gil & Werman
// 1993, PAMI 15. They go both ways along a row, one value after the other.)
#pragma once
#include <optional>

#include "rtile/nest.h"

namespace rgen::rtile {

/// The nests with windows of two dimensions as two nests, the first of which reduces rows of the last one into a further tensor. Nothing if
/// no window takes at most half of the steps so. Pre: `nests` are those of the program.
std::optional<Rewritten> separate_windows(const ir::TensorProgram& program, const std::vector<Nest>& nests);

}  // namespace rgen::rtile
