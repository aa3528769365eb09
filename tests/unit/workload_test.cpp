// What a planned nest is counted to do: tensors that wait in memory, loads that split lines, borders that need no copy; and which walks,
// stores and splits it prefers for that.
#include "rtile/workload.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "base/math.h"
#include "emit/backend.h"
#include "ir/ir.h"
#include "rtile/construct.h"
#include "rtile/plan_nest.h"

using namespace rgen;

namespace {

/// A sum of each row of 64, rows so many elements apart.
ir::TensorProgram row_sums(int apart) {
  return ir::parse_program(R"({"inputs": {"X": {"shape": [40, 64], "strides": [)" + std::to_string(apart) +
                           R"(, 1]}}, "compute": ["Y[i:40, j:64] = X[i, j] + 1"], "outputs": ["Y"]})");
}

double loads(const ir::TensorProgram& program, const rtile::Nest& nest, const rtile::NestPlan& plan, const hw::Profile& profile) {
  const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
  return rtile::workload(nest, rtile::nest_facts(program, nest), plan, context).loads;
}

std::string source(const std::string& spec, const hw::Profile& profile) {
  const ir::TensorProgram program = ir::parse_program(spec);
  return emit::emit_cpp(program, rtile::construct(program, profile, {.threads = 1}).front(), profile).source;
}

}  // namespace

TEST_CASE("a load that ends in the next line counts twice, or what the profile says") {
  hw::Profile profile = hw::load_profile("zen5");
  const ir::TensorProgram aligned = row_sums(80), halves = row_sums(72), odd = row_sums(65);
  const rtile::Candidate c = rtile::construct(aligned, profile, {.threads = 1}).front();
  const rtile::Nest& nest = c.program->groups[0].group.nests[0];
  const rtile::NestPlan& plan = c.program->groups[0].nests[0];
  const double once = loads(aligned, nest, plan, profile);
  CHECK(once == 40 * 64 / 16);
  CHECK(loads(halves, nest, plan, profile) == doctest::Approx(1.5 * once));
  CHECK(loads(odd, nest, plan, profile) == doctest::Approx((1 + 15.0 / 16) * once));
  profile.split_loads = profile.load_ports / 1.5;
  CHECK(loads(halves, nest, plan, profile) == doctest::Approx(1.25 * once));
}

TEST_CASE("an element for all lanes costs what the profile says, and a large tile of few steps waits for its stores") {
  hw::Profile profile = hw::load_profile("zen4");
  const ir::TensorProgram program = ir::parse_program(R"--({"inputs": {"A": {"shape": [108, 15]}, "B": {"shape": [15, 96]}},
        "compute": ["C[m:108, n:96] = sum(k:15 | A[m, k] * B[k, n])"], "outputs": ["C"]})--");
  const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
  const rtile::Nest& nest = c.program->groups[0].group.nests[0];
  rtile::NestPlan plan = c.program->groups[0].nests[0];
  REQUIRE(nest.axes[size_t(plan.vec)].name == "n");
  REQUIRE(plan.form == rtile::AtomForm::vector);
  const rtile::NestFacts facts = rtile::nest_facts(program, nest);
  const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
  const auto counted = [&](int64_t rows, int64_t vectors) {
    for (size_t a = 0; a < nest.axes.size(); ++a) {
      if (nest.axes[a].name == "m") plan.tile[a] = rtile::Blocking(108, 1, rows);
      if (nest.axes[a].name == "n") plan.tile[a] = rtile::Blocking(96, 16, 16 * vectors);
    }
    return rtile::workload(nest, facts, plan, context);
  };
  // 108 / 9 * 96 / 48 tiles of 15 steps: 3 vectors and 9 elements each
  CHECK(profile.broadcast_loads() == 0.5);
  CHECK(counted(9, 3).loads == doctest::Approx(24 * 15 * (3 + 0.5 * 9)));
  const double store_ns = 64 / profile.levels[0].write_gbs(1), call_ns = 3 / profile.ghz;
  CHECK(counted(4, 2).call_overheads == doctest::Approx(27 * 3 * call_ns));
  CHECK(counted(9, 3).call_overheads == doctest::Approx(24 * (call_ns + (27 - 12) * store_ns)));
  profile.burst_ns = 3 * store_ns;
  CHECK(counted(4, 2).call_overheads == doctest::Approx(27 * 3 * call_ns));
  CHECK(counted(9, 3).call_overheads == doctest::Approx(24 * (call_ns + (27 - 8) * profile.burst_ns)));
  // one vector a row, an element each: loads, not multiply-adds, are what waits
  CHECK(counted(12, 1).call_overheads == doctest::Approx(9 * 6 * (call_ns + (12 - 8) * store_ns)));
  profile.broadcasts = 0;
  CHECK(counted(9, 3).loads == doctest::Approx(24 * 15 * (3 + 9)));
}

TEST_CASE("a reduction without products chains by the latency of what combines its steps") {
  hw::Profile profile = hw::load_profile("zen3");
  const auto chain_ns = [&](const char* reduce) {
    const ir::TensorProgram program = ir::parse_program(R"({"inputs": {"X": {"shape": [40, 64]}}, "compute": ["Y[i:40] = )" +
                                                        std::string(reduce) + R"--((j:64 | X[i, j])"], "outputs": ["Y"]})--");
    const rtile::Candidate c = rtile::construct(program, hw::load_profile("zen3"), {.threads = 1}).front();
    const rtile::Nest& nest = c.program->groups[0].group.nests[0];
    const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
    return rtile::workload(nest, rtile::nest_facts(program, nest), c.program->groups[0].nests[0], context).chain_latency_ns;
  };
  const double sum = chain_ns("sum"), max = chain_ns("max");
  profile.latency_cycles = {{"add", 6}, {"max", 4}};
  CHECK(chain_ns("sum") == doctest::Approx(2 * sum));
  CHECK(chain_ns("max") == doctest::Approx(4 * max));
  CHECK(chain_ns("min") == doctest::Approx(chain_ns("max")));
}

TEST_CASE("pieces of rows come slower from the last cache down columns than along rows") {
  const hw::Profile profile = hw::load_profile("zen3");
  const ir::TensorProgram program = ir::parse_program(
      R"({"inputs": {"X": {"shape": [4096, 128], "strides": [144, 1]}}, "compute": ["Y[i:4096, j:128] = X[i, j] + 1"], "outputs": ["Y"]})");
  const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
  const rtile::Nest& nest = c.program->groups[0].group.nests[0];
  rtile::NestPlan plan = c.program->groups[0].nests[0];
  const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
  const int i = nest.axes[0].name == "i" ? 0 : 1, j = 1 - i;
  REQUIRE(plan.vec == j);
  const auto from_l3 = [&](int64_t vectors, std::vector<rtile::Loop> loops) {
    plan.tile[size_t(i)] = rtile::Blocking(4096, 1, 1), plan.tile[size_t(j)] = rtile::Blocking(128, 8, vectors);
    plan.loops = std::move(loops);
    return rtile::workload(nest, rtile::nest_facts(program, nest), plan, context).levels[2].read_bytes;
  };
  const double along = from_l3(2, {{i, 1}, {j, 1}});
  CHECK(from_l3(2, {{j, 1}, {i, 1}}) >= 1.6 * along);
  CHECK(from_l3(4, {{j, 1}, {i, 1}}) >= 1.4 * along);
  CHECK(from_l3(16, {{i, 1}, {j, 1}}) == doctest::Approx(along));
}

