// Constants packed once into the order in which the tiles read them, element by element, by a procedure that the caller calls.
#include <algorithm>

#include "lower/packed_layout.h"

namespace rgen::lower {

using rtile::Blocking;

namespace {

/// A loop nest written from the outside in: each call opens one loop.
class Nested {
 public:
  Nested(Builder& b, Body& body) : b_(b), current_(&body) {}
  Int loop(const std::string& name, int64_t count, int64_t step = 1) {
    if (count <= step) return Int(0);
    const int v = b_.variable(name, 0, (count - 1) / step * step);
    auto body = std::make_shared<Body>();
    current_->push_back({For{v, Int(0), Int(count), step, body}});
    current_ = body.get();
    return Int::var(v);
  }
  Body& body() { return *current_; }

 private:
  Builder& b_;
  Body* current_;
};

class Packing {
 public:
  Packing(NestContext& c, int operand) : c_(c), b_(c.builder), operand_(size_t(operand)), to_(c, operand) {}

  void run() {
    const ir::Tensor& tensor = to_.tensor;
    const int given = tensor.widens >= 0 ? tensor.widens : to_.access.tensor;
    const auto& inputs = c_.program.inputs;
    const int input = int(std::find(inputs.begin(), inputs.end(), given) - inputs.begin());
    const int64_t bytes = round_up(to_.elements * size_of(tensor.dtype), 64), elements = bytes / size_of(tensor.dtype);
    b_.program.buffers.push_back({tensor.name + "_packed", tensor.dtype, elements, Buffer::Kind::packed, input, 0, 0, to_.grouped});
    to_.packed.buffer = int(b_.program.buffers.size()) - 1;
    c_.addressing[operand_] = to_.packed;
    const int proc = b_.proc(procedure());
    b_.program.prepacks.push_back({input, to_.source.buffer, to_.packed.buffer, proc, bytes});
  }

 private:
  NestContext& c_;
  Builder& b_;
  const size_t operand_;
  PackedLayout to_;

  Proc procedure() {
    Proc p;
    p.name = "prepack_" + to_.tensor.name;
    p.comment = "packs " + to_.tensor.name + " into the order in which the tiles read it; padding is zero";
    const int from = b_.pointer(to_.source.buffer, "src"), to = b_.pointer(to_.packed.buffer, "dst");
    p.body.push_back({LetPtr{from, Int(0)}});
    p.body.push_back({LetPtr{to, Int(0)}});
    Walk w{Nested(b_, p.body), Int(to_.given.constant), Int(0), {}, {}, std::vector<Int>(to_.axes.size(), Int(0))};
    walk_chunks(w);
    walk_blocks(w);
    Body& panel = w.loops.body();
    const Int panel_at = w.dst;
    for (int a : to_.reduced) walk_reduction(w, a);
    for (const auto& [a, block] : w.blocks) walk_tile(w, a, block);

    const Op copy{to_.rounded ? "copy_tf32" : "copy_element", -1, false, {Address{to, w.dst}, Address{from, w.src}}};
    const Op pad{"zero_element", -1, false, {Address{to, w.dst}}};
    if (w.inside.empty())
      w.loops.body().push_back({copy});
    else
      w.loops.body().push_back({If{w.inside, std::make_shared<Body>(Body{{copy}}), std::make_shared<Body>(Body{{pad}})}});
    if (to_.corrected) correct_sums(b_, to_, panel, to, panel_at);
    return p;
  }

  struct Walk {
    Nested loops;
    Int src, dst;
    std::vector<Int> inside;                  ///< conditions
    std::vector<std::pair<int, Int>> blocks;  ///< axis, block number
    std::vector<Int> first;                   ///< of the chunk, of every axis
    Int stream = 0;                           ///< of the tile
  };

  void walk_chunks(Walk& w) {
    for (const auto& [a, step] : to_.chunks) {
      const Int first = w.first[size_t(a)] = w.loops.loop(to_.name(a) + "_chunk", to_.extent(a), step);
      w.dst = w.dst + first * (to_.packed.chunk[size_t(a)] + to_.packed.value[size_t(a)]);
      w.src = w.src + first * to_.stride(a);
    }
  }

  void walk_blocks(Walk& w) {
    for (int a : to_.outputs) {
      const Int block = w.loops.loop(to_.name(a) + "_block", to_.blocking(a).blocks);
      w.blocks.push_back({a, block});
      w.dst = w.dst + block * to_.packed.block[size_t(a)];
    }
    w.stream = w.loops.loop("stream", to_.streams);
    w.dst = w.dst + w.stream * to_.packed.stream;
  }

  void walk_reduction(Walk& w, int a) {
    const bool k = a == to_.k_axis;
    const int64_t within = to_.length[size_t(a)], value = to_.packed.value[size_t(a)], group = to_.group, k_step = to_.k_step;
    Int r = w.loops.loop(to_.name(a), k ? round_up(within, to_.k_whole) : within, k ? group : 1);
    w.src = w.src + r * to_.stride(a);
    if (k && to_.fragments) {  // a step of k is a row of 64 bytes
      const Int step = b_.quotient(w.loops.body(), "q", r, k_step);
      w.dst = w.dst + step * (k_step * value) + r - step * k_step;
    } else {
      w.dst = w.dst + r * value;
    }
    if (k && group > 1) {
      const Int g = w.loops.loop("g", group);
      w.src = w.src + g * to_.stride(a), w.dst = w.dst + g, r = r + g;
    }
    for (size_t d = 0; d < to_.index.size(); ++d)
      for (const ir::Index::Floor& f : to_.index[d].floors)
        if (f.inner.uses(a))
          w.src = w.src + b_.quotient(w.loops.body(), "q", w.first[size_t(a)] + r, f.divisor) * (f.coef * to_.source.strides[d]);
    if (to_.extent(a) % within || (k && within % to_.k_whole)) w.inside.push_back(Int(to_.extent(a) - 1) - w.first[size_t(a)] - r);
  }

  void walk_tile(Walk& w, int a, const Int& block) {
    const Blocking& t = to_.blocking(a);
    const int64_t size = to_.tile[size_t(a)];
    const Int i = w.loops.loop(to_.name(a), size);
    Int at = start_of(b_, w.loops.body(), t, block) + i;
    if (a == to_.plan.vec) at = at + w.stream * to_.packed.stream_columns;
    w.src = w.src + at * to_.stride(a);
    const bool columns = a == to_.plan.vec;
    const Int place = to_.lanes && columns ? b_.place_in_lanes(w.loops.body(), i, rtile::Staging::kLaneColumns) : i;
    // fragments: rows of 64 bytes, one a column; 512 bytes that a warp reads at once are 8 of them
    w.dst = w.dst + place * (to_.fragments && columns ? to_.k_step : to_.packed.inside[size_t(a)]);
    if (t.start(t.blocks - 1) + t.hi * t.unit > t.extent || t.ragged()) w.inside.push_back(Int(t.extent - 1) - at);
  }
};

}  // namespace

void lower_prepack(NestContext& c, int operand) { Packing(c, operand).run(); }

}  // namespace rgen::lower
