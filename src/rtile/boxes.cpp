// Factors of a staged block that the copy unit brings: as boxes of a tensor, or as pixels of images (staged.h).
#include <algorithm>

#include "rtile/staged.h"

namespace rgen::rtile {

std::optional<TensorBox> tensor_box(const Nest& nest, const NestFacts::OperandFacts& o, const std::vector<int>& row_axes, int k_axis) {
  const std::vector<int64_t>& coef = o.coef;
  TensorBox b{{}, {nest.axes[size_t(k_axis)].extent, 1}, {1, 0}};
  if (!o.guards.empty() || coef[size_t(k_axis)] != 1) return std::nullopt;
  for (size_t i = row_axes.size(); i-- > 0;) {
    const int64_t stride = coef[size_t(row_axes[i])];
    if (b.extents[1] > 1 && stride != b.strides[1] * b.extents[1]) return std::nullopt;
    if (b.extents[1] == 1) b.strides[1] = stride;
    b.extents[1] *= nest.axes[size_t(row_axes[i])].extent;
  }
  if (b.extents[1] == 1) b.strides[1] = round_up(b.extents[0], kPieceBytes / o.element_bytes);  // of one row, which has no neighbour
  for (size_t a = 0; a < nest.axes.size(); ++a) {
    if (int(a) == k_axis || coef[a] == 0 || nest.axes[a].extent == 1 || std::count(row_axes.begin(), row_axes.end(), int(a))) continue;
    b.axes.push_back(int(a)), b.extents.push_back(nest.axes[a].extent), b.strides.push_back(coef[a]);
  }
  const bool whole =
      std::all_of(b.strides.begin() + 1, b.strides.end(), [&](int64_t s) { return s > 0 && s * o.element_bytes % kPieceBytes == 0; });
  return whole && b.extents.size() <= 4 ? std::optional(b) : std::nullopt;
}

namespace {

/// Rows of two or three axes, at any distances, as an image whose pixels they are (a 1 × 1 convolution of every other pixel).
std::optional<PixelBox> rows_as_pixels(const Nest& nest, const NestFacts::OperandFacts& o, const std::vector<int>& row_axes, int k_axis) {
  if (!o.affine || !o.guards.empty() || o.constant != 0 || o.coef[size_t(k_axis)] != 1 || row_axes.size() < 2 || row_axes.size() > 3)
    return std::nullopt;
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (int(a) != k_axis && nest.axes[a].extent > 1 && o.coef[a] != 0 && !std::count(row_axes.begin(), row_axes.end(), int(a)))
      return std::nullopt;
  PixelBox b;
  b.extents = {nest.axes[size_t(k_axis)].extent}, b.strides = {1};
  for (size_t i = 0; i < 3; ++i) {  // width, height, image
    const bool is = i < row_axes.size();
    const int axis = is ? row_axes[row_axes.size() - 1 - i] : -1;
    b.extents.push_back(is ? nest.axes[size_t(axis)].extent : 1);
    b.strides.push_back(is ? o.coef[size_t(axis)] : b.strides.back() * b.extents[i]);
    if (b.strides.back() <= 0 || b.strides.back() * o.element_bytes % kPieceBytes != 0) return std::nullopt;
    (i < 2 ? b.dimensions[i].place : b.image) = axis;
  }
  return b;
}

std::optional<PixelBox> pixels_of_image(const Nest& nest, const NestFacts::OperandFacts& o, const Operand& operand,
                                        const std::vector<int>& row_axes, int k_axis) {
  if (!o.affine || o.shape.size() != 4 || operand.access.out_of_bounds.value_or(0.0) != 0.0 || o.coef[size_t(k_axis)] != 1)
    return std::nullopt;
  PixelBox b;               // of images, height, width, channels
  std::vector<int> places;  // outermost first
  for (int d = 0; d < 4; ++d) {
    const ir::Index& index = operand.access.index[size_t(d)];
    PixelBox::Dimension* const in_image = d == 1 || d == 2 ? &b.dimensions[2 - d] : nullptr;
    for (size_t a = 0; a < nest.axes.size(); ++a) {
      const int64_t coef = o.dim_coef[size_t(d)][a];
      if (coef == 0 || nest.axes[a].extent == 1) continue;
      if (o.coef[a] != coef * o.strides[size_t(d)]) return std::nullopt;  // along another dimension too
      if (d == 3) {
        if (int(a) != k_axis) return std::nullopt;
      } else if (nest.axes[a].reduced) {
        if (!in_image || in_image->tap >= 0 || coef < 0) return std::nullopt;
        in_image->tap = int(a), in_image->dilation = coef;
      } else {
        if ((in_image ? in_image->place : b.image) >= 0 || coef < 1 || (!in_image && coef != 1)) return std::nullopt;
        (in_image ? in_image->place : b.image) = int(a);
        if (in_image) in_image->stride = coef;
        places.push_back(int(a));
      }
    }
    if (in_image) {
      const int64_t last = in_image->place < 0 ? 0 : (nest.axes[size_t(in_image->place)].extent - 1) * in_image->stride;
      const int64_t taps = in_image->tap < 0 ? 0 : (nest.axes[size_t(in_image->tap)].extent - 1) * in_image->dilation;
      in_image->lower = index.constant, in_image->upper = index.constant + last + 1 - o.shape[size_t(d)];
      const auto in_a_byte = [](int64_t x) { return x >= -128 && x < 128; };
      // what no bounds are checked for may still go on in the next image, where two axes are one (simplify_axes.cpp)
      if (!operand.access.out_of_bounds && (in_image->lower < 0 || in_image->upper > 0)) return std::nullopt;
      if (!in_a_byte(in_image->lower) || !in_a_byte(in_image->upper) || taps > 255 || in_image->stride > 8) return std::nullopt;
    } else if (index.constant != 0) {
      return std::nullopt;
    }
  }
  const auto apart = [&](int64_t stride) { return stride > 0 && stride * o.element_bytes % kPieceBytes == 0; };
  if (places != row_axes || o.strides[3] != 1 || !std::all_of(o.strides.begin(), o.strides.end() - 1, apart)) return std::nullopt;
  b.extents.assign(o.shape.rbegin(), o.shape.rend()), b.strides.assign(o.strides.rbegin(), o.strides.rend());
  return b;
}

}  // namespace

std::optional<PixelBox> pixel_box(const Nest& nest, const NestFacts::OperandFacts& o, const Operand& operand,
                                  const std::vector<int>& row_axes, int k_axis) {
  const auto b = pixels_of_image(nest, o, operand, row_axes, k_axis);
  return b ? b : rows_as_pixels(nest, o, row_axes, k_axis);
}

}  // namespace rgen::rtile
