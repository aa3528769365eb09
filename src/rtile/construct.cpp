#include "rtile/construct.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/math.h"
#include "rtile/describe.h"
#include "rtile/in_place.h"
#include "rtile/join_reduced.h"
#include "rtile/layout.h"
#include "rtile/plan_fused.h"
#include "rtile/plan_nest.h"
#include "rtile/plan_rows.h"
#include "rtile/relayout.h"
#include "rtile/residence.h"
#include "rtile/rows_apart.h"
#include "rtile/rprogram.h"
#include "rtile/separate_windows.h"
#include "rtile/split.h"
#include "rtile/stageable.h"
#include "rtile/widen.h"

namespace rgen::rtile {

namespace {

/// Nests that several groupings of a program have in common are simplified and planned once.
class NestPlanner {
 public:
  const PlannedNest& operator()(const Nest& nest, const std::vector<int>& keep, const PlanContext& c, int top_k) {
    const auto [at, fresh] = planned_.try_emplace(key(nest, keep, c));
    PlannedNest& p = at->second;
    if (fresh) {
      p.kept = keep;
      p.nest = simplify_axes(c.program, nest, p.kept);
      p.plans = plan_nest(p.nest, c, top_k);
    }
    return p;
  }

 private:
  /// Expressions are immutable and shared by the copies of a nest. A tensor of one number may lie otherwise in another form of the program.
  using Key = std::pair<std::vector<const ir::Expr*>, std::vector<int64_t>>;
  std::map<Key, PlannedNest> planned_;

  static Key key(const Nest& nest, const std::vector<int>& keep, const PlanContext& c) {
    Key k{{}, {c.threads, c.sharers, c.register_tiles, c.warps, c.tile_warps, c.together, int64_t(c.ahead_bytes)}};
    for (double share : {c.missing, c.missing_beside_streams, c.missing_results}) k.second.push_back(int64_t(share * 1e6));
    const auto tensor = [&](int t) {
      const bool continued = !c.continued.empty() && c.continued[size_t(t)];
      const int64_t kept = c.kept.empty() ? 0 : c.kept[size_t(t)];
      const Exchange e = c.exchanged.empty() ? Exchange{} : c.exchanged[size_t(t)];
      k.second.insert(k.second.end(), {t, kept, e.made, e.made_parts, e.read_parts, c.home[size_t(t)], c.prepackable[size_t(t)], continued,
                                       c.makes_beside(t), c.program[t].within, int64_t(c.program[t].dtype)});
      for (const ir::Size& stride : c.program[t].strides) k.second.push_back(stride.value());
    };
    for (const NestAxis& a : nest.axes) k.second.insert(k.second.end(), {a.extent, a.full, a.apart});
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
    prepackable_ = read_once(nests);
    const std::vector<Group> alone = build_groups(program_, nests, [](const Nest&) { return false; });
    // a GPU's products are made by whole blocks, in tiles of their own
    const std::vector<Group> fused = build_groups(program_, nests, [&](const Nest& n) { return !gpu() || !multiplies_matrices(n); });
    std::vector<std::shared_ptr<RProgram>> programs;
    if (fused.size() < nests.size()) programs = assemble(fused);
    if (programs.empty() || !fusion_gains(*programs.front(), alone)) {
      std::vector<std::shared_ptr<RProgram>> first = assemble(alone);
      programs.insert(programs.begin(), first.begin(), first.end());
    }
    std::vector<Candidate> all;
    for (auto& p : programs) {
      Candidate c;
      c.estimate = estimate(*p);
      c.estimate.bound = bound(c.estimate);
      // one function, one call; a GPU's groups are a launch each, but those that follow one another are on their way before it has ended
      // (H200, in a graph: kernels of one launch take 2.0 µs beyond their work, of two 2.1 to 3.5; products of which k is split so take 1
      // to 3 µs less than with half of a call)
      const double saved = (gpu() ? 0.75 : 1) * profile_.call_us * double(p->groups.size() - 1);
      c.estimate.us -= saved, c.estimate.overhead_us -= saved;
      c.program = std::move(p);
      all.push_back(std::move(c));
    }
    return all;
  }

  bool makes(const RProgram& p) const { return p.extended == extended_; }
  /// Fills in what is said about a plan of this constructor's. Pre: its limit is known.
  void describe(Candidate& c) const {
    c.plan_json = plan_json(program_, profile_, *c.program, c.estimate);
    c.explanation = explain(program_, profile_, *c.program, c.estimate, c.limit_us, c.limit_bound);
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
    std::vector<Group> groups;
    for (const GroupPlan& g : c.program->groups) groups.push_back(g.group);
    const Residence r = residence(program_, groups, profile_, threads_);
    const size_t home = r.home.empty() ? 0 : size_t(r.home[0]);
    for (size_t l = home > 0 ? home - 1 : 0; l <= home; ++l) {  // what the last cache kept comes from there
      const hw::MemoryLevel& level = profile_.levels[l];
      // a cache fetches the lines that are written; past it they may stream to memory
      const bool cache = l + 1 < profile_.levels.size();
      const double ns = profile_.transfer_ns(l, read, cache ? written : 0, cache ? 0 : written, workers);
      const double us = (l == home ? r.missing : 1) * ns / workers / 1e3;
      if ((l == home || r.missing < 1) && us > c.limit_us) c.limit_us = us, c.limit_bound = level.name;
    }
  }

