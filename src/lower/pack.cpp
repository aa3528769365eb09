// Operand placement: the caller's layout as it is, constants packed once into the order in which the tile reads them, and padded copies
// of activations whose accesses leave the tensor or whose rows collide in the cache.
#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "lower/context.h"
#include "rtile/layout.h"

namespace rgen::lower {

using rtile::AtomForm;
using rtile::Blocking;
using rtile::Operand;
using rtile::Placement;

namespace {

std::vector<int64_t> zeros(size_t n) { return std::vector<int64_t>(n, 0); }

void place_direct(NestContext& c, size_t i) {
  const Operand& o = c.plan.operands[i];
  const Location& at = c.location.at(o.access.tensor);
  const size_t n = c.nest.axes.size();
  Addressing m{at.buffer, zeros(n), zeros(n), zeros(n), zeros(n), 0, at.tile_local};
  if (rtile::is_affine(o.access.index)) {
    const rtile::Linear l = rtile::linearise(o.access.index, at.strides, int(n));
    m.value = m.inside = l.coef;
    m.constant = l.constant;
  }
  c.addressing[i] = std::move(m);
}

/// A loop nest written from the outside in: each call opens one loop.
class Nested {
 public:
  Nested(Builder& b, Body& body) : b_(b), current_(&body) {}
  Int loop(const std::string& name, int64_t count, int64_t step = 1) {
    if (count <= step) return Int(0);
    const int v = b_.variable(name, 0, (count - 1) / step * step);
    auto body = std::make_shared<Body>();
    current_->push_back({For{v, Int(0), Int(count), step, body}});
    current_ = body.get();
    return Int::var(v);
  }
  Body& body() { return *current_; }

