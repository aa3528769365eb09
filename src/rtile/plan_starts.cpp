// The choices before any tile: vector axis, form of the products, placement of operands, transposes.
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/element.h"
#include "rtile/atoms.h"
#include "rtile/layout.h"
#include "rtile/planner.h"
#include "rtile/staged.h"

namespace rgen::rtile {

namespace {

/// The instruction counted in tiles of 16 × `lanes` sums and a step of k.
hw::Atom in_tiles(const hw::Atom& atom, int lanes) {
  hw::Atom tile = atom;
  tile.m = 16, tile.n = lanes, tile.k = int(kStepBytes) / size_of(atom.b);
  tile.per_ns *= double(atom.m) * atom.n * atom.k / (double(tile.m) * tile.n * tile.k);
  return tile;
}

/// Elements of k that a step of a matrix unit takes, at most so many: all steps alike; and where the last of those would be shorter, the
/// most that divide the axis, for some steps more no rows of a are copied.
std::vector<int> step_lengths(int64_t extent, int most, int group) {
  const auto equal = int(round_up(ceil_div(extent, ceil_div(extent, most)), group));
  std::vector<int> lengths{equal};
  int divides = equal;
  while (divides > 0 && extent % divides != 0) divides -= group;
  if (divides != equal && divides >= most / 2) lengths.push_back(divides);
  return lengths;
}

/// Casts around a tensor of this type that change none of its values.
bool keeps_values(const ir::ExprPtr& e, DType from) {
  const ir::Expr* x = e.get();
  while (const ir::Cast* c = std::get_if<ir::Cast>(&x->node)) {
    if (c->dtype != from && !(c->dtype == DType::f32 && from != DType::s32) && !(c->dtype == DType::s32 && !is_float(from))) return false;
    x = c->x.get();
  }
  return true;
}
/// Clears `ok` if a floor uses the axis.
void check(const ir::Expr& e, int axis, bool& ok) {
  const auto index = [&](const ir::Index& i) {
    for (const ir::Index::Floor& f : i.floors) ok &= !f.inner.uses(axis);
  };
  std::visit(ir::overloaded{[](const ir::Const&) {},
                            [&](const ir::Access& a) {
                              for (const ir::Index& i : a.index) index(i);
                            },
                            [&](const ir::IndexValue& v) { index(v.index); }, [&](const ir::Unary& u) { check(*u.x, axis, ok); },
                            [&](const ir::Binary& b) { check(*b.x, axis, ok), check(*b.y, axis, ok); },
                            [&](const ir::Select& s) { check(*s.condition, axis, ok), check(*s.yes, axis, ok), check(*s.no, axis, ok); },
                            [&](const ir::Cast& x) { check(*x.x, axis, ok); }},
             e.node);
}

}  // namespace

bool Planner::affine_along(int axis) const {
  bool ok = true;
  nest_.for_each_statement([&](const Statement& s) {
    for (const ir::Index& i : s.index)
      for (const ir::Index::Floor& f : i.floors) ok &= !f.inner.uses(axis);
    check(*s.value, axis, ok);
  });
  return ok;
}

bool Planner::reads_widened() const {
  return std::any_of(facts_.operands.begin(), facts_.operands.end(), [this](const auto& o) { return c_.program[o.tensor].widens >= 0; });
}

bool Planner::all_affine() const {
  return std::all_of(facts_.operands.begin(), facts_.operands.end(), [](const auto& o) { return o.affine; });
}

NestPlan Planner::blank(int vec, int lanes) const {
  NestPlan p;
  p.vec = vec, p.lanes = lanes;
  p.operands = collect_operands(nest_);
  p.atom = fma_;
  p.taps = taps_;
  for (int a = 0; a < n_; ++a) {
    p.tile.emplace_back(extent(a), a == vec ? lanes : 1, 1);
    if (reduced(a) && a != vec) p.reduce_order.push_back(a);
  }
  if (reduced(vec)) p.reduce_order.push_back(vec);
  return p;
}

std::vector<Planner::Start> Planner::starts() const {
  std::vector<Start> all;
  if (all_affine())
    for (int a = 0; a < n_; ++a)
      if (extent(a) > 1 && affine_along(a) && vectorisable(a)) { add_forms(all, blank(a, W_)); }
  if (all.empty() && !reads_widened()) {  // scalar code over some axis of the output
    int vec = 0;
    for (int a = 0; a < n_; ++a)
      if (!reduced(a)) vec = a;
    NestPlan p = blank(vec, 1);
    p.guarded = any_guard(p);
    all.push_back({std::move(p)});
  }
  const auto staged = [](const Start& s) { return s.plan.form == AtomForm::staged; };
  if (nest_.stage && std::any_of(all.begin(), all.end(), staged)) std::erase_if(all, std::not_fn(staged));
  return all;
}

bool Planner::vectorisable(int a) const {
  bool contiguous = false;
  for (size_t i = 0; i < facts_.operands.size(); ++i) {
    const auto& o = facts_.operands[i];
    contiguous |= o.coef[size_t(a)] == 1 || (!o.is_store && o.coef[size_t(a)] != 0 && c_.prepackable[size_t(o.tensor)]);
  }
  if (reduced(a)) {  // the reduced vector axis must not be written along
    for (const auto& o : facts_.operands)
      if (o.is_store && !o.inner && o.coef[size_t(a)] != 0) return false;
  }
  return contiguous;
}

bool Planner::any_guard(const NestPlan& p) const {
  for (size_t i = 0; i < p.operands.size(); ++i)
    if (!facts_.operands[i].guards.empty() && p.operands[i].placement == Placement::direct) return true;
  return false;
}

bool Planner::can_box(size_t i) const {
  const auto& o = facts_.operands[i];
  if (o.boxes[0].coef.empty() || o.coef.empty()) return false;
  if (c_.home[size_t(o.tensor)] < 0) return false;  // a tile buffer of a fused group
  // a fused axis walks several dimensions through one: a box describes that only where they are contiguous, and no other axis walks them
  for (size_t d = 0; d < o.box_shape.size(); ++d) {
    if (std::find(o.guards.begin(), o.guards.end(), int(d)) != o.guards.end()) continue;
    int64_t span = 1;
    for (int a = 0; a < n_; ++a) span += std::abs(o.dim_coef[d][size_t(a)]) * (extent(a) - 1);
    if (span > o.box_shape[d]) return false;
  }
  return true;
}

void Planner::add_forms(std::vector<Start>& all, NestPlan p) const {
  const int vec = p.vec;
  // constants that the reduction walks are packed once
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const auto& o = facts_.operands[i];
    bool by_reduced = false, by_output = false;
    for (int a = 0; a < n_; ++a) (reduced(a) ? by_reduced : by_output) |= o.coef[size_t(a)] != 0;
    if (c_.prepackable[size_t(o.tensor)] && o.guards.empty() && by_reduced && by_output)
      p.operands.change(i, [](Operand& x) { x.placement = Placement::prepack; });
    else if (c_.program[o.tensor].widens >= 0)
      return;  // there is no such tensor
  }
  if (contraction_) {  // the reduced axis along which the activations are contiguous innermost: few lines are walked at a time
    const auto stride = [&](int a) {
      int64_t sum = 0;
      for (size_t i = 0; i < facts_.reads; ++i)
        if (p.operands[i].placement == Placement::direct) sum += std::abs(facts_.operands[i].coef[size_t(a)]);
      return a == vec ? -1 : sum;
    };
    std::stable_sort(p.reduce_order.begin(), p.reduce_order.end(), [&](int a, int b) { return stride(a) > stride(b); });
  }
  std::vector<NestPlan> forms{p};
  if (contraction_ &&
      taps_) {  // or taps outermost: inside other loops they are unrolled, and do all steps but where the tile covers its axis
    NestPlan q = p;
    std::stable_partition(q.reduce_order.begin(), q.reduce_order.end(), [&](int a) {
      return a != vec && std::any_of(taps_->begin(), taps_->end(), [a](const PaddedTaps& t) { return t.reduced == a; });
    });
    if (q.reduce_order != p.reduce_order) forms.push_back(std::move(q));
  }
  if (contraction_ && !reduced(vec)) add_group_form(forms, p, *contraction_);
  for (NestPlan& f : forms) {
    if (f.form == AtomForm::staged) {
      all.push_back({std::move(f)});
      continue;
    }
    // activations that leave their tensor, whose rows collide in the cache or do not begin the lines of which tile registers take them, or
    // whose signs are flipped: as they are, or copied into padded rows, if their type has the value that stands outside
    const auto pads = [&](size_t i) {
      const double outside = f.operands[i].access.out_of_bounds.value_or(0);
      return round_to(outside, c_.program[facts_.operands[i].tensor].dtype) == outside;
    };
    std::vector<size_t> boxable;
    for (size_t i = 0; i < f.operands.size(); ++i)
      if (f.operands[i].placement == Placement::direct && can_box(i) && nest_.has_reduction() && facts_.operands[i].inner && pads(i) &&
          (!facts_.operands[i].guards.empty() || (contraction_ && collides(i)) || crosses_lines(f, i) ||
           (f.offset_a && int(i) == f.operand_a)))
        boxable.push_back(i);
    // groups are read without bounds checks, rows of tile registers need not be
    const bool must = f.interleaved() && !facts_.operands[size_t(f.operand_a)].guards.empty() && !copies_outside_rows(f);
    if (must && std::find(boxable.begin(), boxable.end(), size_t(f.operand_a)) == boxable.end()) continue;
    if (!must) finish_start(all, f);
    if (!boxable.empty() && (must || !gpu())) {  // a GPU's lanes check bounds at little cost
      bool again = false;
      for (size_t i : boxable) {
        const bool whole = whole_steps(f, i);
        f.operands.change(i, [&](Operand& x) { x.placement = Placement::box, x.on_lines = crosses_lines(f, i), x.whole_steps = whole; });
        if (!whole) continue;
        const int64_t steps = f.steps_along(nest_, f.k_axis);
        f.k_step = f.atom->k, again = f.steps_along(nest_, f.k_axis) < steps;  // as those of another length
      }
      if (!again) finish_start(all, f);
    }
  }
}

