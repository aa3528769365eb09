// Lines that a tile asks for before they are used: which of its loads are the first of their lines, and what they ask for.
#include <algorithm>
#include <iterator>

#include "lower/tile.h"

namespace rgen::lower {

constexpr int64_t kLine = 64;  // bytes

bool Tile::first_read(const Operand& o) const {
  if (o.slides < 0) return true;
  for (const ir::Index& index : o.access.index) {
    if (!index.uses(o.slides)) continue;
    int64_t row = 0, last = 0, step = 0;
    for (const ir::Index::Term& t : index.terms) {
      if (is_output(t.axis)) {
        row += t.coef * point_->offset[size_t(t.axis)];
        if (t.axis == o.slides) step = t.coef;
      } else {
        if (!reduced_[size_t(t.axis)].terms.empty()) return true;
        row += t.coef * reduced_[size_t(t.axis)].constant, last += t.coef * (c_.nest.axes[size_t(t.axis)].extent - 1);
      }
    }
    return step <= 0 || row > last - step;
  }
  return true;
}

bool Tile::first_of_row(const Operand& o) const {
  const ir::Index& along = o.access.index.back();
  return std::all_of(along.terms.begin(), along.terms.end(), [&](const ir::Index::Term& t) {
    return is_output(t.axis) || (reduced_[size_t(t.axis)].terms.empty() && reduced_[size_t(t.axis)].constant == 0);
  });
}

bool Tile::begins_line(const Operand& o, const Address& where) const {
  const int64_t element = size_of(c_.program[o.access.tensor].dtype), vector = element * c_.plan.k_group * W_;
  int64_t from = where.offset.constant;
  if (!o.packed()) {  // along the row: where it lies, what the loops add may move by parts of a line
    from = 0;
    for (const ir::Index::Term& t : o.access.index.back().terms)
      from += t.coef * (is_output(t.axis) ? point_->offset[size_t(t.axis)] : reduced_[size_t(t.axis)].constant);
  }
  return floor_mod(from * element, kLine) < vector;
}

void Tile::ask_for_later(const Operand& o, const Address& where) {
  if (o.next_step == 0 || finishing_ || pointer_depth(where.pointer) + 1 >= scopes_.size()) return;
  Asked& a = scope().asked[{where.pointer, where.offset.terms}];
  a.operand = &o, a.from.insert(where.offset.constant);
}

Body Tile::asked() {
  Body body;
  for (const auto& [at, asked] : scope().asked) {
    const int64_t line = kLine / size_of(c_.program[asked.operand->access.tensor].dtype);
    const auto ask = [&](int64_t constant) {
      Int offset(constant + asked.operand->next_step);
      offset.terms = at.second;
      body.push_back({Op{"prefetch_l1", -1, false, {Address{at.first, offset}}}});
    };
    int64_t last = 0;
    for (auto x = asked.from.begin(); x != asked.from.end(); ++x) {
      const auto next = std::next(x);
      const bool ends = next == asked.from.end() || *next >= *x + line;  // a row, which may end in a line of its own
      if (x != asked.from.begin() && *x < last + line && !(ends && *x > last + line / 2)) continue;
      ask(last = *x);
    }
  }
  return body;
}

void Tile::fetch_ahead(const Operand& o, const Address& where) {
  effect("prefetch_l2", {Address{where.pointer, where.offset + Int(o.ahead)}});
}

void Tile::fetch_row_ahead(const Operand& o, const Address& where) {
  if (!c_.plan.asks_line_by_line(o)) return fetch_ahead(o, where);
  const size_t along = size_t(c_.plan.reduce_order.back());
  int64_t rows = 1;
  for (int a = 0; a < n_axes_; ++a)
    if (is_output(a) && rtile::uses(o.access, a)) {
      if (point_->offset[size_t(a)] != 0) return;  // the first asks for all
      rows *= v_.size[size_t(a)];
    }
  const int64_t element = size_of(c_.program[o.access.tensor].dtype), elements = rows * c_.plan.tile[along].size();
  for (int64_t from = 0; from < elements; from += kLine / element)
    fetch_ahead(o, {where.pointer, where.offset + reduced_[along] * (rows - 1) + Int(from)});
}

}  // namespace rgen::lower