 private:
  Builder& b_;
  Body* current_;
};

}  // namespace

void lower_prepack(NestContext& c, int operand) {
  Builder& b = c.builder;
  const Operand& o = c.plan.operands[size_t(operand)];
  const ir::Tensor& tensor = c.program[o.access.tensor];
  const Location& source = c.location.at(o.access.tensor);
  const int n = int(c.nest.axes.size());
  const rtile::Linear l = rtile::linearise(o.access.index, source.strides, n);
  const bool grouped = c.plan.interleaved() && operand == c.plan.operand_b;
  const bool fragments = grouped && (c.plan.form == AtomForm::warp || (c.plan.staging && c.plan.staging->producers() == 0));
  const bool lanes = c.nest.axes[size_t(c.plan.vec)].reduced && l.coef[size_t(c.plan.vec)] != 0;  // of the reduction's vectors
  // neighbours along an axis of the reduction that stay neighbours, and how far that axis is padded
  const int k_axis = grouped ? c.plan.k_axis : lanes ? c.plan.vec : -1;
  const int64_t group = grouped ? c.plan.k_group : lanes ? c.plan.lanes : 1, k_step = grouped ? c.plan.k_step : group;

  // In the order in which the tiles read it, innermost first: group, lanes of the vector axis, the other axes inside the tile, reduced
  // axes within a chunk, blocks, chunks.
  Addressing m{-1, zeros(size_t(n)), zeros(size_t(n)), zeros(size_t(n)), zeros(size_t(n)), 0, false, true};
  std::vector<int> outputs;
  for (int a = 0; a < n; ++a)
    if (!c.nest.axes[size_t(a)].reduced && l.coef[size_t(a)] != 0 && a != c.plan.vec) outputs.push_back(a);
  const bool by_vector = !c.nest.axes[size_t(c.plan.vec)].reduced && l.coef[size_t(c.plan.vec)] != 0;
  if (by_vector) outputs.push_back(c.plan.vec);
  std::vector<int64_t> tile(size_t(n), 1);
  for (int a : outputs) tile[size_t(a)] = c.plan.tile[size_t(a)].hi * c.plan.tile[size_t(a)].unit;
  int64_t columns = 1;  // of one panel: all places of the operand in the register tile
  for (int a : outputs) columns *= tile[size_t(a)];
  if (lanes) m.inside[size_t(c.plan.vec)] = 1, m.padded = false;
  int64_t size = group;
  for (size_t i = outputs.size(); i-- > 0;) {
    m.inside[size_t(outputs[i])] = size;
    size *= tile[size_t(outputs[i])];
  }
  std::vector<int> reduced;
  for (int a : c.plan.reduce_order)
    if (l.coef[size_t(a)] != 0) reduced.push_back(a);
  std::vector<rtile::Loop> chunks;  // outermost first
  std::vector<int64_t> length;      // of each axis within a chunk
  for (const rtile::NestAxis& a : c.nest.axes) length.push_back(a.extent);
  for (const rtile::Loop& x : c.plan.loops)
    if (std::find(reduced.begin(), reduced.end(), x.axis) != reduced.end()) chunks.push_back(x), length[size_t(x.axis)] = x.step;
  for (size_t i = reduced.size(); i-- > 0;) {
    const int a = reduced[i];
    const bool k = a == k_axis;
    m.value[size_t(a)] = k ? size / group : size;  // per element of the axis; k advances by whole groups
    size *= k ? round_up(length[size_t(a)], k_step) / group : length[size_t(a)];
  }
  const bool corrected = grouped && c.plan.offset_a;
  if (corrected) {
    m.correction = size;
    size += columns * 4;
  }
  for (size_t i = outputs.size(); i-- > 0;) {
    m.block[size_t(outputs[i])] = size;
    size *= c.plan.tile[size_t(outputs[i])].blocks;
  }
  for (size_t i = chunks.size(); i-- > 0;) {
    const auto [a, step] = chunks[i];
    const int64_t line = 64 / size_of(tensor.dtype);
    size = round_up(size, std::lcm(step, line));  // the address of a chunk is linear in its first element
    m.chunk[size_t(a)] = size / step - m.value[size_t(a)];
    size *= ceil_div(c.nest.axes[size_t(a)].extent, step);
  }

  const int given = tensor.widens >= 0 ? tensor.widens : o.access.tensor;
  const int input = int(std::find(c.program.inputs.begin(), c.program.inputs.end(), given) - c.program.inputs.begin());
  const int64_t bytes = round_up(size * size_of(tensor.dtype), 64);
  b.program.buffers.push_back(
      {tensor.name + "_packed", tensor.dtype, bytes / size_of(tensor.dtype), Buffer::Kind::packed, input, 0, 0, grouped});
  m.buffer = int(b.program.buffers.size()) - 1;
  c.addressing[size_t(operand)] = m;

  Proc p;
  p.name = "prepack_" + tensor.name;
  p.comment = "packs " + tensor.name + " into the order in which the tiles read it; padding is zero";
  const int from = b.pointer(source.buffer, "src"), to = b.pointer(m.buffer, "dst");
  p.body.push_back({LetPtr{from, Int(0)}});
  p.body.push_back({LetPtr{to, Int(0)}});
  Nested loops(b, p.body);
  Int src(l.constant), dst(0);
  std::vector<Int> inside;                    // conditions
  std::vector<std::pair<int, Int>> blocks;    // axis, block number
  std::vector<Int> first(size_t(n), Int(0));  // of the chunk
  for (const auto& [a, step] : chunks) {
    first[size_t(a)] = loops.loop(c.nest.axes[size_t(a)].name + "_chunk", c.nest.axes[size_t(a)].extent, step);
    dst = dst + first[size_t(a)] * (m.chunk[size_t(a)] + m.value[size_t(a)]);
    src = src + first[size_t(a)] * l.coef[size_t(a)];
  }
  for (int a : outputs) {
    const Int block = loops.loop(c.nest.axes[size_t(a)].name + "_block", c.plan.tile[size_t(a)].blocks);
    blocks.push_back({a, block});
    dst = dst + block * m.block[size_t(a)];
  }
  Body* per_panel = &loops.body();
  const Int panel_at = dst;
  for (int a : reduced) {
    const bool k = a == k_axis;
    const int64_t extent = c.nest.axes[size_t(a)].extent, within = length[size_t(a)];
    Int r = loops.loop(c.nest.axes[size_t(a)].name, k ? round_up(within, k_step) : within, k ? group : 1);
    src = src + r * l.coef[size_t(a)];
    if (k && fragments) {  // a step of k is a row of 64 bytes
      const Int step = b.quotient(loops.body(), "q", r, k_step);
      dst = dst + step * (k_step * m.value[size_t(a)]) + r - step * k_step;
    } else {
      dst = dst + r * m.value[size_t(a)];
    }
    if (k && group > 1) {
      const Int g = loops.loop("g", group);
      src = src + g * l.coef[size_t(a)], dst = dst + g, r = r + g;
    }
    if (extent % within || (k && within % k_step)) inside.push_back(Int(extent - 1) - first[size_t(a)] - r);
  }
  for (const auto& [a, block] : blocks) {
    const Blocking& t = c.plan.tile[size_t(a)];
    const Int i = loops.loop(c.nest.axes[size_t(a)].name, tile[size_t(a)]);
    Int at = block * (t.hi * t.unit) + i;
    if (t.ragged()) {
      const int over = b.variable("short", 0, t.blocks - t.n_hi);
      loops.body().push_back({LetInt{LetInt::Op::max, over, block - Int(t.n_hi), Int(0)}});
      at = at - Int::var(over, t.unit);
    }
    src = src + at * l.coef[size_t(a)];
    if (fragments && a == c.plan.vec) {  // rows of 64 bytes, one a column: 512 bytes that a warp reads at once are 8 of them
      dst = dst + i * k_step;
    } else {
      dst = dst + i * m.inside[size_t(a)];
    }
    if (t.start(t.blocks - 1) + tile[size_t(a)] > t.extent || t.ragged()) inside.push_back(Int(t.extent - 1) - at);
  }
  auto copy = std::make_shared<Body>(), pad = std::make_shared<Body>();
  copy->push_back({Op{"copy_element", -1, false, {Address{to, dst}, Address{from, src}}}});
  pad->push_back({Op{"zero_element", -1, false, {Address{to, dst}}}});
  if (inside.empty())
    loops.body().push_back(copy->front());
  else
    loops.body().push_back({If{inside, copy, pad}});
  if (corrected) {  // after the panel: −128·Σ b for every column, because the signed operand is read with its sign bit flipped
    for (int64_t lane = 0; lane < columns; lane += c.plan.lanes) {
      auto body = std::make_shared<Body>();
      const int acc = b.reg("sum", true), ones = b.reg("offset", true), x = b.reg("b", true), zero = b.reg("zero", true);
      per_panel->push_back({Op{"vi_set", acc, false, {Int(0)}}});
      per_panel->push_back({Op{"vi_set", ones, false, {Int(int32_t(0x80808080u))}}});
      per_panel->push_back({Op{"vi_set", zero, false, {Int(0)}}});
      const int64_t step = columns * group;
      const int at = b.variable("at", 0, m.correction - step);
      body->push_back({Op{"vi_load_group", x, false, {Address{to, panel_at + Int::var(at) + Int(lane * group)}}}});
      body->push_back({Op{"vi_dpbusd", acc, true, {Reg{acc}, Reg{ones}, Reg{x}}}});
      per_panel->push_back({For{at, Int(0), Int(m.correction), step, body}});
      per_panel->push_back({Op{"sub", acc, true, {Reg{zero}, Reg{acc}}}});
      per_panel->push_back({Op{"vi_store_s32", -1, false, {Address{to, panel_at + Int(m.correction + lane * 4)}, Reg{acc}}}});
    }
  }
  const int proc = b.proc(std::move(p));
  b.program.prepacks.push_back({input, source.buffer, m.buffer, proc, bytes});
}

void lower_box(NestContext& c, int operand) {
  Builder& b = c.builder;
  const Operand& o = c.plan.operands[size_t(operand)];
  const ir::Tensor& tensor = c.program[o.access.tensor];
  const Location& source = c.location.at(o.access.tensor);
  const std::vector<int64_t> shape = rtile::const_sizes(tensor.shape);
  const size_t rank = shape.size();
  const auto [lo, count, strides, run, inner, elements] = rtile::box_layout(tensor, o.access.index, c.nest.full_extents());
  if (source.strides[run] != inner) throw Error(ErrorCode::internal, "a padded copy needs a contiguous innermost dimension");
  const bool flipped = operand == c.plan.operand_a && c.plan.copy_flips();
  const DType dtype = flipped ? DType::u8 : tensor.dtype;
  b.program.buffers.push_back({tensor.name + "_padded", dtype, elements, Buffer::Kind::workspace, -1, b.program.workspace_bytes, 0, false});
  b.program.workspace_bytes += round_up(elements * size_of(tensor.dtype), 64);
  const int buffer = int(b.program.buffers.size()) - 1;

  rtile::Linear l = rtile::linearise(o.access.index, strides, int(c.nest.axes.size()));
  for (size_t d = 0; d < rank; ++d) l.constant -= strides[d] * lo[d];
  c.addressing[size_t(operand)] = {buffer, l.coef, zeros(l.coef.size()), l.coef, zeros(l.coef.size()), l.constant};

  // rows dealt out to the tasks
  int64_t rows = 1;
  for (size_t d = 0; d < run; ++d) rows *= count[d];
  const int64_t tasks = std::min<int64_t>(rows, std::max<int64_t>(1, c.plan.tasks()));
  Proc p;
  p.name = c.prefix + "_pad_" + tensor.name;
  p.comment = "copies " + tensor.name + " into rows that the tiles can read without bounds checks" + (flipped ? ", sign bits flipped" : "");
  const int task = b.variable("task", 0, tasks - 1);
  p.params.push_back(task);
  const int from = b.pointer(source.buffer, "src"), to = b.pointer(buffer, "dst");
  p.body.push_back({LetPtr{from, Int(0)}});
  p.body.push_back({LetPtr{to, Int(0)}});
  const int first = b.variable("first", 0, rows), last = b.variable("last", 0, rows), row = b.variable("row", 0, rows - 1);
  p.body.push_back({LetInt{LetInt::Op::floor_div, first, Int::var(task, rows), Int(tasks)}});
  p.body.push_back({LetInt{LetInt::Op::floor_div, last, Int::var(task, rows) + Int(rows), Int(tasks)}});
  auto per_row = std::make_shared<Body>();
  Int src(0), dst(0), rest = Int::var(row);
  std::vector<Int> inside;
  int64_t remaining = rows;
  for (size_t d = 0; d < run; ++d) {
    remaining /= count[d];
    Int x = rest;
    if (remaining > 1) {
      const int q = b.variable("i", 0, count[d] - 1), r = b.variable("rest", 0, remaining - 1);
      per_row->push_back({LetInt{LetInt::Op::floor_div, q, rest, Int(remaining)}});
      per_row->push_back({LetInt{LetInt::Op::floor_mod, r, rest, Int(remaining)}});
      x = Int::var(q), rest = Int::var(r);
    } else {
      rest = Int(0);  // what follows has one element
    }
    src = src + (x + Int(lo[d])) * source.strides[d], dst = dst + x * strides[d];
    if (lo[d] < 0) inside.push_back(x + Int(lo[d]));
    if (lo[d] + count[d] > shape[d]) inside.push_back(Int(shape[d] - 1 - lo[d]) - x);
  }
  const bool integer = !is_float(tensor.dtype);
  const std::string family = integer ? "vi_" : "vf_", load = family + "load_" + std::string(to_string(tensor.dtype)),
                    store = family + "store_" + std::string(to_string(dtype));
  const int W = b.program.lanes, wide = W * 4 / size_of(tensor.dtype);  // elements of a vector, and of one of whole bytes
  const int64_t n = inner * count[run], before = -lo[run] * inner, valid = shape[run] * inner;
  const double fill = o.access.out_of_bounds.value_or(0);
  const int offset = flipped ? 128 : 0;
  const auto plus = [&](Body& body, int x, const std::string& op, int32_t value) {
    const int y = b.reg("offset", true);
    body.push_back({Op{"vi_set", y, false, {Int(value)}}});
    body.push_back({Op{op, x, true, {Reg{x}, Reg{y}}}});
  };
  const auto copy_row = [&](Body& body, bool outside) {
    const auto one = [&](Body& into, const Int& at, int64_t lanes, bool range) {
      const int x = b.reg("x", integer);
      const Address source_at{from, src + at - Int(before)}, target{to, dst + at};
      if (outside)
        into.push_back({Op{family + "set", x, false, {fill + offset}}});
      else if (range)
        into.push_back({Op{load + "_range", x, false, {source_at, Int(before) - at, Int(before + valid) - at, fill}}});
      else
        into.push_back({Op{load, x, false, {source_at}}});
      if (flipped && !outside) plus(into, x, "add", offset);
      if (lanes == W)
        into.push_back({Op{store, -1, false, {target, Reg{x}}}});
      else
        into.push_back({Op{store + "_n", -1, false, {target, Reg{x}, Int(lanes)}}});
    };
    const auto bytes = [&](Body& into, const Int& at) {
      const int x = b.reg("x", true);
      into.push_back({Op{"vi_load_bytes", x, false, {Address{from, src + at - Int(before)}}}});
      if (flipped) plus(into, x, "xor", int32_t(0x80808080u));
      into.push_back({Op{"vi_store_bytes", -1, false, {Address{to, dst + at}, Reg{x}}}});
    };
    const auto loop = [&](int64_t begin, int64_t end, int64_t step, auto&& copy) {
      if (begin >= end) return;
      const int at = b.variable("x", begin, end - step);
      auto inner_body = std::make_shared<Body>();
      copy(*inner_body, Int::var(at));
      body.push_back({For{at, Int(begin), Int(end), step, inner_body}});
    };
    const auto partly = [&](Body& into, const Int& at) { one(into, at, W, true); };
    const auto inner_vector = [&](Body& into, const Int& at) { one(into, at, W, false); };
    const int64_t whole = n / W * W;
    const int64_t left = std::min(whole, round_up(before, W));
    const int64_t right = std::max(left, std::min(whole, left + (before + valid - left) / W * W));
    const int64_t even = outside || wide == W ? left : left + (right - left) / wide * wide;
    loop(0, left, W, partly);
    loop(left, even, wide, bytes);
    loop(even, right, W, inner_vector);
    loop(right, whole, W, partly);
    if (whole < n) one(body, Int(whole), n - whole, true);
  };
  if (inside.empty()) {
    copy_row(*per_row, false);
  } else {
    auto yes = std::make_shared<Body>(), no = std::make_shared<Body>();
    copy_row(*yes, false);
    copy_row(*no, true);
    per_row->push_back({If{inside, yes, no}});
  }
  p.body.push_back({For{row, Int::var(first), Int::var(last), 1, per_row}});
  const int proc = b.proc(std::move(p));
  b.program.regions.push_back({proc, tasks, "pad " + tensor.name, c.plan.block_tasks});
}

void place_operands(NestContext& c) {
  c.addressing.resize(c.plan.operands.size());
  for (size_t i = 0; i < c.plan.operands.size(); ++i) switch (c.plan.operands[i].placement) {
      case Placement::direct:
        place_direct(c, i);
        break;
      case Placement::prepack:
        lower_prepack(c, int(i));
        break;
      case Placement::box:
        lower_box(c, int(i));
        break;
    }
}

}  // namespace rgen::lower
