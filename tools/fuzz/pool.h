// Tasks tried in processes that may die.
#pragma once
#include <functional>
#include <vector>

#include "fuzz/task.h"

namespace rgen::fuzz {

/// Tries all tasks, `options.jobs` batches at a time; `done` once a task, in any order. It returns false to give up the rest.
void run_tasks(const std::vector<Task>& tasks, const Options& options, const std::function<bool(const Task&, const Outcome&)>& done);

}  // namespace rgen::fuzz
