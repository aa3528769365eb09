// Row tiles: the pieces of `atom.m` rows in which matrix units and tensor cores accumulate a register tile, one for each value of the
// other output axes. They are numbered in the order of their corners among the points.
#include "base/error.h"
#include "lower/tile.h"

namespace rgen::lower {

void Tile::collect_row_tiles() {
  const size_t m = size_t(c_.plan.m_axis);
  for (const Point& p : points_)
    if (starts_row_tile(p)) tile_rows_.push_back(std::min<int64_t>(c_.plan.atom->m, v_.size[m] - p.offset[m]));
}

bool Tile::starts_row_tile(const Point& p) const {
  return p.offset[size_t(vec_)] == 0 && p.offset[size_t(c_.plan.m_axis)] % c_.plan.atom->m == 0;
}

/// The point at the first row and column of a row tile.
Point Tile::tile_corner(size_t row_tile) const {
  size_t seen = 0;
  for (const Point& p : points_)
    if (starts_row_tile(p) && seen++ == row_tile) return p;
  throw Error(ErrorCode::internal, "a row tile beyond the register tile");
}

std::optional<int64_t> Tile::row_in_tile(const Point& p, const Point& corner) const {
  for (int a = 0; a < n_axes_; ++a)
    if (is_output(a) && a != vec_ && a != c_.plan.m_axis && p.offset[size_t(a)] != corner.offset[size_t(a)]) return {};
  const int64_t row = p.offset[size_t(c_.plan.m_axis)] - corner.offset[size_t(c_.plan.m_axis)];
  if (row < 0 || row >= c_.plan.atom->m) return {};
  return row;
}

}  // namespace rgen::lower
