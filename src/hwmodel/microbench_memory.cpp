// Latency, bandwidth and real capacity of the memory levels.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <stdexcept>

#include "base/error.h"
#include "base/math.h"
#include "hwmodel/microbench.h"
#include "hwmodel/profile.h"

namespace rgen::hw {

namespace {

using Time = std::chrono::steady_clock;
double ns_since(Time::time_point start) { return std::chrono::duration<double, std::nano>(Time::now() - start).count(); }

constexpr int64_t hops = 2048, line = 64, huge_page = 2 << 20, split = 8;  // split: bytes into a line
constexpr int64_t most_usual_bytes = 256 << 20;  // a virtual machine takes up to 5 us for each page of 4 KiB that is touched first
constexpr int pieces = 4;                        // of what lies in memory, one a run: by the next time round, caches have lost it

enum class Pages : uint8_t { huge, usual };  // huge where the system grants them; as a program gets them that does not ask

// Memory well beyond the last cache. In huge pages a latency is the memory's, not the TLB's.
class Arena {
 public:
  Arena(int64_t bytes, Pages pages) : bytes_(round_up(bytes, huge_page)) {
    map_ = mmap(nullptr, size_t(bytes_ + huge_page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map_ == MAP_FAILED) throw Error(ErrorCode::device, "no memory to measure with: " + std::to_string(bytes_ >> 20) + " MiB", "host");
    data_ = reinterpret_cast<std::byte*>(round_up(reinterpret_cast<intptr_t>(map_), huge_page));
    if (pages == Pages::huge) madvise(data_, size_t(bytes_), MADV_HUGEPAGE);
  }
  ~Arena() { munmap(map_, size_t(bytes_ + huge_page)); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  /// The part of member i of n.
  std::byte* slice(int i, int n) const { return data_ + i * slice_bytes(n); }
  int64_t slice_bytes(int n) const { return floor_div(bytes_ / n, 4096) * 4096; }

 private:
  int64_t bytes_;
  void* map_;
  std::byte* data_;
};

int64_t arena_bytes(const std::vector<CacheLevel>& caches) {
  const int64_t last = caches.empty() ? 0 : caches.back().bytes;
  const int64_t free_bytes = int64_t(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return std::min(std::clamp<int64_t>(4 * last, 64 << 20, 512 << 20), std::max<int64_t>(free_bytes / 4, 16 << 20));
}

// Links the lines of [begin, begin + bytes) into one ring that jumps about: a full-period congruential sequence, written in order of
// address. The multiplier suits lengths 2^k and 3·2^k; the length is the largest of these that fits.
void link_ring(std::byte* begin, int64_t bytes) {
  int64_t n = 2;
  while (2 * n * line <= bytes) n *= 2;
  if (n / 2 * 3 * line <= bytes) n = n / 2 * 3;
  const uint64_t multiplier = 12 * 3'141'593 + 1, increment = 7'778'747, length = uint64_t(n);
  for (uint64_t i = 0; i < length; ++i)
    *reinterpret_cast<void**>(begin + int64_t(i) * line) = begin + int64_t((i * multiplier + increment) % length) * line;
}

class Probe {
 public:
  Probe(Team& team, const std::vector<CacheLevel>& caches, int vector_bits)
      : team_(team),
        caches_(caches),
        arena_(arena_bytes(caches), Pages::huge),
        usual_(std::min(arena_bytes(caches), most_usual_bytes), Pages::usual),
        streams_(stream_loops(vector_bits)) {
    for (const Arena* a : {&arena_, &usual_})
      team_.run(team_.size(), [&](int i) { streams_.write(a->slice(i, team_.size()), a->slice_bytes(team_.size())); });
  }

  int64_t arena_size() const { return arena_.bytes(); }

  // Read through just before each run: on a shared machine the neighbours' traffic empties our part of a cache in milliseconds, which a
  // long chase would take for the cache being small, while a kernel comes back to its data in less.
  double latency_ns(int64_t bytes) {
    bytes = std::clamp<int64_t>(bytes, 64 * line, arena_.bytes());
    double best = std::numeric_limits<double>::infinity();
    team_.run(1, [&](int) {
      link_ring(arena_.data(), bytes);
      void* at = arena_.data();
      for (int repeat = 0; repeat < 7; ++repeat) {
        for (int pass = 0; pass < 2 && bytes <= arena_.bytes() / 2; ++pass)
          streams_.read(arena_.data(), bytes / stream_block * stream_block);
        const Time::time_point start = Time::now();
        at = chase(at, hops);
        best = std::min(best, ns_since(start) / double(hops));
      }
    });
    return best;
  }

  enum class Direction : uint8_t { read, write, stream, copy, rows };  // rows: MemoryLevel::kRows of them by turns
  bool streams() const { return streams_.stream != nullptr; }

  // What one of `sharers` threads gets, each in `bytes` of its own, in GB/s: the best of several runs of about 2 ms, and of more while they
  // get better (Zen 3's L3 takes lines in that streams left in memory only by and by: 24, 28, 33, …, 73 GB/s).
  double bandwidth(int sharers, int64_t bytes, Direction direction, Pages pages = Pages::huge) {
    const Arena& arena = pages == Pages::huge ? arena_ : usual_;
    const bool memory = bytes * sharers > arena_.bytes() / 2;  // streams through more than the caches hold
    if (memory) bytes = arena.slice_bytes(sharers) / pieces;
    bytes = std::max<int64_t>(bytes / (2 * stream_block), 1) * 2 * stream_block;
    double best = 0;
    constexpr double kBetter = 1.02;
    bool better = true;
    for (int repeat = 0; repeat < 4 || (better && !memory && repeat < 32); ++repeat) {
      std::vector<double> gbs(static_cast<size_t>(sharers));
      team_.run(sharers, [&](int i) {
        std::byte* mine = arena.slice(i, sharers) + (memory ? repeat % pieces * bytes : 0);
        auto pass = [&] {
          switch (direction) {
            case Direction::read:
              return streams_.read(mine, bytes);
            case Direction::write:
              return streams_.write(mine, bytes);
            case Direction::stream:
              return streams_.stream(mine, bytes);
            case Direction::copy:
              return streams_.copy(mine, mine + bytes / 2, bytes / 2);
            case Direction::rows:
              read_by_turns<MemoryLevel::kRows>(mine, bytes);
          }
        };
        int64_t passes = 1;
        if (!memory) {
          pass();
          const Time::time_point warm = Time::now();
          pass();
          passes = std::clamp<int64_t>(int64_t(2e6 / std::max(ns_since(warm), 1.0)), 1, 1 << 20);
        }
        const Time::time_point start = Time::now();
        for (int64_t k = 0; k < passes; ++k) pass();
        gbs[size_t(i)] = double(bytes * passes) / ns_since(start);
      });
      double sum = 0;
      for (double one : gbs) sum += one;
      const double each = sum / sharers;
      better = each > kBetter * best;
      best = std::max(best, each);
    }
    return best;
  }

  // A line of each row by turns, the rows an odd number of lines apart; a word of each line, so that nothing but the lines takes time. Each
  // row has a load of its own, as in kernels: prefetchers that go by instructions make nothing of one load for all (eight rows on Zen
  // 5: 3.0 ns a line, 1.55). Returns how many lines there are.
  template <int64_t rows>
  static int64_t read_by_turns(const std::byte* begin, int64_t bytes) {
    const int64_t lines = (bytes / line / rows - 1) | 1;
    for (const std::byte* at = begin; at < begin + lines * line; at += line) {
#if defined(__GNUC__)
#pragma GCC unroll 32
#endif
      for (int64_t r = 0; r < rows; ++r) (void)*reinterpret_cast<const volatile int64_t*>(at + r * lines * line);
    }
    return rows * lines;
  }

  // ns that multiplying what is read from `bytes` takes, per byte.
  double multiplying_ns(int64_t bytes) {
    bytes = std::max<int64_t>(bytes / stream_block, 1) * stream_block;
    const int64_t passes = std::max<int64_t>(1, (int64_t{8} << 20) / bytes);
    double best = std::numeric_limits<double>::infinity();
    team_.run(1, [&](int) {
      streams_.read(arena_.data(), bytes);
      for (int repeat = 0; repeat < 9; ++repeat) {
        const Time::time_point start = Time::now();
        for (int64_t k = 0; k < passes; ++k) streams_.multiply(arena_.data(), bytes);
        best = std::min(best, ns_since(start) / double(bytes * passes));
      }
    });
    return best;
  }

  bool turns() const { return streams_.turns != nullptr; }

  // The least time of one pass over what `pass` touches, after a first.
  double pass_ns(const std::function<void()>& pass) {
    constexpr double kWhole = 3e5;
    double best = std::numeric_limits<double>::infinity();
    team_.run(1, [&](int) {
      for (int repeat = 0; repeat < 4; ++repeat) {
        const Time::time_point warm = Time::now();
        pass();
        const int64_t passes = std::clamp<int64_t>(int64_t(kWhole / std::max(ns_since(warm), 1.0)), 1, 1000);
        const Time::time_point start = Time::now();
        for (int64_t k = 0; k < passes; ++k) pass();
        best = std::min(best, ns_since(start) / double(passes));
      }
    });
    return best;
  }

  // What a vector across two lines takes longer, of `bytes` one after the other, begun inside a line against at its begin.
  double split_reads_ns(int64_t bytes) {
    bytes = bytes / stream_block * stream_block;
    const auto read = [&](int64_t at) { return pass_ns([&, at] { streams_.read(arena_.data() + at, bytes); }); };
    return std::max(0.0, (read(split) - read(0)) / double(bytes / line));  // of each line one vector ends in the next
  }

  // ns a line, read and written, of copies of so many bytes that take four rows by turns.
  double turns_ns(int64_t bytes, int64_t row, int64_t stride) {
    constexpr int64_t rows = 4;
    const int64_t groups = bytes / 2 / (rows * stride);
    const double ns = pass_ns([&] {
      std::byte *from = arena_.data(), *to = from + round_up(bytes / 2, 4096) + 2112;  // at another place of a page
      for (int64_t g = 0; g < groups; ++g) streams_.turns(from + g * rows * stride, to + g * rows * stride, row, stride);
    });
    return ns / double(groups * rows * row / line);
  }
  // The same of such copies: rows that all begin lines, and rows of which each begins further on in one.
  double split_writes_ns(int64_t bytes) {
    constexpr int64_t row = 640;
    const double share = 1 - double(split) / line;  // of the rows
    return std::max(0.0, (turns_ns(bytes, row, row + split) - turns_ns(bytes, row, row)) / share);
  }
  // A line of rows by turns, one way.
  double apart_ns(int64_t bytes) {
    constexpr int64_t row = 1024;
    return turns_ns(bytes, row, row) / 2;
  }

  // How many times as long as one after the other lines take of which `pass(begin, rows, stride)` touches one of each row, then the next:
  // rows of so many lines, the mean.
  double alone_in_rows(int64_t bytes, std::initializer_list<int64_t> lines, const std::function<void(std::byte*, int64_t, int64_t)>& pass) {
    const auto down = [&](int64_t stride) {
      const int64_t rows = bytes / stride;
      const double ns = pass_ns([&, stride, rows] {
        for (int64_t at = 0; at < stride; at += line) pass(arena_.data() + at, rows, stride);
      });
      return ns / double(rows * (stride / line));
    };
    double product = 1;
    for (const int64_t n : lines) product *= down(n * line);
    return std::max(1.0, std::pow(product, 1.0 / double(lines.size())) / down(line));
  }
  double pieces_as_rows(int64_t bytes) { return alone_in_rows(bytes, {17, 49}, streams_.lines); }
  double columns_as_rows(int64_t bytes, std::initializer_list<int64_t> lines) {
    return alone_in_rows(bytes, lines, [](std::byte* begin, int64_t rows, int64_t stride) {
      for (int64_t r = 0; r < rows; ++r) (void)*reinterpret_cast<const volatile int64_t*>(begin + r * stride);
    });
  }

  // How many times as long lines take that many rows deliver by turns as those of one row.
  double many_rows_as_one(int64_t bytes) {
    const auto read = [&](const std::function<int64_t()>& pass) {
      int64_t lines = 0;
      const double ns = pass_ns([&] { lines = pass(); });
      return ns / double(lines);
    };
    const std::byte* const begin = arena_.data();
    return std::max(
        1.0, read([&] { return read_by_turns<MemoryLevel::kTurns>(begin, bytes); }) / read([&] { return read_by_turns<1>(begin, bytes); }));
  }

  // The share of lines of half the last cache that come from it when they are read a second time, the first time from memory. Negative:
  // not measured, the arena's other half would not push out so much.
  double kept(const CacheLevel& last) {
    const int64_t bytes = last.bytes / 2 / stream_block * stream_block, others = arena_.bytes() / 2;
    constexpr int rounds = 5, steady = 12;
    std::vector<double> shares;
    if (2 * bytes > others) return -1;
    team_.run(1, [&](int) {
      for (int round = 0; round < rounds; ++round) {
        streams_.read(arena_.data() + bytes, others);
        std::vector<double> ns;
        for (int pass = 0; pass < steady; ++pass) {
          const Time::time_point start = Time::now();
          streams_.read(arena_.data(), bytes);
          ns.push_back(ns_since(start));
        }
        const double near = *std::min_element(ns.begin(), ns.end());
        shares.push_back(ns[0] > near ? std::clamp((ns[0] - ns[1]) / (ns[0] - near), 0.0, 1.0) : 1);
      }
    });
    std::nth_element(shares.begin(), shares.begin() + rounds / 2, shares.end());
    return shares[rounds / 2];
  }

  // Sizes that lie inside level i (the memory if i is one past the caches) and outside the level before it: no more than that takes, since
  // other machines hold parts of a cache (of 32 MiB of L3 on Zen 3 two readers of 2, 8 and 12 MiB each get 73, 66 and 47 GB/s).
  int64_t inside(size_t i, int sharers) const {
    if (i == caches_.size()) return arena_.slice_bytes(sharers);
    const int64_t half = caches_[i].bytes / 2 / std::min(sharers, caches_[i].shared_by);
    if (i == 0) return half;
    const int64_t inner = caches_[i - 1].bytes;
    return std::max(std::min(half, 4 * inner), inner * 3 / 2);
  }

 private:
  Team& team_;
  const std::vector<CacheLevel>& caches_;
  Arena arena_, usual_;
  StreamLoops streams_;
};

// A virtual machine may report a cache of which other machines hold the most. The capacity is the largest of its halvings at three
// quarters of which the latency is still nearer to this level's than to the next level's.
int64_t confirmed_capacity(Probe& probe, int64_t reported, int64_t inner, double level_ns, double outer_ns) {
  const double limit = level_ns + 0.6 * (outer_ns - level_ns);
  int64_t capacity = reported;
  while (capacity / 2 > 2 * inner && probe.latency_ns(capacity / 4 * 3) > limit) capacity /= 2;
  return capacity;
}

void raise(LevelFigures::Row& row, const LevelFigures::Row& to) {
  for (double LevelFigures::Row::*gbs :
       {&LevelFigures::Row::read_gbs, &LevelFigures::Row::write_gbs, &LevelFigures::Row::stream_gbs, &LevelFigures::Row::copy_gbs,
        &LevelFigures::Row::row_gbs, &LevelFigures::Row::rows_gbs, &LevelFigures::Row::rows_huge_gbs})
    row.*gbs = std::max(row.*gbs, to.*gbs);
}

void add_best(std::vector<LevelFigures::Row>& rows, const LevelFigures::Row& measured) {
  for (LevelFigures::Row& row : rows)
    if (row.sharers == measured.sharers) return raise(row, measured);
  rows.push_back(measured);
}

std::vector<int> sharer_counts(int cores) {  // the ends first: a budget that runs out costs the middle of the table
  std::vector<int> counts = {1};
  if (cores > 1) counts.push_back(cores);
  for (int n = 2; n < cores; n *= 2) counts.push_back(n);
  return counts;
}

}  // namespace

std::vector<LevelFigures> measure_memory(Team& team, const std::vector<CacheLevel>& reported, int vector_bits, const Budget& budget) {
  std::vector<CacheLevel> caches = reported;
  Probe probe(team, caches, vector_bits);
  const size_t memory = caches.size();
  std::vector<LevelFigures> levels(memory + 1);

  std::vector<double> near_ns(memory + 1);  // at a size just beyond the level before: surely inside
  for (size_t i = 0; i <= memory; ++i) {
    const int64_t inner = i == 0 ? 0 : caches[i - 1].bytes;
    near_ns[i] = probe.latency_ns(i == memory ? probe.arena_size()
                                  : i == 0    ? caches[0].bytes / 2
                                              : std::min(2 * inner, (inner + caches[i].bytes) / 2));
  }
  for (size_t i = 0; i < memory; ++i) {
    if (i > 0) caches[i].bytes = confirmed_capacity(probe, caches[i].bytes, caches[i - 1].bytes, near_ns[i], near_ns[i + 1]);
    levels[i].capacity_bytes = caches[i].bytes;
    levels[i].reduced = caches[i].bytes < reported[i].bytes;
    levels[i].latency_ns = i == 0 ? near_ns[0] : probe.latency_ns(std::max(caches[i].bytes / 4, 2 * caches[i - 1].bytes));
  }
  levels[memory].latency_ns = near_ns[memory];

  const auto measured = [&](size_t i, int sharers) {
    const auto gbs = [&](Probe::Direction d, Pages pages = Pages::huge) {
      return probe.bandwidth(sharers, probe.inside(i, sharers), d, pages);
    };
    LevelFigures::Row row{sharers, gbs(Probe::Direction::read), gbs(Probe::Direction::write)};
    if (i == memory) {
      row.row_gbs = gbs(Probe::Direction::read, Pages::usual), row.rows_gbs = gbs(Probe::Direction::rows, Pages::usual);
      row.rows_huge_gbs = gbs(Probe::Direction::rows);
    }
    if (i == memory && probe.streams()) row.stream_gbs = gbs(Probe::Direction::stream), row.copy_gbs = gbs(Probe::Direction::copy);
    return row;
  };
  if (probe.turns() && memory > 1) {
    const int64_t inside = probe.inside(1, 1);
    levels[1].split_reads_ns = probe.split_reads_ns(inside), levels[1].split_writes_ns = probe.split_writes_ns(inside);
    levels[1].apart_ns = probe.apart_ns(inside);
    for (size_t i = 2; i < memory; ++i) levels[i].pieces = probe.pieces_as_rows(probe.inside(i, 1));
  }
  for (size_t i = 2; i < memory; ++i) {
    levels[i].turns = probe.many_rows_as_one(probe.inside(i, 1));
    levels[i].columns = probe.columns_as_rows(probe.inside(i, 1), {17, 49});
    levels[i].kib_columns = probe.columns_as_rows(probe.inside(i, 1), {16});
  }
  if (memory > 2) levels[memory - 1].kept = probe.kept(caches[memory - 1]);
  // other guests of a machine take a bandwidth away for longer than one figure takes: each is measured again at other times
  std::vector<double> multiplying(memory + 1, std::numeric_limits<double>::infinity());
  for (int round = 0; round < 3; ++round) {
    for (int sharers : sharer_counts(team.size()))
      for (size_t i = 0; i <= memory; ++i)  // each once, however long the system took to give the memory
        if (levels[i].rows.empty() || !budget.spent()) add_best(levels[i].rows, measured(i, sharers));
    for (size_t i = 0; i <= memory && !budget.spent(); ++i)
      multiplying[i] = std::min(multiplying[i], probe.multiplying_ns(probe.inside(i, 1)));
  }
  for (LevelFigures& level : levels) {
    std::sort(level.rows.begin(), level.rows.end(),
              [](const LevelFigures::Row& a, const LevelFigures::Row& b) { return a.sharers < b.sharers; });
    for (size_t r = level.rows.size(); r-- > 1;) raise(level.rows[r - 1], level.rows[r]);  // who shares with fewer gets no less
  }
  // T = max(compute, (1 - overlap)·transfer) + overlap·transfer, solved for the overlap
  for (size_t i = 1; i <= memory; ++i)
    if (!levels[i].rows.empty() && std::isfinite(multiplying[i]))
      levels[i].overlap = std::clamp((multiplying[i] - multiplying[0]) * levels[i].rows[0].read_gbs, 0.0, 1.0);
  for (LevelFigures::Row& row : levels[memory].rows) {
    // a plan does not know its caller's pages: rows by turns gain what they gain in both kinds
    row.rows_gbs = std::min(row.rows_gbs, row.row_gbs * row.rows_huge_gbs / row.read_gbs);
    row.read_gbs = std::max(row.read_gbs, row.rows_huge_gbs);  // what memory gives, however it is asked
  }
  return levels;
}

}  // namespace rgen::hw