TEST_CASE("AVX2: parts of vectors are read whole, stored by halves, and lanes one by one") {
  const hw::Profile profile = hw::load_profile("zen3");
  // 40 rows of 63 floats, eight vectors, 256 bytes apart; written as they are, or as columns
  const auto counted = [&](const char* index) {
    const ir::TensorProgram program =
        ir::parse_program(std::string(R"({"inputs": {"X": {"shape": [40, 63], "strides": [64, 1]}}, "compute": ["Y)") + index +
                          R"( = X[i, j] + 1"], "outputs": ["Y"]})");
    for (const rtile::Candidate& c : rtile::construct(program, profile, {.threads = 1, .top_k = 200})) {
      const rtile::Nest& nest = c.program->groups[0].group.nests[0];
      const rtile::NestPlan& plan = c.program->groups[0].nests[0];
      if (nest.axes[size_t(plan.vec)].name != "j" || plan.store_transpose_axis >= 0) continue;
      const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
      return rtile::workload(nest, rtile::nest_facts(program, nest), plan, context);
    }
    FAIL("no plan along j");
    return hw::Workload{};
  };
  const hw::Workload rows = counted("[i:40, j:63]"), columns = counted("[j:63, i:40]");
  CHECK(rows.loads == doctest::Approx(40 * 8));  // parts are read whole, but at the end
  CHECK(rows.stores >= 40 * (8 + 2));            // seven lanes: four, two and one; and lines in which two vectors have a part
  CHECK(columns.stores == doctest::Approx(40 * 8 * (8 + 1)));
}

TEST_CASE("rows in memory are written in order") {
  const hw::Profile profile = hw::load_profile("zen4");
  const auto plan = [&](int64_t rows) {
    const std::string n = std::to_string(rows);
    const ir::TensorProgram program = ir::parse_program(R"--({"inputs": {"X": {"shape": [)--" + n +
                                                        R"--(, 8]}, "W": {"shape": [8, 95], "constant": true}},
        "compute": ["Y[i:)--" + n + R"--(, o:95] = sum(c:8 | X[i, c] * W[c, o])"], "outputs": ["Y"]})--");
    const rtile::Candidate best = rtile::construct(program, profile, {.threads = 1}).front();
    return best.program->groups.front().nests.front();
  };
  const rtile::NestPlan p = plan(400000);
  REQUIRE(p.vec == 1);
  CHECK((p.tile[1].blocks == 1 || p.loops.back().axis == 1));
  CHECK((p.tile[1].blocks == 1 || p.tile[0].size() * 95 * 4 <= 2048));  // few enough to be complete soon
}

TEST_CASE("what a nest makes and reads in registers is not in memory") {
  const ir::TensorProgram program = ir::parse_program(
      R"--({"inputs": {"X": {"shape": [4, 8]}}, "compute": ["S[i:4] = sum(j:8 | X[i, j])", "Y[i:4] = max(S[i], 0)"], "outputs": ["Y"]})--");
  const std::vector<rtile::Nest> nests = rtile::build_nests(program);
  REQUIRE(nests.size() == 1);
  std::vector<std::string> names;
  for (int t : rtile::tensors_in_memory(nests[0])) names.push_back(program[t].name);
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"X", "Y"});
}

TEST_CASE("narrow images are not copied for the sake of their borders") {
  const std::string code = source(
      R"--({"inputs": {"X": {"shape": [3, 40, 13, 14]}, "W": {"shape": [1, 40, 3, 3], "constant": true}},
        "compute": ["Y[n:3, o:1, p:13, q:14] = sum(c:40, r:3, s:3 | X[n, c, p + 2*r - 2, q + 2*s - 2 ? 0] * W[o, c, r, s])"], "outputs": ["Y"]})--",
      hw::load_profile("zen5"));
  CHECK(code.find("padded copy") == std::string::npos);
}

TEST_CASE("inside of a branch over a tap, nothing asks again whether its row is there") {
  const std::string code = source(
      R"--({"inputs": {"X": {"shape": [1, 28, 28, 64]}, "W": {"shape": [3, 3, 64], "constant": true}},
        "compute": ["Y[n:1, p:28, q:28, c:64] = sum(r:3, s:3 | X[n, p + r - 1, q + s - 1, c ? 0] * W[r, s, c])"], "outputs": ["Y"]})--",
      hw::load_profile("zen5"));
  CHECK(code.find("_border(") != std::string::npos);
  CHECK(code.find("_range(X") == std::string::npos);  // whole vectors of channels, or nothing
}

TEST_CASE("where only the ends of vectors leave an image, its rows are not asked for, and vectors are read whole") {
  const std::string spec = R"--({"inputs": {"X": {"shape": [40, 30, 16]}, "W": {"shape": [6, 40, 3, 3], "constant": true}},
        "compute": ["Y[o:6, p:30, q:16] = sum(c:40, r:3, s:3 | X[c, p + r - 1, q + s - 1 ? 0] * W[o, c, r, s])"], "outputs": ["Y"]})--";
  for (const char* name : {"zen3", "zen4"}) {
    CAPTURE(name);
    const hw::Profile profile = hw::load_profile(name);
    const ir::TensorProgram program = ir::parse_program(spec);
    bool found = false;
    for (const rtile::Candidate& c : rtile::construct(program, profile, {.threads = 1, .top_k = 60})) {
      const rtile::Nest& nest = c.program->groups[0].group.nests[0];
      const rtile::NestPlan& plan = c.program->groups[0].nests[0];
      if (!plan.guarded || nest.axes[size_t(plan.vec)].name != "q") continue;
      const std::string code = emit::emit_cpp(program, c, profile).source;
      const size_t begin = code.find("_sides(");
      REQUIRE(begin != std::string::npos);
      const std::string tile = code.substr(begin, code.find("\n}", begin) - begin);
      CHECK(tile.find("if (") == std::string::npos);
      CHECK((tile.find("vf_within(") != std::string::npos) == (profile.vector_bits == 256));
      CHECK((tile.find("_range(") == std::string::npos) == (profile.vector_bits == 256));
      found = true;
      break;
    }
    CHECK(found);
  }
}

TEST_CASE("a padded copy takes the place of its borders and of what lies between rows") {
  const ir::TensorProgram program = ir::parse_program(
      R"--({"inputs": {"X": {"shape": [5, 7, 7]}, "W": {"shape": [5, 3, 3], "constant": true}},
        "compute": ["Y[p:7, q:7] = sum(c:5, r:3, s:3 | X[c, p + r - 1, q + s - 1 ? 0] * W[c, r, s])"], "outputs": ["Y"]})--");
  const rtile::Nest nest = rtile::build_nests(program).front();
  const rtile::NestFacts facts = rtile::nest_facts(program, nest);
  REQUIRE(program[facts.operands[0].tensor].name == "X");
  CHECK(facts.operands[0].boxes[0].spread == doctest::Approx(9.0 * 16 / (7 * 7)));  // rows of 9 floats, a line apart
}

TEST_CASE("a copy of more rows than a set has ways, a way apart, has them on sets of their own") {
  for (const auto& [rows, apart] : {std::pair{8, 1024}, {9, 1040}, {16, 1040}}) {
    const ir::TensorProgram program = ir::parse_program(R"({"name": "p", "op": "matmul", "dtype": "f32", "params": {"m": )" +
                                                        std::to_string(rows) + R"(, "n": 64, "k": 1024}})");
    const rtile::NestFacts facts = rtile::nest_facts(program, rtile::build_nests(program).front());
    CHECK(facts.operands[0].boxes[0].coef[0] == apart);
  }
}

