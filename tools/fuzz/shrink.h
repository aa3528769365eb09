// From a failing task to a simpler one that fails in the same way.
#pragma once
#include "fuzz/task.h"

namespace rgen::fuzz {

struct Shrunk {
  Task task;
  Outcome outcome;
  int tried = 0;
};

/// Edits the draws the program was made of (fewer, smaller) and its setting, greedily, for at most `budget` tries. Pre: the task fails;
/// its program comes from draws or a seed.
Shrunk shrink(const Task& task, const Outcome& outcome, const Options& options, int budget = 400);

}  // namespace rgen::fuzz
