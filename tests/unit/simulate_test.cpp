// The simulation of loop programs finds each kind of fault: a right program, and one wrong in exactly one thing at a time.
#include "lower/simulate.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"

using namespace rgen;
using namespace rgen::lower;

namespace {

constexpr int in = 0, out = 1, space = 2;  // buffers, and pointers to them
constexpr int task = 0, i = 1, n = 2;      // variables

Stmt op(const std::string& primitive, std::vector<Arg> args, int result = -1) { return {Op{primitive, result, false, std::move(args)}}; }
std::shared_ptr<Body> body(Body b) { return std::make_shared<Body>(std::move(b)); }

/// out = in, 22 floats, by way of the workspace: task t takes elements 12 t … 12 t + 11, whole vectors of 4 and a tail of 2.
LoopProgram copy() {
  LoopProgram p;
  p.lanes = 4;
  p.variables = {{"task", 0, 1}, {"i", 0, 20}, {"n", 0, 22}};
  p.buffers = {{"in", DType::f32, 22, Buffer::Kind::input, 0}, {"out", DType::f32, 22, Buffer::Kind::output, 1}};
  p.buffers.push_back({"space", DType::f32, 12, Buffer::Kind::workspace, -1, 0, 64});
  p.workspace_bytes = 128;
  p.pointers = {{in, "in"}, {out, "out"}, {space, "space"}};
  p.registers = {{"x"}};
  Proc q;
  q.name = "copy";
  q.params = {task};
  for (int pointer : {in, out, space}) q.body.push_back({LetPtr{pointer, pointer == space ? Int(0) : Int::var(task, 12)}});
  q.body.push_back({LetInt{LetInt::Op::min, n, Int::var(task, -2) + Int(12), Int(12)}});  // elements of the task
  const auto vectors = [&](int from, int to) {
    auto whole = body({op("vf_load_f32", {Address{from, Int::var(i)}}, 0), op("vf_store_f32", {Address{to, Int::var(i)}, Reg{0}})});
    auto tail = body(
        {op("vf_load_f32_n", {Address{from, Int::var(i)}, Int(2)}, 0), op("vf_store_f32_n", {Address{to, Int::var(i)}, Reg{0}, Int(2)})});
    q.body.push_back({For{i, Int(0), Int::var(n), 4, body({{If{{Int::var(n) - Int::var(i) - Int(4)}, whole, tail}}})}});
  };
  vectors(in, space);
  vectors(space, out);
  p.procs.push_back(std::move(q));
  p.regions.push_back({0, 2, ""});
  verify(p);
  return p;
}

/// out = in, a row of 40 floats in two pieces, of 24 and 16, by way of the workspace: 8 of the first one wait for the second.
LoopProgram pieces() {
  LoopProgram p;
  p.lanes = 8;
  p.buffers = {{"in", DType::f32, 40, Buffer::Kind::input, 0}, {"out", DType::f32, 40, Buffer::Kind::output, 1}};
  p.buffers.push_back({"space", DType::f32, 48, Buffer::Kind::workspace, -1, 0, 0});
  p.workspace_bytes = 192;
  p.pointers = {{in, "in"}, {out, "out"}, {space, "space"}};
  p.registers = {{"x"}};
  Proc q;
  q.name = "copy";
  for (int pointer : {in, out, space}) q.body.push_back({LetPtr{pointer, Int(pointer == space ? 16 : 0)}});
  const auto piece = [&](int64_t at, int64_t length) {
    for (int64_t x = 0; x < length; x += 8) {
      q.body.push_back(op("vf_load_f32", {Address{in, Int(at + x)}}, 0));
      q.body.push_back(op("vf_store_f32", {Address{space, Int(x)}, Reg{0}}));
    }
    q.body.push_back(op("stream_piece_f32", {Address{out, Int(at)}, Address{space, Int(0)}, Int(length), Int(at), Int(40 - at - length)}));
  };
  piece(0, 24), piece(24, 16);
  p.procs.push_back(std::move(q));
  p.regions.push_back({0, 1, ""});
  verify(p);
  return p;
}
/// An argument of the piece's: 2 is its length, 3 and 4 what is before and behind it.
Arg& of_piece(LoopProgram& p, int number, size_t argument) {
  return std::get<Op>(p.procs[0].body[number == 0 ? 9 : 14].node).args[argument];
}

/// Two warps share a task: each puts its vector of 4 into the block's memory, and the other one takes it from there.
LoopProgram exchange() {
  LoopProgram p;
  p.lanes = 4;
  p.variables = {{"task", 0, 2}, {"warp", 0, 1}};
  p.buffers = {{"in", DType::f32, 24, Buffer::Kind::input, 0}, {"out", DType::f32, 24, Buffer::Kind::output, 1}};
  p.buffers.push_back({"space", DType::f32, 8, Buffer::Kind::shared, -1});
  p.pointers = {{in, "in"}, {out, "out"}, {space, "space"}};
  p.registers = {{"x"}};
  constexpr int warp = 1;
  const Int own = Int::var(warp, 4), other = Int(4) - Int::var(warp, 4), of_task = Int::var(task, 8);
  Proc q;
  q.name = "exchange";
  q.params = {task, warp};
  for (int pointer : {in, out, space}) q.body.push_back({LetPtr{pointer, pointer == space ? Int(0) : of_task}});
  q.body.push_back(op("vf_load_f32", {Address{in, own}}, 0));
  q.body.push_back(op("vf_store_f32", {Address{space, own}, Reg{0}}));
  q.body.push_back(op("block_sync", {}));
  q.body.push_back(op("vf_load_f32", {Address{space, other}}, 0));
  q.body.push_back(op("vf_store_f32", {Address{out, own}, Reg{0}}));
  p.procs.push_back(std::move(q));
  Region r{0, 3, ""};
  r.warps = 2;
  p.regions.push_back(std::move(r));
  verify(p);
  return p;
}

For& loop(LoopProgram& p, int number) { return std::get<For>(p.procs[0].body[size_t(4 + number)].node); }
Op& store(LoopProgram& p) { return std::get<Op>((*std::get<If>((*loop(p, 1).body)[0].node).then)[1].node); }

void finds(const LoopProgram& p, const std::string& what) {
  const Simulation s = simulate(p);
  REQUIRE(!s.violations.empty());
  CAPTURE(s.violations[0]);
  CHECK(std::any_of(s.violations.begin(), s.violations.end(), [&](const std::string& v) { return v.find(what) != std::string::npos; }));
}

}  // namespace