TEST_CASE("rows of a reduction that share sets of the first cache are waited for, and copied apart") {
  const hw::Profile profile = hw::load_profile("zen3");
  const auto planned = [&](int64_t h, int64_t w, int64_t channels) {
    const ir::TensorProgram program = ir::parse_program(
        R"({"name": "p", "op": "conv2d", "dtype": "f32", "params": {"n": 1, "h": )" + std::to_string(h) + R"(, "w": )" + std::to_string(w) +
        R"(, "ci": )" + std::to_string(channels) + R"(, "co": 96, "r": 1, "s": 1, "stride": 1, "pad": 0, "layout": "NCHW"}})");
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::Nest nest = c.program->groups[0].group.nests[0];
    rtile::NestPlan plan = c.program->groups[0].nests[0];
    const rtile::NestFacts facts = rtile::nest_facts(program, nest);
    const bool copied = plan.operands[0].placement == rtile::Placement::box;
    if (copied) {  // rows are whole lines, and no two of eight lines apart are in one set
      const auto reduced = std::find_if(nest.axes.begin(), nest.axes.end(), [](const rtile::NestAxis& a) { return a.reduced; });
      CHECK(facts.operands[0].boxes[0].coef[size_t(reduced - nest.axes.begin())] % 512 == 16);
      CHECK(facts.operands[0].boxes[0].row == h * w);  // an axis over all of the image walks through its rows
    }
    plan.operands.change(0, [](rtile::Operand& o) { o.placement = rtile::Placement::direct; });
    const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
    return std::pair{copied, rtile::workload(nest, facts, plan, context).levels[1].waits};
  };
  for (const auto& [h, w] : {std::pair{32, 32}, {1, 1024}, {64, 64}}) {
    CHECK(planned(h, w, 64).first);
    CHECK(planned(h, w, 64).second > planned(h, w, 32).second);
  }
  for (const auto& [h, w] : {std::pair{31, 33}, {1, 1040}, {16, 16}}) {
    CHECK_FALSE(planned(h, w, 64).first);
    CHECK(planned(h, w, 64).second == 0);
  }
}

TEST_CASE("rows that share sets are not asked for where that brings them into the first cache") {
  hw::Profile profile = hw::load_profile("zen3");
  REQUIRE(profile.levels[0].prefetched);
  const auto ahead = [&](int64_t k) {
    const std::string n = std::to_string(k);
    const ir::TensorProgram program =
        ir::parse_program(R"({"name": "p", "op": "matmul", "dtype": "f32", "params": {"m": 1536, "n": 16, "k": )" + n + "}}");
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::NestPlan& plan = c.program->groups[0].nests[0];
    REQUIRE(plan.tile[0].hi >= 5);
    return plan.operands[0].ahead > 0;
  };
  CHECK(ahead(1008));
  CHECK_FALSE(ahead(1024));
  CHECK_FALSE(ahead(2048));
  profile.levels[0].prefetched = false;
  CHECK(ahead(1024));
}

TEST_CASE("rows that share a set of the first cache with what was asked for ahead are copied apart") {
  hw::Profile profile = hw::load_profile("zen3");
  const auto copied = [&](int64_t k) {
    const ir::TensorProgram program = ir::parse_program(
        R"({"name": "p", "op": "matmul", "dtype": "f32", "params": {"m": 192, "n": 2048, "k": )" + std::to_string(k) + "}}");
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::NestPlan& plan = c.program->groups.back().nests.back();
    REQUIRE(plan.tile[0].hi == 6);
    REQUIRE(plan.operands[1].ahead > 0);
    return plan.operands[0].placement == rtile::Placement::box;
  };
  CHECK(copied(2048));
  CHECK_FALSE(copied(2064));
  profile.levels[0].prefetched = false;
  CHECK_FALSE(copied(2048));
}

TEST_CASE("products wait for what the last cache brings down the columns of an image, not along its rows") {
  const hw::Profile profile = hw::load_profile("zen3");
  const ir::TensorProgram program = ir::parse_program(
      R"({"name": "p", "op": "conv2d", "dtype": "f32", "params": {"n": 1, "h": 86, "w": 68, "ci": 36, "co": 50, "r": 3, "s": 3, "stride": 1, "pad": 1, "layout": "NCHW"}})");
  for (const rtile::Candidate& c : rtile::construct(program, profile, {.threads = 1, .top_k = 60})) {
    const rtile::Nest& nest = c.program->groups[0].group.nests[0];
    const rtile::NestFacts facts = rtile::nest_facts(program, nest);
    const auto axis = [&](const std::string& name) {
      return int(std::find_if(nest.axes.begin(), nest.axes.end(), [&](const rtile::NestAxis& a) { return a.name == name; }) -
                 nest.axes.begin());
    };
    const int p = axis("p"), q = axis("q"), co = axis("co");
    rtile::NestPlan plan = c.program->groups[0].nests[0];
    if (!plan.guarded || plan.vec != q || plan.chunked()) continue;
    const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
    const auto waits = [&](std::vector<int> order) {
      plan.loops.clear();
      for (const int a : order) plan.loops.push_back({a, 1});
      return rtile::workload(nest, facts, plan, context).levels[2].waits;
    };
    REQUIRE(plan.operands[0].next_step > 0);  // which asks for them before
    CHECK(waits({co, q, p}) == 0);
    plan.operands.change(0, [](rtile::Operand& x) { x.next_step = 0; });
    CHECK(waits({co, q, p}) > 0);
    CHECK(waits({co, p, q}) == 0);
    return;
  }
  FAIL("no plan along the rows");
}

TEST_CASE("matrices in memory are read from end to end of a few rows") {
  const auto plan = [](const std::string& compute, const hw::Profile& profile) {
    const ir::TensorProgram program =
        ir::parse_program(R"({"inputs": {"X": {"shape": [4096, 4096]}}, "compute": [")" + compute + R"("], "outputs": ["Y"]})");
    const rtile::Candidate best = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::GroupPlan& g = best.program->groups.front();
    return std::pair{g.group.nests.front(), g.nests.front()};
  };
  for (const char* name : {"zen4", "zen5"}) {
    CAPTURE(name);
    const hw::Profile profile = hw::load_profile(name);
    const auto [sums, of_columns] = plan("Y[j:4096] = sum(i:4096 | X[i, j])", profile);
    REQUIRE(of_columns.chunked());
    for (const rtile::Loop& l : of_columns.loops)
      if (sums.axes[size_t(l.axis)].reduced) CHECK(l.step <= 16);
    CHECK(of_columns.loops.back().axis == of_columns.vec);
    // nothing waits for pieces of lines that are written past the caches, but for those that are read
    const auto [copy, transposed] = plan("Y[i:4096, j:4096] = X[j, i]", profile);
    CHECK(transposed.stream);
    CHECK(copy.axes[size_t(transposed.loops.back().axis)].name == "i");
    // what is streamed goes to one row after the other
    const auto [map, by_rows] = plan("Y[i:4096, j:4096] = X[i, j] * X[i, j] + X[0, j]", profile);
    REQUIRE(map.axes.size() == 2);
    REQUIRE(by_rows.stream);
    CHECK(by_rows.tile[0].size() == 1);
  }
}

TEST_CASE("products of few columns ask for the rows that pass by, and for no panel that stays") {
  const auto operands = [](int64_t rows, int64_t columns, const char* profile) {
    const std::string m = std::to_string(rows), n = std::to_string(columns);
    const ir::TensorProgram program = ir::parse_program(R"({"op": "matmul", "params": {"m": )" + m + R"(, "n": )" + n + R"(, "k": 256}})");
    const rtile::Candidate best = rtile::construct(program, hw::load_profile(profile), {.threads = 1}).front();
    std::vector<rtile::Operand> all;
    for (const rtile::Operand& o : best.program->groups.front().nests.front().operands) all.push_back(o);
    REQUIRE(all.size() == 2);
    if (program[all[0].access.tensor].constant) std::swap(all[0], all[1]);
    return std::pair{all[0], all[1]};
  };
  for (const char* profile : {"zen4", "haswell_avx2"}) {
    CAPTURE(profile);
    const auto [a, b] = operands(100000, 3, profile);
    CHECK(a.passes_by);
    CHECK(a.ahead >= 256);  // past the rows of the tile
    CHECK(b.ahead == 0);
    CHECK_FALSE(operands(100000, 512, profile).first.passes_by);  // the products take longer by far
    CHECK_FALSE(operands(100, 3, profile).first.passes_by);       // it waits in a near cache
  }
  const ir::TensorProgram outer = ir::parse_program(R"({"op": "matmul", "params": {"m": 4000000, "n": 4, "k": 1}})");
  CHECK(rtile::construct(outer, hw::load_profile("zen4"), {.threads = 1}).front().estimate.us > 0);  // nothing is left of its reduction
}

