#include "fuzz/shrink.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "fuzz/pool.h"
#include "support/random_program.h"

namespace rgen::fuzz {

namespace {

using List = std::vector<uint32_t>;

/// Less is simpler.
auto measure(const Task& t) {
  uint64_t sum = 0;
  for (uint32_t d : *t.draws) sum += d;
  return std::tuple(spec_of(t).size(), sum, t.draws->size(), t.setting.rank, t.setting.threads);
}

std::vector<Task> simpler(const Task& t) {
  std::vector<Task> all;
  const List& list = *t.draws;
  const auto add = [&](List draws) {
    Task c = t;
    c.draws = std::move(draws);
    all.push_back(std::move(c));
  };
  if (t.setting.threads > 1) all.push_back(t), all.back().setting.threads = 1;
  if (t.setting.rank > 0) all.push_back(t), all.back().setting.rank = 0;
  for (size_t keep : {list.size() / 2, list.size() * 3 / 4, list.size() * 7 / 8})
    if (keep < list.size()) add({list.begin(), list.begin() + std::ptrdiff_t(keep)});
  for (size_t length : {size_t{8}, size_t{4}, size_t{2}, size_t{1}})
    for (size_t i = 0; i + length <= list.size(); ++i) {
      List fewer = list;
      fewer.erase(fewer.begin() + std::ptrdiff_t(i), fewer.begin() + std::ptrdiff_t(i + length));
      add(std::move(fewer));
    }
  for (size_t i = 0; i < list.size(); ++i)
    for (uint32_t value : {0u, list[i] / 2, list[i] > 0 ? list[i] - 1 : 0})
      if (value < list[i]) {
        List lower = list;
        lower[i] = value;
        add(std::move(lower));
      }
  return all;
}

}  // namespace

Shrunk shrink(const Task& task, const Outcome& outcome, const Options& options, int budget) {
  Shrunk best{task, outcome, 0};
  Options quiet = options;
  quiet.save.clear();
  if (!best.task.draws) {
    test::Draws draws(task.seed);
    test::random_spec(draws, "x");
    best.task.draws = draws.made();
  }
  const auto key = [](const Task& t) {
    return spec_of(t) + '\n' + std::to_string(t.setting.threads) + ' ' + std::to_string(t.setting.rank);
  };
  std::set<std::string> tried{key(best.task)};
  for (bool better = true; better;) {
    better = false;
    std::vector<Task> next;
    for (Task& t : simpler(best.task))
      if (measure(t) < measure(best.task) && tried.insert(key(t)).second) next.push_back(std::move(t));
    const size_t at_once = size_t(options.batch) * size_t(options.jobs);
    for (size_t i = 0; i < next.size() && !better && best.tried < budget; i += at_once) {
      std::vector<Task> chunk(next.begin() + std::ptrdiff_t(i), next.begin() + std::ptrdiff_t(std::min(next.size(), i + at_once)));
      // the symbols of one translation unit differ by the program's name
      for (size_t k = 0; k < chunk.size(); ++k) chunk[k].seed = task.seed * 1000 + k;
      run_tasks(chunk, quiet, [&](const Task& t, const Outcome& o) {
        ++best.tried;
        if (o.status == outcome.status && measure(t) < measure(best.task)) best.task = t, best.outcome = o, better = true;
        return true;
      });
    }
  }
  best.task.spec = spec_of(best.task);
  return best;
}

}  // namespace rgen::fuzz
