// Streams between the levels of a CPU's memory: footprints of a tile at every depth of the loops, and what crosses each level because it
// does not fit.
#pragma once
#include "rtile/workload.h"

namespace rgen::rtile {

/// How often a plan's tiles run, and how far their axes go.
struct TileCounts {
  struct Axis {
    double mean = 0;      ///< output axis: mean size of a tile, in units
    double trips = 1;     ///< reduced axis: iterations of its loop inside the tile
    int64_t unroll = 1;   ///< ... and units per iteration
    int64_t covered = 0;  ///< elements that the busiest worker covers
  };
  std::vector<Axis> axes;
  double calls = 1;              ///< tiles of the busiest worker (chunks counted)
  double points = 1, steps = 1;  ///< per tile: vectors of results, steps of the reduction
  double chunks = 1;
  double inside = 1;  ///< share of the points of a step that are computed: others read padding
};
TileCounts count_tiles(const Nest& nest, const NestPlan& plan);

/// What crosses each level, of the busiest worker: fills levels[1…] (towards the registers: levels[0], not touched). Pre: levels has the
/// profile's size; the plan's operands are placed.
void traffic(const Nest& nest, const NestFacts& facts, const NestPlan& plan, const PlanContext& context, const TileCounts& counts,
             std::vector<hw::LevelTraffic>& levels);

}  // namespace rgen::rtile
