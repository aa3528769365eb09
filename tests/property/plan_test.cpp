// What holds for every plan: tiles respect vectors, registers and lines; planning is deterministic; names carry nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "emit/backend.h"
#include "lower/lower.h"
#include "rtile/construct.h"
#include "rtile/plan_nest.h"
#include "rtile/rprogram.h"
#include "rtile/staged.h"
#include "rtile/workload.h"
#include "support/programs.h"

using namespace rgen;
using json = nlohmann::ordered_json;

namespace {

std::vector<test::ProgramPtr> small_programs() { return test::programs_in(RGEN_SOURCE_DIR "/tests/data/small_workloads.json"); }
std::vector<test::ProgramPtr> workloads() { return test::programs_in(RGEN_SOURCE_DIR "/tests/data/workloads.json"); }

// ---- invariants ----

int64_t points(const rtile::Nest& nest, const rtile::NestPlan& plan) {
  int64_t n = 1;
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (!nest.axes[a].reduced) n *= plan.tile[a].hi;
  return n;
}

void check_tiles(const rtile::Nest& nest, const rtile::NestPlan& plan, const hw::Profile& profile) {
  const bool vectors = plan.lanes > 1;
  CHECK((plan.lanes == 1 || plan.lanes == profile.vector_bits / 32));
  for (size_t a = 0; a < nest.axes.size(); ++a) {
    const rtile::Blocking& t = plan.tile[a];
    CHECK(t.extent == nest.axes[a].extent);
    if (vectors && int(a) == plan.vec) CHECK(t.unit == plan.lanes);
    CHECK(t.hi >= 1);
  }
}

/// Every block of every output axis is reached once: its innermost loop steps by one block, outer loops by more.
void check_loops(const rtile::Nest& nest, const rtile::NestPlan& plan, int threads) {
  for (size_t a = 0; a < nest.axes.size(); ++a) {
    std::vector<int64_t> steps;
    for (const rtile::Loop& l : plan.loops)
      if (size_t(l.axis) == a) steps.push_back(l.step);
    CHECK(std::is_sorted(steps.rbegin(), steps.rend()));
    for (int64_t s : steps) CHECK(s >= 1);
    if (!nest.axes[a].reduced) {
      REQUIRE(!steps.empty());
      CHECK(steps.back() == 1);
    }
  }
  CHECK(plan.tasks() <= threads);
  for (const rtile::Parallel& p : plan.parallel) {
    CHECK(!nest.axes[size_t(p.axis)].reduced);
    CHECK(p.parts <= plan.tile[size_t(p.axis)].blocks);
  }
}

/// A tile of more than one point fits the registers. Where operands pass through memory once (no contraction, or border tiles) a few
/// may be counted as live though they are not at the same time.
void check_registers(const ir::TensorProgram& program, const rtile::Nest& nest, const rtile::NestPlan& plan, const hw::Profile& profile) {
  if (points(nest, plan) == 1) return;
  const rtile::NestFacts facts = rtile::nest_facts(program, nest);
  const bool exact = facts.products == 1 && nest.inner.size() == 1 && !plan.guarded;
  CHECK(rtile::registers_needed(nest, facts, plan) <= profile.vector_registers + (exact ? 0 : 4));
}

void check_memory(const lower::LoopProgram& loops) {
  CHECK(loops.workspace_bytes % 64 == 0);
  for (const lower::Prepack& p : loops.prepacks) CHECK(p.bytes % 64 == 0);
  for (const lower::Buffer& b : loops.buffers)
    if (b.kind == lower::Buffer::Kind::workspace) {
      CHECK(b.offset % 64 == 0);
      CHECK(b.per_task % 64 == 0);
      if (b.per_task > 0) CHECK(b.per_task >= b.elements * size_of(b.dtype) + 256);  // tasks do not write neighbouring lines
      CHECK(b.offset + std::max(b.per_task, b.elements * size_of(b.dtype)) <= loops.workspace_bytes);
    }
}

// ---- renaming ----

/// Every name replaced by one whose alphabetical place is the opposite, and that says nothing.
ir::TensorProgram renamed(ir::TensorProgram program) {
  std::map<std::string, std::string> to;
  for (const ir::Tensor& t : program.tensors) to[t.name];
  for (const ir::Stage& s : program.stages)
    for (const ir::Axis& a : s.axes) to[a.name];
  size_t left = to.size();
  for (auto& [from, name] : to) {
    std::string number = std::to_string(--left);
    name = "x" + std::string(5 - number.size(), '0') + number;
  }
  program.name = "renamed";
  for (ir::Tensor& t : program.tensors) t.name = to[t.name];
  for (ir::Stage& s : program.stages)
    for (ir::Axis& a : s.axes) a.name = to[a.name];
  return program;
}

/// Two plans are one but for names: the same everywhere except in strings that name axes and in the keys that name tensors, and those
/// match one to one within a nest.
bool same_but_names(const json& a, const json& b, std::map<std::string, std::string>& axes) {
  if (a.type() != b.type() || a.size() != b.size()) return false;
  if (a.is_array()) {
    for (size_t i = 0; i < a.size(); ++i)
      if (!same_but_names(a[i], b[i], axes)) return false;
    return true;
  }
  if (!a.is_object()) return a == b;
  if (a.contains("axes")) axes.clear();  // a nest
  for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y) {
    const bool tensors = x.key() == "operands";
    if (x.key() != y.key()) return false;
    if (tensors) {
      for (auto p = x->begin(), q = y->begin(); p != x->end(); ++p, ++q)
        if (q == y->end() || p.value() != q.value()) return false;
    } else if (x.key() == "axis" || x.key() == "stored_along" || x.key() == "finished_along" ||
               (x.key() == "name" && a.contains("extent"))) {
      const auto known = axes.emplace(x->get<std::string>(), y->get<std::string>()).first;
      if (known->second != y->get<std::string>()) return false;
    } else if (!same_but_names(*x, *y, axes)) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("tiles respect vectors, registers, lines and threads") {
  const int threads[] = {1, 2, 3, 5};
  size_t turn = 0;
  for (const auto& program : small_programs())
    for (const char* name : {"zen5", "haswell_avx2", "neoverse_n1"}) {
      const hw::Profile profile = hw::load_profile(name);
      const int workers = threads[turn++ % 4];
      const auto candidates = rtile::construct(*program, profile, {workers, 10});
      for (size_t rank = 0; rank < candidates.size(); ++rank) {
        INFO(program->name << " on " << name << ", " << workers << " threads, rank " << rank << "\n" << candidates[rank].explanation);
        const ir::TensorProgram& planned = candidates[rank].program->planned(*program);
        for (const rtile::GroupPlan& g : candidates[rank].program->groups)
          for (size_t n = 0; n < g.nests.size(); ++n) {
            check_tiles(g.group.nests[n], g.nests[n], profile);
            check_loops(g.group.nests[n], g.nests[n], workers);
            check_registers(planned, g.group.nests[n], g.nests[n], profile);
          }
        check_memory(lower::lower(*program, *candidates[rank].program));
      }
    }
}

TEST_CASE("candidates are ranked by their estimates, and none is faster than the limit") {
  const hw::Profile profile = hw::load_profile("zen5");
  auto programs = workloads();
  const auto odd = test::programs_in(RGEN_SOURCE_DIR "/bench/shapes/odd.json");
  REQUIRE(odd.size() == 300);
  programs.insert(programs.end(), odd.begin(), odd.end());
  for (const auto& program : programs) {
    const auto candidates = rtile::construct(*program, profile, {1, 10});
    INFO(program->name);
    CHECK(std::is_sorted(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.estimate.us < b.estimate.us; }));
    for (const rtile::Candidate& c : candidates) CHECK(c.estimate.us >= c.limit_us);
  }
}

TEST_CASE("the same input gives the same plans and the same source") {
  for (const auto& program : small_programs()) {
    const hw::Profile profile = hw::load_profile("zen5");
    const auto once = rtile::construct(*program, profile, {3, 5}), again = rtile::construct(*program, hw::load_profile("zen5"), {3, 5});
    INFO(program->name);
    REQUIRE(once.size() == again.size());
    for (size_t i = 0; i < once.size(); ++i) {
      CHECK(once[i].plan_json == again[i].plan_json);
      CHECK(once[i].explanation == again[i].explanation);
    }
    CHECK(emit::emit_cpp(*program, once[0], profile).source == emit::emit_cpp(*program, again[0], profile).source);
  }
}

TEST_CASE("names carry nothing") {
  json first, last;
  for (const auto& program : workloads())
    for (const char* profile : {"zen5", "neoverse_n1"}) {
      INFO(program->name << " on " << profile);
      const auto with = rtile::construct(*program, hw::load_profile(profile), {2, 3});
      const auto without = rtile::construct(renamed(*program), hw::load_profile(profile), {2, 3});
      REQUIRE(with.size() == without.size());
      for (size_t i = 0; i < with.size(); ++i) {
        std::map<std::string, std::string> axes;
        CAPTURE(with[i].plan_json);
        CAPTURE(without[i].plan_json);
        last = json::parse(with[i].plan_json);
        if (first.is_null()) first = last;
        CHECK(same_but_names(last, json::parse(without[i].plan_json), axes));
      }
    }
  std::map<std::string, std::string> axes;
  CHECK_FALSE(same_but_names(first, last, axes));  // the comparison tells plans apart
}

TEST_CASE("on GPUs what planning gives up early is no plan that it would have chosen: the first is the same however many are wanted") {
  for (const char* device : {"v100", "a100", "h100", "rtx4090"}) {
    const hw::Profile profile = hw::load_profile(device);
    for (const test::ProgramPtr& program : workloads()) {
      INFO(program->name << ", " << device);
      const rtile::Candidate one = rtile::construct(*program, profile, {.top_k = 1}).front();
      const rtile::Candidate best = rtile::construct(*program, profile, {.top_k = 40}).front();
      CHECK(one.estimate.us == doctest::Approx(best.estimate.us).epsilon(2e-3));  // of equal ones the simplest is the first
    }
  }
}

TEST_CASE("what a staged block takes at least is less than its estimate") {
  int blocks = 0;
  for (const char* device : {"a100", "h100", "rtx4090"}) {
    const hw::Profile profile = hw::load_profile(device);
    for (const test::ProgramPtr& program : small_programs())
      for (const rtile::Candidate& c : rtile::construct(*program, profile, {.top_k = 400}))
        for (const rtile::GroupPlan& g : c.program->groups)
          for (size_t n = 0; n < g.nests.size(); ++n) {
            if (!g.nests[n].staging) continue;
            INFO(program->name << ", " << device);
            const ir::TensorProgram& planned = c.program->planned(*program);
            const double least = rtile::least_us(g.group.nests[n], rtile::nest_facts(planned, g.group.nests[n]), g.nests[n], profile);
            CHECK(least <= g.nests[n].estimate.us * (1 + 1e-9));
            ++blocks;
          }
  }
  CHECK(blocks > 500);
}
