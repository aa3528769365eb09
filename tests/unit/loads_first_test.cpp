// The order of a GPU's statements: loads before stores, but behind what they need and what they must not pass.
#include <doctest/doctest.h>

#include "lower/context.h"

using namespace rgen;
using namespace rgen::lower;

namespace {

constexpr int in = 0, out = 1;  // buffers, and pointers to them

Stmt load(int from, int64_t at, int result) { return {Op{"vf_load_f32", result, false, {Address{from, Int(at)}}}}; }
Stmt store(int64_t at, int value) { return {Op{"vf_store_f32", -1, false, {Address{out, Int(at)}, Reg{value}}}}; }

/// "l0 s0" …: loads and stores with their offsets, "b" a barrier.
std::string order(Body body) {
  LoopProgram p;
  p.lanes = 32;
  p.buffers = {{"in", DType::f32, 4096, Buffer::Kind::input, 0}, {"out", DType::f32, 4096, Buffer::Kind::output, 1}};
  p.pointers = {{in, "in"}, {out, "out"}};
  for (int r = 0; r < 64; ++r) p.registers.push_back({"x"});
  std::string text;
  for (const Stmt& s : loads_first(p, std::move(body))) {
    const Op& op = std::get<Op>(s.node);
    const char what = op.primitive == "block_sync" ? 'b' : op.result >= 0 ? 'l' : 's';
    text += (text.empty() ? "" : " ") + std::string(1, what);
    if (what != 'b') text += std::to_string(std::get<Address>(op.args[0]).offset.constant);
  }
  return text;
}

}  // namespace

TEST_CASE("loads do not wait behind stores of another buffer") {
  CHECK(order({load(in, 0, 0), store(0, 0), load(in, 1, 1), store(1, 1), load(in, 2, 2), store(2, 2)}) == "l0 l1 l2 s0 s1 s2");
}

TEST_CASE("a load stays behind a store of its buffer, and behind a barrier") {
  CHECK(order({load(in, 0, 0), store(0, 0), load(out, 0, 1), store(1, 1), load(in, 2, 2)}) == "l0 l2 s0 l0 s1");
  CHECK(order({load(in, 0, 0), store(0, 0), {Op{"block_sync", -1, false, {}}}, load(in, 1, 1), store(1, 1)}) == "l0 s0 b l1 s1");
}

TEST_CASE("not more loads stand together than registers should hold, and those of a point do") {
  Body body;
  for (int i = 0; i < 20; ++i) {
    body.push_back(load(in, 2 * i, 2 * i)), body.push_back(load(in, 2 * i + 1, 2 * i + 1));
    body.push_back(store(i, 2 * i));
  }
  CHECK(order(body).starts_with("l0 l1 l2 l3 l4 l5 l6 l7 l8 l9 l10 l11 s0 s1 s2 s3 s4 s5 l12"));
}
