#include "rtile/construct.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>

#include "base/error.h"
#include "rtile/describe.h"
#include "rtile/layout.h"
#include "rtile/plan_nest.h"
#include "rtile/plan_rows.h"
#include "rtile/relayout.h"
#include "rtile/residence.h"
#include "rtile/rprogram.h"
#include "rtile/split.h"

namespace rgen::rtile {

namespace {

/// Nests that several groupings of a program have in common are simplified and planned once.
class NestPlanner {
 public:
  using Planned = PlannedNest;
  const Planned& operator()(const Nest& nest, const std::vector<int>& keep, const PlanContext& c, int top_k) {
    const auto [at, fresh] = planned_.try_emplace(key(nest, keep, c));
    Planned& p = at->second;
    if (fresh) {
      p.kept = keep;
      p.nest = simplify_axes(c.program, nest, p.kept);
      p.plans = plan_nest(p.nest, c, top_k);
    }
    return p;
  }

 private:
  /// Expressions are immutable and shared by the copies of a nest.
  using Key = std::pair<std::vector<const ir::Expr*>, std::vector<int64_t>>;
  std::map<Key, Planned> planned_;

  static Key key(const Nest& nest, const std::vector<int>& keep, const PlanContext& c) {
    Key k{{}, {c.threads, c.sharers, c.register_tiles, c.warps}};
    const auto tensor = [&](int t) { k.second.insert(k.second.end(), {t, c.home[size_t(t)], c.prepackable[size_t(t)]}); };
    for (const NestAxis& a : nest.axes) k.second.insert(k.second.end(), {a.extent, a.full});
    k.second.insert(k.second.end(), keep.begin(), keep.end());
    nest.for_each_statement([&](const Statement& s) {
      k.first.push_back(s.value.get());
      tensor(s.tensor);
      ir::for_each_access(*s.value, [&](const ir::Access& a) { tensor(a.tensor); });
    });
    return k;
  }
};

class Constructor {
 public:
  /// Of the program, or of its `extended` form.
  Constructor(const ir::TensorProgram& program, std::shared_ptr<const ir::TensorProgram> extended, const hw::Profile& profile,
              const ConstructOptions& o, NestPlanner& planned)
      : extended_(std::move(extended)),
        program_(extended_ ? *extended_ : program),
        profile_(profile),
        planned_(planned),
        threads_(o.threads > 0 ? o.threads : profile.cores),
        top_k_(std::max(1, o.top_k)),
        breadth_(std::max(1, o.breadth)) {}

  /// Best first. Pre: `nests` are the program's.
  std::vector<Candidate> run(const std::vector<Nest>& nests) {
    residence_ = residence(program_, nests, profile_, threads_);
    prepackable_ = read_once(nests);
    std::vector<std::shared_ptr<RProgram>> programs = assemble(build_groups(program_, nests, [](const Nest&) { return false; }));
    // a GPU's products are made by whole blocks, in tiles of their own
    const std::vector<Group> fused = build_groups(program_, nests, [&](const Nest& n) { return !gpu() || !multiplies_matrices(n); });
    if (fused.size() < nests.size())
      for (auto& p : assemble(fused)) programs.push_back(std::move(p));
    std::vector<Candidate> all;
    for (auto& p : programs) {
      Candidate c;
      for (const GroupPlan& g : p->groups) accumulate(c.estimate, g.estimate);
      c.estimate.bound = bound(c.estimate);
      // one function, one call; a GPU's groups are a launch each
      if (!gpu()) c.estimate.us -= profile_.call_us * double(p->groups.size() - 1);
      c.program = std::move(p);
      all.push_back(std::move(c));
    }
    return all;
  }

  bool makes(const RProgram& p) const { return p.extended == extended_; }
  /// Fills in what is said about a plan of this constructor's.
  void describe(Candidate& c) const {
    limit(c);
    c.plan_json = plan_json(program_, profile_, *c.program, c.estimate);
    c.explanation = explain(program_, profile_, *c.program, c.estimate, c.limit_us, c.limit_bound);
  }

 private:
  const std::shared_ptr<const ir::TensorProgram> extended_;
  const ir::TensorProgram& program_;
  const hw::Profile& profile_;
  NestPlanner& planned_;
  const int threads_, top_k_, breadth_;
  Residence residence_;
  std::vector<bool> prepackable_;  ///< PlanContext's