 private:
  const std::shared_ptr<const ir::TensorProgram> extended_;
  const ir::TensorProgram& program_;
  const hw::Profile& profile_;
  NestPlanner& planned_;
  const int threads_, top_k_, breadth_;
  Residence residence_;              ///< while groups are assembled
  std::vector<Exchange> exchanged_;  ///< ... PlanContext's
  std::vector<bool> prepackable_;    ///< PlanContext's

  bool gpu() const { return profile_.kind == hw::Profile::Kind::gpu; }
  static hw::Estimate estimate(const RProgram& p) {
    hw::Estimate sum;
    for (const GroupPlan& g : p.groups) sum += g.estimate;
    return sum;
  }

  /// On a GPU, where each nest alone is a launch: would the nests that are fused, if they did nothing but to move their tensors, take
  /// longer one by one than all of them together? Then only the fused ones are planned, if one plan is enough.
  bool fusion_gains(const RProgram& p, const std::vector<Group>& alone) const {
    if (!gpu() || top_k_ > 1 || breadth_ > 1) return false;
    const Residence in = residence(program_, alone, profile_, threads_);
    double least = 0;
    size_t n = 0;
    for (const GroupPlan& g : p.groups)
      for (size_t i = 0; i < g.nests.size(); ++i, ++n)
        least += g.shared.empty() ? g.nests[i].estimate.us : moving_us(nest_facts(program_, alone[n].nests[0]), in);
    return estimate(p).us < least;
  }
  double moving_us(const NestFacts& facts, const Residence& in) const {
    double us = 0;
    for (const int level : {1, 2}) {
      double read = 0, written = 0;
      for (const auto& o : facts.operands)
        if (in.home[size_t(o.tensor)] >= level)
          (o.is_store ? written : read) += footprint_bytes(o, facts.extents, profile_.levels[1].line_bytes, Fetch::sectors);
      const hw::MemoryLevel& l = profile_.levels[size_t(level)];
      us = std::max(us, (read / l.read_gbs(profile_.cores) + written / l.write_gbs(profile_.cores)) / profile_.cores / 1e3);
    }
    return profile_.call_us + us;
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

  /// Constants that are read in one place.
  std::vector<bool> read_once(const std::vector<Nest>& nests) const {
    const std::vector<int> reads = count_reads(program_, nests);
    std::vector<bool> once;
    for (size_t t = 0; t < reads.size(); ++t) once.push_back(program_.tensors[t].constant && reads[t] == 1);
    return once;
  }

  PlanContext context(int threads) const {
    PlanContext c{residence_, program_, profile_};
    c.threads = threads, c.prepackable = prepackable_, c.breadth = breadth_;
    c.exchanged = exchanged_;
    if (gpu()) c.register_tiles = 12;  // of which each has many launches to try
    return c;
  }

  /// RPrograms from the best plans of each group; several when there is one group only.
  std::vector<std::shared_ptr<RProgram>> assemble(const std::vector<Group>& groups) {
    residence_ = residence(program_, groups, profile_, threads_);
    std::vector<std::vector<GroupPlan>> ranked = rank(groups, false);
    if (std::any_of(exchanged_.begin(), exchanged_.end(), [](const Exchange& e) { return e.made && e.other_parts(); }))
      if (auto others = rank(groups, true); total_us(others) < total_us(ranked)) ranked = std::move(others);
    if (ranked.empty()) return {};
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

  /// The intermediate tensors that are not one group's own.
  std::vector<Exchange> made_between(const std::vector<Group>& groups) const {
    if (gpu() || threads_ == 1 || groups.size() < 2) return {};
    std::vector<Exchange> all(program_.tensors.size());
    for (const Group& g : groups)
      for (const Nest& n : g.nests)
        n.for_each_statement([&](const Statement& s) {
          const ir::Tensor& t = program_[s.tensor];
          if (s.store && t.kind == ir::TensorKind::intermediate && t.within < 0) all[size_t(s.tensor)].made = true;
        });
    for (const Group& g : groups)
      for (int t : g.local) all[size_t(t)].made = false;
    return all;
  }
  void note_parts(const GroupPlan& g) {
    if (exchanged_.empty() || !g.shared.empty()) return;
    for (size_t n = 0; n < g.nests.size(); ++n)
      for (const auto& o : nest_facts(program_, g.group.nests[n]).operands)
        if (Exchange& e = exchanged_[size_t(o.tensor)]; e.made)
          (o.is_store ? e.made_parts : e.read_parts) = part_of_worker(o, g.group.nests[n], g.nests[n]);
  }
  /// Plans of each group; none: one of them has none. Who comes first divides what they exchange as suits it, those who read or, where
  /// `makers_first`, those who make it; the others may follow.
  std::vector<std::vector<GroupPlan>> rank(const std::vector<Group>& groups, bool makers_first) {
    exchanged_ = made_between(groups);
    std::vector<std::vector<GroupPlan>> ranked(groups.size());
    for (size_t k = 0; k < groups.size(); ++k) {
      const size_t i = makers_first ? k : groups.size() - 1 - k;
      ranked[i] = groups[i].shared.empty() ? single(groups[i]) : fused(groups[i]);
      if (ranked[i].empty()) return {};
      note_parts(ranked[i].front());
    }
    return ranked;
  }
  static double total_us(const std::vector<std::vector<GroupPlan>>& ranked) {
    double us = ranked.empty() ? std::numeric_limits<double>::infinity() : 0;
    for (const std::vector<GroupPlan>& g : ranked) us += g.front().estimate.us;
    return us;
  }

  std::vector<GroupPlan> single(const Group& g) {
    Group simple{{}, {}, g.local};
    std::vector<std::vector<NestPlan>> plans;
    size_t most = 1;
    for (const Nest& n : g.nests) {
      const PlannedNest& p = planned_(n, {}, context(threads_), top_k_);
      simple.nests.push_back(p.nest);
      if (p.plans.empty()) return {};
      plans.push_back(p.plans);
      most = std::max(most, plans.back().size());
    }
    std::vector<GroupPlan> all;
    for (size_t i = 0; i < most; ++i) {
      GroupPlan p{simple, {}, {}, 1, {}};
      for (const auto& q : plans) {
        p.nests.push_back(q[std::min(i, q.size() - 1)]);
        p.estimate += p.nests.back().estimate;
      }
      all.push_back(std::move(p));
    }
    return all;
  }

  std::vector<GroupPlan> fused(const Group& g) {
    const auto plan = [this](const Nest& n, const std::vector<int>& keep, const PlanContext& c) -> const PlannedNest& {
      return planned_(n, keep, c, 1);
    };
    if (gpu()) return plan_rows(g, context(1), plan);
    PlanContext c = context(threads_);
    c.exchanged.clear();  // each tile's tensors are one worker's
    return plan_fused(g, c, plan);
  }
};

/// Some nest has rows of few vectors of which half a one is left over: vectors of half the length would fill all their lanes.
bool leaves_half_vectors(const ir::TensorProgram& program, const RProgram& p, int lanes) {
  constexpr int64_t kFew = 8;  // from here on half a vector is a small part of the row
  const auto ends_in_half = [&](int64_t extent) {
    return extent > 1 && extent < kFew * lanes && ceil_div(extent, lanes / 2) < 2 * ceil_div(extent, lanes);
  };
  for (const GroupPlan& g : p.groups)
    for (size_t n = 0; n < g.nests.size(); ++n) {
      const Nest& nest = g.group.nests[n];
      const NestFacts f = nest_facts(p.planned(program), nest);
      for (size_t a = 0; a < nest.axes.size(); ++a) {
        bool along = int(a) == g.nests[n].vec;
        for (size_t i = f.reads; i < f.operands.size(); ++i) along |= f.operands[i].coef[a] == 1;
        if (along && ends_in_half(nest.axes[a].extent)) return true;
      }
    }
  return false;
}

/// In vectors of the profile's length.
std::vector<Candidate> construct_in(const ir::TensorProgram& program, const hw::Profile& profile, const ConstructOptions& options) {
  NestPlanner planned;
  std::deque<Constructor> forms;     // of the program
  std::vector<Rewritten> rewritten;  // ... and their nests
  std::vector<Candidate> all;
  const auto add = [&](const Rewritten& r) {
    rewritten.push_back(r);
    for (Candidate& c : forms.emplace_back(program, r.program, profile, options, planned).run(r.nests)) all.push_back(std::move(c));
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.estimate.us < b.estimate.us; });
  };
  // wider factors need more registers and more of the first-level cache
  const auto add_if_fits = [&](const Rewritten& r) {
    try {
      add(r);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::does_not_fit) throw;
    }
  };
  Rewritten form{nullptr, build_nests(program)};
  std::optional<Rewritten> in_parts;  // rows_apart's
  add(form);
  if (all.empty()) throw Error(ErrorCode::does_not_fit, "no tile of '" + program.name + "' fits this hardware", profile.name);
  const bool gpu = profile.kind == hw::Profile::Kind::gpu;
  if (!gpu || profile.has("cp.async"))
    if (auto copies = gpu ? stageable(program, form.nests) : relayout(program, form.nests)) add(form = std::move(*copies));
  const auto of = [&](const Rewritten& r) -> const ir::TensorProgram& { return r.program ? *r.program : program; };
  const auto add_joined = [&](const Rewritten& r) {
    if (const auto joined = join_reduced(of(r), r.nests, profile)) add_if_fits(*joined);
  };
  const auto add_widened = [&](const Rewritten& r) {
    const auto wide = widen(of(r), r.nests, profile);
    if (!wide) return;
    add_if_fits(*wide);
    const std::vector<ir::Tensor>& tensors = wide->program->tensors;
    if (std::any_of(tensors.begin(), tensors.end(), [](const ir::Tensor& t) { return t.widens >= 0 && t.dtype == DType::s16; }))
      if (const auto narrow = widen(of(r), r.nests, profile, false)) add_if_fits(*narrow);
  };
  if (!gpu) {
    if (const auto placed = in_place(of(form), form.nests)) add_if_fits(*placed);
    if (const auto separate = separate_windows(of(form), form.nests)) add_if_fits(*separate);
    const int threads = options.threads > 0 ? options.threads : profile.cores;
    in_parts = rows_apart(of(form), form.nests, residence(of(form), form.nests, profile, threads), profile);
    if (in_parts) add_if_fits(*in_parts);
    add_joined(form), add_widened(form);
    if (const auto inner = reduction_innermost(of(form), form.nests)) add_if_fits(*inner), add_joined(*inner), add_widened(*inner);
  } else if (profile.has("cp.async")) {
    add_joined(form);
  }
  const auto maker = [&](const Candidate& c) {
    return std::find_if(forms.begin(), forms.end(), [&](const Constructor& f) { return f.makes(*c.program); });
  };
  if (!gpu && options.threads != 1) {
    const auto split = [&](const std::shared_ptr<const ir::TensorProgram>& rows, const std::vector<int64_t>& parts) {
      const auto its = std::find_if(rewritten.begin(), rewritten.end(), [&](const Rewritten& r) { return r.program == rows; });
      if (const auto r = split_reductions(rows ? *rows : program, its->nests, parts, false)) add_if_fits(*r);
    };
    const auto whole = all.front().program;
    const std::vector<int64_t> for_idle = parts_for_workers(*whole, profile),
                               for_all(in_parts ? in_parts->nests.size() : 0, whole->threads);
    split(whole->extended, for_idle);
    // of rows from parts of a tensor, whole rows for each worker: pieces of them may be too short for the prefetchers
    if (in_parts && (in_parts->program != whole->extended || for_idle != for_all)) split(in_parts->program, for_all);
  }
  if (gpu) {
    maker(all.front())->limit(all.front());
    const auto best_of_form = std::find_if(all.begin(), all.end(), [&](const Candidate& c) { return c.program->extended == form.program; });
    const auto whole = (best_of_form == all.end() ? all.front() : *best_of_form).program;
    for (const double share : {0.25, 1.0}) {
      if (all.front().estimate.us < 1.2 * all.front().limit_us + 2 * profile.call_us) break;  // nothing to gain
      const ir::TensorProgram& its = whole->planned(program);
      const std::vector<int64_t> parts = parts_wanted(*whole, form.nests, its, profile, share);
      auto split = split_reductions(its, form.nests, parts, true);
      if (!split) split = split_reductions(its, form.nests, parts, false);  // a length that is prime
      if (!split) continue;
      add(*split);
      if (all.front().program->extended != split->program) break;
    }
  }
  const size_t keep = size_t(std::max(1, options.top_k));
  if (all.size() > keep) all.resize(keep);
  for (Candidate& c : all) maker(c)->limit(c), maker(c)->describe(c);
  return all;
}

}  // namespace

std::vector<Candidate> construct(const ir::TensorProgram& program, const hw::Profile& profile, const ConstructOptions& options) {
  if (!program.is_static())
    throw Error(ErrorCode::unsupported, "symbolic extents cannot be planned yet; give every dimension a number", program.name);
  std::vector<Candidate> all = construct_in(program, profile, options);
  const auto halved = profile.halved();
  if (!halved || !leaves_half_vectors(program, *all.front().program, profile.vector_bits / 32)) return all;
  for (Candidate& c : construct_in(program, *halved, options)) all.push_back(std::move(c));
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.estimate.us < b.estimate.us; });
  all.resize(std::min(all.size(), size_t(std::max(1, options.top_k))));
  return all;
}

}  // namespace rgen::rtile