TEST_CASE("rows that begin inside a line are streamed from line to line, short ones not at all") {
  const hw::Profile profile = hw::load_profile("zen4");
  const auto streams = [&](int64_t columns) {
    const std::string n = std::to_string(columns);
    const std::string sums = "S[i:8192] = sum(j:" + n + " | X[i, j])", scaled = "Y[i:8192, j:" + n + "] = X[i, j] * S[i]";
    const ir::TensorProgram program = ir::parse_program(R"--({"inputs": {"X": {"shape": [8192, )--" + n + R"--(]}}, "compute": [")--" +
                                                        sums + R"--(", ")--" + scaled + R"--("], "outputs": ["Y"]})--");
    const rtile::Candidate best = rtile::construct(program, profile, {.threads = 1}).front();
    std::string how = "stored";
    for (const rtile::GroupPlan& g : best.program->groups)
      for (const rtile::NestPlan& p : g.nests)
        if (p.stream) how = p.peeled ? "from line to line" : "streamed";
    return how;
  };
  CHECK(streams(1024) == "streamed");
  CHECK(streams(1000) == "from line to line");
  CHECK(streams(200) == "stored");
  CHECK(streams(1008) == "streamed");
}

TEST_CASE("workers do not write pieces of the same lines' neighbours") {
  const hw::Profile profile = hw::load_profile("zen4");
  const ir::TensorProgram program = ir::parse_program(R"--({"inputs": {"X": {"shape": [112, 112, 64]}},
        "compute": ["Y[p:56, q:56, c:64] = max(r:3, s:3 | X[2*p + r - 1, 2*q + s - 1, c ? -inf])"], "outputs": ["Y"]})--");
  const rtile::Candidate best = rtile::construct(program, profile, {.threads = 2}).front();
  const rtile::GroupPlan& g = best.program->groups.front();
  REQUIRE(g.nests.front().tasks() == 2);
  for (const rtile::Parallel& split : g.nests.front().parallel)
    if (split.parts > 1) CHECK(g.group.nests.front().axes[size_t(split.axis)].name == "p");
  // and what such a split costs is counted
  const rtile::PlanContext context{rtile::residence(program, {g.group.nests.front()}, profile, 2), program, profile, 2};
  const rtile::NestFacts facts = rtile::nest_facts(program, g.group.nests.front());
  rtile::NestPlan by_channels = g.nests.front();
  const auto overheads = [&] { return rtile::workload(g.group.nests.front(), facts, by_channels, context).call_overheads; };
  const double apart = overheads();
  by_channels.parallel = {{by_channels.vec, 2}};
  by_channels.tile[size_t(by_channels.vec)] = rtile::Blocking(64, 16, 32);
  CHECK(overheads() > apart + 50e3);
}

TEST_CASE("workers do not walk down into each other's rows") {
  const hw::Profile profile = hw::load_profile("zen4");
  const ir::TensorProgram program =
      ir::parse_program(R"({"name": "p", "op": "matmul", "dtype": "f32", "params": {"m": 48, "n": 2432, "k": 40}})");
  const rtile::Candidate best = rtile::construct(program, profile, {.threads = 2}).front();
  const rtile::Nest& nest = best.program->groups[0].group.nests[0];
  rtile::NestPlan plan = best.program->groups[0].nests[0];
  const rtile::NestFacts facts = rtile::nest_facts(program, nest);
  rtile::PlanContext context{rtile::residence(program, {nest}, profile, 2), program, profile, 2};
  const int rows = plan.vec == 0 ? 1 : 0;
  plan.tile[size_t(rows)] = rtile::Blocking(48, 1, 4);
  plan.tile[size_t(plan.vec)] = rtile::Blocking(2432, 16, 32);
  const auto overheads = [&](int split, int outside, int inside) {
    plan.parallel = {{split, 2}}, plan.loops = {{outside, 1}, {inside, 1}};
    return rtile::workload(nest, facts, plan, context).call_overheads;
  };
  // 76 times down the rows, 4 × 2 lines of the other worker's each time
  CHECK(overheads(rows, plan.vec, rows) == doctest::Approx(overheads(rows, rows, plan.vec) + 76 * 8 * 10));
  CHECK(overheads(plan.vec, plan.vec, rows) == overheads(plan.vec, rows, plan.vec));
  std::fill(context.home.begin(), context.home.end(), int(profile.levels.size()) - 1);
  CHECK(overheads(rows, plan.vec, rows) == overheads(rows, rows, plan.vec));  // nobody's cache has them
}

TEST_CASE("the busiest worker has the larger tiles, and plans share them evenly") {
  const hw::Profile profile = hw::load_profile("zen5");
  const ir::TensorProgram program = ir::parse_program(R"({"name": "p", "op": "conv2d", "dtype": "f32", "params": {"n": 1, "h": 33, "w": 33,
      "ci": 256, "co": 64, "r": 3, "s": 3, "stride": 1, "pad": 1, "layout": "NHWC"}})");
  const rtile::Candidate best = rtile::construct(program, profile, {.threads = 2}).front();
  const rtile::Nest& nest = best.program->groups[0].group.nests[0];
  rtile::NestPlan plan = best.program->groups[0].nests[0];
  REQUIRE(plan.tasks() == 2);
  for (const rtile::Parallel& split : plan.parallel) {
    const rtile::Blocking& t = plan.tile[size_t(split.axis)];
    if (split.parts > 1) CHECK(double(2 * t.most_units(2)) / double(t.units()) < 1.07);
  }
  // 33 rows by 6 and 5: 18 and 15
  const rtile::NestFacts facts = rtile::nest_facts(program, nest);
  const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 2), program, profile, 2};
  const auto products = [&](int64_t rows, std::vector<rtile::Parallel> parallel) {
    const auto p = std::find_if(nest.axes.begin(), nest.axes.end(), [](const rtile::NestAxis& a) { return a.name == "p"; });
    REQUIRE(p != nest.axes.end());
    for (rtile::Parallel& split : parallel) split.axis = int(p - nest.axes.begin());
    plan.tile[size_t(p - nest.axes.begin())] = rtile::Blocking(33, 1, rows), plan.parallel = parallel;
    double count = 0;
    for (const hw::Workload::Issue& i : rtile::workload(nest, facts, plan, context).atoms) count += i.count;
    return count;
  };
  const double all = products(6, {});
  CHECK(products(6, {{0, 2}}) == doctest::Approx(all * 18 / 33));
  CHECK(products(17, {{0, 2}}) == doctest::Approx(products(17, {}) * 17 / 33));
}

TEST_CASE("partial sums in rows that workers share are written beside each other with every chunk") {
  const hw::Profile profile = hw::load_profile("zen5");
  const ir::TensorProgram program = ir::parse_program(R"({"name": "p", "op": "conv2d", "dtype": "f32", "params": {"n": 1, "h": 1, "w": 400,
      "ci": 256, "co": 256, "r": 1, "s": 9, "stride": 1, "pad": [0, 4], "layout": "NCHW"}})");
  bool seen = false;
  for (const rtile::Candidate& c : rtile::construct(program, profile, {.threads = 1, .top_k = 200})) {
    const rtile::Nest& nest = c.program->groups[0].group.nests[0];
    rtile::NestPlan plan = c.program->groups[0].nests[0];
    if (c.program->extended || !plan.chunked() || nest.axes[size_t(plan.vec)].name != "co") continue;
    const rtile::NestFacts facts = rtile::nest_facts(program, nest);
    const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 2), program, profile, 2};
    const auto overheads = [&](const std::vector<rtile::Parallel>& parallel) {
      plan.parallel = parallel;
      return rtile::workload(nest, facts, plan, context).call_overheads;
    };
    if (plan.tile[size_t(plan.vec)].blocks < 2) continue;
    const double apart = overheads({}), beside = overheads({{plan.vec, 2}});
    CHECK(beside > apart + 9 * 16e3 / 2);  // 400 rows of 512 bytes each, half of them, in 9 chunks and more
    seen = true;
  }
  CHECK(seen);
}

