#include "lower/packed_layout.h"

#include <algorithm>
#include <numeric>

namespace rgen::lower {

using rtile::AtomForm;

static std::vector<ir::Index> index_in_given(const ir::Tensor& tensor, const ir::Access& access) {
  std::vector<ir::Index> index;
  for (const ir::Index& i : tensor.view) index.push_back(ir::substitute(i, access.index));
  return tensor.view.empty() ? access.index : index;
}

PackedLayout::PackedLayout(const NestContext& c, int operand)
    : plan(c.plan),
      axes(c.nest.axes),
      access(plan.operands[size_t(operand)].access),
      tensor(c.program[access.tensor]),
      source(c.location.at(access.tensor)),
      index(index_in_given(tensor, access)),
      given(rtile::linearise(index, source.strides, int(axes.size()))),
      grouped(plan.interleaved() && operand == plan.operand_b),
      fragments(grouped && (plan.form == AtomForm::warp || (plan.staging && plan.staging->unit == rtile::Staging::Unit::warp))),
      lanes(grouped && plan.staging && plan.staging->unit == rtile::Staging::Unit::lane),
      corrected(grouped && plan.offset_a),
      rounded(grouped && !lanes && tensor.dtype == DType::f32 && tensor.widens < 0) {
  const std::vector<int64_t> zeros(axes.size(), 0);
  packed = {-1, zeros, zeros, zeros, zeros};
  const size_t vec = size_t(plan.vec);
  const bool along = axes[vec].reduced && uses(vec);  // vectors of the reduction
  if (grouped)
    k_axis = plan.k_axis, group = plan.k_group, k_step = plan.k_step, k_whole = k_step * plan.k_multiple;
  else if (along)
    k_axis = plan.vec, group = k_step = k_whole = plan.lanes;
  packed.padded = !along;
  if (along) packed.inside[vec] = 1;
  streams = plan.operands[size_t(operand)].streams;
  find_axes();
  lay_out();
}

void PackedLayout::find_axes() {
  const size_t vec = size_t(plan.vec);
  tile.assign(axes.size(), 1);
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].reduced || !uses(a)) continue;
    if (axes[a].full > 0)
      whole.push_back(int(a));
    else if (a != vec)
      outputs.push_back(int(a));
  }
  if (!axes[vec].reduced && uses(vec)) outputs.push_back(int(vec));
  for (int a : outputs) tile[size_t(a)] = blocking(a).hi * blocking(a).unit;
  tile[vec] /= streams;
  for (int a : outputs) columns *= tile[size_t(a)];
  for (int a : plan.reduce_order)
    if (uses(size_t(a))) reduced.push_back(a);
  for (const rtile::NestAxis& a : axes) length.push_back(a.extent);
  for (const rtile::Loop& x : plan.loops)
    if (std::find(reduced.begin(), reduced.end(), x.axis) != reduced.end()) chunks.push_back(x), length[size_t(x.axis)] = x.step;
}

void PackedLayout::lay_out() {
  elements = group;
  for (size_t i = outputs.size(); i-- > 0;) {
    packed.inside[size_t(outputs[i])] = elements;
    elements *= tile[size_t(outputs[i])];
  }
  for (size_t i = reduced.size(); i-- > 0;) {
    const size_t a = size_t(reduced[i]);
    const bool k = reduced[i] == k_axis;
    packed.value[a] = k ? elements / group : elements;  // per element of the axis; k advances by whole groups
    elements *= k ? round_up(length[a], k_whole) / group : length[a];
  }
  if (corrected) {
    packed.correction = elements;
    elements += columns * 4;
  }
  for (size_t i = outputs.size(); i-- > 0;) {
    packed.block[size_t(outputs[i])] = elements;
    elements *= blocking(outputs[i]).blocks;
  }
  if (streams > 1) packed.stream = elements, packed.stream_columns = tile[size_t(plan.vec)], elements *= streams;
  for (size_t i = whole.size(); i-- > 0;) {
    const size_t a = size_t(whole[i]);
    packed.value[a] = packed.inside[a] = elements;
    elements *= axes[a].full;
  }
  for (size_t i = chunks.size(); i-- > 0;) {
    const auto [a, step] = chunks[i];
    const int64_t line = 64 / size_of(tensor.dtype);
    elements = round_up(elements, std::lcm(step, line));  // the address of a chunk is linear in its first element
    packed.chunk[size_t(a)] = elements / step - packed.value[size_t(a)];
    elements *= ceil_div(extent(a), step);
  }
}

Int start_of(Builder& b, Body& body, const rtile::Blocking& t, const Int& block) {
  const Int at = block * (t.hi * t.unit);
  if (!t.ragged()) return at;
  const int over = b.variable("short", 0, t.blocks - t.n_hi);
  body.push_back({LetInt{LetInt::Op::max, over, block - Int(t.n_hi), Int(0)}});
  return at - Int::var(over, t.unit);
}

void correct_sums(Builder& b, const PackedLayout& layout, Body& body, int to, const Int& panel) {
  for (int64_t lane = 0; lane < layout.columns; lane += layout.plan.lanes) {
    auto steps = std::make_shared<Body>();
    const int acc = b.reg("sum", true), ones = b.reg("offset", true), x = b.reg("b", true), zero = b.reg("zero", true);
    body.push_back({Op{"vi_set", acc, false, {Int(0)}}});
    body.push_back({Op{"vi_set", ones, false, {Int(kSignBits)}}});
    body.push_back({Op{"vi_set", zero, false, {Int(0)}}});
    const int64_t step = layout.columns * layout.group;
    const int at = b.variable("at", 0, layout.packed.correction - step);
    steps->push_back({Op{"vi_load_group", x, false, {Address{to, panel + Int::var(at) + Int(lane * layout.group)}}}});
    steps->push_back({Op{"vi_dpbusd", acc, true, {Reg{acc}, Reg{ones}, Reg{x}}}});
    body.push_back({For{at, Int(0), Int(layout.packed.correction), step, steps}});
    body.push_back({Op{"sub", acc, true, {Reg{zero}, Reg{acc}}}});
    body.push_back({Op{"vi_store_s32", -1, false, {Address{to, panel + Int(layout.packed.correction + lane * 4)}, Reg{acc}}}});
  }
}

}  // namespace rgen::lower
