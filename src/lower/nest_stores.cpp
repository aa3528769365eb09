// Rows of results that do not begin lines, on their way past the caches: from line to line, or collected in pieces.
#include <algorithm>

#include "lower/nest_lowering.h"
#include "rtile/layout.h"

namespace rgen::lower {

using rtile::Blocking;

void NestLowering::by_lines() {
  const int vec = c_.plan.vec;
  const int64_t lanes = c_.plan.lanes, most = extent(vec) / lanes;
  const int64_t vectors = std::max<int64_t>(1, std::min(tile(vec).hi, (extent(vec) - lanes + 1) / lanes));
  TileVariant v;
  v.size.assign(size_t(n_), 1), v.tail = int(lanes);
  const int start = params_.start[size_t(vec)] = b_.variable(name(vec), 0, extent(vec) - 1);
  const auto at = [&](const Int& first, int64_t size) {
    put({LetInt{LetInt::Op::value, start, first, Int(0)}});
    v.size[size_t(vec)] = size;
    call(v);
  };
  params_.part = b_.variable("part", 1, lanes - 1);
  const auto part = [&](const Int& first, const Int& count) {
    const auto inside = [&] {
      put({LetInt{LetInt::Op::value, params_.part, count, Int(0)}});
      v.part = true;
      at(first, 1);
      v.part = false;
    };
    branch({count - Int(1)}, inside, [] {});
  };
  const Int head = let(LetInt::Op::floor_mod, "head", Int(0) - first_of_row(), Int(lanes), lanes - 1);
  const Int whole = let(LetInt::Op::floor_div, "vectors", Int(extent(vec)) - head, Int(lanes), most);
  const Int tiles = let(LetInt::Op::floor_div, "tiles", whole, Int(vectors), most / vectors);
  part(Int(0), head);
  const int number = b_.variable("tile", 0, most / vectors - 1), vector = b_.variable("vector", 0, most - 1);
  in_loop(number, Int(0), tiles, 1, [&] { at(head + Int::var(number, vectors * lanes), vectors); });
  if (vectors > 1) in_loop(vector, tiles * vectors, whole, 1, [&] { at(head + Int::var(vector, lanes), 1); });
  part(head + whole * lanes, Int(extent(vec)) - head - whole * lanes);
  params_.start[size_t(vec)] = params_.part = -1;
}

Int NestLowering::first_of_row() const {
  const rtile::Statement& s = stored_statement();
  const rtile::Linear l = rtile::linearise(s.index, c_.location.at(s.tensor).strides, n_);
  Int i(l.constant);
  for (int a = 0; a < n_; ++a) {
    if (a != c_.plan.vec && params_.start[size_t(a)] >= 0) i = i + Int::var(params_.start[size_t(a)], l.coef[size_t(a)]);
    if (c_.origin[size_t(a)] >= 0) i = i + Int::var(c_.origin[size_t(a)], l.coef[size_t(a)]);
  }
  return i;
}

const rtile::Statement& NestLowering::stored_statement() const {
  const rtile::Statement* stored = nullptr;
  c_.nest.for_each_statement([&](const rtile::Statement& s) {
    if (s.store) stored = &s;
  });
  return *stored;
}

int NestLowering::combining_buffer() {
  return b_.workspace(c_.program[stored_statement().tensor].name + "_pieces", DType::f32,
                      c_.plan.buffered_rows() * c_.plan.buffered_pitch() + 2 * rtile::WriteCombining::kLine, c_.plan.tasks());
}

Int NestLowering::element(int axis, const Int& block) {
  const Blocking& t = tile(axis);
  if (block.is_const()) return Int(std::min(t.start(block.constant), t.extent));
  const Int at = b_.start(*bodies_.back(), t, block, t.blocks);
  return let(LetInt::Op::min, name(axis) + "_at", at, Int(t.extent), t.extent);
}

void NestLowering::combine(size_t i) {
  const auto& [along, over, whole] = *c_.plan.combining;
  const auto base = [&](int axis, const Int& at) { params_.base[size_t(axis)] = at.is_const() ? -1 : at.terms[0].first; };
  const Range all_rows = elements(over), all = elements(along);
  tile_of_blocks(c_.plan.loops[i], [&] {
    const Range rows = elements(over);
    tile_of_blocks(c_.plan.loops[i + 1], [&] {
      const Range piece = elements(along);
      base(over, rows.from), base(along, piece.from);
      loops(i + 2);
      base(over, 0), base(along, 0);
      const int64_t columns = c_.plan.buffered_columns();
      if (whole)
        stream(rows, piece, Int(1), rows.length() * columns, (rows.from - all_rows.from) * columns, (all_rows.to - rows.to) * columns);
      else
        stream(rows, piece, rows.length(), piece.length(), piece.from - all.from, all.to - piece.to);
    });
  });
}

void NestLowering::stream(const Range& rows, const Range& columns, const Int& count, const Int& length, const Int& before,
                          const Int& after) {
  const rtile::Statement& s = stored_statement();
  const Location& at = c_.location.at(s.tensor);
  const int64_t stride = rtile::linearise(s.index, at.strides, n_).coef[size_t(c_.plan.combining->rows)];
  const int result = b_.pointer(at.buffer, c_.program[s.tensor].name), pieces = b_.pointer(c_.combined, "pieces");
  put({LetPtr{result, first_of_row() + rows.from * stride + columns.from}});
  put({LetPtr{pieces, Int(rtile::WriteCombining::kLine)}});
  const auto piece = [&](const Int& row) {
    const Address target{result, row * stride}, source{pieces, row * c_.plan.buffered_pitch()};
    put({Op{"stream_piece_f32", -1, false, {target, source, length, before, after}}});
  };
  if (count == Int(1)) return piece(Int(0));
  const int row = b_.variable("row", 0, c_.plan.buffered_rows() - 1);
  in_loop(row, Int(0), count, 1, [&] { piece(Int::var(row)); });
}

}  // namespace rgen::lower