TEST_CASE("workers read intermediate tensors in the parts in which they were made, or pay for the others'") {
  const hw::Profile profile = hw::load_profile("zen5");
  const ir::TensorProgram program = ir::parse_program(R"--({"inputs": {"X": {"shape": [64, 64, 128]}},
      "compute": ["S[p:64, q:60, c:128] = max(s:5 | X[p, q + s, c])", "Y[p:60, q:60, c:128] = max(r:5 | S[p + r, q, c])"], "outputs": ["Y"]
})--");
  const std::vector<rtile::Nest> nests = rtile::build_nests(program);
  REQUIRE(nests.size() == 2);
  const auto axis = [](const rtile::Nest& n, const std::string& name) {
    const auto at = std::find_if(n.axes.begin(), n.axes.end(), [&](const rtile::NestAxis& a) { return a.name == name; });
    return int(at - n.axes.begin());
  };
  rtile::PlanContext context{rtile::residence(program, nests, profile, 2), program, profile, 2};
  context.prepackable.assign(program.tensors.size(), false);
  const int between = nests[0].inner[0].tensor;
  const auto overheads = [&](size_t n, const char* along, const rtile::Exchange& e) {
    context.exchanged.clear();
    rtile::NestPlan plan = rtile::plan_nest(nests[n], context, 1).front();
    for (const char* a : {"p", "q"})
      plan.tile[size_t(axis(nests[n], a))] = rtile::Blocking(nests[n].axes[size_t(axis(nests[n], a))].extent, 1, 2);
    plan.parallel.clear();
    if (*along) plan.parallel = {{axis(nests[n], along), 2}};
    const rtile::NestFacts facts = rtile::nest_facts(program, nests[n]);
    const double alone = rtile::workload(nests[n], facts, plan, context).call_overheads;
    context.exchanged.assign(program.tensors.size(), {});
    context.exchanged[size_t(between)] = e;
    return rtile::workload(nests[n], facts, plan, context).call_overheads - alone;
  };
  constexpr double line_ns = 10;
  const double lines = 64.0 * 60 * 128 * 4 / 64, row = 60 * 128;
  // who makes it: as those who read it, by other parts, by one worker for both, by both for one
  const int64_t by_rows = 30 * int64_t(row), by_columns = 30 * 128;
  CHECK(overheads(0, "p", {true, 0, by_rows}) == 0);
  CHECK(overheads(0, "q", {true, 0, by_rows}) == doctest::Approx(lines / 4 * line_ns));
  CHECK(overheads(0, "", {true, 0, by_rows}) == doctest::Approx(lines / 2 * line_ns));
  CHECK(overheads(0, "p", {true, 0, -1}) == doctest::Approx(lines / 2 * line_ns));
  CHECK(overheads(0, "", {true, 0, -1}) == 0);
  // who reads it: four rows of the other half, two of which the windows at the middle reach on the mean; columns have no window
  CHECK(overheads(1, "p", {true, 32 * int64_t(row), 0}) == doctest::Approx(lines / 2 * (4.0 / 30 / 2) * line_ns));
  CHECK(overheads(1, "q", {true, by_columns, 0}) == 0);
  CHECK(overheads(1, "q", {true, 32 * int64_t(row), 0}) == doctest::Approx(lines / 4 * line_ns));
  CHECK(overheads(1, "p", {false, 0, 0}) == 0);

  // and both nests are planned with the same parts
  bool two = false;
  for (const rtile::Candidate& c : rtile::construct(program, profile, {.threads = 2})) {
    if (c.program->groups.size() != 2) continue;
    std::vector<std::string> names;
    for (const rtile::GroupPlan& g : c.program->groups)
      for (const rtile::Parallel& split : g.nests[0].parallel)
        if (split.parts > 1) names.push_back(g.group.nests[0].axes[size_t(split.axis)].name.substr(0, 1));
    REQUIRE(names.size() == 2);
    CHECK(names[0] == names[1]);
    two = true;
  }
  CHECK(two);
}

TEST_CASE("several last caches hold what their workers share, and one 1.3 times half of its size for two workers") {
  hw::Profile profile = hw::load_profile("zen5");
  const auto home = [&](double of_last_cache, int shared_by, int threads) {
    profile.levels[2].shared_by = shared_by;
    const int64_t elements = int64_t(of_last_cache * double(profile.levels[2].capacity_bytes) / 8);
    const ir::TensorProgram program =
        ir::parse_program(R"--({"inputs": {"X": {"shape": [)--" + std::to_string(elements) + R"--(]}}, "compute": ["Y[i:)--" +
                          std::to_string(elements) + R"--(] = X[i] + 1"], "outputs": ["Y"]})--");
    return rtile::residence(program, rtile::build_nests(program), profile, threads).together;
  };
  CHECK(home(0.49, 8, 1) == 2);
  CHECK(home(0.6, 8, 1) == 3);
  CHECK(home(0.6, 8, 2) == 2);
  CHECK(home(0.7, 8, 2) == 3);
  CHECK(home(2, 8, 32) == 2);
  CHECK(home(2, 32, 32) == 3);
}

TEST_CASE("one worker makes copies that take less time than starting the others") {
  const hw::Profile profile = hw::load_profile("zen4");
  const auto alone = [&](const char* size) {
    const ir::TensorProgram program =
        ir::parse_program(R"({"name": "p", "op": "matmul", "dtype": "s8", "params": {)" + std::string(size) + "}}");
    for (const rtile::Candidate& c : rtile::construct(program, profile, {.threads = 2, .top_k = 50}))
      if (const rtile::NestPlan& p = c.program->groups[0].nests[0]; p.copy_flips() && p.tasks() > 1) {
        const std::string source = emit::emit_cpp(program, c, profile).source;
        CHECK((source.find("{ reduce0_pad_A(") == std::string::npos) == p.copies_alone);
        return p.copies_alone;
      }
    FAIL("no plan copies");
    return false;
  };
  CHECK(alone(R"("m": 45, "n": 2432, "k": 41)"));
  CHECK(!alone(R"("m": 512, "n": 512, "k": 512)"));
}

TEST_CASE("a function of what is the same for a whole row is computed once a tile") {
  const hw::Profile profile = hw::load_profile("zen4");
  const ir::TensorProgram program = ir::parse_program(
      R"--({"inputs": {"X": {"shape": [64, 256]}, "S": {"shape": [64]}},
        "compute": ["Y[i:64, j:256] = X[i, j] * exp(S[i])"], "outputs": ["Y"]})--");
  const rtile::Candidate best = rtile::construct(program, profile, {.threads = 1}).front();
  const rtile::GroupPlan& g = best.program->groups.front();
  const rtile::Nest& nest = g.group.nests.front();
  const rtile::NestPlan& plan = g.nests.front();
  REQUIRE(nest.axes[size_t(plan.vec)].name == "j");
  const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
  for (const auto& [name, count] : rtile::workload(nest, rtile::nest_facts(program, nest), plan, context).functions) {
    const double tiles_along_j = double(plan.tile[size_t(plan.vec)].blocks);
    if (name == "exp") CHECK(count == doctest::Approx(64 * tiles_along_j));
    if (name == "mul") CHECK(count == doctest::Approx(64 * 256 / 16));
  }
}