bool Planner::crosses_lines(const NestPlan& p, size_t i) const {
  return p.form == AtomForm::matrix && int(i) == p.operand_a &&
         rows_across_lines(nest_, facts_.operands[i].coef, p, facts_.operands[i].element_bytes) > 0;
}

bool Planner::copies_outside_rows(const NestPlan& p) const {
  const auto& o = facts_.operands[size_t(p.operand_a)];
  if (p.form != AtomForm::matrix || p.offset_a || extent(p.k_axis) % p.k_step != 0) return false;
  if (p.operands[size_t(p.operand_a)].access.out_of_bounds != 0.0 || !o.affine || c_.home[size_t(o.tensor)] < 0) return false;
  return !nest_.fused() &&
         std::none_of(o.guards.begin(), o.guards.end(), [&](int d) { return o.dim_coef[size_t(d)][size_t(p.k_axis)] != 0; });
}

bool Planner::whole_steps(const NestPlan& p, size_t i) const {
  if (!crosses_lines(p, i)) return false;
  const auto& o = facts_.operands[i];
  const ir::Tensor& t = c_.program[o.tensor];
  // rows of k alone; what stands outside the tensor is multiplied by zero as well
  return rows_across_lines(nest_, o.boxes[true].coef, p, o.element_bytes) > 0 &&
         single_axis(p.operands[i].access.index.back()) == p.k_axis && t.shape.back().value() == extent(p.k_axis) &&
         p.atom->k * o.element_bytes == kStepBytes && std::isfinite(p.operands[i].access.out_of_bounds.value_or(0));
}

