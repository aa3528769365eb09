#include "rtile/plan_nest.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>

#include "base/error.h"
#include "rtile/atoms.h"
#include "rtile/layout.h"
#include "rtile/planner.h"

namespace rgen::rtile {

namespace {

std::vector<int> outputs(const Nest& nest) {
  std::vector<int> all;
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (!nest.axes[a].reduced) all.push_back(int(a));
  return all;
}

}  // namespace

Planner::Planner(const Nest& nest, const PlanContext& c, int keep)
    : nest_(nest),
      c_(c),
      keep_(size_t(keep)),
      facts_(nest_facts(c.program, nest)),
      n_(int(nest.axes.size())),
      outputs_(outputs(nest)),
      contraction_(contraction(nest)),
      alone_(c) {
  alone_.threads = 1, alone_.sharers = 1;
  if (!gpu()) {  // a GPU's compiler unrolls loops of known length, and its lanes check bounds at little cost
    auto taps = padded_taps(c.program, nest);
    if (!taps.empty()) taps_ = std::make_shared<const std::vector<PaddedTaps>>(std::move(taps));
  }
  for (const auto& o : std::span(facts_.operands).first(gpu() && facts_.products > 0 ? facts_.operands.size() : 0)) {
    slides_.emplace_back(size_t(n_), false);
    for (const std::vector<int64_t>& dim : o.dim_coef)
      if (std::any_of(outputs_.begin(), outputs_.end(), [&](int a) { return dim[size_t(a)] != 0 && extent(a) > 1; }))
        for (int a = 0; a < n_; ++a)
          if (reduced(a) && dim[size_t(a)] != 0) slides_.back()[size_t(a)] = true;
  }
  W_ = c.profile.vector_bits / 32;
  if (const hw::Atom* fma = c.profile.find_atom(DType::f32, DType::f32, DType::f32)) fma_ = std::make_shared<const hw::Atom>(*fma);
  if (!fma_) throw Error(ErrorCode::invalid_profile, "profile '" + c.profile.name + "' has no f32 multiply-add among its atoms", "/atoms");
  by_memory_ = waits_for_memory();
}

double Planner::share_of_time(size_t operand) const {
  if (gpu() || facts_.products == 0) return 0;
  const auto& o = facts_.operands[operand];
  const int home = c_.home[size_t(o.tensor)];
  if (home < 2) return 0;
  const hw::MemoryLevel& level = c_.profile.levels[size_t(home)];
  const double missing = o.is_store && c_.beyond_caches(o.tensor) ? c_.missing_results : c_.missing_at(home);
  const double bytes = missing * footprint_bytes(o, facts_.extents, c_.profile.levels[0].line_bytes, Fetch::rows);
  return bytes / (o.is_store ? level.write_gbs(c_.threads) : level.read_gbs(c_.threads)) * W_ * fma_->per_ns /
         (double(nest_.points()) * facts_.products);
}

bool Planner::waits_for_memory() const {
  double share = 0, faster = 1;
  for (size_t i = 0; i < facts_.operands.size(); ++i) share += share_of_time(i);
  if (contraction_)  // instructions that take groups of the factor's elements
    for (const hw::Atom& atom : c_.profile.atoms) {
      const AtomRow* row = find_atom_row(atom.name);
      if (row && row->form == AtomForm::group && atom.a == c_.program[contraction_->x->tensor].dtype)
        faster = std::max(faster, double(atom.m) * atom.n * atom.k * atom.per_ns / (W_ * fma_->per_ns));
    }
  return share * faster > 1;
}

std::vector<NestPlan> Planner::run() {
  std::vector<Start> choices = starts();
  const auto staged = [](const Start& s) { return s.plan.form == AtomForm::staged; };
  std::stable_partition(choices.begin(), choices.end(), staged);  // which leave little to the others
  for (const Start& s : choices)
    if (!beaten(s.plan, false)) enumerate_tiles(s), ++start_;
  if (tiles_.empty() && plans_.empty() && reads_widened()) return {};  // the program has another form, which fits
  if (tiles_.empty() && plans_.empty())
    throw Error(ErrorCode::does_not_fit,
                "no tile fits: one step of the smallest needs more than " + std::to_string(c_.profile.vector_registers) +
                    " vector registers or the " + std::to_string(c_.profile.levels[0].capacity_bytes) + " bytes of " +
                    c_.profile.levels[0].name,
                c_.profile.name);
  // the register tiles that compute fastest go on to loops and placement
  std::stable_sort(tiles_.begin(), tiles_.end(), [](const Scored& a, const Scored& b) { return a.us < b.us; });
  if (contraction_ && !gpu() && !by_memory_) prefer_reuse();
  // a GPU's tiles have few loops to go with; those of sums of rows and of maps differ little but in how memory is walked
  const auto by_walk = [&](const Scored& t) { return streams(t.plan) || sums_rows(t.plan); };
  const int more = gpu() ? 2 : !contraction_ && std::any_of(tiles_.begin(), tiles_.end(), by_walk) ? 3 : 1;
  const size_t most = size_t((more * c_.register_tiles + (c_.threads > 1 ? kEven : 0)) * c_.breadth);
  // padded copies change what loops can do, and so do operands that loops bring near, so some tiles with and without go on
  size_t taken[4] = {0, 0, 0, 0}, all = 0;
  double fastest[4] = {0, 0, 0, 0};
  const auto kind_of = [](const Scored& t) { return size_t(copies(t.plan)) + 2 * size_t(t.near); };
  for (const Scored& t : tiles_)
    if (double& us = fastest[kind_of(t)]; us == 0 || t.us < us) us = t.us;
  std::vector<bool> done;
  for (const Scored& t : tiles_) {
    done.push_back(false);
    const size_t kind = kind_of(t);
    if ((t.us > fastest[kind] * limit() && !t.uses_up) || (all >= most && taken[kind] >= (most + 1) / 2)) continue;
    ++taken[kind], ++all;
    done.back() = true;
    enumerate_loops(t.plan);
  }
  if (!gpu()) try_more_of_starts(done);
  keep_fastest(0, keep_);
  return std::move(plans_);
}

double Planner::least_us(const NestPlan& p, bool tile) const {
  const double points = double(nest_.points());
  double ns = hw::products_ns({p.atom, points * facts_.products / (double(p.atom->m) * p.atom->n * p.atom->k)}, c_.profile), loads = 0;
  for (size_t i = 0; i < facts_.reads && tile && p.form == AtomForm::vector; ++i) {
    const auto& o = facts_.operands[i];
    if (!o.inner) continue;
    // what a window's steps, and those along which it does not move, read may be kept; neighbours along the reduction may come 16 bytes at
    // a time, a vector of them for all lanes
    double once = double(reuse(p, i)) * (o.coef[size_t(p.vec)] == 0 ? 16.0 / o.element_bytes : p.lanes);
    for (int a = 0; a < n_; ++a)
      if (reduced(a) && (o.coef[size_t(a)] == 0 || slides_[i][size_t(a)])) once *= double(extent(a));
    loads += points / once;
  }
  ns = std::max(ns, loads / (c_.profile.load_ports * c_.profile.ghz));
  return c_.profile.call_us + ns / c_.profile.cores / 1e3;
}

bool Planner::beaten(const NestPlan& p, bool tile) const {
  if (!gpu() || c_.warps > 0 || facts_.products == 0 || p.form == AtomForm::staged) return false;
  const double fast = plans_.size() < keep_ ? std::numeric_limits<double>::infinity() : plans_.back().estimate.us;
  return least_us(p, tile) > std::min(fast, tile ? fastest_[0] * limit() : fast);
}

void Planner::try_more_of_starts(const std::vector<bool>& done) {
  constexpr int kEach = 4;
  constexpr double kNear = 1.1;
  const auto fastest = [&](size_t first) {
    double us = std::numeric_limits<double>::infinity();
    for (size_t i = first; i < plans_.size(); ++i) us = std::min(us, plans_[i].estimate.us);
    return us;
  };
  const double best = fastest(0);
  std::vector<int> tried(start_, 0);
  for (size_t i = 0; i < tiles_.size(); ++i) tried[tiles_[i].start] += done[i];
  for (size_t i = 0; i < tiles_.size(); ++i) {
    int& n = tried[tiles_[i].start];
    if (done[i] || n >= kEach * c_.breadth) continue;
    const size_t before = plans_.size();
    enumerate_loops(tiles_[i].plan);
    n = fastest(before) < kNear * best ? n + 1 : kEach * c_.breadth;
  }
}

void Planner::offer(const NestPlan& p) {
  const auto at =
      std::upper_bound(plans_.begin(), plans_.end(), p.estimate.us, [](double us, const NestPlan& q) { return us < q.estimate.us; });
  if (at == plans_.end() && plans_.size() >= keep_) return;
  plans_.insert(at, p);
  if (plans_.size() > keep_) plans_.pop_back();
}

void Planner::keep_fastest(size_t first, size_t keep) {
  std::vector<size_t> order(plans_.size() - first);
  std::iota(order.begin(), order.end(), first);
  // next to equal ones walk memory in order
  const auto rank = [&](size_t i) {
    const std::vector<Loop>& loops = plans_[i].loops;
    const bool jumps = !loops.empty() && !reduced(plans_[i].vec) && loops.back().axis != plans_[i].vec;
    return plans_[i].estimate.us * (1 + kCacheTile * double(loops.size() + jumps) + (copies(plans_[i]) ? kCopy : 0));
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) < rank(b); });
  std::vector<NestPlan> kept;
  for (size_t i = 0; i < std::min(keep, order.size()); ++i) kept.push_back(std::move(plans_[order[i]]));
  plans_.resize(first);
  std::move(kept.begin(), kept.end(), std::back_inserter(plans_));
}