TEST_CASE("of a window that slides through memory, only the row that is new is asked for ahead") {
  const hw::Profile profile = hw::load_profile("zen4");
  const auto spec = [](int images) {  // of 12.8 MB each, and as much of results
    const std::string n = std::to_string(images);
    return R"--({"inputs": {"X": {"shape": [)--" + n + R"--(, 112, 112, 256]}, "W": {"shape": [3, 3, 256], "constant": true}},
        "compute": ["Y[n:)--" +
           n + R"--(, p:112, q:112, c:256] = sum(r:3, s:3 | X[n, p + r - 1, q + s - 1, c ? 0] * W[r, s, c])"],
        "outputs": ["Y"]})--";
  };
  const ir::TensorProgram program = ir::parse_program(spec(8));
  const rtile::Candidate best = rtile::construct(program, profile, {.threads = 1}).front();
  const rtile::GroupPlan& g = best.program->groups.front();
  REQUIRE(program[g.nests.front().operands[0].access.tensor].name == "X");
  const rtile::Operand& x = g.nests.front().operands[0];
  REQUIRE(x.slides >= 0);
  CHECK(g.group.nests.front().axes[size_t(x.slides)].name == "p");
  CHECK(x.ahead % (112 * 256) == 0);
  // of three rows read for one of results, each new line once: every load of the last row, a third of all
  const std::string code = source(spec(8), profile);
  const size_t tile = code.find("static void reduce0_tile_");
  const std::string inside = code.substr(tile, code.find("\n}\n", tile) - tile);
  const auto count = [&](const std::string& what) {
    size_t n = 0;
    for (size_t at = inside.find(what); at != std::string::npos; at = inside.find(what, at + 1)) ++n;
    return n;
  };
  const size_t results = count("vf_stream_f32(") + count("vf_store_f32(");
  REQUIRE(results == size_t(g.nests.front().tile[2].size() / g.nests.front().tile[2].unit * g.nests.front().tile[3].size() / 16));
  CHECK(count("prefetch_l2(") * 3 == count("vf_load_f32(X ") + count("vf_load_f32(X)"));
  hw::Profile large = profile;
  large.levels[2].capacity_bytes *= 16;
  CHECK(source(spec(8), large).find("prefetch_l2(") == std::string::npos);  // all is in the last cache
}

TEST_CASE("a window that takes every other element of its rows asks for their lines ahead, too") {
  const hw::Profile profile = hw::load_profile("zen4");
  const std::string planes = source(R"--({"inputs": {"X": {"shape": [400, 146, 200]}},
        "compute": ["Y[c:400, p:72, q:99] = max(r:3, s:3 | X[c, 2*p + r, 2*q + s])"], "outputs": ["Y"]})--",
                                    profile);
  CHECK(planes.find("prefetch_l2(") != std::string::npos);
}

TEST_CASE("groups of small elements ask for the rows that pass by as others do") {
  const hw::Profile profile = hw::load_profile("zen4");
  for (const char* dtype : {"f32", "bf16"}) {
    CAPTURE(dtype);
    const std::string spec = R"({"op": "matmul", "dtype": ")" + std::string(dtype) + R"(", "params": {"m": 100000, "n": 7, "k": 390}})";
    const rtile::Candidate best = rtile::construct(ir::parse_program(spec), profile, {.threads = 1}).front();
    bool passes = false;
    for (const rtile::Operand& o : best.program->groups.front().nests.front().operands) passes |= o.passes_by;
    REQUIRE(passes);
    CHECK(source(spec, profile).find("prefetch_l2(") != std::string::npos);
  }
}

TEST_CASE("a tile without loops does not keep for the next one what registers cannot hold") {
  const hw::Profile profile = hw::load_profile("zen4");
  const auto product = [&](int64_t k) {
    const std::string n = std::to_string(k);
    return source(R"--({"inputs": {"A": {"shape": [6000, )--" + n + R"--(], "dtype": "bf16"}, "B": {"shape": [)--" + n +
                      R"--(, 105], "dtype": "bf16", "constant": true}},
        "compute": ["C[m:6000, n:105] = sum(k:)--" +
                      n + R"--( | f32(A[m, k]) * f32(B[k, n]))"], "outputs": ["C"]})--",
                  profile);
  };
  CHECK(product(15).find("  reload();") != std::string::npos);
  CHECK(product(600).find("  reload();") == std::string::npos);
  // nor what a loop leaves
  const std::string bytes =
      source(R"({"name": "p", "op": "matmul", "dtype": "s8", "params": {"m": 104, "n": 1192, "k": 34, "out": "s32"}})", profile);
  CHECK(bytes.find("  reload();") != std::string::npos);
}

TEST_CASE("partial sums have four bytes whatever their results have, and wait where they fit") {
  const hw::Profile profile = hw::load_profile("zen4");
  const ir::TensorProgram program =
      ir::parse_program(R"({"name": "p", "op": "matmul", "dtype": "bf16", "params": {"m": 512, "n": 512, "k": 512}})");
  const auto plans = rtile::construct(program, profile, {.threads = 1, .top_k = 200});
  const auto chunked =
      std::find_if(plans.begin(), plans.end(), [](const rtile::Candidate& c) { return c.program->groups[0].nests[0].chunked(); });
  REQUIRE(chunked != plans.end());
  const rtile::Nest& nest = chunked->program->groups[0].group.nests[0];
  const rtile::NestPlan& plan = chunked->program->groups[0].nests[0];
  const rtile::NestFacts facts = rtile::nest_facts(program, nest);
  rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
  context.missing = 1;  // between calls the second cache keeps nothing
  int64_t chunks = 1;
  for (const rtile::Loop& l : plan.loops)
    if (nest.axes[size_t(l.axis)].reduced) chunks *= (512 + l.step - 1) / l.step;
  const double sums = 4 * 512 * 512, results = sums / 2;
  const hw::LevelTraffic beyond_l2 = rtile::workload(nest, facts, plan, context).levels[2];
  CHECK(beyond_l2.write_bytes == doctest::Approx(double(chunks) * sums));
  CHECK(beyond_l2.read_bytes >= double(chunks - 1) * sums + 2 * results);  // and both factors
  // all that is multiplied near: the sums, 1 MiB, still do not fit beside it
  std::fill(context.home.begin(), context.home.end(), 0);
  CHECK(rtile::workload(nest, facts, plan, context).levels[2].write_bytes == doctest::Approx(double(chunks) * sums));
}

TEST_CASE("bytes through an unsigned operand are flipped once, in a copy, or count where the products are") {
  const hw::Profile profile = hw::load_profile("zen4");
  const ir::TensorProgram program =
      ir::parse_program(R"({"name": "p", "op": "matmul", "dtype": "s8", "params": {"m": 512, "n": 512, "k": 512}})");
  const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
  const rtile::Nest& nest = c.program->groups[0].group.nests[0];
  rtile::NestPlan plan = c.program->groups[0].nests[0];
  REQUIRE(plan.atom->name == "vpdpbusd");
  CHECK(plan.copy_flips());
  const rtile::NestFacts facts = rtile::nest_facts(program, nest);
  const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
  const auto flips = [&] {
    double n = 0;
    for (const auto& [name, vectors] : rtile::workload(nest, facts, plan, context).functions) n += name == "select" ? vectors : 0;
    return n;
  };
  CHECK(flips() == 0);
  plan.operands.change(size_t(plan.operand_a), [](rtile::Operand& o) { o.placement = rtile::Placement::direct; });
  const double columns = double(plan.tile[size_t(plan.vec)].blocks);  // of tiles, for each of which a group of 4 is flipped
  CHECK(flips() == doctest::Approx(512 * 512 / 4 * columns));
}

