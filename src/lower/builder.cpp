#include <algorithm>

#include "base/math.h"
#include "lower/context.h"

namespace rgen::lower {

static Int combined(const Int& a, const Int& b, int64_t sign) {
  Int r(a.constant + sign * b.constant);
  size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    if (j == b.terms.size() || (i < a.terms.size() && a.terms[i].first < b.terms[j].first)) {
      r.terms.push_back(a.terms[i++]);
    } else if (i == a.terms.size() || b.terms[j].first < a.terms[i].first) {
      r.terms.push_back({b.terms[j].first, sign * b.terms[j].second});
      ++j;
    } else {
      const int64_t k = a.terms[i].second + sign * b.terms[j].second;
      if (k != 0) r.terms.push_back({a.terms[i].first, k});
      ++i, ++j;
    }
  }
  return r;
}
Int operator+(const Int& a, const Int& b) { return combined(a, b, 1); }
Int operator-(const Int& a, const Int& b) { return combined(a, b, -1); }
Int operator*(const Int& a, int64_t c) {
  Int r(a.constant * c);
  if (c != 0)
    for (const auto& [v, k] : a.terms) r.terms.push_back({v, k * c});
  return r;
}

int Builder::variable(const std::string& name, int64_t lo, int64_t hi) {
  program.variables.push_back({name, lo, hi});
  return int(program.variables.size()) - 1;
}
int Builder::pointer(int buffer, const std::string& name) {
  program.pointers.push_back({buffer, name});
  return int(program.pointers.size()) - 1;
}
int Builder::reg(const std::string& name, bool integer, int array) {
  program.registers.push_back({name, integer, array});
  return int(program.registers.size()) - 1;
}
std::pair<int64_t, int64_t> Builder::range(const Int& i) const {
  int64_t lo = i.constant, hi = i.constant;
  for (const auto& [v, k] : i.terms) {
    const Variable& x = program.variables[size_t(v)];
    lo += k > 0 ? k * x.lo : k * x.hi;
    hi += k > 0 ? k * x.hi : k * x.lo;
  }
  return {lo, hi};
}
Int Builder::quotient(Body& body, const std::string& name, const Int& x, int64_t by) {
  if (by == 1) return x;
  const auto [lo, hi] = range(x);
  if (floor_div(lo, by) == floor_div(hi, by)) return Int(floor_div(lo, by));
  const int v = variable(name, floor_div(lo, by), floor_div(hi, by));
  body.push_back({LetInt{LetInt::Op::floor_div, v, x, Int(by)}});
  return Int::var(v);
}
Int Builder::remainder(Body& body, const std::string& name, const Int& x, int64_t by) {
  if (by == 1) return Int(0);
  const auto [lo, hi] = range(x);
  if (floor_div(lo, by) == floor_div(hi, by)) return x - Int(floor_div(lo, by) * by);
  const int v = variable(name, 0, by - 1);
  body.push_back({LetInt{LetInt::Op::floor_mod, v, x, Int(by)}});
  return Int::var(v);
}

Int Builder::place_in_lanes(Body& body, const Int& x, int64_t apart) {
  constexpr int64_t kOfLane = 4;
  const Int in_tile = remainder(body, "in_tile", x, kOfLane * apart);
  return x - in_tile + remainder(body, "first", in_tile, apart) * kOfLane + quotient(body, "of_lane", in_tile, apart);
}

std::pair<Int, Int> Builder::share(Body& body, int task, int64_t count, int64_t tasks) {
  const int first = variable("first", 0, count), last = variable("last", 0, count);
  const auto part = [&](int var, const Int& of_all) {
    body.push_back({LetInt{tasks == 1 ? LetInt::Op::value : LetInt::Op::floor_div, var, of_all, Int(tasks == 1 ? 0 : tasks)}});
  };
  part(first, Int::var(task, count)), part(last, Int::var(task, count) + Int(count));
  return {Int::var(first), Int::var(last)};
}

Int Builder::start(Body& body, const rtile::Blocking& t, const Int& block, int64_t last) {
  const Int at = block * (t.hi * t.unit);
  if (t.n_hi >= last) return at;
  const int over = variable("short", 0, t.blocks - t.n_hi);
  body.push_back({LetInt{LetInt::Op::max, over, block - Int(t.n_hi), Int(0)}});
  return at - Int::var(over, t.unit);
}

int Builder::local(Body& body, const std::string& name, DType dtype, int64_t elements) {
  program.buffers.push_back({name, dtype, elements, Buffer::Kind::local, -1, 0, 0, false});
  const int p = pointer(int(program.buffers.size()) - 1, name);
  body.push_back({LetPtr{p, Int(0)}});
  return p;
}

/// Loads wait for earlier stores that are under way to the same place of another page, so buffers that are walked together, with each other
/// or with tensors, which often begin where a page or one of its first lines does, begin half a page apart (exponentials into a buffer 64
/// bytes behind their arguments', modulo a page, 13.6 µs, 0 or 2048 behind 7.8; Zen 4).
int Builder::workspace(const std::string& name, DType dtype, int64_t elements, int64_t tasks, bool byte_wide) {
  constexpr int64_t kPage = 4096, kApart = kPage / 2;  // prefetchers go on behind what a task writes, and take the next task's lines
  const auto add = [&](int64_t at, int64_t each) {
    program.buffers.push_back({name, dtype, elements, Buffer::Kind::workspace, -1, at, tasks > 1 ? each : 0, byte_wide});
    return int(program.buffers.size()) - 1;
  };
  int64_t bytes = round_up(elements * size_of(dtype), 64);
  if (tasks > 1 && bytes <= kApart) {  // short ones are a page apart, with others of their task's behind them
    if (page_tasks_ != tasks || in_page_ + bytes > kApart)
      page_ = program.workspace_bytes, page_tasks_ = tasks, in_page_ = 0, program.workspace_bytes += kPage * tasks;
    in_page_ += bytes;
    return add(page_ + in_page_ - bytes, kPage);
  }
  if (tasks > 1) bytes += kApart;
  int64_t at = program.workspace_bytes;
  if (bytes >= kPage) {
    bytes = round_up(bytes, kPage), at += floor_mod((half_page_ ? kPage / 2 : 0) - at, kPage);
    half_page_ = !half_page_;
  }
  program.workspace_bytes = at + bytes * std::max<int64_t>(1, tasks);
  return add(at, bytes);
}

Int Places::next(const std::string& name, int64_t extent) {
  remaining_ /= extent;
  const Int x = b_.quotient(body_, name, rest_, remaining_);
  rest_ = b_.remainder(body_, "rest", rest_, remaining_);
  return x;
}

}  // namespace rgen::lower