int64_t Planner::reuse(const NestPlan& p, size_t operand) const {
  int64_t points = 1;
  for (int a : outputs_)
    if (facts_.operands[operand].coef[size_t(a)] == 0) points *= p.tile[size_t(a)].size();
  return points;
}

double Planner::balance(const NestPlan& p, const Parallel& split) {
  const Blocking& t = p.tile[size_t(split.axis)];
  return double(t.units()) / double(split.parts * t.most_units(split.parts));
}

void Planner::prefer_reuse() {
  for (size_t i = 0; i < facts_.reads; ++i)  // a factor that is read once decides by itself how fast the others are used
    if (facts_.operands[i].inner &&
        std::all_of(outputs_.begin(), outputs_.end(), [&](int a) { return extent(a) == 1 || facts_.operands[i].coef[size_t(a)] != 0; }))
      return;
  struct Ranked {
    Scored tile;
    std::vector<int64_t> reuse;   // of each factor: points that one load serves
    std::vector<bool> along;      // the axes of more than one unit: which rows a window's places share depends on them
    std::vector<double> balance;  // of each axis
    int behind = 0;               // 1: a faster tile has the same reuse; 2: one has more of one factor and no less of the other
    bool uneven = false;          // ... and shares out its blocks as evenly
  };
  const auto no_more = [](const auto& a, const auto& b) { return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>()); };
  std::vector<Ranked> all;
  for (Scored& t : tiles_) {
    Ranked r{std::move(t), {}, {}, {}};
    for (size_t i = 0; i < facts_.reads; ++i)
      if (facts_.operands[i].inner) r.reuse.push_back(reuse(r.tile.plan, i));
    for (int a : outputs_) {
      r.balance.push_back(balance(r.tile.plan, {a, c_.threads}));
      r.along.push_back(r.tile.plan.tile[size_t(a)].hi > 1);
    }
    for (const Ranked& faster : all) {
      if (copies(faster.tile.plan) != copies(r.tile.plan) || !no_more(r.reuse, faster.reuse)) continue;
      if (r.reuse != faster.reuse) r.behind = 2;
      if (r.along == faster.along) r.behind = std::max(r.behind, 1);
      r.uneven |= no_more(r.balance, faster.balance);
    }
    all.push_back(std::move(r));
  }
  std::stable_sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) { return a.behind < b.behind; });
  const auto rest = std::find_if(all.begin(), all.end(), [](const Ranked& r) { return r.behind > 0; });
  auto even = rest;
  for (auto r = rest; r != all.end() && even - rest < kEven; ++r)
    if (!r->uneven) std::rotate(even++, r, r + 1);
  // a factor that takes long to come is used up by the tile that has the most of it (25 places by 7 × 7 × 533 weights a result: three tiles
  // 600 us, one 408; Granite Rapids)
  for (size_t factor = 0, i = 0; i < facts_.reads; ++i) {
    if (!facts_.operands[i].inner) continue;
    if (share_of_time(i) >= kNoticed && all.size() > 2) {
      const auto most =
          std::max_element(all.begin() + 1, rest, [&](const Ranked& a, const Ranked& b) { return a.reuse[factor] < b.reuse[factor]; });
      if (most != rest && most->reuse[factor] > all.front().reuse[factor]) {
        most->tile.uses_up = true;
        std::rotate(all.begin() + 1, most, most + 1);
      }
    }
    ++factor;
  }
  tiles_.clear();
  for (Ranked& r : all) tiles_.push_back(std::move(r.tile));
}

std::vector<NestPlan> plan_nest(const Nest& nest, const PlanContext& context, int keep) { return Planner(nest, context, keep).run(); }

}  // namespace rgen::rtile