TEST_CASE("of a product, register tiles that two threads share evenly are looked at") {
  const hw::Profile profile = hw::load_profile("zen4");
  for (const char* size : {R"("m": 512, "n": 512, "k": 512)", R"("m": 300, "n": 900, "k": 256)", R"("m": 98, "n": 1100, "k": 512)"}) {
    CAPTURE(size);
    const ir::TensorProgram program =
        ir::parse_program(std::string(R"({"name": "p", "op": "matmul", "dtype": "bf16", "params": {)") + size + "}}");
    const double found = rtile::construct(program, profile, {.threads = 2}).front().estimate.us;
    const double wider = rtile::construct(program, profile, {.threads = 2, .breadth = 8}).front().estimate.us;
    CHECK(found <= 1.005 * wider);  // 1.011 of the first of them without
  }
}

TEST_CASE("tiles of more rows than a set has ways wait for each line, and fewer rows are chosen") {
  const hw::Profile profile = hw::load_profile("zen4");
  const auto planned = [&](int64_t k) {
    const ir::TensorProgram program = ir::parse_program(
        R"({"name": "p", "op": "matmul", "dtype": "f32", "params": {"m": 512, "n": 16, "k": )" + std::to_string(k) + "}}");
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::Nest nest = c.program->groups[0].group.nests[0];
    rtile::NestPlan plan = c.program->groups[0].nests[0];
    REQUIRE(nest.axes[0].name == "m");
    const int64_t rows = plan.tile[0].hi;
    const rtile::NestFacts facts = rtile::nest_facts(program, nest);
    const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
    const auto waits = [&](int64_t hi) {
      plan.tile[0] = {512, 1, hi};
      return rtile::workload(nest, facts, plan, context).levels[1].waits;
    };
    return std::vector<double>{double(rows), waits(8), waits(12), waits(20)};
  };
  const auto shared = planned(1024), others = planned(1000);
  CHECK(shared[0] <= 12);
  CHECK(others[0] > 12);
  CHECK(shared[1] == 0);
  CHECK(shared[2] > 0);
  CHECK(shared[3] > 2 * shared[2]);
  for (int i = 1; i < 4; ++i) CHECK(others[size_t(i)] == 0);
}

TEST_CASE("rows by turns nearly a way apart crowd its sets") {
  const hw::Profile profile = hw::load_profile("zen4");
  const auto waits = [&](int64_t s, int64_t rows) {  // [s, 8, 40] → [8, s, 40], so many rows of the result by turns
    const std::string n = std::to_string(s);
    const ir::TensorProgram program = ir::parse_program(R"({"name": "p", "op": "transpose", "dtype": "f32", "params": {"shape": [1, )" + n +
                                                        R"(, 8, 40], "perm": [0, 2, 1, 3]}})");
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::Nest nest = c.program->groups[0].group.nests[0];
    rtile::NestPlan plan = c.program->groups[0].nests[0];
    const rtile::NestFacts facts = rtile::nest_facts(program, nest);
    const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
    plan.loops.clear();
    for (size_t a = 0; a < nest.axes.size(); ++a) {
      const bool heads = nest.axes[a].extent == 8;
      if (int(a) != plan.vec) plan.tile[a] = {nest.axes[a].extent, 1, heads ? rows : 1};
      plan.loops.push_back({int(a), 1});
    }
    return rtile::workload(nest, facts, plan, context).levels[1].waits;
  };
  for (const int64_t s : {76, 78, 90}) CHECK(waits(s, 8) == 0);
  for (const int64_t s : {77, 128}) {
    CHECK(waits(s, 8) > 0);
    CHECK(waits(s, 4) == 0);
  }
}

TEST_CASE("products wait for lines of several rows of a page, which no prefetcher follows") {
  hw::Profile profile = hw::load_profile("zen3");
  REQUIRE(profile.levels.back().page_rows_ns > 0);
  const auto waits = [&](int64_t width, int64_t rows) {  // of 40 to 400 MB
    const ir::TensorProgram program =
        ir::parse_program(R"({"name": "p", "op": "conv2d", "dtype": "f32", "params": {"n": 1, "h": 400, "w": )" + std::to_string(width) +
                          R"(, "ci": 256, "co": 2, "r": 3, "s": 3, "stride": 1, "pad": 0, "layout": "NCHW"}})");
    const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
    const rtile::Nest nest = c.program->groups[0].group.nests[0];
    rtile::NestPlan plan = c.program->groups[0].nests[0];
    const auto axis = [&](const std::string& name) {
      return size_t(std::find_if(nest.axes.begin(), nest.axes.end(), [&](const rtile::NestAxis& a) { return a.name == name; }) -
                    nest.axes.begin());
    };
    REQUIRE(plan.vec == int(axis("q")));
    plan.tile[axis("p")] = {nest.axes[axis("p")].extent, 1, rows};
    plan.tile[axis("q")].hi = 1;
    const rtile::NestFacts facts = rtile::nest_facts(program, nest);
    const auto of = [&](double page_rows_ns) {
      profile.levels.back().page_rows_ns = page_rows_ns;
      const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
      return rtile::workload(nest, facts, plan, context).levels.back().waits;
    };
    return of(4) - of(0);
  };
  CHECK(waits(250, 1) == 0);
  CHECK(waits(250, 2) > 0);
  CHECK(waits(250, 4) > waits(250, 2));
  CHECK(waits(1026, 4) == 0);  // each row in a page of its own
  CHECK(waits(100, 4) == 0);   // what is fetched beside a line covers the next row
}

namespace {

/// The traffic of a plan's only nest, its tile and loops as given, with one thread.
hw::Workload counted(const ir::TensorProgram& program, const hw::Profile& profile, const std::function<void(rtile::NestPlan&)>& change) {
  const rtile::Candidate c = rtile::construct(program, profile, {.threads = 1}).front();
  const rtile::Nest nest = c.program->groups[0].group.nests[0];
  rtile::NestPlan plan = c.program->groups[0].nests[0];
  change(plan);
  const rtile::PlanContext context{rtile::residence(program, {nest}, profile, 1), program, profile};
  return rtile::workload(nest, rtile::nest_facts(program, nest), plan, context);
}

}  // namespace

TEST_CASE("a profile may say what vectors across two lines of the second cache take") {
  hw::Profile profile = hw::load_profile("sapphire_rapids");
  profile.levels[1].split_reads_ns = profile.levels[1].split_writes_ns = 0;
  const auto more = [&](int64_t columns, int64_t rows, double reads, double writes) {  // 300 KiB in and out
    const std::string n = std::to_string(columns);
    const ir::TensorProgram program =
        ir::parse_program(R"--({"inputs": {"X": {"shape": [480, )--" + n + R"--(]}, "G": {"shape": [)--" + n +
                          R"--(]}}, "compute": ["Y[i:480, j:)--" + n + R"--(] = X[i, j] * G[j]"], "outputs": ["Y"]})--");
    const auto of = [&](double r, double w) {
      profile.levels[1].split_reads_ns = r, profile.levels[1].split_writes_ns = w;
      return counted(program, profile, [&](rtile::NestPlan& p) {
        REQUIRE(p.tile.size() == 2);
        p.tile[0] = {480, 1, rows}, p.tile[1] = {columns, p.lanes, p.lanes};
      });
    };
    const hw::Workload with = of(reads, writes), without = of(0, 0);
    return std::pair{with.levels[1].read_bytes - without.levels[1].read_bytes, with.levels[1].write_bytes - without.levels[1].write_bytes};
  };
  CHECK(more(160, 1, 1, 1) == std::pair{0.0, 0.0});  // rows that begin lines
  CHECK(more(162, 1, 1, 0).first > 0);
  CHECK(more(162, 1, 0, 1).second > 0);
  CHECK(more(162, 4, 0, 1).second > 2 * more(162, 1, 0, 1).second);  // rows by turns
}