  bool gpu() const { return profile_.kind == hw::Profile::Kind::gpu; }
  static void accumulate(hw::Estimate& sum, const hw::Estimate& e) {
    if (sum.level_us.size() < e.level_us.size()) sum.level_us.resize(e.level_us.size());
    sum.us += e.us, sum.compute_us += e.compute_us, sum.overhead_us += e.overhead_us;
    for (size_t i = 0; i < e.level_us.size(); ++i) sum.level_us[i] += e.level_us[i];
  }
  /// What binds a sum of estimates: the resource with the longest time in all of them.
  std::string bound(const hw::Estimate& e) const {
    if (threads_ > 1 && e.overhead_us > e.us / 2) return "parallel";
    std::string name = "compute";
    double longest = e.compute_us;
    for (size_t l = 0; l < e.level_us.size(); ++l)
      if (e.level_us[l] > longest) longest = e.level_us[l], name = profile_.levels[l].name;
    return name;
  }

  /// Of the tensors that live inside a fused group.
  double local_bytes(const Group& g) const {
    double bytes = 0;
    for (int t : g.local) bytes += tensor_bytes(program_[t]);
    return bytes;
  }

  /// Constants that are read in one place.
  std::vector<bool> read_once(const std::vector<Nest>& nests) const {
    std::vector<int> reads(program_.tensors.size(), 0);
    for (const Nest& n : nests)
      for (const Operand& o : collect_operands(n)) ++reads[size_t(o.access.tensor)];
    std::vector<bool> once;
    for (size_t t = 0; t < reads.size(); ++t) once.push_back(program_.tensors[t].constant && reads[t] == 1);
    return once;
  }

  PlanContext context(int threads) const {
    PlanContext c{residence_, program_, profile_};
    c.threads = threads, c.prepackable = prepackable_, c.breadth = breadth_;
    return c;
  }

  /// RPrograms from the best plans of each group; several when there is one group only.
  std::vector<std::shared_ptr<RProgram>> assemble(const std::vector<Group>& groups) {
    std::vector<std::vector<GroupPlan>> ranked;
    for (const Group& g : groups) {
      ranked.push_back(g.shared.empty() ? single(g) : fused_plans(g));
      if (ranked.back().empty()) return {};
    }
    std::vector<std::shared_ptr<RProgram>> programs;
    size_t most = 1;
    for (const auto& r : ranked) most = std::max(most, r.size());
    for (size_t i = 0; i < std::min(most, size_t(top_k_)); ++i) {
      auto p = std::make_shared<RProgram>();
      p->extended = extended_;
      p->threads = threads_, p->vector_bits = profile_.vector_bits;
      for (const auto& r : ranked) p->groups.push_back(r[std::min(i, r.size() - 1)]);
      programs.push_back(std::move(p));
    }
    return programs;
  }

  std::vector<GroupPlan> single(const Group& g) {
    Group simple{{}, {}, g.local};
    std::vector<std::vector<NestPlan>> plans;
    size_t most = 1;
    for (const Nest& n : g.nests) {
      const NestPlanner::Planned& p = planned_(n, {}, context(threads_), top_k_);
      simple.nests.push_back(p.nest);
      plans.push_back(p.plans);
      most = std::max(most, plans.back().size());
    }
    std::vector<GroupPlan> all;
    for (size_t i = 0; i < most; ++i) {
      GroupPlan p{simple, {}, {}, 1, {}};
      for (const auto& q : plans) {
        p.nests.push_back(q[std::min(i, q.size() - 1)]);
        accumulate(p.estimate, p.nests.back().estimate);
      }
      all.push_back(std::move(p));
    }
    return all;
  }

  /// Products want rows to reuse what they stream; rows alone stay smallest in the nearest cache.
  bool reused_by_rows(const Group& g) const {
    for (size_t n = 0; n < g.nests.size(); ++n) {
      const NestFacts f = nest_facts(program_, g.nests[n]);
      if (f.products > 0 && std::any_of(f.operands.begin(), f.operands.end(), [&](const NestFacts::OperandFacts& o) {
            return o.inner && o.coef[size_t(g.shared.back()[n])] == 0;
          }))
        return true;
    }
    return false;
  }

