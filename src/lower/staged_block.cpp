// What the forms of a staged contraction share (staged.h).
#include "lower/staged.h"

#include <algorithm>

#include "ir/ir.h"
#include "rtile/layout.h"

namespace rgen::lower {

using rtile::Operand;
using rtile::Staging;

StagedBlock::StagedBlock(NestContext& c)
    : c_(c),
      b_(c.builder),
      s_(*c.plan.staging),
      memory_(rtile::block_memory(c.plan)),
      n_(int(c.nest.axes.size())),
      copiers_(32 * (s_.producers() > 0 ? s_.producers() : s_.warps())),
      block_rows_(s_.block_rows()),
      block_columns_(c.plan.block_columns()),
      part_b_(s_.depth * step_bytes_a()),
      start_(size_t(n_), Int(0)) {}

bool StagedBlock::integer() const { return accumulation(c_.program[c_.nest.inner[0].tensor].dtype) == DType::s32; }
DType StagedBlock::factor() const { return c_.program[operand(c_.plan.operand_b).access.tensor].dtype; }
int64_t StagedBlock::element_bytes(const Operand& o) const { return size_of(c_.program[o.access.tensor].dtype); }

Int StagedBlock::value(const std::string& name, const Int& x) {
  if (x.is_const() || (x.terms.size() == 1 && x.constant == 0 && x.terms[0].second == 1)) return x;
  const auto [lo, hi] = b_.range(x);
  const int v = b_.variable(name, lo, hi);
  put({LetInt{LetInt::Op::value, v, x, Int(0)}});
  return Int::var(v);
}

Int StagedBlock::within(const std::string& name, const Int& x, int64_t count) {
  const int v = b_.variable(name, 0, count - 1);
  put({LetInt{LetInt::Op::value, v, x, Int(0)}});
  return Int::var(v);
}

std::vector<Int> StagedBlock::equal(const Int& x, int64_t value) const {
  if (b_.range(x) == std::pair(value, value)) return {};
  return {x - Int(value), Int(value) - x};
}

int StagedBlock::shared(const std::string& name, DType dtype, int64_t at, int64_t bytes, const Int& offset) {
  b_.program.buffers.push_back({name, dtype, bytes / size_of(dtype), Buffer::Kind::shared, -1, at, 0, true});
  const int p = b_.pointer(int(b_.program.buffers.size()) - 1, name);
  put({LetPtr{p, offset}});
  return p;
}

void StagedBlock::place(Int task) {
  const int64_t columns = c_.plan.tile[size_t(c_.plan.vec)].blocks, per_batch = s_.rows.blocks * columns;
  const Int batch = quotient("batch", task, per_batch);
  task = remainder("in_batch", task, per_batch);
  unravel(s_.batch_axes, batch, start_);
  const Int sweep = quotient("sweep", task, s_.raster * columns), in_sweep = remainder("in_sweep", task, s_.raster * columns);
  column_block_ = quotient("column_block", in_sweep, s_.raster);
  const Int row_block = sweep * s_.raster + remainder("row_block", in_sweep, s_.raster);
  first_row_ = row_block * block_rows_, first_column_ = column_block_ * block_columns_;
  if (!s_.ends_inside()) return;
  const int64_t last = s_.rows.extent - block_rows_;
  const int first = b_.variable("first_row", 0, last);
  put({LetInt{LetInt::Op::min, first, first_row_, Int(last)}});
  first_row_ = Int::var(first);
}

void StagedBlock::place_warp(const Int& warp) {
  warp_ = warp;
  if (group())
    row_warp_ = quotient("group", warp_, 4), column_warp_ = Int(0);
  else
    row_warp_ = quotient("row_warp", warp_, s_.warp_columns), column_warp_ = remainder("column_warp", warp_, s_.warp_columns);
}

/// Four threads copy a row's 64 bytes: neighbours, or of a group those 8 apart, so that eight neighbours' pieces lie side by side in the
/// stage (banks serve 128 bytes at a time).
void StagedBlock::place_copier(const Int& copier) {
  copier_ = copier;
  if (lanes()) return;  // each factor has another way
  if (!group()) {
    row_ = quotient("row", copier_, kPieces), piece_ = remainder("piece", copier_, kPieces);
    return;
  }
  piece_ = remainder("piece", quotient("eight", copier_, 8), kPieces);
  row_ = quotient("warp", copier_, 32) * 8 + remainder("row", copier_, 8);
}

/// Steps of an axis: its elements, of k pieces of `k_step`.
int64_t StagedBlock::count(int a) const { return c_.plan.steps_along(c_.nest, a); }

/// The axes' places at the x-th of their points, the last axis fastest. The last quotient is the first axis' place.
void StagedBlock::unravel(const std::vector<int>& axes, Int x, std::vector<Int>& at) {
  const auto name = [&](size_t i) { return c_.nest.axes[size_t(axes[i])].name; };
  for (size_t i = axes.size(); i-- > 0;) {
    at[size_t(axes[i])] = i == 0 ? x : remainder(name(i), x, count(axes[i]));
    if (i > 0) x = quotient(i == 1 ? name(0) : "rest", x, count(axes[i]));
  }
}

std::vector<Int> StagedBlock::point(const std::vector<int>& axes, const Int& x) {
  std::vector<Int> at = start_;
  unravel(axes, x, at);
  return at;
}

int64_t StagedBlock::points(const std::vector<int>& axes) const {
  int64_t n = 1;
  for (int a : axes) n *= extent(a);
  return n;
}

/// Where a factor of `rows` rows takes what this thread copies in its `pass`, bytes from the start of the step:
///   warp:  rows of 64 bytes one after the other;
///   lane:  what was packed, as it lies;
///   group: first all rows' first pieces, as wgmma takes them.
Int StagedBlock::lands(int64_t rows, int64_t pass) const {
  const int64_t at_once = copiers_ / kPieces;
  if (group()) return piece_ * (rows * kPiece) + row_ * kPiece + Int(pass * at_once * kPiece);
  return copier_ * kPiece + Int(pass * at_once * kRowBytes);
}

std::vector<StagedBlock::Source> StagedBlock::rows() { return gather(c_.plan.operand_a, s_.row_axes, first_row_, block_rows_, true); }

std::vector<StagedBlock::Source> StagedBlock::columns() {
  if (!packed()) return gather(c_.plan.operand_b, {c_.plan.vec}, first_column_, block_columns_, false);
  return s_.producers() > 0 ? std::vector<Source>{} : panel_pieces(addressing(c_.plan.operand_b));
}

/// A row, the x-th point of the axes, from an element of its step on: where it is, and the conditions of its elements.
StagedBlock::Source StagedBlock::source(int operand_number, const std::vector<int>& axes, const Int& x, const Int& first_k, bool guarded) {
  const Operand& o = operand(operand_number);
  const Addressing& m = addressing(operand_number);
  const std::vector<Int> at = point(axes, x);
  Source s{b_.pointer(m.buffer, c_.program[o.access.tensor].name),  0,      {}, {}, &o, &m,
           k_extent() % (c_.plan.k_step * c_.plan.k_multiple) != 0, first_k};
  Int offset = Int(m.constant) + first_k * m.value[size_t(c_.plan.k_axis)];
  for (int a = 0; a < n_; ++a)
    if (!c_.nest.axes[size_t(a)].reduced) offset = offset + at[size_t(a)] * m.value[size_t(a)];
  if (const int64_t all = points(axes); b_.range(x).second >= all) s.always.push_back(Int(all - 1) - x);
  if (guarded)
    for (int d : rtile::guarded_dims(c_.program, o.access, c_.nest.full_extents())) {
      Int coordinate(o.access.index[size_t(d)].constant);
      for (const ir::Index::Term& term : o.access.index[size_t(d)].terms)
        if (!c_.nest.axes[size_t(term.axis)].reduced) coordinate = coordinate + at[size_t(term.axis)] * term.coef;
      s.in.push_back({value("at", coordinate), d});
    }
  put({LetPtr{s.pointer, offset}});
  return s;
}

/// Rows as they lie in memory: four threads copy one's 64 bytes.
std::vector<StagedBlock::Source> StagedBlock::gather(int operand_number, const std::vector<int>& axes, const Int& first, int64_t rows,
                                                     bool guarded) {
  if (lanes()) return gather_elements(operand_number, axes, first, rows, guarded);
  const int64_t at_once = copiers_ / kPieces, apart = group() ? at_once * kPiece : at_once * kRowBytes;
  const Int lands_first = lands(rows, 0), first_k = piece_ * (kPiece / element_bytes(operand(operand_number)));
  std::vector<Source> sources;
  for (int64_t pass = 0; pass < rows / at_once; ++pass) {
    sources.push_back(source(operand_number, axes, value("m", first + row_ + Int(pass * at_once)), first_k, guarded));
    sources.back().to = lands_first + Int(pass * apart);
  }
  return sources;
}

/// Of a step, a warp copies 8 rows at a time that lie side by side in a stage, each by four neighbouring threads.
std::vector<StagedBlock::Source> StagedBlock::gather_turned(int operand_number, const std::vector<int>& axes, const Int& first,
                                                            int64_t rows, bool guarded) {
  const bool a = operand_number == c_.plan.operand_a;
  const int64_t warps = copiers_ / 32, apart = a ? Staging::kLaneRows : Staging::kLaneColumns;  // of a lane's rows
  const Int lane = remainder("lane", copier_, 32), warp = quotient("warp", copier_, 32);
  const Int piece = remainder("piece", lane, kPieces), eighth = quotient("eighth", lane, kPieces);
  std::vector<Source> sources;
  for (int64_t pass = 0; pass < rows / (8 * warps); ++pass) {
    const Int place = warp * 8 + eighth + Int(pass * 8 * warps), in_tile = remainder("in_tile", place, 4 * apart);
    const Int row = within("row", place - in_tile + remainder("of_lane", in_tile, 4) * apart + quotient("first", in_tile, 4), rows);
    sources.push_back(source(operand_number, axes, value("m", first + row), piece * (kPiece / size_of(DType::f32)), guarded));
    sources.back().turned = true, sources.back().pitch = a ? k_bytes_a() : k_bytes_b();
    sources.back().to = piece * (4 * sources.back().pitch) + place * size_of(DType::f32);
  }
  return sources;
}

/// Of a step, a thread copies elements of the same rows: along k, of a warp's 4 rows, 8 neighbours at a time; along the rows, of a warp's
/// 32, one k. Staging::kLaneRows says which places they take.
std::vector<StagedBlock::Source> StagedBlock::gather_elements(int operand_number, const std::vector<int>& axes, const Int& first,
                                                              int64_t rows, bool guarded) {
  const bool a = operand_number == c_.plan.operand_a;
  const Staging::Copies copies = a ? s_.copies_a : s_.copies_b;
  if (copies == Staging::Copies::turned) return gather_turned(operand_number, axes, first, rows, guarded);
  const bool along_k = copies == Staging::Copies::along_k;
  const int64_t pitch = a ? k_bytes_a() : k_bytes_b(), warps = copiers_ / 32, step = c_.plan.k_step;
  const int64_t apart = a ? Staging::kLaneRows : Staging::kLaneColumns;  // of a lane's rows
  const Int lane = remainder("lane", copier_, 32), warp = quotient("warp", copier_, 32);
  const int64_t across = std::min(warps, rows / 32);  // warps
  const int64_t rows_at_once = along_k ? 4 * warps : 32 * across, k_at_once = along_k ? 8 : warps / across;
  const Int k = along_k ? remainder("k", lane, 8) : quotient("k", warp, across);
  std::vector<Source> sources;
  for (int64_t pass = 0; pass < rows / rows_at_once; ++pass) {
    Int row, place;
    if (along_k) {  // those of one lane
      const Int fours = warp + Int(pass * warps), one = quotient("of_lane", lane, 8);
      row = quotient("rows_of", fours, apart) * (4 * apart) + remainder("first", fours, apart) + one * apart;
      place = fours * 4 + one;
    } else {
      const Int side = remainder("side", warp, across) * 32 + Int(pass * rows_at_once);
      row = side + lane, place = side + b_.place_in_lanes(*bodies_.back(), lane, apart);
    }
    Source s = source(operand_number, axes, value("m", first + row), k, guarded);
    s.to = k * pitch + place * size_of(DType::f32);
    s.elements = step / k_at_once, s.apart = k_at_once, s.pitch = pitch;
    sources.push_back(std::move(s));
  }
  return sources;
}

Int StagedBlock::panel(const Addressing& m) const {
  Int offset = Int(m.constant) + column_block_ * m.block[size_t(c_.plan.vec)];
  for (int a : s_.batch_axes) offset = offset + start_[size_t(a)] * m.block[size_t(a)];
  return offset;
}

/// A constant packed in the order of the stages: it is copied as it lies.
std::vector<StagedBlock::Source> StagedBlock::panel_pieces(const Addressing& m) {
  const Operand& o = operand(c_.plan.operand_b);
  const int64_t piece = kPiece / element_bytes(o), apart = copiers_ * kPiece;
  const Int offset = panel(m) + copier_ * piece, lands_first = lands(block_columns_, 0);
  std::vector<Source> sources;
  for (int64_t pass = 0; pass < block_columns_ * kPieces / copiers_; ++pass) {
    Source s{b_.pointer(m.buffer, "packed"), lands_first + Int(pass * apart), {}, {}, &o, &m, false, 0};
    put({LetPtr{s.pointer, offset + Int(pass * copiers_ * piece)}});
    sources.push_back(std::move(s));
  }
  return sources;
}

/// The reduced axes' values at a step.
std::vector<Int> StagedBlock::reduced_at(const Int& step) {
  std::vector<Int> at(size_t(n_), Int(0));
  unravel(c_.plan.reduce_order, step, at);
  at[size_t(c_.plan.k_axis)] = at[size_t(c_.plan.k_axis)] * c_.plan.k_step;
  return at;
}

Int StagedBlock::along_k(const Addressing& m, const std::vector<Int>& at) const {
  Int step(0);
  for (int a : c_.plan.reduce_order) step = step + at[size_t(a)] * m.value[size_t(a)];
  return step;
}

/// Without which zeros are copied.
std::vector<Int> StagedBlock::conditions(const Source& s, const std::vector<Int>& at) {
  std::vector<Int> all = s.always;
  for (const auto& [coordinate, d] : s.in) {
    Int x = coordinate;
    for (const ir::Index::Term& term : s.operand->access.index[size_t(d)].terms)
      if (c_.nest.axes[size_t(term.axis)].reduced) x = x + at[size_t(term.axis)] * term.coef;
    const Int last(c_.program[s.operand->access.tensor].shape[size_t(d)].value() - 1);
    if (b_.range(x).first < 0) all.push_back(x);
    if (b_.range(x).second > last.constant) all.push_back(last - x);
  }
  return all;
}

void StagedBlock::copy(const std::vector<Source>& sources, const std::vector<Int>& at, const Int& to) {
  if (sources.empty() || sources[0].turned) return;
  const int64_t piece = kPiece / element_bytes(*sources[0].operand), along_k = sources[0].m->value[size_t(c_.plan.k_axis)];
  Int step = this->along_k(*sources[0].m, at);
  if (sources.size() > 1) step = value("step_at", step);
  const auto put_copy = [&](const char* primitive, std::vector<Arg> args, const std::vector<Int>& conditions) {
    args.insert(args.end(), conditions.begin(), conditions.end());
    effect(primitive, std::move(args));
  };
  for (const Source& s : sources) {
    std::vector<Int> inside = conditions(s, at);
    const Int left = Int(k_extent()) - at[size_t(c_.plan.k_axis)] - s.first_k;  // elements
    if (s.elements > 0) {
      const int part = b_.variable("part", 0, s.elements - 1);
      if (s.padded_k) inside.push_back(left - Int(1) - Int::var(part, s.apart));
      loop(part, s.elements, [&] {
        put_copy(
            "cp4",
            {Address{ring_, to + s.to + Int::var(part, s.apart * s.pitch)}, Address{s.pointer, step + Int::var(part, s.apart * along_k)}},
            inside);
      });
    } else if (s.padded_k && k_extent() % piece != 0) {
      put_copy("cp16_part", {Address{ring_, to + s.to}, Address{s.pointer, step}, left * element_bytes(*s.operand)}, inside);
    } else {
      if (s.padded_k) inside.push_back(left - Int(piece));
      put_copy("cp16", {Address{ring_, to + s.to}, Address{s.pointer, step}}, inside);
    }
  }
}

void StagedBlock::load_piece(const Source& s, const std::vector<Int>& at, int64_t part) {
  std::vector<Int> inside = conditions(s, at);
  if (s.padded_k) inside.push_back(Int(k_extent() - kPiece / size_of(DType::f32)) - at[size_t(c_.plan.k_axis)] - s.first_k);
  std::vector<Arg> args{Int(part), Address{s.pointer, along_k(*s.m, at)}};
  args.insert(args.end(), inside.begin(), inside.end());
  effect("fragment_load_piece", std::move(args));
}
void StagedBlock::store_piece(const Source& s, const Int& to, int64_t part) {
  effect("fragment_staged_turn", {Int(part), Address{ring_, to + s.to}, Int(s.pitch)});
}

void StagedBlock::copy_stage(const std::vector<Source>& of_a, const std::vector<Source>& of_b, int round, const Int& fill) {
  for (int64_t d = 0; d < s_.depth; ++d) {
    const std::vector<Int> at = reduced_at(first_step_ + Int::var(round, s_.depth) + Int(d));
    copy(of_a, at, fill * memory_.stage + Int(d * step_bytes_a()));
    copy(of_b, at, fill * memory_.stage + Int(part_b_ + d * step_bytes_b()));
  }
}

StagedBlock::Box StagedBlock::box(int operand_number, const std::vector<int>& row_axes, const Int& first, int64_t rows) {
  const int64_t pitch = rows;
  rows = std::min(rows, points(row_axes));  // the copy unit takes longer for a row outside its tensor than for one inside
  const Operand& o = operand(operand_number);
  const Addressing& m = addressing(operand_number);
  const Buffer tensor = b_.program.buffers[size_t(m.buffer)];
  const rtile::NestFacts facts = rtile::nest_facts(c_.program, c_.nest);
  const auto& f = facts.operands[size_t(operand_number)];
  const auto seen = rtile::tensor_box(c_.nest, f, row_axes, c_.plan.k_axis);
  const auto pixels = seen ? std::nullopt : rtile::pixel_box(c_.nest, f, o, row_axes, c_.plan.k_axis);
  TensorMap map{tensor.dtype, seen ? m.constant : 0,     {}, {}, {TensorMap::kRowBytes / element_bytes(o), rows}, {}, {},
                {},           tensor.dtype == DType::f32};
  map.extents = seen ? seen->extents : pixels->extents, map.strides = seen ? seen->strides : pixels->strides;
  if (seen) map.box.resize(map.extents.size(), 1);
  if (pixels)
    for (const auto& d : pixels->dimensions) map.lower.push_back(d.lower), map.upper.push_back(d.upper), map.steps.push_back(d.stride);
  b_.program.buffers.push_back({tensor.name + "_map", tensor.dtype, 1, Buffer::Kind::map, tensor.argument, tensor.offset, 0, false, false,
                                std::make_shared<TensorMap>(std::move(map))});
  Box box{b_.pointer(int(b_.program.buffers.size()) - 1, tensor.name + "_map"),
          &o,
          seen ? seen->axes : std::vector<int>{},
          first,
          rows,
          pitch,
          pixels};
  put({LetPtr{box.map, Int(0)}});
  if (!pixels) return box;
  std::vector<Int> at = point(row_axes, value("m", first));
  // a block that is all beyond the last pixel begins in the image after it: the copy unit has no place beyond the end of one
  Int image(0);
  if (pixels->image >= 0) {
    image = at[size_t(pixels->image)];
  } else {
    const size_t outermost = size_t(row_axes.front());
    image = quotient("image", at[outermost], extent(row_axes.front()));
    at[outermost] = remainder("in_image", at[outermost], extent(row_axes.front()));
  }
  for (const auto& d : pixels->dimensions) box.pixel.push_back(d.place < 0 ? Int(d.lower) : at[size_t(d.place)] * d.stride + Int(d.lower));
  box.pixel.push_back(image);
  return box;
}

void StagedBlock::copy_box(const Box& box, const Int& step, const Int& to, const Address& barrier) {
  constexpr int64_t kSteps = TensorMap::kRowBytes / kRowBytes;  // in a row
  for (int64_t slab = 0; slab < s_.depth / kSteps; ++slab) {
    const std::vector<Int> at = reduced_at(step + Int(slab * kSteps));
    std::vector<Arg> args{Address{ring_, to + Int(slab * box.pitch * TensorMap::kRowBytes)}, Address{box.map, Int(0)},
                          at[size_t(c_.plan.k_axis)]};
    if (box.pixels) {
      for (const Int& x : box.pixel) args.push_back(x);
      for (const auto& d : box.pixels->dimensions) args.push_back(d.tap < 0 ? Int(0) : at[size_t(d.tap)] * d.dilation);
    } else {
      args.push_back(box.first);
      for (int a : box.axes) args.push_back(c_.nest.axes[size_t(a)].reduced ? at[size_t(a)] : start_[size_t(a)]);
    }
    const size_t rank = args.size() - 2;
    args.push_back(barrier);
    effect(box.pixels ? "pixel_copy" : "tensor_copy_" + std::to_string(rank) + "d", std::move(args));
  }
}

void StagedBlock::zero_sums() {
  for (int64_t t = 0; t < row_tiles() * column_tiles(); ++t) effect("fragment_zero", {Int(t)});
}

void StagedBlock::settle() {
  for (int64_t t = 0; t < row_tiles() * column_tiles(); ++t) effect("fragment_settle", {Int(t)});
}

}  // namespace rgen::lower
