// Runs the integer part of a loop program (loops, conditions, lets, calls, all tasks of all regions) and follows what its operations do
// to memory, without data: a proof by execution for the extents at hand. Follows lower; for tests and debugging, since the cost is that
// of running the program element by element.
//
// Checked: every address with its lanes and strides is inside its buffer, and of its element type; variables stay in their ranges; what
// is read was written before (by the caller, a prepack or an earlier operation); no element that a task of a region writes is touched
// by another task of that region; every element of every output is written, and not again before it was read (partial sums are read);
// buffers of the workspace, and the copies that tasks have of them, are disjoint and inside it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lower/loop_program.h"

namespace rgen::lower {

struct Simulation {
  std::vector<std::string> violations;  ///< at most one an operation and kind: where, what, and the values of the variables
  int64_t steps = 0;                    ///< statements executed and elements touched
  bool complete = true;                 ///< false: stopped at the budget; what came after is unchecked
};

/// Pre: verify(program) holds. Linear in the steps; stops at `budget` of them. Throws Error{internal} for an unknown primitive.
Simulation simulate(const LoopProgram& program, int64_t budget = int64_t{1} << 32);

/// Throws Error{internal} with the violations, if there is any.
void check(const LoopProgram& program, int64_t budget);

}  // namespace rgen::lower
