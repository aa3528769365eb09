// Tasks that share a compilation.
#pragma once
#include <functional>
#include <span>

#include "fuzz/task.h"

namespace rgen::fuzz {

/// What a task is at, told before each step: if the process dies, this is why.
using Report = std::function<void(size_t task, const std::string& step)>;
using Done = std::function<void(size_t task, Outcome&&)>;

/// Prepares all tasks, compiles them as one translation unit a vector unit, and runs each kernel in a child process. `done` once a task.
/// A fault while a task is prepared ends the calling process: call it in one that may die.
void run_batch(std::span<const Task> tasks, const Options& options, const Report& report, const Done& done);

}  // namespace rgen::fuzz
