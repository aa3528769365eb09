// Where indices lead in memory: linear offsets, the dimensions an access can leave, layouts of padded copies.
#pragma once
#include <vector>

#include "ir/tensor_program.h"

namespace rgen::rtile {

/// index as Σ coef·axis + constant in elements of a buffer with `strides`; only for affine indices.
struct Linear {
  std::vector<int64_t> coef;  ///< per axis
  int64_t constant = 0;
};
/// The axis if `i` is exactly one axis with coefficient 1, else −1.
int single_axis(const ir::Index& i);
bool uses(const ir::Access& access, int axis);
bool is_affine(const std::vector<ir::Index>& index);
Linear linearise(const std::vector<ir::Index>& index, const std::vector<int64_t>& strides, int n_axes);
/// Dimensions of the access that can leave the tensor for axis values in [0, extents).
std::vector<int> guarded_dims(const ir::TensorProgram& program, const ir::Access& access, const std::vector<int64_t>& extents);

/// More than `most` rows so many bytes apart, which would wait for each other in one or two sets of a first-level cache
/// (Walks::rows_in_sets)?
bool share_sets(int64_t stride_bytes, int64_t rows, int64_t most = 16);
/// The distance of rows in a copy, in elements: whole lines, and no multiple of 512 bytes, at which rows would share cache sets.
int64_t padded_row(int64_t elements, DType dtype);
/// The layout of a padded copy of a tensor: every place that an access can reach, in rows whose distance is no power of two.
struct BoxLayout {
  std::vector<int64_t> shape;  ///< the tensor's; dimensions that the index of a later one walks through (a fused axis) are part of that one
  std::vector<int64_t> lo, count;  ///< per dimension: first index, number of them
  std::vector<int64_t> strides;    ///< elements
  size_t run = 0;                  ///< dimensions from here on are one contiguous run in the tensor
  int64_t inner = 1;               ///< elements of the run per index of dimension `run`
  int64_t elements = 0;
};
/// Pre: the index is affine, and the tensor's innermost stride is 1.
/// `on_lines`: rows along the last dimension all begin lines, else only those that are copied one by one anyway.
BoxLayout box_layout(const ir::Tensor& tensor, const ir::Access& access, const std::vector<int64_t>& extents, bool on_lines);

/// Row-major strides of a shape; with dimension `innermost` behind all others.
std::vector<int64_t> row_major(const std::vector<int64_t>& shape);
std::vector<int64_t> row_major(const std::vector<int64_t>& shape, size_t innermost);
/// The dimension of which the index is exactly this axis; else the last. Pre: there is one.
size_t dimension_along(const std::vector<ir::Index>& index, int axis);
std::vector<int64_t> const_sizes(const std::vector<ir::Size>& sizes);

}  // namespace rgen::rtile
