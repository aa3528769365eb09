// The register tile on a GPU's tensor cores: tiles of 16 × 32 sums spread over the registers of a warp. Rows of a are loaded as they
// lie, 16 bytes a thread, which puts other values of k into the fragments than the instruction's figure says; b is packed in the same
// order of k, so that the products meet. The sums pass through shared memory, from which the epilogue reads them as vectors.
#include "lower/tile.h"
#include "rtile/workload.h"

namespace rgen::lower {

std::string factors(const NestContext& c) {
  const auto type = [&](int operand) { return std::string(to_string(c.program[c.plan.operands[size_t(operand)].access.tensor].dtype)); };
  const std::string a = type(c.plan.operand_a), b = type(c.plan.operand_b);
  return a == "f32" ? "tf32" : a == b ? a : a + b;
}

void Tile::multiply_fragments() {
  const Statement& s = c_.nest.inner[0];
  const bool integer = integer_sum(s);
  const int64_t columns = v_.size[size_t(vec_)];
  collect_row_tiles();
  const int64_t row_tiles = int64_t(tile_rows_.size());
  effect("fragments", {Int(row_tiles * columns), Int(row_tiles + columns), Int(integer)});
  for (int64_t t = 0; t < row_tiles * columns; ++t) effect("fragment_zero", {Int(t)});
  point_ = &points_.front();
  reduce(0);

  const int sums = b_.local(scopes_[0].body, "rows", integer ? DType::s32 : DType::f32, columns * rtile::kFragmentTile);
  for (int64_t i = 0; i < row_tiles; ++i) {
    for (int64_t j = 0; j < columns; ++j) effect("fragment_store", {Int(i * columns + j), Address{sums, Int(j * rtile::kFragmentTile)}});
    const Point corner = tile_corner(size_t(i));
    for (const Point& p : points_) {
      const auto row = row_in_tile(p, corner);
      if (!row) continue;
      const int r = b_.reg("acc", integer);
      put({Op{integer ? "vi_load_s32" : "vf_load_f32",
              r,
              false,
              {Address{sums, Int(p.offset[size_t(vec_)] / W_ * rtile::kFragmentTile + *row * rtile::kFragmentRow)}}}});
      accumulators_[{0, p.number, 0}] = r;
    }
  }
}

/// Form staged: the block's procedure has left the sums in memory.
void Tile::load_sums() {
  const bool integer = integer_sum(c_.nest.inner[0]);
  for (const Point& p : points_) {
    const int r = b_.reg("acc", integer);
    const Address at{params_.sums, params_.sums_at + Int(p.number * W_)};
    if (params_.sums_apart == 1)
      put({Op{integer ? "vi_load_s32" : "vf_load_f32", r, false, {at}}});
    else
      put({Op{integer ? "vi_gather_s32_n" : "vf_gather_f32_n", r, false, {at, Int(params_.sums_apart), Int(p.lanes)}}});
    accumulators_[{0, p.number, 0}] = r;
  }
}

/// One step of k: 64 bytes of every row of a, times every column of b.
void Tile::fragment_body() {
  const Operand& a = c_.plan.operands[size_t(c_.plan.operand_a)];
  const Addressing &ma = c_.addressing[size_t(c_.plan.operand_a)], &mb = c_.addressing[size_t(c_.plan.operand_b)];
  const ir::Tensor& ta = c_.program[a.access.tensor];
  const int bytes = size_of(ta.dtype);
  const int64_t columns = v_.size[size_t(vec_)], row_tiles = int64_t(tile_rows_.size());
  const int64_t row_stride = ma.inside[size_t(c_.plan.m_axis)];
  point_ = &points_.front();
  const Address at_b = address(mb, "packed");
  const int64_t tile = 32 * 16 * c_.plan.k_group;  // elements of b's 32 columns in one step
  for (int64_t j = 0; j < columns; ++j) effect("fragment_load_b", {Int(row_tiles + j), Address{at_b.pointer, at_b.offset + Int(j * tile)}});
  for (int64_t i = 0; i < row_tiles; ++i) {
    const Point corner = tile_corner(size_t(i));
    point_ = &corner;
    const Int whole = offset_of(ma);
    bool aligned = whole.constant * bytes % 16 == 0 && row_stride * bytes % 16 == 0;
    for (const auto& [v, k] : whole.terms) aligned &= k * bytes % 16 == 0 || steps_over_k(v);
    effect(aligned ? "fragment_load_a" : "fragment_load_a_unaligned",
           {Int(i), address(ma, ta.name), Int(row_stride * bytes), Int(tile_rows_[size_t(i)]),
            Int((active_ ? active_ : c_.plan.k_step) * bytes)});
    for (int64_t j = 0; j < columns; ++j) effect("mma_" + factors(c_), {Int(i * columns + j), Int(i), Int(row_tiles + j)});
  }
  point_ = &points_.front();
}

/// Is the variable that of a loop over k? It goes in whole steps.
bool Tile::steps_over_k(int variable) const {
  for (const auto& [v, k] : reduced_[size_t(c_.plan.k_axis)].terms)
    if (v == variable) return true;
  return false;
}

}  // namespace rgen::lower