TEST_CASE("a right program passes") {
  const Simulation s = simulate(copy());
  for (const std::string& v : s.violations) FAIL_CHECK(v);
  CHECK(s.complete);
  CHECK(s.steps > 88);
  CHECK_NOTHROW(check(copy(), 1000));
}

TEST_CASE("warps that share a task meet before they read each other's results") {
  const Simulation s = simulate(exchange());
  for (const std::string& v : s.violations) FAIL_CHECK(v);
  CHECK(s.complete);
  LoopProgram p = exchange();
  p.procs[0].body.erase(p.procs[0].body.begin() + 5);
  finds(p, "read before it is written");
  p = exchange();  // the first warp alone comes to the barrier
  p.procs[0].body[5] = {If{{Int(0) - Int::var(1)}, body({op("block_sync", {})}), body({})}};
  finds(p, "different numbers of barriers");
  p = exchange();  // both write the same place
  std::get<Address>(std::get<Op>(p.procs[0].body[7].node).args[0]).offset = Int(0);
  finds(p, "a race with task");
}

TEST_CASE("beyond its budget it stops") {
  const Simulation s = simulate(copy(), 10);
  CHECK(!s.complete);
  CHECK(s.violations.empty());
}

TEST_CASE("addresses outside a buffer") {
  LoopProgram p = copy();
  p.buffers[out].elements = 21;
  finds(p, "out[20…21] of 21 elements");
  p = copy();
  std::get<Address>(store(p).args[0]).offset = Int::var(i) - Int(1);
  finds(p, "copy: vf_store_f32 touches out[-1…2] of 22 elements [task=0 n=12 i=0]");
  p = copy();  // strided lanes
  store(p) = Op{"vf_scatter_f32", -1, false, {Address{out, Int::var(i)}, Int(7), Reg{0}}};
  finds(p, "of 22 elements");
}