  /// Fused groups: a tile of the innermost shared axis, one value of the others; the nests are planned inside it.
  std::vector<GroupPlan> fused_plans(const Group& g) {
    if (gpu())
      return plan_rows(g, context(1), [this](const Nest& n, const std::vector<int>& keep, const PlanContext& c) -> const PlannedNest& {
        return planned_(n, keep, c, 1);
      });
    std::vector<GroupPlan> all;
    const size_t last = g.shared.size() - 1;
    const int64_t extent = g.nests[0].axes[size_t(g.shared[last][0])].extent;
    std::vector<int64_t> tried;
    const bool reused = reused_by_rows(g);
    std::vector<int64_t> sizes = reused ? std::vector<int64_t>{16, 128} : std::vector<int64_t>{1, 4, 16};
    if (!reused) {  // as many as the nearest cache holds
      double row_bytes = 1;
      for (size_t n = 0; n < g.nests.size(); ++n) {
        std::vector<int> keep;
        std::vector<Blocking> ones;
        for (const std::vector<int>& axes : g.shared)
          keep.push_back(axes[n]), ones.emplace_back(g.nests[n].axes[size_t(axes[n])].extent, 1, 1);
        row_bytes = std::max(row_bytes, tile_bytes(g.nests[n], keep, ones));
      }
      const auto rows = int64_t(0.8 * double(profile_.levels[0].capacity_bytes) / row_bytes);
      if (rows > 16) sizes.push_back(rows);
    }
    if (reused && profile_.levels.size() > 2) {  // between them: where tile buffers leave the second cache to what is streamed past them
      double row_bytes = local_bytes(g);
      for (size_t k = 0; k < g.shared.size(); ++k) row_bytes /= double(g.nests[0].axes[size_t(g.shared[k][0])].extent);
      const auto rows = int64_t(0.25 * double(profile_.levels[1].capacity_bytes) / std::max(1.0, row_bytes));
      if (rows > 16 && rows < 128) sizes.push_back(rows);
    }
    int64_t outside = 1;  // tiles along the other axes
    for (size_t k = 0; k < last; ++k) outside *= g.nests[0].axes[size_t(g.shared[k][0])].extent;
    for (int64_t size : sizes) {
      const int64_t equal = Blocking(extent, 1, std::min(size, ceil_div(extent * outside, threads_))).hi;  // a tile for every thread
      if (std::find(tried.begin(), tried.end(), equal) != tried.end()) continue;
      tried.push_back(equal);
      if (auto p = fused_plan(g, equal)) all.push_back(std::move(*p));
    }
    std::stable_sort(all.begin(), all.end(), [](const GroupPlan& a, const GroupPlan& b) { return a.estimate.us < b.estimate.us; });
    return all;
  }

  /// An input in memory that several nests of a group read: the last of them fetches the next tile's while it computes, so that the first
  /// finds it near.
  struct Ahead {
    int tensor;
    size_t first, last;
    double bytes;  ///< of a tile
  };
  std::vector<Ahead> read_ahead(const Group& g, int64_t tiles) const {
    std::vector<Ahead> all;
    if (profile_.levels.size() < 3) return all;
    for (int t : program_.inputs) {
      std::vector<size_t> readers;
      for (size_t n = 0; n < g.nests.size(); ++n) {
        bool reads = false;
        g.nests[n].for_each_statement([&](const Statement& s) {
          ir::for_each_access(*s.value,
                              [&](const ir::Access& a) { reads |= a.tensor == t && stride_along(g.nests[n], a, g.shared.back()[n]) > 0; });
        });
        if (reads) readers.push_back(n);
      }
      const double bytes = tensor_bytes(program_[t]) / double(tiles);
      if (readers.size() > 1 && residence_.home[size_t(t)] + 1 == int(profile_.levels.size()) &&
          bytes < 0.25 * double(profile_.levels[1].capacity_bytes))
        all.push_back({t, readers.front(), readers.back(), bytes});
    }
    return all;
  }
  /// Elements from one value of the axis to the next; 0: not the same everywhere.
  int64_t stride_along(const Nest& nest, const ir::Access& a, int axis) const {
    if (!is_affine(a.index) || a.out_of_bounds) return 0;
    return linearise(a.index, const_sizes(program_[a.tensor].strides), int(nest.axes.size())).coef[size_t(axis)];
  }
  void fetch_ahead(const Ahead& x, const Nest& nest, int axis, int64_t rows, int workers, NestPlan& p) const {
    for (size_t i = 0; i < p.operands.size(); ++i)
      if (p.operands[i].access.tensor == x.tensor && p.operands[i].placement == Placement::direct)
        p.operands.change(i, [&](Operand& o) { o.ahead = rows * stride_along(nest, o.access, axis); });
    const double us = residence_.missing * x.bytes / profile_.levels.back().read_gbs(workers) / 1e3;
    p.estimate.us = std::cbrt(std::pow(p.estimate.us, 3) + std::pow(us, 3));
    p.estimate.level_us.back() += us;
  }

