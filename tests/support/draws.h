// Numbers drawn at random, or replayed from a list. Whatever a generator makes is a function of the numbers it drew, so a shrinker need
// not know what was made: it edits the list. 0 is the simplest choice everywhere, and what is drawn after a list's end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rgen::test {

class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}
  explicit Draws(std::vector<uint32_t> replay) : replay_(std::move(replay)), replaying_(true) {}

  /// In [0, n). Precondition: n >= 1.
  int below(int n) {
    const uint32_t wanted = !replaying_                     ? uint32_t((next() >> 32) % uint64_t(n))
                            : made_.size() < replay_.size() ? replay_[made_.size()]
                                                            : 0;
    made_.push_back(wanted < uint32_t(n) ? wanted : uint32_t(n - 1));
    return int(made_.back());
  }
  /// True once in `n`.
  bool one_in(int n) { return below(n) == n - 1; }
  /// Position of the drawn weight: the larger the weight, the likelier.
  int weighted(const std::vector<int>& weights) {
    int sum = 0;
    for (int w : weights) sum += w;
    int at = below(sum);
    for (size_t i = 0; i < weights.size(); ++i)
      if ((at -= weights[i]) < 0) return int(i);
    return 0;
  }
  const std::vector<uint32_t>& made() const { return made_; }

 private:
  /// splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  uint64_t state_ = 0;
  std::vector<uint32_t> replay_, made_;
  bool replaying_ = false;
};

}  // namespace rgen::test