bool Planner::collides(size_t i) const {
  const auto& o = facts_.operands[i];
  for (int a = 0; a < n_; ++a) {
    const int64_t stride = o.coef[size_t(a)] * o.element_bytes;
    if (stride != 0 && (reduced(a) ? share_sets(stride, extent(a)) : stride % 1024 == 0)) return true;
  }
  return false;
}

bool Planner::can_repack(size_t i, int vec, int k) const {
  const auto& o = facts_.operands[i];
  if (gpu() || !o.affine || !o.guards.empty() || c_.makes_beside(o.tensor) || nest_.axes[size_t(vec)].full > 0) return false;
  if (o.coef[size_t(vec)] != 1 && o.coef[size_t(k)] != 1) return false;
  // of a window each element would be packed as often as it is read
  const auto along = [](const std::vector<int64_t>& dim) {
    return std::count_if(dim.begin(), dim.end(), [](int64_t c) { return c != 0; });
  };
  if (std::any_of(o.dim_coef.begin(), o.dim_coef.end(), [&](const auto& dim) { return along(dim) > 1; })) return false;
  int64_t readings = 1;
  for (int a : outputs_)
    if (o.coef[size_t(a)] == 0) readings *= nest_.axes[size_t(a)].full > 0 ? nest_.axes[size_t(a)].full : extent(a);
  return readings >= kWorthCopying;
}

