// How a staged block's sums leave: through shared memory, as vectors along the columns, or along the rows where those are neighbours in
// memory (staged.h).
#include "lower/staged.h"

#include <algorithm>

#include "ir/ir.h"

namespace rgen::lower {

using rtile::Staging;

void StagedBlock::epilogue(int sums, int64_t together, int64_t first, int64_t end) {
  // a group's warps have 16 of every 64 rows
  const int64_t apart = group() ? 64 : 16;
  const Int in_group = group() ? remainder("in_group", warp_, 4) * 16 : Int(0);
  const Int warp_row = value("warp_row", first_row_ + row_warp_ * (row_tiles() * apart) + in_group);
  const Int warp_column = first_column_ + column_warp_ * (column_tiles() * 32);
  const bool pairs = in_pairs();
  for (int64_t i = 0; i < row_tiles(); ++i)
    for (int64_t j = 0, tiles; j < column_tiles(); j += tiles) {
      const int64_t number = i * column_tiles() + j;
      tiles = std::min(together, column_tiles() - j);
      if (number < first || number >= end) continue;
      if (pairs && j + 1 < column_tiles() && number + 1 < end) {  // 8 rows of two take the place of 16 of one
        tiles = 2;
        for (int64_t half = 0; half < 2; ++half) {
          effect("fragment_store_pair", {Int(number), Int(number + 1), Address{sums, Int(0)}, Int(half)});
          leave({value("m", warp_row + Int(i * apart + half * 8)), warp_column + Int(j * 32), sums, 2, 8, rtile::kFragmentPairRow, 32});
        }
        continue;
      }
      for (int64_t t = 0; t < tiles; ++t)
        effect(s_.unit == Staging::Unit::lane ? "fragment_store_f32" : "fragment_store",
               {Int(number + t), Address{sums, Int(t * rtile::kFragmentTile)}});
      leave({value("m", warp_row + Int(i * apart)), warp_column + Int(j * 32), sums, tiles});
    }
}

/// Of results of 16 bits two tiles are a line. Pre: sums leave tile by tile.
bool StagedBlock::in_pairs() const {
  if (!group() || s_.line > 1) return false;
  bool half = false;
  c_.nest.for_each_statement([&](const rtile::Statement& t) { half |= t.store && size_of(c_.program[t.tensor].dtype) == 2; });
  return half;
}

/// Column by column where the rows' results are neighbours in memory.
void StagedBlock::leave(const Leaving& l) {
  const int64_t line = s_.line, at_once = Staging::kOfLine, all = points(s_.row_axes);
  const auto rows = [&] { leave_rows(l); };
  if (line == 1) return rows();
  std::vector<Int> neighbours;
  if (b_.range(l.row).second > all - at_once) neighbours.push_back(Int(all - at_once) - l.row);
  if (line % at_once != 0) neighbours.push_back(Int(line - at_once) - remainder("in_line", l.row, line));
  const auto columns = [&] { leave_columns(l); };
  if (neighbours.empty()) return columns();
  choose(neighbours, columns, rows);
}

/// Vectors along the last row axis: to what follows the reduction it is the one of the lanes.
void StagedBlock::leave_columns(const Leaving& l) {
  constexpr int64_t kTogether = 4;  // whose loads are under way together
  rtile::NestPlan across = c_.plan;
  across.vec = s_.row_axes.back();
  across.tile[size_t(across.vec)] = rtile::Blocking(extent(across.vec), across.lanes, across.lanes);
  across.tile[size_t(c_.plan.vec)] = rtile::Blocking(extent(c_.plan.vec), 1, 1);
  NestContext context{b_,        c_.program,     c_.nest,   across,     c_.location,   c_.addressing,
                      c_.origin, c_.accumulator, c_.prefix, c_.workers, c_.contraction};
  TileVariant half;
  half.size.assign(size_t(n_), 1), half.tail = Staging::kOfLine;
  const std::vector<Int> at = result(within("m", l.row, points(s_.row_axes) - Staging::kOfLine + 1));
  const int64_t columns = extent(c_.plan.vec);
  const int column = b_.variable("column", 0, 32 * l.tiles / kTogether - 1);
  const auto leave_one = [&](const Int& in_tiles) {
    const Int n = l.column + in_tiles;
    const auto inside = [&] {
      TileParams params = parameters(at, b_.range(n).second >= columns ? within("n", n, columns) : value("n", n));
      const Int tile = quotient("tile", in_tiles, 32);
      params.sums = l.sums, params.sums_apart = rtile::kFragmentRow;
      params.sums_at = tile * (rtile::kFragmentTile - 32) + in_tiles;
      Body body = lower_epilogue(context, params, half);
      bodies_.back()->insert(bodies_.back()->end(), body.begin(), body.end());
    };
    if (b_.range(n).second >= columns)
      when({Int(columns - 1) - n}, inside);
    else
      inside();
  };
  loop(
      column, 32 * l.tiles / kTogether,
      [&] {
        for (int64_t i = 0; i < kTogether; ++i) leave_one(Int::var(column, kTogether) + Int(i));
      },
      For::Unroll::never);
}

/// What may lie beyond the matrix takes more care.
void StagedBlock::leave_rows(const Leaving& l) {
  const int64_t all = points(s_.row_axes), columns = extent(c_.plan.vec);
  const Int last = l.row + Int(l.rows - 1), end = l.column + Int(l.tiles * 32);
  std::vector<Int> inside;
  if (b_.range(last).second >= all) inside.push_back(Int(all - 1) - last);
  if (b_.range(end).second > columns) inside.push_back(Int(columns) - end);
  if (inside.empty())
    leave_whole(l);
  else if (all < l.rows || columns < 32 * l.tiles || l.tiles == 1)
    leave_part(l);
  else
    choose(
        inside, [&] { leave_whole(l); }, [&] { leave_part(l); });
}

/// Some rows, whose loads are under way together.
void StagedBlock::leave_some(const Int& rows, const std::function<void(const Int&)>& leave_row) {
  constexpr int kAhead = 24;  // the few warps of such a block have registers for that
  Body some;
  body(some, [&] {
    for (int64_t r = 0; r < rows_together(); ++r) leave_row(rows + Int(r));
  });
  some = pair_stores(b_.program, loads_first(b_.program, std::move(some), kAhead));
  bodies_.back()->insert(bodies_.back()->end(), some.begin(), some.end());
}

void StagedBlock::leave_whole(const Leaving& l) {
  const int64_t all = points(s_.row_axes), columns = extent(c_.plan.vec), together = rows_together();
  const int rows = b_.variable("rows", 0, l.rows / together - 1);
  const auto leave_row = [&](const Int& row) {
    for (int64_t t = 0; t < l.tiles; ++t)
      leave_vector(result(within("m", l.row + row, all)), l.sums, Int(t * l.apart) + row * l.pitch,
                   within("n", l.column + Int(t * 32), columns - 31), 32);
  };
  loop(
      rows, l.rows / together, [&] { leave_some(Int::var(rows, together), leave_row); }, For::Unroll::never);
}

/// A tile after the other, and one by one only the rows at the matrix' end.
void StagedBlock::leave_part(const Leaving& l) {
  const int64_t all = points(s_.row_axes), together = rows_together();
  const int in_all = l.tiles > 1 ? b_.variable("tile", 0, l.tiles - 1) : -1;
  const auto tile = [&](int64_t size) { return in_all < 0 ? Int(0) : Int::var(in_all, size); };
  const auto of_columns = [&](const Int& n, int lanes) {
    const int rows = b_.variable("rows", 0, l.rows / together - 1), row = b_.variable("row", 0, together - 1);
    const Int some = Int::var(rows, together), one = some + Int::var(row);
    const auto leave_row = [&](const Int& r) {
      leave_vector(result(within("m", l.row + r, all)), l.sums, tile(l.apart) + r * l.pitch, n, lanes);
    };
    const auto together_or_not = [&] {
      const auto all_of_them = [&] { leave_some(some, leave_row); };
      const auto one_by_one = [&] {
        loop(
            row, together, [&] { when({Int(all - 1) - l.row - one}, [&] { leave_row(one); }); }, For::Unroll::never);
      };
      if (b_.range(l.row).second + l.rows - 1 < all) return all_of_them();
      choose({Int(all - together) - l.row - some}, all_of_them, one_by_one);
    };
    loop(rows, l.rows / together, together_or_not, For::Unroll::never);
  };
  const auto one_tile = [&] { by_columns(value("n", l.column + tile(32)), of_columns); };
  l.tiles > 1 ? loop(in_all, l.tiles, one_tile, For::Unroll::never) : one_tile();
}

/// More where what follows the reduction reads tensors.
int64_t StagedBlock::rows_together() const {
  bool reads = false;
  for (const rtile::Statement& s : c_.nest.outer)
    ir::for_each_access(*s.value, [&](const ir::Access& a) {
      reads |=
          std::none_of(c_.nest.inner.begin(), c_.nest.inner.end(), [&](const rtile::Statement& sum) { return sum.tensor == a.tensor; });
    });
  return reads ? 8 : 4;
}

void StagedBlock::leave_vector(const std::vector<Int>& at, int sums, const Int& sums_at, const Int& n, int lanes) {
  TileParams params = parameters(at, n);
  params.sums = sums, params.sums_at = sums_at;
  TileVariant v;
  v.size.assign(size_t(n_), 1), v.tail = lanes;
  Body body = lower_epilogue(c_, params, v);
  bodies_.back()->insert(bodies_.back()->end(), body.begin(), body.end());
}

/// Where the results of a row are.
std::vector<Int> StagedBlock::result(const Int& row) {
  if (!s_.one_axis || s_.row_axes.empty()) return point(s_.row_axes, row);
  std::vector<Int> at = start_;
  for (int a : s_.row_axes) at[size_t(a)] = Int(0);
  at[size_t(s_.row_axes.back())] = row;
  return at;
}

TileParams StagedBlock::parameters(const std::vector<Int>& at, const Int& n) {
  const std::vector<int> none(size_t(n_), -1);
  TileParams p{none, none, none, none, none};
  const auto variable = [&](int a, const Int& x) {
    if (x == Int(0)) return -1;
    if (x.constant == 0 && x.terms.size() == 1 && x.terms[0].second == 1) return x.terms[0].first;
    const auto [lo, hi] = b_.range(x);
    const int v = b_.variable(c_.nest.axes[size_t(a)].name, lo, hi);
    put({LetInt{LetInt::Op::value, v, x, Int(0)}});
    return v;
  };
  for (int a = 0; a < n_; ++a)
    if (!c_.nest.axes[size_t(a)].reduced) p.start[size_t(a)] = variable(a, a == c_.plan.vec ? n : at[size_t(a)]);
  return p;
}

/// A vector of columns: whole, the last one of the matrix, or beyond it.
void StagedBlock::by_columns(const Int& n, const std::function<void(const Int& n, int lanes)>& leave) {
  const int64_t all = extent(c_.plan.vec);
  const int tail = int(all % 32);
  const auto last = [&] {
    if (tail > 0) when({Int(all - 1) - n}, [&] { leave(within("n", n, all), tail); });
  };
  if (b_.range(n).second + 32 <= all) return leave(n, 32);
  if (all < 32) return last();
  choose(
      {Int(all - 32) - n}, [&] { leave(within("n", n, all - 31), 32); }, last);
}

}  // namespace rgen::lower
