// Steps of a reduction that read padding, left out of the tile: bounds of loops over taps, and taps written out without the points outside.
#include "lower/tile.h"

namespace rgen::lower {

std::pair<Int, Int> Tile::places(const rtile::PaddedTaps& t) const {
  const Int first = start(t.output, false);
  return {first, first + Int(v_.size[size_t(t.output)] * (t.output == vec_ ? W_ : 1) - 1)};
}

std::vector<Int> Tile::reads_inside(const rtile::PaddedTaps& t, const Int& tap) const {
  const auto [first, last] = places(t);
  const Int read = tap * t.dilation + Int(t.offset);
  return {last * t.stride + read, Int(t.extent - 1) - first * t.stride - read};
}

std::pair<Int, Int> Tile::inside(const rtile::PaddedTaps& t, const Int& begin, const Int& end) {
  // ⌈(−offset − stride·last place) / dilation⌉ … ⌊(extent − 1 − offset − stride·first place) / dilation⌋
  const auto [first, last] = places(t);
  const Int lo = quotient("l", Int(t.dilation - 1 - t.offset) - last * t.stride, t.dilation);
  const Int hi = quotient("l", Int(t.extent - 1 - t.offset) - first * t.stride, t.dilation) + Int(1);
  return {chosen(LetInt::Op::max, begin, lo), chosen(LetInt::Op::min, end, hi)};
}

Tile::Outside Tile::outside(const rtile::PaddedTaps& t) {
  Outside o;
  for (const Point& p : points_) {
    point_ = &p;
    const Int i = axis_value(t.output) * t.stride + reduced_[size_t(t.reduced)] * t.dilation + Int(t.offset);
    const auto [lo, hi] = range(i);
    if (hi < 0 || lo >= t.extent) {
      o.always.insert(p.number);
      continue;
    }
    // Outside at some place of the tile: at the first (the last) ones in front (behind), where the border is as wide as the window at
    // both. All of a side are out where the innermost of them is.
    if (!holds(i)) {
      if (o.front.empty() || i.constant > o.last_front.constant) o.last_front = i;
      o.front.insert(p.number);
    }
    if (!holds(Int(t.extent - 1) - i)) {
      if (o.back.empty() || i.constant < o.first_back.constant) o.first_back = i;
      o.back.insert(p.number);
    }
  }
  return o;
}

void Tile::knowing(const std::vector<Int>& more, const std::function<void()>& emit) {
  const size_t before = known_.size();
  known_.insert(known_.end(), more.begin(), more.end());
  emit();
  known_.resize(before);
}

void Tile::when(std::vector<Int> conditions, const std::function<void()>& then, const std::function<void()>& otherwise) {
  const bool never = std::any_of(conditions.begin(), conditions.end(), [&](const Int& i) { return range(i).second < 0; });
  std::erase_if(conditions, [&](const Int& i) { return holds(i); });
  if (never) return otherwise();
  if (conditions.empty()) return then();
  const auto branch = [&](const std::vector<Int>& here, const std::function<void()>& emit) {
    scopes_.emplace_back();
    scopes_.back().conditional = true;
    knowing(here, emit);
    auto body = std::make_shared<Body>(std::move(scopes_.back().body));
    scopes_.pop_back();
    return body;
  };
  const std::vector<Int> contrary = conditions.size() == 1 ? std::vector<Int>{Int(-1) - conditions[0]} : std::vector<Int>{};
  auto yes = branch(conditions, then), no = branch(contrary, otherwise);
  put({If{std::move(conditions), std::move(yes), std::move(no)}});
}

void Tile::write_out(size_t level, const rtile::PaddedTaps& t) {
  const size_t a = size_t(t.reduced);
  const auto without = [&](std::set<int> points, const std::function<void()>& emit) {
    const std::set<int> before = left_out_;
    left_out_.merge(points);
    if (left_out_.size() < points_.size()) emit();
    left_out_ = before;
  };
  const auto at_an_end = [&](const std::set<int>& points, const Int& all_out, const std::function<void()>& emit) {
    if (points.empty()) return emit();
    when(
        {all_out}, [&] { without(points, emit); }, emit);
  };
  for (int64_t r = 0; r < t.taps; ++r) {
    std::vector<Int> in_chunk;
    if (params_.begin[a] >= 0) in_chunk = {Int(r) - Int::var(params_.begin[a]), Int::var(params_.end[a]) - Int(r + 1)};
    const auto step = [&] {
      reduced_[a] = Int(r);
      const Outside o = outside(t);
      without(o.always, [&] {
        at_an_end(o.front, Int(-1) - o.last_front, [&] { at_an_end(o.back, o.first_back - Int(t.extent), [&] { reduce(level + 1); }); });
      });
    };
    when(in_chunk, step, [] {});
  }
}

}  // namespace rgen::lower