bool Planner::issuable(const hw::Atom& atom, AtomForm form) const {
  switch (form) {
    case AtomForm::vector:  // elsewhere a lane's multiply-add is the form of all nests
      return gpu() && W_ == 32 && atom.b == DType::f32;
    case AtomForm::warp:
      return W_ == 32 && atom.m == 16;
    case AtomForm::staged:  // wgmma is written for signed bytes
      return W_ == 32 && atom.m == 64 && atom.a != DType::u8;
    case AtomForm::group:
    case AtomForm::matrix:
      return atom.n == W_;
  }
  return false;
}

void Planner::add_group_form(std::vector<NestPlan>& forms, const NestPlan& p, const Contraction& con) const {
  const DType tx = c_.program[con.x->tensor].dtype, ty = c_.program[con.y->tensor].dtype;
  if (nest_.axes[size_t(p.vec)].reduced) return;
  // the instructions sum bytes in s32 and bf16 in f32, and read the tensors as they are
  const Statement& sum = nest_.inner[0];
  const ir::Binary& factors = std::get<ir::Binary>(sum.value->node);
  if (is_float(tx) != is_float(c_.program[sum.tensor].dtype) || !keeps_values(factors.x, tx) || !keeps_values(factors.y, ty)) return;
  for (const auto& [a, b] : {std::pair{con.x, con.y}, std::pair{con.y, con.x}}) {
    const int ia = find_operand(p.operands, *a), ib = find_operand(p.operands, *b);
    if (ia == ib) continue;
    const DType ta = a == con.x ? tx : ty, tb = a == con.x ? ty : tx;
    const auto &fa = facts_.operands[size_t(ia)], &fb = facts_.operands[size_t(ib)];
    const bool packed = p.operands[size_t(ib)].placement == Placement::prepack;
    if (fa.coef[size_t(p.vec)] != 0 || fb.coef[size_t(p.vec)] == 0) continue;
    if (p.operands[size_t(ia)].placement != Placement::direct) continue;
    for (const hw::Atom& atom : c_.profile.atoms) {
      const AtomRow* row = find_atom_row(atom.name);
      const bool widens = row && row->form == AtomForm::group && packed && atom.b == DType::s16 && (tb == DType::s8 || tb == DType::u8);
      if (!row || (atom.b != tb && !widens) || !issuable(atom, row->form) || (atom.tf32 && c_.program.math != ir::Math::tf32)) continue;
      const bool by_tiles = gpu() && row->form != AtomForm::group;
      const bool group = row->form == AtomForm::staged;  // of its many widths one stands for all
      if (group && std::any_of(forms.begin(), forms.end(), [&](const NestPlan& f) { return f.atom->name == atom.name; })) continue;
      const bool offset = row->offset_a && ta == DType::s8;
      if (atom.a != ta && !offset) continue;
      // lanes take k one by one, wherever it lies: the longest
      const bool lanes = by_tiles && row->form == AtomForm::vector;
      std::vector<int> steps;
      for (int k = 0; k < n_; ++k) {
        const bool walks = lanes ? fa.coef[size_t(k)] != 0 : fa.coef[size_t(k)] == 1;
        const int64_t least = lanes ? kStepBytes / 8 : row->form == AtomForm::matrix ? atom.k / 8 : atom.k / 2;
        if (reduced(k) && walks && fb.coef[size_t(k)] != 0 && extent(k) >= least) steps.push_back(k);
      }
      if (lanes) std::stable_sort(steps.begin(), steps.end(), [&](int x, int y) { return extent(x) > extent(y); });
      for (int k : steps) {
        const bool repacked = !packed && can_repack(size_t(ib), p.vec, k);
        if (!packed && !repacked && !gpu()) continue;
        NestPlan g = p;
        if (repacked) g.operands.change(size_t(ib), [](Operand& x) { x.placement = Placement::repack; });
        g.form = row->form;
        const hw::Atom issued = by_tiles ? in_tiles(atom, W_) : atom;
        g.atom = std::make_shared<const hw::Atom>(issued), g.k_axis = k, g.k_step = issued.k,
        // wgmma reads 8 rows of 16 bytes at a time, side by side (PTX ISA, "Matrix Descriptor")
            g.k_group = (group ? 16 : 4) / size_of(atom.b), g.offset_a = offset;
        g.operand_a = ia, g.operand_b = ib;
        std::erase(g.reduce_order, k);
        g.reduce_order.push_back(k);
        if (g.tiled()) {  // rows along the longest axis of a, of such the one whose rows lie closest
          const auto before = [&](int x, int y) {
            return std::pair(-extent(x), std::abs(fa.coef[size_t(x)])) < std::pair(-extent(y), std::abs(fa.coef[size_t(y)]));
          };
          for (int m = 0; m < n_; ++m)
            if (!reduced(m) && m != p.vec && fa.coef[size_t(m)] != 0 && fb.coef[size_t(m)] == 0 && (g.m_axis < 0 || before(m, g.m_axis)))
              g.m_axis = m;
          if (g.m_axis < 0) continue;
        }
        if (by_tiles && can_stage(nest_, facts_, g, c_)) {
          forms.push_back(g);
          forms.back().form = AtomForm::staged;
        }
        if ((packed || repacked) && (!by_tiles || row->form == AtomForm::warp) && !atom.tf32)
          for (const int step : g.form == AtomForm::matrix ? step_lengths(extent(k), g.k_step, g.k_group) : std::vector{g.k_step}) {
            forms.push_back(g);
            forms.back().k_step = step;
          }
        break;
      }
    }
    if (packed) return;
  }
}