  /// Of all tensors that a nest uses, what one tile of the shared axes (the nest's `axes`) does.
  double tile_bytes(const Nest& nest, const std::vector<int>& axes, const std::vector<Blocking>& shared) const {
    std::map<int, std::vector<bool>> walked;  // tensor → shared axes along which it is
    for (int t : tensors_in_memory(nest)) walked.try_emplace(t, axes.size(), false);
    const auto see = [&](int tensor, const std::vector<ir::Index>& index) {
      const auto at = walked.find(tensor);
      if (at == walked.end()) return;
      for (size_t k = 0; k < axes.size(); ++k)
        for (const ir::Index& i : index)
          if (i.uses(axes[k])) at->second[k] = true;
    };
    nest.for_each_statement([&](const Statement& s) {
      see(s.tensor, s.index);
      ir::for_each_access(*s.value, [&](const ir::Access& a) { see(a.tensor, a.index); });
    });
    double sum = 0;
    for (const auto& [tensor, along] : walked) {
      double bytes = tensor_bytes(program_[tensor]);
      for (size_t k = 0; k < axes.size(); ++k)
        if (along[k]) bytes /= double(shared[k].blocks);
      sum += bytes;
    }
    return sum;
  }

  std::optional<GroupPlan> fused_plan(const Group& g, int64_t size) {
    GroupPlan p;
    p.group.local = g.local;
    p.group.shared.assign(g.shared.size(), {});
    int64_t tiles = 1;
    bool ragged = false;
    for (size_t k = 0; k < g.shared.size(); ++k) {
      const int64_t extent = g.nests[0].axes[size_t(g.shared[k][0])].extent;
      p.shared.emplace_back(extent, 1, k + 1 == g.shared.size() ? size : 1);
      tiles *= p.shared.back().blocks;
      ragged |= p.shared.back().ragged();
    }
    p.tasks = std::min<int64_t>(threads_, tiles);
    PlanContext c = context(1);
    c.register_tiles = 3;  // of several nests for each of several sizes
    c.sharers = int(p.tasks);
    if (ragged) std::fill(c.prepackable.begin(), c.prepackable.end(), false);  // two copies of the code would pack twice
    // tile buffers live in the level that holds them
    for (int t : g.local) c.home[size_t(t)] = near_level(profile_, local_bytes(g) / double(tiles));
    const std::vector<Ahead> ahead = read_ahead(g, tiles);
    std::vector<bool> touched(program_.tensors.size(), false);
    for (size_t n = 0; n < g.nests.size(); ++n) {
      Nest nest = g.nests[n];
      std::vector<int> keep;
      for (size_t k = 0; k < g.shared.size(); ++k) {
        NestAxis& a = nest.axes[size_t(g.shared[k][n])];
        a.full = a.extent;
        a.extent = p.shared[k].hi;
        keep.push_back(g.shared[k][n]);
      }
      PlanContext here = c;
      // a packing is in the order of one tile's reads, so other tiles must read the same
      for (const Operand& o : collect_operands(nest))
        for (int axis : keep)
          for (const ir::Index& i : o.access.index)
            if (i.uses(axis)) here.prepackable[size_t(o.access.tensor)] = false;
      // what an earlier nest of the tile read or wrote is still near
      const int near = near_level(profile_, tile_bytes(nest, keep, p.shared), 0.8);
      for (size_t t = 0; t < touched.size(); ++t)
        if (touched[t]) here.home[t] = std::min(here.home[t], near);
      for (const Ahead& x : ahead)
        if (x.first == n) here.home[size_t(x.tensor)] = 1;
      const NestPlanner::Planned& planned = planned_(nest, keep, here, top_k_);
      for (size_t k = 0; k < g.shared.size(); ++k) p.group.shared[k].push_back(planned.kept[k]);
      p.nests.push_back(planned.plans.front());
      for (const Ahead& x : ahead)
        if (x.last == n) fetch_ahead(x, planned.nest, planned.kept.back(), p.shared.back().hi, int(p.tasks), p.nests.back());
      for (int t : tensors_in_memory(planned.nest)) touched[size_t(t)] = true;
      p.group.nests.push_back(planned.nest);
    }
    for (const NestPlan& n : p.nests)  // no padded copies inside a tile: their placement is per region
      for (const Operand& o : n.operands)
        if (o.placement == Placement::box) return {};
    const double per_worker = double(ceil_div(tiles, p.tasks));
    for (const NestPlan& n : p.nests) accumulate(p.estimate, n.estimate);
    // a nest waits for the last result of the one before
    constexpr double kBetweenNests = 40;  // cycles
    const double waits_us = kBetweenNests / profile_.ghz / 1e3 * double(p.nests.size() - 1);
    p.estimate.us += waits_us - profile_.call_us * double(p.nests.size()), p.estimate.overhead_us += waits_us;
    for (double* x : {&p.estimate.us, &p.estimate.compute_us, &p.estimate.overhead_us}) *x *= per_worker;
    for (double& x : p.estimate.level_us) x *= per_worker;
    p.estimate.us += profile_.call_us + (p.tasks > 1 ? profile_.fork_join_us : 0);
    return p;
  }

