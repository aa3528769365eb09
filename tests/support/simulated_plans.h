// Plans of a program as loop programs, run element by element: inside the buffers, each output element computed once and from what was
// written before, and no races.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>

#include "lower/lower.h"
#include "lower/simulate.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"
#include "support/programs.h"

namespace rgen::test {

struct Count {
  int64_t plans = 0, steps = 0;
  int64_t chunked = 0, cache_tiles = 0, fused = 0, transposed = 0, separated = 0, packed = 0, padded = 0,
          groups = 0;  ///< plans with such a nest
};

/// What the plan is made of: a property that no plan has is not tested.
inline void note(const rtile::RProgram& plan, Count& count) {
  bool chunked = false, tiles = false, fused = false, transposed = false, separated = false, packed = false, padded = false, groups = false;
  for (const rtile::GroupPlan& g : plan.groups) {
    fused |= !g.shared.empty();
    for (const rtile::NestPlan& n : g.nests) {
      chunked |= n.chunked();
      groups |= n.form != rtile::AtomForm::vector;
      transposed |= n.store_transpose_axis >= 0, separated |= n.store_neighbours > 0;
      for (const rtile::Loop& l : n.loops) tiles |= l.step > 1 && !std::count(n.reduce_order.begin(), n.reduce_order.end(), l.axis);
      for (const rtile::Operand& o : n.operands) {
        transposed |= o.transposed, separated |= o.neighbours > 0;
        packed |= o.placement == rtile::Placement::prepack;
        padded |= o.placement == rtile::Placement::box;
      }
    }
  }
  count.chunked += chunked, count.cache_tiles += tiles, count.fused += fused, count.transposed += transposed, count.separated += separated;
  count.packed += packed, count.padded += padded, count.groups += groups;
}
inline std::string summary(const Count& c) {
  return std::to_string(c.plans) + " plans, " + std::to_string(c.steps) + " steps; " + std::to_string(c.chunked) +
         " with chunks of a reduction, " + std::to_string(c.cache_tiles) + " with cache tiles, " + std::to_string(c.fused) + " fused, " +
         std::to_string(c.transposed) + " transposing, " + std::to_string(c.separated) + " taking neighbours apart, " +
         std::to_string(c.packed) + " packing, " + std::to_string(c.padded) + " padding, " + std::to_string(c.groups) +
         " with dot products or matrix tiles";
}

/// The ranked plans of a program that are wanted, simulated; `ranks`: how many.
inline void simulate_plans(const ir::TensorProgram& program, const hw::Profile& profile, int threads, int ranks, Count& count,
                           bool (*wanted)(const rtile::RProgram&) = nullptr) {
  const auto candidates = rtile::construct(program, profile, {threads, ranks});
  for (size_t rank = 0; rank < candidates.size(); ++rank) {
    if (wanted && !wanted(*candidates[rank].program)) continue;
    const lower::LoopProgram loops = lower::lower(program, *candidates[rank].program);
    const lower::Simulation s = lower::simulate(loops, int64_t{1} << 28);
    ++count.plans, count.steps += s.steps;
    note(*candidates[rank].program, count);
    INFO(program.name << " on " << profile.name << ", " << threads << " threads, rank " << rank << "\n" << candidates[rank].explanation);
    CHECK(s.complete);
    for (const std::string& v : s.violations) FAIL_CHECK(v);
    if (!s.violations.empty()) return;
  }
}

inline std::vector<ProgramPtr> small_programs() {
  auto programs = programs_in(RGEN_SOURCE_DIR "/tests/data/small_workloads.json");
  for (auto& p : example_programs(RGEN_SOURCE_DIR)) programs.push_back(p);
  return programs;
}

}  // namespace rgen::test