int64_t Planner::neighbours(const std::vector<int64_t>& coef, int vec, int t) const {
  const int64_t n = extent(t);
  const bool whole = nest_.axes[size_t(t)].full == 0;  // no tile of a fused group's axis
  return !gpu() && whole && !coef.empty() && n > 1 && n <= kNeighbours && coef[size_t(t)] == 1 && coef[size_t(vec)] == n ? n : 0;
}

bool Planner::separate(NestPlan& p) const {
  bool any = false;
  for (size_t i = 0; i < p.operands.size(); ++i) {
    const auto& o = facts_.operands[i];
    const Placement placed = p.operands[i].placement;
    if (placed == Placement::prepack || (placed == Placement::direct && !o.guards.empty())) continue;
    for (int t = 0; t < n_; ++t)
      if (const int64_t n = reduced(t) ? neighbours(placed == Placement::box ? o.boxes[0].coef : o.coef, p.vec, t) : 0; n > 0) {
        p.operands.change(i, [&](Operand& x) { x.transposed = true, x.transpose_axis = t, x.neighbours = n; });
        any = true;
      }
  }
  return any;
}

void Planner::finish_start(std::vector<Start>& all, NestPlan p) const {
  p.guarded = any_guard(p);
  all.push_back({p});
  if (p.lanes == 1 || reduced(p.vec)) return;
  add_transposes(all, p);
  if (separate(p)) {
    all.push_back({p});
    add_transposes(all, p);
  }
}

void Planner::add_transposes(std::vector<Start>& all, const NestPlan& p) const {
  const int vec = p.vec;
  for (int t = 0; t < n_; ++t) {
    if (t == vec || reduced(t) || extent(t) == 1) continue;
    NestPlan q = p;
    bool any = false, loads = false, apart = false, leaves = false;
    for (size_t i = 0; i < q.operands.size(); ++i) {
      const auto& o = facts_.operands[i];
      if (q.operands[i].placement == Placement::prepack || q.operands[i].transposed || o.coef[size_t(vec)] == 0 ||
          o.coef[size_t(vec)] == 1 || o.coef[size_t(t)] != 1)
        continue;
      const bool direct = q.operands[i].placement == Placement::direct;
      const int64_t n = neighbours(direct ? o.coef : o.boxes[0].coef, vec, t);
      q.operands.change(i, [&](Operand& x) { x.transposed = true, x.transpose_axis = t, x.neighbours = n; });
      any = true, (n > 0 ? apart : loads) = true, leaves |= direct && !o.guards.empty();
    }
    for (size_t i = facts_.reads; i < facts_.operands.size(); ++i) {
      const auto& o = facts_.operands[i];
      if (o.inner && nest_.has_reduction()) continue;
      if (o.coef[size_t(vec)] == 1 || o.coef[size_t(vec)] == 0 || o.coef[size_t(t)] != 1) continue;
      q.store_transpose_axis = t, q.store_neighbours = neighbours(o.coef, vec, t);
      any = true, apart |= q.store_neighbours > 0;
    }
    if (!any || leaves) continue;  // vectors of which each lane may leave the tensor are not loaded whole
    if (apart) {
      all.push_back({q, t, extent(t)});
    } else if (loads) {
      all.push_back({q, t, W_});
    } else {  // the three largest equal cuts of at most a vector: beside a second vector of results there are registers for 6 of 8 rows
      const auto cuts = sizes(extent(t), W_);
      for (size_t i = cuts.size(); i-- > 0 && cuts.size() - i <= 3;) all.push_back({q, t, cuts[i]});
    }
  }
}

}  // namespace rgen::rtile