TEST_CASE("a profile may say what results take that go to the last cache by pieces of rows") {
  hw::Profile profile = hw::load_profile("sapphire_rapids");
  const ir::TensorProgram program = ir::parse_program(R"({"op": "matmul", "params": {"m": 1024, "n": 1024, "k": 8}})");
  const auto written = [&](double pieces, bool along_rows) {
    profile.levels[2].pieces = pieces;
    return counted(program, profile,
                   [&](rtile::NestPlan& p) {
                     p.loops = along_rows ? std::vector<rtile::Loop>{{0, 1}, {1, 1}} : std::vector<rtile::Loop>{{1, 1}, {0, 1}};
                   })
        .levels[2]
        .piece_bytes;
  };
  CHECK(written(1, false) == 0);
  CHECK(written(2, false) > 1.3 * written(2, true));
}

TEST_CASE("a profile may say how many rows by turns a cache's prefetchers follow, and how many misses are under way") {
  hw::Profile profile = hw::load_profile("sapphire_rapids");
  profile.levels[2].capacity_bytes = int64_t{256} << 20;
  // a window of 24 rows of an image in the last cache, a page and more apart
  const ir::TensorProgram program = ir::parse_program(
      R"({"op": "conv2d", "dtype": "f32", "params": {"n": 1, "h": 600, "w": 100, "ci": 64, "co": 64, "r": 24, "s": 1, "stride": 1, "pad": 0, "groups": 64, "layout": "NHWC"}})");
  const auto walked = [&](double turns, int64_t taps) {
    profile.levels[2].turns = turns;
    return counted(program, profile, [&](rtile::NestPlan& p) {
      for (size_t a = 0; a < p.tile.size(); ++a) p.tile[a].hi = 1;
      p.tile[size_t(p.reduce_order.back())].hi = taps;
    });
  };
  const double followed = walked(1, 24).levels[2].read_bytes;
  CHECK(walked(2, 24).levels[2].read_bytes >= 1.9 * followed);
  CHECK(walked(2, 8).levels[2].read_bytes == doctest::Approx(walked(1, 8).levels[2].read_bytes));  // all follow so many
  hw::Workload w = walked(1, 24);
  w.levels[2].runs = 1000;
  const double us = hw::estimate(w, profile).us;
  w.levels[2].runs = 0;
  const double without = hw::estimate(w, profile).us;
  CHECK(us - without == doctest::Approx(1000 * profile.levels[2].latency_ns / 16 / 1e3));
}

TEST_CASE("rows that lie one after the other are asked for ahead line by line") {
  // rows of a KiB, of which a body takes a part of a line: so many lines, not one request for each row
  const hw::Profile profile = hw::load_profile("sapphire_rapids");
  const ir::TensorProgram program =
      ir::parse_program(R"({"name": "p", "op": "matmul", "dtype": "f32", "params": {"m": 8400, "n": 12, "k": 256}})");
  size_t seen = 0;
  for (const rtile::Candidate& c : rtile::construct(program, profile, {1, 40})) {
    const rtile::NestPlan& p = c.program->groups[0].nests[0];
    if (!p.operands[0].passes_by || p.vec != 1 || p.chunked() || p.tile[0].ragged()) continue;
    CHECK(p.operands[0].contiguous);
    const int64_t rows = p.tile[0].hi, lines = ceil_div(rows * p.tile[2].size(), 16);
    const std::string source = emit::emit_cpp(program, c, profile).source;
    const auto count = [&](const std::string& text) {
      int64_t n = 0;
      for (size_t at = source.find(text); at != std::string::npos; at = source.find(text, at + 1)) ++n;
      return n;
    };
    INFO(c.explanation);
    CHECK(count("prefetch_l2(A") == lines);
    CHECK(count("prefetch_l2(A + " + std::to_string(rows) + " * k") == lines);
    ++seen;
  }
  CHECK(seen > 0);
}

TEST_CASE("a factor that takes long to come is used up by one tile") {
  // weights of nine megabytes for five by five places: a tile of all places has more loads than others, and reads the weights once
  hw::Profile profile = hw::load_profile("sapphire_rapids");
  for (hw::SharedBandwidth& b : profile.levels[2].read) b.gbs /= 1.2;
  for (hw::SharedBandwidth& b : profile.levels[0].read) b.gbs *= 2;
  const ir::TensorProgram program = ir::parse_program(
      R"({"name": "c", "op": "conv2d", "dtype": "f32", "params": {"n": 1, "h": 10, "w": 10, "ci": 533, "co": 85, "r": 7, "s": 7, "stride": 2,
          "pad": 6, "dilation": 2, "groups": 1, "layout": "NHWC"}})");
  const rtile::Candidate best = rtile::construct(program, profile, {.threads = 1}).front();
  const rtile::NestPlan& plan = best.program->groups[0].nests[0];
  const rtile::Nest& nest = best.program->groups[0].group.nests[0];
  int64_t places = 1;
  for (size_t a = 0; a < nest.axes.size(); ++a)
    if (nest.axes[a].name == "p" || nest.axes[a].name == "q") places *= plan.tile[a].size();
  CHECK(places == 25);
}

TEST_CASE("what passes the first cache comes anew, with both lines of a row across two") {
  const hw::Profile profile = hw::load_profile("sapphire_rapids");
  const auto read = [&](int64_t k) {  // of a's rows, by tiles of sixteen
    const ir::TensorProgram program =
        ir::parse_program(R"({"name": "p", "op": "matmul", "dtype": "bf16", "params": {"m": 192, "n": 32, "k": )" + std::to_string(k) +
                          R"(, "out": "bf16"}})");
    const auto of = [&](bool past) {
      return counted(program, profile,
                     [&](rtile::NestPlan& p) {
                       REQUIRE(p.form == rtile::AtomForm::matrix);
                       for (size_t i = 0; i < p.operands.size(); ++i)
                         p.operands.change(i, [&](rtile::Operand& o) {
                           if (int(i) == p.operand_a) o.placement = rtile::Placement::direct, o.past_first = past;
                         });
                     })
          .levels[1]
          .read_bytes;
    };
    return of(true) - of(false);
  };
  CHECK(read(2048) < read(2056));  // rows that all begin lines, and rows that begin anywhere
  CHECK(read(2056) > 192 * 2056);  // bytes more: half of a's, which are 1.9 times as many
}

TEST_CASE("what a last cache takes in by and by comes from memory again") {
  hw::Profile profile = hw::load_profile("zen3");
  constexpr double weights = 4.0 * 4096 * 4096, misses = 0.6;
  const ir::TensorProgram program = ir::parse_program(R"({"op": "matmul", "dtype": "f32", "params": {"m": 12, "n": 4096, "k": 4096}})");
  const rtile::Nest nest = rtile::construct(program, profile, {.threads = 1}).front().program->groups[0].group.nests[0];
  // of a quarter of the weights at a time, half the cache, for two tiles of rows
  const auto again = [&](const std::vector<std::string>& order) {
    const auto read = [&](double kept) {
      profile.levels[2].kept = kept;
      const hw::Workload w = counted(program, profile, [&](rtile::NestPlan& p) {
        p.loops.clear();
        for (const std::string& name : order)
          for (int a = 0; a < int(nest.axes.size()); ++a) {
            if (nest.axes[size_t(a)].name == "m") p.tile[size_t(a)] = {12, 1, 6};
            if (nest.axes[size_t(a)].name == name) p.loops.push_back({a, name == "k" ? 1024 : 1});
          }
      });
      return w.levels[3].read_bytes;
    };
    return (read(1 - misses) - read(1)) / weights;
  };
  CHECK(again({"k", "m", "n"}) == doctest::Approx(misses).epsilon(0.15));
  CHECK(again({"k", "n", "m"}) < 0.01);  // a panel stays in the second cache
}