TEST_CASE("elements that are never written, or twice") {
  LoopProgram p = copy();
  loop(p, 1).begin = Int(4);
  finds(p, "8 of 22 elements of output out are never written, the first is 0");
  p = copy();
  std::get<Address>(store(p).args[0]).offset = Int(0);
  finds(p, "computed twice");
}

TEST_CASE("reading what nobody wrote") {
  LoopProgram p = copy();
  loop(p, 0).begin = Int(4);
  finds(p, "space[0]: read before it is written");
}

TEST_CASE("what a group reaches must be there, and only what matters of it be written") {
  LoopProgram p = copy();
  p.buffers[space].dtype = DType::u8, p.buffers[space].elements = 7;
  Body& first = p.procs[0].body;
  first.clear();
  const auto run = [&](int at) {
    first = {{LetPtr{space, Int(0)}}, {Op{"vi_store_u8_n", -1, false, {Address{space, Int(0)}, Reg{0}, Int(4)}}}};
    first.push_back(op("vi_bcast_group_of", {Address{space, Int(at)}, Int(2)}, 0));
    std::string all;
    for (const std::string& v : simulate(p, 1 << 20).violations) all += v + "\n";
    return all;
  };
  CHECK(run(2).find("space") == std::string::npos);
  CHECK(run(3).find("space[4]: read before it is written") != std::string::npos);
  CHECK(run(4).find("reaches past the 7 elements of space") != std::string::npos);
}

TEST_CASE("tasks that touch what another one writes") {
  LoopProgram p = copy();
  p.buffers[space].per_task = 0;  // one copy for all
  finds(p, "a race with task 0");
  p = copy();
  p.regions[0].tasks = 1;  // no race, and no second half
  finds(p, "10 of 22 elements");
}

TEST_CASE("what is not the kernel's, of another type, or without a place") {
  LoopProgram p = copy();
  std::get<Address>(store(p).args[0]).pointer = in;
  finds(p, "writes what is not the kernel's to write");
  p = copy();
  p.buffers[out].dtype = DType::bf16;
  finds(p, "whose elements are bf16");
  p = copy();
  p.workspace_bytes = 64;
  finds(p, "space ends beyond the workspace");
  p = copy();
  p.buffers.push_back({"other", DType::f32, 4, Buffer::Kind::workspace, -1, 64, 0});
  finds(p, "overlap");
  p.buffers.back().offset = 100;
  finds(p, "not aligned");
}

TEST_CASE("variables outside their ranges") {
  LoopProgram p = copy();
  p.variables[i].hi = 7;
  finds(p, "i is outside its range of 0…7");
}

TEST_CASE("a primitive that takes memory must be known") {
  LoopProgram p = copy();
  store(p).primitive = "vf_shove_f32";
  CHECK_THROWS_WITH_AS(simulate(p), doctest::Contains("vf_shove_f32"), Error);
  p = copy();
  p.buffers[out].elements = 21;
  CHECK_THROWS_WITH_AS(check(p, 1000), doctest::Contains("of 21 elements"), Error);
}

TEST_CASE("pieces of rows that leave too much, too little, or what was not collected") {
  const Simulation right = simulate(pieces());
  for (const std::string& v : right.violations) FAIL_CHECK(v);
  CHECK(right.complete);
  LoopProgram p = pieces();
  of_piece(p, 1, 3) = Int(0);  // what waits is forgotten
  finds(p, "8 of 40 elements of output out are never written, the first is 16");
  p = pieces();
  of_piece(p, 0, 4) = Int(0);  // nothing waits
  finds(p, "computed twice");
  p = pieces();
  of_piece(p, 1, 2) = Int(15);
  finds(p, "1 of 40 elements of output out are never written, the first is 39");
  p = pieces();
  of_piece(p, 0, 2) = Int(25);
  finds(p, "space[40]: read before it is written");
  p = pieces();
  of_piece(p, 0, 2) = Int(33);
  finds(p, "of 48 elements");
}