  /// Roofline: the fastest atoms at full rate on all workers, and compulsory traffic at each level's bandwidth.
  void limit(Candidate& c) const {
    double compute = 0;
    for (const GroupPlan& g : c.program->groups)
      for (size_t n = 0; n < g.nests.size(); ++n) {
        const Nest& nest = g.group.nests[n];
        double points = 1;
        for (const NestAxis& a : nest.axes) points *= double(a.full ? a.full : a.extent);
        const NestFacts f = nest_facts(program_, nest);
        const NestPlan& p = g.nests[n];
        const double per_atom = p.interleaved() ? double(p.atom->m) * p.atom->n * p.atom->k : profile_.vector_bits / 32.0;
        for (const PaddedTaps& t : padded_taps(program_, nest)) points *= t.share(1);
        if (f.products > 0) compute += points * f.products / (per_atom * p.atom->per_ns);
      }
    double read = 0, written = 0;
    for (int t : program_.inputs) read += tensor_bytes(program_[t]);
    for (int t : program_.outputs) written += tensor_bytes(program_[t]);
    const int workers = std::max(1, std::min(threads_, profile_.cores));
    c.limit_us = compute / workers / 1e3;
    c.limit_bound = "compute";
    const size_t home = residence_.home.empty() ? 0 : size_t(residence_.home[0]);
    for (size_t l = home > 0 ? home - 1 : 0; l <= home; ++l) {  // what the last cache kept comes from there
      const hw::MemoryLevel& level = profile_.levels[l];
      // a cache fetches the lines that are written; past it they may stream to memory
      const double per_written = l + 1 < profile_.levels.size() ? level.write_gbs(workers) : level.read_gbs(workers);
      const double us = (l == home ? residence_.missing : 1) * (read / level.read_gbs(workers) + written / per_written) / workers / 1e3;
      if ((l == home || residence_.missing < 1) && us > c.limit_us) c.limit_us = us, c.limit_bound = level.name;
    }
  }
};

}  // namespace

std::vector<Candidate> construct(const ir::TensorProgram& program, const hw::Profile& profile, const ConstructOptions& options) {
  if (!program.is_static())
    throw Error(ErrorCode::unsupported, "symbolic extents cannot be planned yet; give every dimension a number", program.name);
  NestPlanner planned;
  std::deque<Constructor> forms;  // of the program
  std::vector<Candidate> all;
  const auto add = [&](const Rewritten& r) {
    for (Candidate& c : forms.emplace_back(program, r.program, profile, options, planned).run(r.nests)) all.push_back(std::move(c));
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.estimate.us < b.estimate.us; });
  };
  Rewritten form{nullptr, build_nests(program)};
  add(form);
  if (all.empty()) throw Error(ErrorCode::does_not_fit, "no tile of '" + program.name + "' fits this hardware", profile.name);
  const bool gpu = profile.kind == hw::Profile::Kind::gpu;
  if (!gpu || profile.has("cp.async"))
    if (auto copies = relayout(program, form.nests, gpu)) add(form = std::move(*copies));
  const auto maker = [&](const Candidate& c) {
    return std::find_if(forms.begin(), forms.end(), [&](const Constructor& f) { return f.makes(*c.program); });
  };
  if (gpu) {
    maker(all.front())->describe(all.front());  // its limit
    const auto best_of_form = std::find_if(all.begin(), all.end(), [&](const Candidate& c) { return c.program->extended == form.program; });
    const auto whole = (best_of_form == all.end() ? all.front() : *best_of_form).program;
    for (const double share : {0.25, 1.0}) {
      if (all.front().estimate.us < 1.2 * all.front().limit_us + 2 * profile.call_us) break;  // nothing to gain
      const ir::TensorProgram& its = whole->planned(program);
      const auto split = split_reductions(its, form.nests, parts_wanted(*whole, form.nests, its, profile, share));
      if (!split) continue;
      add(*split);
      if (all.front().program->extended != split->program) break;
    }
  }
  const size_t keep = size_t(std::max(1, options.top_k));
  if (all.size() > keep) all.resize(keep);
  for (Candidate& c : all) maker(c)->describe(c);
  return all;
}

}  // namespace rgen::rtile
