// Tiles of matrix units one after the other. The sums of a tile leave through a buffer, from which the epilogue reads them as vectors:
// cycles in which no product would be issued, since a processor that waits for the buffer's stores has the next tile's products too far
// ahead. Written between those, they take none.
#include <algorithm>
#include <iterator>

#include "lower/tile.h"

namespace rgen::lower {

namespace {

constexpr int64_t kFirst = 4;          ///< products before the first result, whose sums are on their way to the buffer
constexpr int64_t kBesideProduct = 4;  ///< statements of the results
constexpr int64_t kMostSteps = 16;     ///< of k that are written out for them

bool multiplies(const Stmt& s) {
  const Op* o = std::get_if<Op>(&s.node);
  return o && o->primitive.starts_with("tile_dp");
}

int64_t products_of_step(const NestContext& c, const TileVariant& v) {
  return int64_t(c.plan.row_tiles(v.size, c.nest).size()) * v.size[size_t(c.plan.vec)];
}

bool holds_products(const Stmt& s) {
  const For* f = std::get_if<For>(&s.node);
  return f && std::any_of(f->body->begin(), f->body->end(), [](const Stmt& x) { return multiplies(x) || holds_products(x); });
}

void append(Body& to, Body from) { std::move(from.begin(), from.end(), std::back_inserter(to)); }

/// The results' statements between the products that are written out first, all of them before the first loop behind those.
Body beside(Body products, Body results) {
  const auto end = std::find_if(products.begin(), products.end(), [](const Stmt& s) {
    const Op* o = std::get_if<Op>(&s.node);
    return holds_products(s) || (o && o->primitive == "tile_store");
  });
  const int64_t among = std::max<int64_t>(1, std::count_if(products.begin(), end, multiplies) - kFirst), all = int64_t(results.size());
  Body merged;
  int64_t issued = 0, placed = 0;
  const auto place = [&](int64_t until) {  // to the end of a result
    for (bool stored = false; placed < all && (placed < until || !stored); ++placed) {
      const Op* o = std::get_if<Op>(&results[size_t(placed)].node);
      stored = o && o->result < 0;
      merged.push_back(std::move(results[size_t(placed)]));
    }
  };
  for (auto s = products.begin(); s != products.end(); ++s) {
    if (s == end) place(all);
    const bool product = s < end && multiplies(*s);
    merged.push_back(std::move(*s));
    if (product && ++issued > kFirst) place(ceil_div(all * (issued - kFirst), among));
  }
  place(all);
  return merged;
}

}  // namespace

Body Tile::products(int64_t written_out) {
  to_write_out_ = written_out;
  multiply_tiles();
  restore_shapes();
  return std::move(scopes_[0].body);
}

Body Tile::results() {
  collect_row_tiles();
  choose_shapes();
  sums_ = params_.sums;
  finishing_ = true;
  epilogue();
  return std::move(scopes_[0].body);
}

Proc lower_run(NestContext& context, const TileParams& params, const TileVariant& variant, const std::string& name) {
  Builder& b = context.builder;
  const size_t x = size_t(context.plan.run_axis());
  const rtile::Blocking& t = context.plan.tile[x];
  Proc p = tile_procedure(context, params, variant, name);
  TileParams common = params;
  common.sums = b.local(p.body, "sums", accumulation(context.program[context.nest.inner[0].tensor].dtype), context.sums_of_tile());
  const auto at = [&](Body& body, const Int& block) {
    TileParams place = common;
    place.run_from = place.run_to = -1;
    place.block[x] = b.variable(context.nest.axes[x].name + "_block", 0, t.blocks - 1);
    place.start[x] = b.variable(context.nest.axes[x].name, 0, t.start(t.blocks - 1));
    body.push_back({LetInt{LetInt::Op::value, place.block[x], block, Int(0)}});
    const Int start = b.start(body, t, Int::var(place.block[x]), t.blocks - 1);
    body.push_back({LetInt{LetInt::Op::value, place.start[x], start, Int(0)}});
    return place;
  };
  const Int from = Int::var(params.run_from), to = Int::var(params.run_to);
  const TileParams first = at(p.body, from);
  append(p.body, Tile(context, first, variant).products(0));

  const int block = b.variable("next", 0, t.blocks - 1);
  auto body = std::make_shared<Body>();
  const TileParams now = at(*body, Int::var(block)), before = at(*body, Int::var(block) - Int(1));
  Body results = Tile(context, before, variant).results();
  const int64_t products = kFirst + ceil_div(int64_t(results.size()), kBesideProduct);
  const int64_t steps = std::min(kMostSteps, ceil_div(products, products_of_step(context, variant)));
  append(*body, beside(Tile(context, now, variant).products(steps), std::move(results)));
  p.body.push_back({For{block, from + Int(1), to, 1, std::move(body)}});

  const TileParams last = at(p.body, to - Int(1));
  append(p.body, Tile(context, last, variant).results());
  return p;
}

}  // namespace rgen::lower
