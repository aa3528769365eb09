// Halves of a line that leave as one: which stores are neighbours, and which only look like them.
#include <doctest/doctest.h>

#include "lower/context.h"

using namespace rgen;
using namespace rgen::lower;

namespace {

constexpr int row = 0, column = 1, n = 2;  // variables; n is the column's value in the body

Stmt point(int pointer, const Int& offset) { return {LetPtr{pointer, offset}}; }
Stmt store(int pointer, int value, int64_t at = 0, const char* type = "bf16") {
  return {Op{std::string("vf_store_") + type, -1, false, {Address{pointer, Int(at)}, Reg{value}}}};
}
Stmt let(int var, const Int& value) { return {LetInt{LetInt::Op::value, var, value, Int(0)}}; }

/// "s0 p1,2 o": stores with the register of their value, pairs with both, others.
std::string paired(Body body) {
  LoopProgram p;
  p.lanes = 32;
  p.buffers = {{"out", DType::bf16, 1 << 20, Buffer::Kind::output, 0}, {"other", DType::bf16, 1 << 20, Buffer::Kind::output, 1}};
  p.pointers = {{0, "p"}, {0, "q"}, {1, "r"}};
  p.variables = {{"row", 0, 99}, {"column", 0, 99}, {"n", 0, 9999}};
  for (int r = 0; r < 8; ++r) p.registers.push_back({"x"});
  std::string text;
  for (const Stmt& s : pair_stores(p, std::move(body))) {
    const Op* op = std::get_if<Op>(&s.node);
    if (!op) continue;
    const auto value = [&](size_t i) { return std::to_string(std::get<Reg>(op->args[i]).id); };
    text += (text.empty() ? "" : " ") + (op->primitive.starts_with("vf_store_pair") ? "p" + value(1) + "," + value(2)
                                         : op->primitive.starts_with("vf_store")    ? "s" + value(1)
                                                                                    : std::string("o"));
  }
  return text;
}

}  // namespace

TEST_CASE("stores 32 apart become one, the lower half first") {
  const Int place = Int::var(row, 1024) + Int::var(column, 64);
  CHECK(paired({point(0, place), point(1, place + Int(32)), store(0, 0), store(1, 1)}) == "p0,1");
  CHECK(paired({point(0, place), point(1, place + Int(32)), store(1, 1), store(0, 0)}) == "p0,1");
  CHECK(paired({point(0, place), store(0, 0), store(0, 1, 32), store(0, 2, 64), store(0, 3, 96)}) == "p0,1 p2,3");
}

TEST_CASE("where a column is a variable's value, too") {
  const Int rows = Int::var(row, 1024);
  CHECK(paired({let(n, Int::var(column, 64) + Int(32)), point(0, rows + Int::var(column, 64)), point(1, rows + Int::var(n)), store(0, 0),
                store(1, 1)}) == "p0,1");
}

TEST_CASE("not where a word of both halves might begin at an odd element, or nobody knows where") {
  CHECK(paired({point(0, Int::var(row, 1023)), store(0, 0), store(0, 1, 32)}) == "s0 s1");
  CHECK(paired({point(0, Int::var(row, 1024) + Int(1)), store(0, 0), store(0, 1, 32)}) == "s0 s1");
  CHECK(paired({point(0, Int::var(n)), store(0, 0), store(0, 1, 32)}) == "s0 s1");
  CHECK(paired({store(0, 0), store(0, 1, 32)}) == "s0 s1");
}

TEST_CASE("not of other buffers, types or distances, nor across what is no straight line") {
  const Int place = Int::var(row, 1024);
  CHECK(paired({point(0, place), point(2, place + Int(32)), store(0, 0), store(2, 1)}) == "s0 s1");
  CHECK(paired({point(0, place), store(0, 0), store(0, 1, 32, "f16")}) == "s0 s1");
  CHECK(paired({point(0, place), store(0, 0, 0, "f32"), store(0, 1, 32, "f32")}) == "s0 s1");
  CHECK(paired({point(0, place), store(0, 0), store(0, 1, 64)}) == "s0 s1");
  const Stmt loop{For{column, Int(0), Int(4), 1, std::make_shared<Body>(), For::Unroll::never}};
  CHECK(paired({point(0, place), store(0, 0), loop, store(0, 1, 32)}) == "s0 s1");
}
