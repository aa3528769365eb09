// The register tile on matrix units (AMX): accumulators, rows of a and columns of b in tile registers. The sums pass through a small
// buffer on the stack, from which the epilogue reads them as vectors.
#include "base/error.h"
#include "lower/tile.h"
#include "rtile/atoms.h"

namespace rgen::lower {

namespace {

constexpr int64_t kRowBytes = 64;  // of every tile row, at most: 16 sums, or one step of k

/// The first store of a tile register in a long while takes 300 ns (Granite Rapids: past some 600 ns without one, whatever happened
/// meanwhile, wherever it goes), which was a quarter of a tile of 1024 steps. One that nobody needs between so many products costs nothing.
constexpr int64_t kStoresStayQuick = 64;

}  // namespace

Stmt configure_tiles(const NestContext& c, const std::vector<int64_t>& rows, int64_t columns) {
  // rows and their bytes in the order of the tile numbers: accumulators, a's, b's
  Op o{"configure_tiles", -1, false, {}};
  const auto tile = [&](int64_t r, int64_t bytes) { o.args.push_back(Int(r)), o.args.push_back(Int(bytes)); };
  for (int64_t r : rows)
    for (int64_t j = 0; j < columns; ++j) tile(r, kRowBytes);
  for (int64_t r : rows) tile(r, c.plan.k_step * size_of(c.tensor_of(c.plan.operand_a).dtype));
  for (int64_t j = 0; j < rtile::registers_of_b(int64_t(rows.size()), columns); ++j) tile(c.plan.k_step / c.plan.k_group, kRowBytes);
  return {std::move(o)};
}

int64_t Tile::partial_tile() const { return c_.plan.atom->m * kRowBytes / size_of(c_.tensor_of(c_.plan.operand_a).dtype); }

void Tile::multiply_tiles() {
  const Statement& s = c_.nest.inner[0];
  const bool integer = integer_sum(s);
  collect_row_tiles();
  choose_shapes();
  if (reshaped_) put(configure_tiles(c_, shapes_.rows, shapes_.columns));

  sums_ = c_.plan.chunked()   ? waiting_sums()
          : params_.sums >= 0 ? params_.sums
                              : b_.local(scopes_[0].body, "sums", integer ? DType::s32 : DType::f32, shapes_.accumulators() * kSumsOfTile);
  if (c_.plan.partial_step(c_.nest) != 0 || leaves_tensor())
    partial_rows_ = b_.local(scopes_[0].body, "rows", c_.tensor_of(c_.plan.operand_a).dtype, int64_t(tile_rows_.size()) * partial_tile());

  const auto for_each_tile = [&](const std::function<void(int)>& visit) {
    for (size_t i = 0; i < tile_rows_.size(); ++i)
      for (int64_t j = 0; j < v_.size[size_t(vec_)]; ++j) visit(accumulator(i, j));
  };
  const auto zero = [&] { for_each_tile([&](int t) { effect("tile_zero", {Int(t)}); }); };
  const auto load = [&] {  // partial sums of the chunks before
    for_each_tile([&](int t) { effect("tile_load", {Int(t), Address{sums_, Int(t * kSumsOfTile)}, Int(kRowBytes)}); });
  };
  if (c_.plan.chunked())
    when({before_ - Int(1)}, load, zero);
  else
    zero();
  point_ = &points_.front();
  reduce(0);
  if (stored_together()) store_tiles();  // also if this is not the last chunk
}

int Tile::waiting_sums() {
  Int at(0);
  for (int a = 0; a < n_axes_; ++a) at = at + block(a) * c_.waiting.block[size_t(a)];
  const int p = b_.pointer(c_.waiting.buffer, "sums");
  scopes_[0].body.push_back({LetPtr{p, at}});
  return p;
}

void Tile::store_tiles() {
  for (size_t tile = 0; tile < tile_rows_.size(); ++tile) store_row_tile(tile);
}

void Tile::choose_shapes() {
  const auto whole = [&](int axis) { return c_.plan.tile[size_t(axis)].hi; };
  main_shapes_ = shapes_ = {c_.plan.row_tiles(c_.nest), whole(vec_)};
  const int m = c_.plan.m_axis;
  for (size_t i = 0; i < tile_rows_.size(); ++i) {
    const Point corner = tile_corner(i);
    int64_t number = 0;
    for (int x = 0; x < n_axes_; ++x)
      if (is_output(x) && x != vec_)
        number = x == m ? number * ceil_div(whole(x), c_.plan.atom->m) + corner.offset[size_t(x)] / c_.plan.atom->m
                        : number * whole(x) + corner.offset[size_t(x)];
    row_tiles_.push_back({number, shapes_.rows[size_t(number)] - tile_rows_[i]});
    reshaped_ |= row_tiles_.back().before > 0 && corner.offset[size_t(m)] == 0 && !c_.plan.has_row_before();
  }
  if (!reshaped_) return;
  shapes_ = {tile_rows_, v_.size[size_t(vec_)]};
  for (size_t i = 0; i < row_tiles_.size(); ++i) row_tiles_[i] = {int64_t(i), 0};
}

int Tile::accumulator(size_t row_tile, int64_t column) const { return int(row_tiles_[row_tile].number * shapes_.columns + column); }

void Tile::restore_shapes() {
  if (reshaped_) put(configure_tiles(c_, main_shapes_.rows, main_shapes_.columns));
}

void Tile::store_row_tile(size_t tile) {
  for (int64_t j = 0; j < v_.size[size_t(vec_)]; ++j) {
    const int t = accumulator(tile, j);
    effect("tile_store", {Int(t), Address{sums_, Int(t * kSumsOfTile)}, Int(kRowBytes)});
  }
}

Int Tile::place_of_sum(const Point& p) const {
  for (size_t tile = 0; tile < tile_rows_.size(); ++tile)
    if (const auto row = row_in_tile(p, tile_corner(tile)))
      return Int(accumulator(tile, p.offset[size_t(vec_)] / W_) * kSumsOfTile + (*row + row_tiles_[tile].before) * 16);
  throw Error(ErrorCode::internal, "a point outside every accumulator tile");
}

int Tile::load_sum(const Point& p) {
  if (starts_row_tile(p) && !stored_together()) {
    size_t tile = 0;
    while (tile_corner(tile).number != p.number) ++tile;
    store_row_tile(tile);
  }
  const bool integer = integer_sum(c_.nest.inner[0]);
  return define_reg(scopes_.size() - 1, "acc", integer, integer ? "vi_load_s32" : "vf_load_f32", {Address{sums_, place_of_sum(p)}});
}

void Tile::store_now_and_then() {
  const int64_t products = c_.plan.k_steps(c_.nest) * int64_t(tile_rows_.size()) * v_.size[size_t(vec_)];
  if (products_ < rtile::kProductsBetweenStores || products < kStoresStayQuick) return;
  effect("tile_store_early", {Int(0), Address{sums_, Int(0)}, Int(kRowBytes)});
  products_ = 0;
}

void Tile::copy_partial_rows() {
  const Addressing& at = c_.addressing[size_t(c_.plan.operand_a)];
  const ir::Tensor& tensor = c_.tensor_of(c_.plan.operand_a);
  const int64_t stride = at.inside[size_t(c_.plan.m_axis)];
  for (size_t i = 0; i < tile_rows_.size(); ++i) {
    const Point corner = tile_corner(i);
    point_ = &corner;
    const Address from = address(at, tensor.name);
    const int64_t before = row_tiles_[i].before, rows = tile_rows_[i] + before;
    const int row = b_.variable("row", 0, rows - 1), v = b_.reg("v", true);
    const Address source{from.pointer, from.offset + Int::var(row, stride) - Int(before * stride)};
    const Address target{partial_rows_, Int(int64_t(i) * partial_tile()) + Int::var(row, kRowBytes / size_of(tensor.dtype))};
    auto body = std::make_shared<Body>();
    body->push_back({Op{"vi_load_bytes_n", v, false, {source, Int(active_ * size_of(tensor.dtype))}}});
    body->push_back({Op{"vi_store_bytes", -1, false, {target, Reg{v}}}});
    put({For{row, Int(0), Int(rows), 1, body}});
  }
  point_ = &points_.front();
}

/// One step of k: every row tile of a times every column of b.
void Tile::tile_body() {
  const int64_t columns = v_.size[size_t(vec_)], row_tiles = int64_t(tile_rows_.size());
  const int64_t of_b = rtile::registers_of_b(int64_t(shapes_.rows.size()), shapes_.columns);
  if (columns <= of_b) {
    for (int64_t j = 0; j < columns; ++j) load_b(j);
    for (int64_t i = 0; i < row_tiles; ++i) {
      load_a(i);
      for (int64_t j = 0; j < columns; ++j) multiply(i, j);
    }
  } else {
    for (int64_t i = 0; i < row_tiles; ++i) load_a(i);
    for (int64_t j = 0; j < columns; ++j) {
      load_b(j);
      for (int64_t i = 0; i < row_tiles; ++i) multiply(i, j);
    }
  }
  products_ += row_tiles * columns;
  to_write_out_ = std::max<int64_t>(0, to_write_out_ - 1);
}

int Tile::register_of_a(int64_t row_tile) const { return int(shapes_.accumulators() + row_tiles_[size_t(row_tile)].number); }

int Tile::register_of_b(int64_t column) const {
  const auto rows = int64_t(shapes_.rows.size());
  return int(shapes_.accumulators() + rows + column % rtile::registers_of_b(rows, shapes_.columns));
}

std::string Tile::load_of(int operand) const { return c_.plan.operands[size_t(operand)].past_first ? "tile_stream_load" : "tile_load"; }

void Tile::load_a(int64_t row_tile) {
  const Int at(register_of_a(row_tile));
  if (active_ != 0) return effect("tile_load", {at, Address{partial_rows_, Int(row_tile * partial_tile())}, Int(kRowBytes)});
  const Addressing& m = c_.addressing[size_t(c_.plan.operand_a)];
  const ir::Tensor& tensor = c_.tensor_of(c_.plan.operand_a);
  const int64_t stride = m.inside[size_t(c_.plan.m_axis)];
  const Point corner = tile_corner(size_t(row_tile));
  point_ = &corner;
  const Address first = address(m, tensor.name);
  const Address rows{first.pointer, first.offset - Int(row_tiles_[size_t(row_tile)].before * stride)};
  const auto load = [&] { effect(load_of(c_.plan.operand_a), {at, rows, Int(stride * size_of(tensor.dtype))}); };
  if (leaves_tensor()) {
    const std::vector<RowsInside> dimensions = rows_inside(row_tile);
    std::vector<Int> all;
    for (const RowsInside& d : dimensions)
      for (const int64_t row : {int64_t{0}, rows_of(row_tile) - 1}) all.push_back(d.below(row)), all.push_back(d.above(row));
    when(all, load, [&] {
      copy_rows_inside(row_tile, rows, dimensions);
      effect("tile_load", {at, Address{partial_rows_, Int(row_tile * partial_tile())}, Int(kRowBytes)});
    });
  } else {
    load();
  }
  point_ = &points_.front();
}

bool Tile::leaves_tensor() const {
  const Operand& a = c_.plan.operands[size_t(c_.plan.operand_a)];
  return v_.guarded && a.placement == Placement::direct && !rtile::guarded_dims(c_.program, a.access, c_.nest.full_extents()).empty();
}

int64_t Tile::rows_of(int64_t row_tile) const { return tile_rows_[size_t(row_tile)] + row_tiles_[size_t(row_tile)].before; }

std::vector<Tile::RowsInside> Tile::rows_inside(int64_t row_tile) {
  const Access& a = c_.plan.operands[size_t(c_.plan.operand_a)].access;
  std::vector<RowsInside> all;
  for (int d : rtile::guarded_dims(c_.program, a, c_.nest.full_extents())) {
    const int64_t by = a.index[size_t(d)].coef(c_.plan.m_axis);
    all.push_back(
        {affine(a.index[size_t(d)]) - Int(row_tiles_[size_t(row_tile)].before * by), by, c_.program[a.tensor].shape[size_t(d)].value()});
  }
  return all;
}

void Tile::copy_rows_inside(int64_t row_tile, const Address& rows, const std::vector<RowsInside>& dimensions) {
  const ir::Tensor& tensor = c_.tensor_of(c_.plan.operand_a);
  const int64_t stride = c_.addressing[size_t(c_.plan.operand_a)].inside[size_t(c_.plan.m_axis)], bytes = size_of(tensor.dtype);
  const int row = b_.variable("row", 0, rows_of(row_tile) - 1), x = b_.reg("x", true), zero = b_.reg("zero", true);
  const Address target{partial_rows_, Int(row_tile * partial_tile()) + Int::var(row, kRowBytes / bytes)};
  std::vector<Int> conditions;
  for (const RowsInside& d : dimensions)
    for (Int i : {d.below(0) + Int::var(row, d.by), d.above(0) - Int::var(row, d.by)})
      if (!holds(i)) conditions.push_back(std::move(i));
  auto inside = std::make_shared<Body>(), outside = std::make_shared<Body>(), body = std::make_shared<Body>();
  inside->push_back(
      {Op{"vi_load_bytes_n", x, false, {Address{rows.pointer, rows.offset + Int::var(row, stride)}, Int(c_.plan.k_step * bytes)}}});
  inside->push_back({Op{"vi_store_bytes", -1, false, {target, Reg{x}}}});
  outside->push_back({Op{"vi_set", zero, false, {Int(0)}}});
  outside->push_back({Op{"vi_store_bytes", -1, false, {target, Reg{zero}}}});
  body->push_back({If{std::move(conditions), std::move(inside), std::move(outside)}});
  put({For{row, Int(0), Int(rows_of(row_tile)), 1, body}});
}

void Tile::load_b(int64_t column) {
  const Addressing& m = c_.addressing[size_t(c_.plan.operand_b)];
  // k_group rows of k are interleaved, the lanes of all columns side by side
  const int64_t stride = m.value[size_t(c_.plan.k_axis)] * c_.plan.k_group * size_of(c_.tensor_of(c_.plan.operand_b).dtype);
  const Address at = address(m, "packed");
  effect(load_of(c_.plan.operand_b),
         {Int(register_of_b(column)), Address{at.pointer, at.offset + Int(column * W_ * m.inside[size_t(vec_)])}, Int(stride)});
}

void Tile::multiply(int64_t row_tile, int64_t column) {
  effect(std::string(rtile::find_atom_row(c_.plan.atom->name)->primitive),
         {Int(accumulator(size_t(row_tile), column)), Int(register_of_a(row_tile)), Int(register_of_b(column))});
}

}  // namespace rgen::lower
