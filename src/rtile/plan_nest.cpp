#include "rtile/plan_nest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "base/error.h"
#include "rtile/atoms.h"

namespace rgen::rtile {

namespace {

/// The two factors of a sum of products, casts stripped; nothing if the nest is no contraction.
struct Contraction {
  const ir::Access *x = nullptr, *y = nullptr;
};
const ir::Access* stripped_access(const ir::ExprPtr& e) {
  const ir::Expr* x = e.get();
  while (const ir::Cast* c = std::get_if<ir::Cast>(&x->node)) x = c->x.get();
  return std::get_if<ir::Access>(&x->node);
}
/// A tensor of this type holds the value as it is.
bool holds(DType t, double v) {
  int exponent = 0;
  const double fraction = std::abs(std::frexp(v, &exponent));
  const auto bits = [&](int n) { return fraction * std::exp2(n) == std::floor(fraction * std::exp2(n)); };
  switch (t) {
    case DType::f32:
      return std::isinf(v) || double(float(v)) == v;
    case DType::bf16:
      return std::isinf(v) || v == 0 || (bits(8) && std::abs(exponent) < 120);
    case DType::f16:
      return std::isinf(v) || v == 0 || (bits(11) && exponent > -14 && exponent <= 16);
    case DType::s8:
      return v == std::floor(v) && v >= -128 && v <= 127;
    case DType::u8:
      return v == std::floor(v) && v >= 0 && v <= 255;
    case DType::s32:
      return v == std::floor(v) && v >= -0x1p31 && v < 0x1p31;
  }
  return false;
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
std::optional<Contraction> contraction(const Nest& nest) {
  if (nest.inner.size() != 1 || nest.inner[0].reduce != ir::ReduceOp::sum) return {};
  const ir::Binary* b = std::get_if<ir::Binary>(&nest.inner[0].value->node);
  if (!b || b->op != ir::BinaryOp::mul) return {};
  Contraction c{stripped_access(b->x), stripped_access(b->y)};
  if (!c.x || !c.y || !is_affine(c.x->index) || !is_affine(c.y->index)) return {};
  return c;
}

class Planner {
 public:
  Planner(const Nest& nest, const PlanContext& c)
      : nest_(nest), c_(c), facts_(nest_facts(c.program, nest)), n_(int(nest.axes.size())), alone_(c) {
    alone_.threads = 1, alone_.sharers = 1;
    std::fill(alone_.home.begin(), alone_.home.end(), 0);
    W_ = c.profile.vector_bits / 32;
    if (const hw::Atom* fma = c.profile.find_atom(DType::f32, DType::f32, DType::f32)) fma_ = std::make_shared<const hw::Atom>(*fma);
    if (!fma_)
      throw Error(ErrorCode::invalid_profile, "profile '" + c.profile.name + "' has no f32 multiply-add among its atoms", "/atoms");
  }

  std::vector<NestPlan> run(int keep) {
    for (const Start& s : starts()) enumerate_tiles(s);
    if (tiles_.empty())
      throw Error(ErrorCode::does_not_fit,
                  "no tile fits: one step of the smallest needs more than " + std::to_string(c_.profile.vector_registers) +
                      " vector registers or the " + std::to_string(c_.profile.levels[0].capacity_bytes) + " bytes of " +
                      c_.profile.levels[0].name,
                  c_.profile.name);
    // the register tiles that compute fastest go on to loops and placement
    std::stable_sort(tiles_.begin(), tiles_.end(), [](const Scored& a, const Scored& b) { return a.us < b.us; });
    const double slowest = tiles_.front().us * limit();
    const size_t most = size_t((gpu() ? 4 : 1) * c_.register_tiles * c_.breadth);  // a GPU's tiles have few loops to go with
    if (tiles_.size() > most) tiles_.resize(most);
    for (const Scored& t : tiles_)
      if (t.us <= slowest || &t == &tiles_.front()) enumerate_loops(t.plan);
    std::stable_sort(plans_.begin(), plans_.end(), faster);
    if (int(plans_.size()) > keep) plans_.resize(size_t(keep));
    return std::move(plans_);
  }

 private:
  static constexpr size_t kLoops = 4;
  struct Scored {
    NestPlan plan;
    double us;
  };

  /// The choices before any tile: vector axis, form, placement of operands, transposes.
  struct Start {
    NestPlan plan;
    int tile_axis = -1;  ///< an axis whose tile is fixed by a transpose
    int64_t tile_size = 0;
  };

  const Nest& nest_;
  const PlanContext& c_;
  NestFacts facts_;
  const int n_;
  int W_ = 1;
  std::shared_ptr<const hw::Atom> fma_;
  PlanContext alone_;  ///< one worker, everything in the nearest cache
  double fastest_ = std::numeric_limits<double>::infinity();
  std::vector<Scored> tiles_;
  std::vector<NestPlan> plans_;

  bool gpu() const { return c_.profile.kind == hw::Profile::Kind::gpu; }
  bool reduced(int a) const { return nest_.axes[size_t(a)].reduced; }
  int64_t extent(int a) const { return nest_.axes[size_t(a)].extent; }

  // ---- vector axis, form, placement ----
  bool affine_along(int axis) const {
    bool ok = true;
    nest_.for_each_statement([&](const Statement& s) {
      for (const ir::Index& i : s.index)
        for (const ir::Index::Floor& f : i.floors) ok &= !f.inner.uses(axis);
      check(*s.value, axis, ok);
    });
    return ok;
  }
  static void check(const ir::Expr& e, int axis, bool& ok) {
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
  /// Non-affine accesses are computed lane by lane, so every access must be affine for vector code.
  bool all_affine() const {
    return std::all_of(facts_.operands.begin(), facts_.operands.end(), [](const auto& o) { return o.affine; });
  }

  NestPlan blank(int vec, int lanes) const {
    NestPlan p;
    p.vec = vec, p.lanes = lanes;
    p.operands = collect_operands(nest_);
    p.atom = fma_;
    for (int a = 0; a < n_; ++a) {
      p.tile.emplace_back(extent(a), a == vec ? lanes : 1, 1);
      if (reduced(a) && a != vec) p.reduce_order.push_back(a);
    }
    if (reduced(vec)) p.reduce_order.push_back(vec);
    return p;
  }

  std::vector<Start> starts() const {
    std::vector<Start> all;
    if (all_affine())
      for (int a = 0; a < n_; ++a)
        if (extent(a) > 1 && affine_along(a) && vectorisable(a)) { add_forms(all, blank(a, W_)); }
    if (all.empty()) {  // scalar code over some axis of the output
      int vec = 0;
      for (int a = 0; a < n_; ++a)
        if (!reduced(a)) vec = a;
      NestPlan p = blank(vec, 1);
      p.guarded = any_guard(p);
      all.push_back({std::move(p)});
    }
    return all;
  }

  /// Worth a try as vector axis: something is contiguous along it (or can be packed, transposed) and nothing prevents it.
  bool vectorisable(int a) const {
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

  bool any_guard(const NestPlan& p) const {
    for (size_t i = 0; i < p.operands.size(); ++i)
      if (!facts_.operands[i].guards.empty() && p.operands[i].placement == Placement::direct) return true;
    return false;
  }
  bool can_box(size_t i) const {
    const auto& o = facts_.operands[i];
    if (!o.affine || o.shape.empty() || o.coef.empty()) return false;
    if (c_.home[size_t(o.tensor)] < 0) return false;  // a tile buffer of a fused group
    // a fused axis walks several dimensions through one: no box describes that
    for (size_t d = 0; d < o.shape.size(); ++d) {
      if (std::find(o.guards.begin(), o.guards.end(), int(d)) != o.guards.end()) continue;
      int64_t span = 1;
      for (int a = 0; a < n_; ++a) span += std::abs(o.dim_coef[d][size_t(a)]) * (extent(a) - 1);
      if (span > o.shape[d]) return false;
    }
    return const_sizes(c_.program[o.tensor].strides).back() == 1;
  }

  void add_forms(std::vector<Start>& all, NestPlan p) const {
    const int vec = p.vec;
    const auto con = contraction(nest_);
    // constants that the reduction walks are packed once
    for (size_t i = 0; i < p.operands.size(); ++i) {
      const auto& o = facts_.operands[i];
      bool by_reduced = false, by_output = false;
      for (int a = 0; a < n_; ++a) (reduced(a) ? by_reduced : by_output) |= o.coef[size_t(a)] != 0;
      if (c_.prepackable[size_t(o.tensor)] && o.guards.empty() && by_reduced && by_output)
        p.operands.change(i, [](Operand& x) { x.placement = Placement::prepack; });
    }
    if (con) {  // the reduced axis along which the activations are contiguous innermost: few lines are walked at a time
      const auto stride = [&](int a) {
        int64_t sum = 0;
        for (size_t i = 0; i < facts_.reads; ++i)
          if (p.operands[i].placement == Placement::direct) sum += std::abs(facts_.operands[i].coef[size_t(a)]);
        return a == vec ? -1 : sum;
      };
      std::stable_sort(p.reduce_order.begin(), p.reduce_order.end(), [&](int a, int b) { return stride(a) > stride(b); });
    }
    std::vector<NestPlan> forms{p};
    if (con && !reduced(vec)) add_group_form(forms, p, *con);
    for (NestPlan& f : forms) {
      // activations that leave their tensor, or whose rows collide in the cache: as they are, or copied into padded rows
      std::vector<size_t> boxable;
      for (size_t i = 0; i < f.operands.size(); ++i)
        if (f.operands[i].placement == Placement::direct && can_box(i) && nest_.has_reduction() && facts_.operands[i].inner &&
            holds(c_.program[facts_.operands[i].tensor].dtype, f.operands[i].access.out_of_bounds.value_or(0)) &&
            (!facts_.operands[i].guards.empty() || (con && collides(i))))
          boxable.push_back(i);
      // groups are read without bounds checks
      const bool must = f.interleaved() && !facts_.operands[size_t(f.operand_a)].guards.empty();
      if (must && std::find(boxable.begin(), boxable.end(), size_t(f.operand_a)) == boxable.end()) continue;
      if (!must) finish_start(all, f);
      if (!boxable.empty() && (must || !gpu())) {  // a GPU's lanes check bounds at little cost
        for (size_t i : boxable) f.operands.change(i, [](Operand& x) { x.placement = Placement::box; });
        finish_start(all, f);
      }
    }
  }
  bool collides(size_t i) const {
    const auto& o = facts_.operands[i];
    for (int a = 0; a < n_; ++a)
      if (!reduced(a) && o.coef[size_t(a)] != 0 && (o.coef[size_t(a)] * o.element_bytes) % 1024 == 0) return true;
    return false;
  }

  /// Instructions that multiply and add `k` neighbours a lane.
  void add_group_form(std::vector<NestPlan>& forms, const NestPlan& p, const Contraction& con) const {
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
      if (fa.coef[size_t(p.vec)] != 0 || fb.coef[size_t(p.vec)] == 0 || p.operands[size_t(ib)].placement != Placement::prepack) continue;
      if (p.operands[size_t(ia)].placement != Placement::direct) continue;
      for (const hw::Atom& atom : c_.profile.atoms) {
        const AtomRow* row = find_atom_row(atom.name);
        if (!row || row->form == AtomForm::vector || atom.b != tb || atom.tf32) continue;
        const bool warp = row->form == AtomForm::warp;
        if (warp ? atom.n != 8 || atom.m != 16 || W_ != 32 || atom.a != atom.b || atom.b == DType::u8 : atom.n != W_) continue;
        const bool offset = row->offset_a && ta == DType::s8;
        if (atom.a != ta && !offset) continue;
        for (int k = 0; k < n_; ++k) {
          if (!reduced(k) || fa.coef[size_t(k)] != 1 || fb.coef[size_t(k)] == 0 || extent(k) < atom.k / 2) continue;
          NestPlan g = p;
          g.form = row->form;
          hw::Atom issued = atom;
          if (warp) issued.n = W_, issued.k *= 2, issued.per_ns /= 8;  // a tile takes 4 × 2 of them
          g.atom = std::make_shared<const hw::Atom>(issued), g.k_axis = k, g.k_step = issued.k, g.k_group = 4 / size_of(tb),
          g.offset_a = offset;
          g.operand_a = ia, g.operand_b = ib;
          std::erase(g.reduce_order, k);
          g.reduce_order.push_back(k);
          if (g.tiled()) {  // rows along the longest axis of a
            for (int m = 0; m < n_; ++m)
              if (!reduced(m) && m != p.vec && fa.coef[size_t(m)] != 0 && fb.coef[size_t(m)] == 0 &&
                  (g.m_axis < 0 || extent(m) > extent(g.m_axis)))
                g.m_axis = m;
            if (g.m_axis < 0) continue;
          }
          forms.push_back(std::move(g));
          break;
        }
      }
      return;
    }
  }

  /// Transposes: operands (or the result) contiguous along another axis than the vector's.
  void finish_start(std::vector<Start>& all, NestPlan p) const {
    p.guarded = any_guard(p);
    all.push_back({p});
    if (p.guarded || p.lanes == 1) return;
    const int vec = p.vec;
    for (int t = 0; t < n_; ++t) {
      if (t == vec || reduced(t) || reduced(vec) || extent(t) == 1) continue;
      NestPlan q = p;
      bool any = false;
      for (size_t i = 0; i < q.operands.size(); ++i) {
        const auto& o = facts_.operands[i];
        if (q.operands[i].placement == Placement::prepack || o.coef[size_t(vec)] == 0 || o.coef[size_t(vec)] == 1 || o.coef[size_t(t)] != 1)
          continue;
        q.operands.change(i, [t](Operand& x) { x.transposed = true, x.transpose_axis = t; });
        any = true;
      }
      for (size_t i = facts_.reads; i < facts_.operands.size(); ++i) {
        const auto& o = facts_.operands[i];
        if (o.inner && nest_.has_reduction()) continue;
        if (o.coef[size_t(vec)] != 1 && o.coef[size_t(vec)] != 0 && o.coef[size_t(t)] == 1) q.store_transpose_axis = t, any = true;
      }
      if (!any) continue;
      const bool loads = std::any_of(q.operands.begin(), q.operands.end(), [](const Operand& o) { return o.transposed; });
      if (loads) {
        all.push_back({q, t, W_});
      } else {  // the two largest equal cuts of at most a vector
        const auto cuts = sizes(extent(t), W_);
        for (size_t i = cuts.size(); i-- > 0 && cuts.size() - i <= 2;) all.push_back({q, t, cuts[i]});
      }
    }
  }

  // ---- register tiles ----
  static std::vector<int64_t> sizes(int64_t extent, int64_t most) {
    std::vector<int64_t> s;
    int64_t last = 0;
    for (int64_t u = 1; u <= std::min(extent, most); ++u) {
      const int64_t hi = ceil_div(extent, ceil_div(extent, u));  // what equal blocks of at most u come out as
      if (hi != last) s.push_back(hi);
      last = hi;
    }
    return s;
  }

  /// Of many sizes, on a GPU: those next to powers of two and their halves between. Its tiles are larger, and no longer depend on each row.
  std::vector<int64_t> thinned(std::vector<int64_t> all) const {
    if (!gpu() || all.size() <= 6) return all;
    std::vector<int64_t> some;
    for (int64_t target : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64})
      for (int64_t s : all)
        if (s >= target) {
          if (some.empty() || some.back() != s) some.push_back(s);
          break;
        }
    return some;
  }

  void enumerate_tiles(const Start& s) {
    const int vec = s.plan.vec;
    // of a GPU's many registers, most are better spent on more warps
    const int registers = gpu() ? std::min(128, c_.profile.vector_registers) : c_.profile.vector_registers;
    // where there is nothing to accumulate (and on a GPU wherever there is no product) a few independent vectors are enough
    const bool accumulates = nest_.has_reduction() && (!gpu() || facts_.products > 0);
    const int64_t most = accumulates ? registers : std::max<int64_t>(9, s.tile_size);
    std::vector<int> others;
    for (int a = 0; a < n_; ++a)
      if (!reduced(a) && a != vec && a != s.tile_axis && extent(a) > 1) others.push_back(a);
    const int64_t fixed = s.tile_axis >= 0 ? std::min(s.tile_size, extent(s.tile_axis)) : 1;
    const int64_t units = ceil_div(extent(vec), s.plan.lanes);
    for (int64_t nv : sizes(units, facts_.products > 0 ? 8 : 16)) {
      NestPlan p = s.plan;
      p.tile[size_t(vec)] = Blocking(extent(vec), p.lanes, nv * p.lanes);
      if (s.tile_axis >= 0) p.tile[size_t(s.tile_axis)] = Blocking(extent(s.tile_axis), 1, fixed);
      const int64_t per = reduced(vec) ? nv : nv * fixed;
      if (per > registers) break;
      consider(p);
      for (int a : others) {
        const bool rows = p.tiled();
        for (int64_t u : thinned(sizes(extent(a), rows ? 64 : (most - 1) / per))) {
          if (u == 1) continue;
          NestPlan q = p;
          q.tile[size_t(a)] = Blocking(extent(a), 1, u);
          consider(q);
          if (u != extent(a)) continue;
          for (int b : others) {
            if (b == a) continue;
            for (int64_t v : sizes(extent(b), rows ? 3 : (most - 1) / (per * u))) {
              if (v == 1) continue;
              NestPlan r = q;
              r.tile[size_t(b)] = Blocking(extent(b), 1, v);
              consider(r);
            }
          }
        }
      }
    }
  }

  /// Unrolling of the reduced axes, then the score of the tile alone: everything in L1, one worker.
  void consider(NestPlan p) {
    if (p.tiled() && !fits_tiles(p)) return;
    if (step_bytes(p) > double(c_.profile.levels[0].capacity_bytes)) return;
    const int registers = gpu() ? std::min(192, c_.profile.vector_registers) : c_.profile.vector_registers;
    if (registers_needed(nest_, facts_, p) > registers && points(p) > 1) return;
    unroll(p);
    score(p);
    // neighbouring steps of an unrolled window share loads, if the registers hold them
    const bool unrolled =
        std::any_of(p.reduce_order.begin(), p.reduce_order.end(), [&](int a) { return a != p.vec && p.tile[size_t(a)].hi > 1; });
    if (!unrolled || p.interleaved()) return;
    p.window = true;
    if (registers_needed(nest_, facts_, p) <= registers) score(p);
  }
  void score(NestPlan& p) {
    double us = 0;
    if (gpu()) {
      launch(p, outputs(), 4);
      us = p.estimate.us;
      p.block_rows = 2;
      launch(p, outputs(), 8);
      us = std::min(us, p.estimate.us);
      p.parallel.clear(), p.block_rows = 1;
    } else {
      for (int a = 0; a < n_; ++a)
        if (!reduced(a)) p.loops.push_back({a, 1});
      us = hw::estimate(workload(nest_, facts_, p, alone_), c_.profile).us;
    }
    p.loops.clear();
    fastest_ = std::min(fastest_, us);
    if (us <= fastest_ * limit()) tiles_.push_back({p, us});
  }
  /// Register tiles slower than the fastest one by more than this are given up.
  double limit() const { return 1 + 0.25 * c_.breadth; }
  /// What one step of the tile touches: it must fit the innermost cache.
  double step_bytes(const NestPlan& p) const {
    std::vector<int64_t> e;
    for (int a = 0; a < n_; ++a)
      e.push_back(std::min(extent(a), reduced(a) ? (a == p.k_axis ? p.k_step : p.tile[size_t(a)].unit) : p.tile[size_t(a)].size()));
    double sum = 0;
    for (const auto& o : facts_.operands) sum += footprint_bytes(o, e, c_.profile.levels[0].line_bytes, false);
    return sum;
  }
  /// Accumulator tiles, and one tile for every row and column of them.
  bool fits_tiles(const NestPlan& p) const {
    for (int x = 0; x < n_; ++x)  // one panel of b serves all rows
      if (!reduced(x) && x != p.vec && facts_.operands[size_t(p.operand_b)].coef[size_t(x)] != 0 && p.tile[size_t(x)].hi > 1) return false;
    std::vector<int64_t> size(size_t(n_), 1);
    for (int a = 0; a < n_; ++a)
      if (!reduced(a)) size[size_t(a)] = p.tile[size_t(a)].hi;
    const int64_t rows = int64_t(p.row_tiles(size, nest_).size()), columns = p.tile[size_t(p.vec)].hi;
    if (p.form == AtomForm::warp) return 16 * rows * columns + 8 * rows + 16 * columns <= 192;  // registers of a thread
    return rows * columns + rows + columns <= 8;
  }
  int64_t points(const NestPlan& p) const {
    int64_t n = 1;
    for (int a = 0; a < n_; ++a)
      if (!reduced(a)) n *= p.tile[size_t(a)].hi;
    return n;
  }

  void unroll(NestPlan& p) const {
    if (p.reduce_order.empty()) return;
    const int64_t body = points(p) * std::max<int64_t>(1, int64_t(nest_.inner.size()));
    int64_t budget = std::max<int64_t>(1, (gpu() ? 256 : 96) / std::max<int64_t>(1, body));  // multiply-adds in one unrolled body
    const int last = p.reduce_order.back();
    if (last == p.vec) return;
    // small windows are unrolled whole, innermost first, so that neighbours share their loads
    const bool window = !contraction(nest_) || p.k_axis < 0;
    const int64_t unit = last == p.k_axis ? p.k_step : 1;
    const int64_t steps = ceil_div(extent(last), unit);
    int64_t u = std::min<int64_t>(steps, std::max<int64_t>(1, std::min<int64_t>(budget, 8)));
    while (u > 1 && steps > 8 && steps % u != 0) --u;
    if (window && steps <= 7 && steps * body <= 256) u = steps;
    p.tile[size_t(last)] = Blocking(extent(last), unit, u * unit);
    p.tile[size_t(last)].hi = u;
    if (u < steps) return;
    budget = std::max<int64_t>(1, 640 / std::max<int64_t>(1, body * u));
    for (size_t i = p.reduce_order.size() - 1; i-- > 0;) {
      const int a = p.reduce_order[i];
      if (extent(a) > 7 || extent(a) > budget) return;
      p.tile[size_t(a)] = Blocking(extent(a), 1, extent(a));
      budget /= extent(a);
    }
  }

  // ---- loops around the tile, threads ----
  /// Partial sums pass through memory as vectors.
  bool sums_contiguous(int vec) const {
    return std::all_of(nest_.inner.begin(), nest_.inner.end(), [&](const Statement& s) {
      return linearise(s.index, row_major(const_sizes(c_.program[s.tensor].shape)), n_).coef[size_t(vec)] == 1;
    });
  }

  std::vector<int> outputs() const {
    std::vector<int> all;
    for (int a = 0; a < n_; ++a)
      if (!reduced(a)) all.push_back(a);
    return all;
  }

  /// The vector axis outside or inside the other block loops.
  std::vector<std::vector<int>> loop_orders(const NestPlan& base) const {
    if (reduced(base.vec)) return {outputs()};
    std::vector<std::vector<int>> orders;
    std::vector<int> rest;
    for (int a : outputs())
      if (a != base.vec) rest.push_back(a);
    auto inside = rest;
    inside.push_back(base.vec);
    orders.push_back(inside);
    if (!rest.empty()) {
      auto outside = std::vector<int>{base.vec};
      outside.insert(outside.end(), rest.begin(), rest.end());
      orders.push_back(outside);
      if (rest.size() > 1) {  // outermost of the rest (batch, lanes) stays outside
        std::vector<int> middle{rest[0], base.vec};
        middle.insert(middle.end(), rest.begin() + 1, rest.end());
        orders.push_back(middle);
      }
    }
    return orders;
  }

  /// On a GPU every tile is a task: blocks of neighbouring ones, in the order of the axes.
  void launch(NestPlan& p, const std::vector<int>& order, int block_tasks) const {
    p.loops.clear(), p.parallel.clear();
    for (int a : order) {
      p.loops.push_back({a, 1});
      if (p.tile[size_t(a)].blocks > 1) p.parallel.push_back({a, p.tile[size_t(a)].blocks});
    }
    p.block_tasks = int(std::min<int64_t>(block_tasks, p.tasks()));
    const size_t axes = p.parallel.size();
    if (p.block_rows > 1 && (axes < 2 || p.block_tasks % p.block_rows || p.parallel[axes - 2].parts % p.block_rows ||
                             p.parallel[axes - 1].parts % (p.block_tasks / p.block_rows)))
      p.block_rows = 1;
    p.estimate = hw::estimate(gpu_workload(nest_, facts_, p, c_), c_.profile);
  }
  void enumerate_launches(const NestPlan& base) {
    for (const auto& order : loop_orders(base))
      for (int warps : {1, 2, 4, 8, 16}) {
        if (warps * c_.profile.gpu.warp > c_.profile.gpu.max_threads_per_block) break;
        if (shared_bytes(base) * warps > kStaticShared) break;
        for (int rows : {1, 2, 4}) {
          NestPlan p = base;
          p.block_rows = rows;
          launch(p, order, warps);
          if (p.block_rows == rows) plans_.push_back(std::move(p));
        }
        if (plans_.back().tasks() <= warps) break;
      }
  }

  void enumerate_loops(const NestPlan& base) {
    if (gpu()) return enumerate_launches(base);
    std::vector<std::vector<Loop>> chunkings{{}};
    if (nest_.has_reduction() && contraction(nest_) && !reduced(base.vec) && sums_contiguous(base.vec)) {
      // chunks of the reduction whose panels stay in a near cache: leading reduced axes one value at a time, or pieces of the last
      std::vector<Loop> prefix;
      for (size_t i = 0; i < base.reduce_order.size(); ++i) {
        const int a = base.reduce_order[i];
        const bool last = i + 1 == base.reduce_order.size();
        const int64_t step = (last && a == base.k_axis ? base.k_step : 1) * base.tile[size_t(a)].hi;
        if (last && base.interleaved() && extent(a) % base.k_step != 0) break;
        const int64_t longest = last ? 1024 : 1;
        for (int64_t piece = longest; piece >= (last ? 128 : 1); piece = piece * 2 / 3) {
          if (extent(a) < 2 * piece && !(last && extent(a) > piece * 5 / 4)) continue;
          const int64_t equal = round_up(ceil_div(extent(a), ceil_div(extent(a), piece)), step);
          if (equal >= extent(a)) continue;
          auto c = prefix;
          c.push_back({a, equal});
          chunkings.push_back(std::move(c));
          if (!last) break;
        }
        if (base.tile[size_t(a)].hi > 1 || last) break;  // an unrolled axis is not chunked
        if (extent(a) > 1) prefix.push_back({a, 1});
      }
    }
    // loops with the best balanced split first; the best of them then with every other
    const auto orders = loop_orders(base);
    const auto splits = parallel_options(base, outputs());
    const size_t before = plans_.size();
    for (const auto& order : orders)
      for (const auto& chunks : chunkings)
        for (int64_t tile_bytes : cache_tiles()) {
          NestPlan p = base;
          p.parallel = splits.front();
          p.loops = chunks;
          add_blocks(p, order, tile_bytes);
          if (tile_bytes > 0 && p.loops.size() == chunks.size() + order.size()) continue;  // no tile came of it
          finish(std::move(p));
        }
    std::stable_sort(plans_.begin() + std::ptrdiff_t(before), plans_.end(), faster);
    const size_t kept = std::min<size_t>(plans_.size(), before + kLoops * size_t(c_.breadth));
    for (size_t i = before; i < kept; ++i)
      for (size_t k = 1; k < splits.size(); ++k) {
        NestPlan p = plans_[i];
        p.parallel = splits[k];
        finish(std::move(p));
      }
  }
  static bool faster(const NestPlan& a, const NestPlan& b) { return a.estimate.us < b.estimate.us; }

  /// Sizes at which an outer tile of blocks may be cut: none, half of each cache.
  std::vector<int64_t> cache_tiles() const {
    std::vector<int64_t> bytes{0};
    for (const hw::MemoryLevel& l : c_.profile.levels)
      if (l.capacity_bytes > 0 && l.capacity_bytes <= (int64_t{4} << 20)) bytes.push_back(l.capacity_bytes / 2);
    return bytes;
  }

  /// Block loops in `order`; with `tile_bytes`, the innermost loops but the last are first cut into tiles of blocks whose operands
  /// (over the whole chunk of the reduction) take that many bytes, and the outer axes walk inside such a tile.
  void add_blocks(NestPlan& p, const std::vector<int>& order, int64_t tile_bytes) const {
    if (tile_bytes > 0 && order.size() >= 2) {
      std::vector<int64_t> e;
      for (int a = 0; a < n_; ++a) {
        int64_t x = reduced(a) ? extent(a) : p.tile[size_t(a)].size();
        for (const Loop& l : p.loops)
          if (l.axis == a) x = std::min(x, l.step);
        e.push_back(x);
      }
      // grow the innermost axis, then the next, while what they touch fits
      std::vector<Loop> tiles;
      for (size_t i = order.size(); i-- > 1;) {
        const int a = order[i];
        const Blocking& t = p.tile[size_t(a)];
        if (t.blocks == 1) continue;
        int64_t blocks = 1;
        const auto bytes = [&](int64_t n) {
          auto x = e;
          x[size_t(a)] = std::min(extent(a), n * t.size());
          double sum = 0;
          for (size_t k = 0; k < facts_.operands.size(); ++k)
            if (facts_.operands[k].coef[size_t(a)] != 0)
              sum += footprint_bytes(facts_.operands[k], x, c_.profile.levels[0].line_bytes,
                                     k < facts_.reads && p.operands[k].placement == Placement::prepack);
          return sum;
        };
        while (blocks < t.blocks && bytes(blocks + 1) <= double(tile_bytes)) ++blocks;
        if (blocks < t.blocks) {
          blocks = ceil_div(t.blocks, ceil_div(t.blocks, blocks));
          if (blocks > 1 && blocks < t.blocks) tiles.push_back({a, blocks});
          break;
        }
        e[size_t(a)] = extent(a);
      }
      p.loops.insert(p.loops.end(), tiles.rbegin(), tiles.rend());
    }
    for (int a : order) p.loops.push_back({a, 1});
  }

  std::vector<std::vector<Parallel>> parallel_options(const NestPlan& p, const std::vector<int>& outputs) const {
    std::vector<std::vector<Parallel>> options;
    if (c_.threads <= 1) return {{}};
    struct Option {
      std::vector<Parallel> split;
      double balance;
    };
    std::vector<Option> all;
    const auto balance = [&](const Parallel& x) {
      const int64_t blocks = p.tile[size_t(x.axis)].blocks;
      return double(blocks) / double(x.parts * ceil_div(blocks, x.parts));
    };
    const int64_t T = c_.threads;
    for (int a : outputs) {
      const int64_t parts = std::min<int64_t>(T, p.tile[size_t(a)].blocks);
      if (parts > 1) all.push_back({{{a, parts}}, balance({a, parts}) * double(parts)});
      for (int b : outputs)
        for (int64_t x = 2; x < T; ++x) {
          const int64_t y = T / x;
          if (b == a || y < 2 || p.tile[size_t(a)].blocks < x || p.tile[size_t(b)].blocks < y) continue;
          all.push_back({{{a, x}, {b, y}}, balance({a, x}) * balance({b, y}) * double(x * y)});
        }
    }
    std::stable_sort(all.begin(), all.end(), [](const Option& x, const Option& y) { return x.balance > y.balance; });
    for (size_t i = 0; i < all.size() && i < 3; ++i) options.push_back(all[i].split);
    options.push_back({});  // serial
    return options;
  }

  /// Results that live in memory beyond the caches need not be fetched in order to be overwritten.
  bool streams(const NestPlan& p) const {
    if (c_.profile.arch != "x86-64" || p.chunked()) return false;
    for (size_t i = facts_.reads; i < facts_.operands.size(); ++i) {
      const auto& o = facts_.operands[i];
      if (c_.home[size_t(o.tensor)] + 1 == int(c_.profile.levels.size()) && c_.program[o.tensor].dtype == DType::f32 &&
          (o.coef[size_t(p.vec)] == 1 || p.store_transpose_axis >= 0))
        return true;
    }
    return false;
  }

  void finish(NestPlan p) {
    p.stream = streams(p);
    p.estimate = hw::estimate(workload(nest_, facts_, p, c_), c_.profile);
    if (p.stream && p.estimate.bound != c_.profile.levels.back().name) {  // stores that nothing waits for are better buffered by the caches
      p.stream = false;
      p.estimate = hw::estimate(workload(nest_, facts_, p, c_), c_.profile);
    }
    plans_.push_back(std::move(p));
  }
};

}  // namespace

std::vector<NestPlan> plan_nest(const Nest& nest, const PlanContext& context, int keep) { return Planner(nest, context).run(keep); }

}  // namespace rgen::rtile
