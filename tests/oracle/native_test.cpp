// Kernels of every operator, layout, type and epilogue, and of the examples, for this machine's vector units, executed and compared with
// the f64 reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/error.h"
#include "driver/compile.h"
#include "hwmodel/profile.h"
#include "rtile/construct.h"
#include "rtile/rprogram.h"
#include "support/kernel_batch.h"

using namespace rgen;
using test::KernelBatch;
using test::Problem;

namespace {

const std::vector<Problem>& problems() { return test::small_problems(RGEN_SOURCE_DIR); }

void check(const KernelBatch& batch, const test::Toolchain& toolchain) {
  for (const std::string& failure : batch.failures(toolchain)) FAIL_CHECK(failure);
  MESSAGE(batch.size() << " kernels");
}

/// An operator of the presets, numbered by its place.
void add_preset(std::vector<test::ProgramPtr>& programs, const std::string& op, const std::string& dtype, const std::string& params) {
  programs.push_back(std::make_shared<const ir::TensorProgram>(
      ir::parse_program("{\"name\": \"" + op + "_" + dtype + "_" + std::to_string(programs.size()) + "\", \"op\": \"" + op +
                        "\", \"dtype\": \"" + dtype + "\", \"params\": {" + params + "}}")));
}

/// Portable vectors that multiply unsigned bytes by signed ones: signed factors are flipped, and their sums lie behind each panel.
hw::Profile flipping_profile() {
  hw::Profile p = test::portable_profile();
  hw::Atom atom = p.atoms.back();
  atom.name = "vpdpbusd", atom.a = DType::u8, atom.b = DType::s8, atom.m = 1, atom.n = 4, atom.k = 4;
  std::erase_if(p.atoms, [](const hw::Atom& a) { return a.b == DType::s8; });
  p.atoms.push_back(atom);
  return p;
}

/// On this processor; `software`: or with its AVX-512 in plain C++ (avx512_software.h).
bool runs_here(const hw::Profile& profile, bool software = false) {
  const std::vector<std::string> missing = hw::missing_isa(profile);
  const auto in_software = [](const std::string& f) { return f.starts_with("avx512"); };
  const bool here = missing.empty() || (software && std::all_of(missing.begin(), missing.end(), in_software));
  if (!here) MESSAGE("skipped: this machine lacks instructions of " << profile.name);
  return here;
}

/// The first plans of the problem, `most` of sixty, whose explanation has the text.
void add_plans(KernelBatch& batch, const Problem& problem, hw::Profile profile, int threads, const std::string& text,
               const std::string& label, int most = 3, const emit::CppOptions& options = {}) {
  profile.halves = 1;  // whole vectors: half vectors have a test of their own, and would take the place of plans of the form
  int taken = 0;
  for (const rtile::Candidate& c : rtile::construct(*problem.program, profile, {threads, 60})) {
    if (c.explanation.find(text) == std::string::npos) continue;
    batch.add(problem, profile, c, label, options);
    if (++taken == most) break;
  }
}

/// Plans of programs that no cache holds whose explanation has the text, of one to three threads; `enough` looks at each machine's kernels.
template <class Enough>
void check_in_memory(const std::vector<test::ProgramPtr>& programs, const std::string& text, Enough&& enough) {
  const std::vector<Problem> all = test::make_problems(programs);
  for (const char* name : {"zen4", "zen5", "haswell_avx2"}) {
    const hw::Profile profile = test::with_tiny_caches(hw::load_profile(name));
    if (!runs_here(profile)) continue;
    KernelBatch batch;
    for (const Problem& p : all)
      for (int threads = 1; threads <= 3; ++threads) add_plans(batch, p, profile, threads, text, "in memory", 2);
    enough(batch);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

/// Sapphire Rapids without what others with AVX-512 lack, but for AMX.
hw::Profile amx_profile() {
  hw::Profile p = hw::load_profile("sapphire_rapids");
  std::erase_if(p.isa, [](const std::string& f) { return f == "avx512fp16" || f == "avxvnni"; });
  return p;
}
hw::Profile without_amx(hw::Profile p) {
  std::erase_if(p.isa, [](const std::string& f) { return f.rfind("amx", 0) == 0; });
  return p;
}

}  // namespace

TEST_CASE("AVX2: everything") {
  const hw::Profile profile = hw::load_profile("haswell_avx2");
  if (!runs_here(profile)) return;
  KernelBatch batch;
  for (const Problem& p : problems()) batch.add(p, profile);
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("AVX-512: everything, planned for two threads") {
  const hw::Profile profile = hw::load_profile("zen5");
  if (!runs_here(profile)) return;
  KernelBatch batch;
  for (const Problem& p : problems()) batch.add(p, profile, 2);
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("AVX-512 in half vectors: everything, and other plans") {
  const hw::Profile profile = *hw::load_profile("zen4").halved();
  if (!runs_here(profile)) return;
  KernelBatch batch;
  for (size_t i = 0; i < problems().size(); ++i) {
    batch.add(problems()[i], profile);
    if (i % 3 == 0) batch.add(problems()[i], profile, 1 + int(i % 4), 1 + int(i % 9));
  }
  CHECK(batch.mentioning("vf_dpbf16(") > 0);
  CHECK(batch.mentioning("vi_dpbusd(") > 0);
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("AMX in software: products and convolutions of small types") {
  const hw::Profile profile = amx_profile();
  if (!runs_here(without_amx(profile), true)) return;
  KernelBatch batch;
  for (const Problem& p : problems()) {
    const ir::Tensor& first = (*p.program)[p.program->inputs[0]];
    if (first.dtype == DType::bf16 || first.dtype == DType::s8 || first.dtype == DType::u8)
      batch.add(p, profile, 1, 0, {.emulate_amx = true});
  }
  CHECK(batch.mentioning("tile_dpbf16(") > 0);
  CHECK(batch.mentioning("tile_dpbssd(") > 0);
  check(batch, {"g++", {"-O1"}, {}, 2});
}

TEST_CASE("plans that were not the first choice") {
  const hw::Profile profile = hw::load_profile("haswell_avx2");
  if (!runs_here(profile)) return;
  KernelBatch batch;
  for (size_t i = 0; i < problems().size(); ++i) batch.add(problems()[i], profile, 1 + int(i % 5), 1 + int(i % 9));
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("results that are collected in pieces of rows") {
  const std::pair<const char*, const char*> shapes[] = {
      {"[83, 207]", "[1, 0]"},       {"[5, 37, 150]", "[0, 2, 1]"}, {"[3, 7, 70, 19]", "[0, 2, 3, 1]"}, {"[4, 41, 5, 29]", "[0, 2, 1, 3]"},
      {"[61, 2, 131]", "[2, 1, 0]"}, {"[300, 11]", "[1, 0]"}};
  std::vector<test::ProgramPtr> programs;
  for (const auto& [shape, perm] : shapes)
    add_preset(programs, "transpose", "f32", "\"shape\": " + std::string(shape) + ", \"perm\": " + perm);
  programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(
      R"--({"name": "scaled", "inputs": {"X": {"shape": [90, 77]}, "S": {"shape": [77]}},
            "compute": ["Y[i:77, j:90] = exp(X[j, i]) * S[i] + j"]})--")));
  check_in_memory(programs, "in pieces of",
                  [&](const KernelBatch& batch) { CHECK(batch.mentioning("stream_piece_f32(") >= 2 * programs.size()); });
}

TEST_CASE("results that go to memory from line to line of rows that begin anywhere") {
  std::vector<test::ProgramPtr> programs;
  for (const auto& [op, shape] :
       {std::pair{"softmax", "[37, 77]"}, {"layernorm", "[29, 211]"}, {"rmsnorm", "[5, 3, 50]"}, {"bias_act", "[41, 131]"}})
    add_preset(programs, op, "f32", "\"shape\": " + std::string(shape));
  check_in_memory(programs, "from line to line", [&](const KernelBatch& batch) { CHECK(batch.size() >= programs.size()); });
}

TEST_CASE("plans that copy an operand into another layout first") {
  const hw::Profile profile = hw::load_profile("haswell_avx2");
  if (!runs_here(profile)) return;
  KernelBatch batch;
  for (size_t i = 0; i < problems().size(); ++i)
    for (const rtile::Candidate& c : rtile::construct(*problems()[i].program, profile, {1 + int(i % 3), 60})) {
      const auto copies = [](const rtile::GroupPlan& g) { return g.group.nests.front().copies; };
      if (std::none_of(c.program->groups.begin(), c.program->groups.end(), copies)) continue;
      batch.add(problems()[i], profile, c, "copying");
      break;
    }
  CHECK(batch.size() >= 5);
  check(batch, {"g++", {"-O1"}, {}, 2});
}

TEST_CASE("planes of channels: the channels innermost in a copy, narrow, wide or with its border") {
  std::vector<test::ProgramPtr> programs;
  for (const char* dtype : {"bf16", "s8"})
    for (const char* window :
         {R"--("ci": 37, "co": 21, "r": 3, "s": 3, "pad": 1)--", R"--("ci": 3, "co": 18, "r": 3, "s": 3, "stride": 2, "pad": 1)--",
          R"--("ci": 70, "co": 40, "r": 1, "s": 3)--", R"--("ci": 24, "co": 34, "r": 2, "s": 2, "groups": 2)--"})
      add_preset(programs, "conv2d", dtype, std::string(R"--("n": 2, "h": 9, "w": 14, "layout": "NCHW", )--") + window);
  add_preset(programs, "matmul", "bf16", R"--("m": 33, "n": 40, "k": 70, "transpose_a": true)--");
  const std::vector<Problem> layers = test::make_problems(programs);
  for (const hw::Profile& profile : {hw::load_profile("haswell_avx2"), amx_profile()}) {
    const bool amx = profile.has("amx-tile");
    if (!runs_here(amx ? without_amx(profile) : profile, true)) continue;
    KernelBatch batch;
    for (size_t i = 0; i < layers.size(); ++i)
      for (const char* copied : {"copy of X ", "copy of X_t", "copy of A"})
        add_plans(batch, layers[i], profile, 1 + int(i % 3), copied, "innermost", 3, {.emulate_amx = amx});
    CHECK(batch.size() >= 2 * layers.size());
    if (amx) CHECK(batch.mentioning("tile_dpbf16(") + batch.mentioning("tile_dpbssd(") > 0);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("exponentials in the place of the results that they become") {
  for (const char* name : {"haswell_avx2", "zen4"}) {
    const hw::Profile profile = hw::load_profile(name);
    if (!runs_here(profile)) continue;
    std::vector<test::ProgramPtr> programs;
    for (const char* shape : {"[37, 75]", "[5, 1001]", "[3, 7, 33]", "[1, 5000]", "[130, 16]", "[64, 3]"})
      add_preset(programs, "softmax", "f32", std::string("\"shape\": ") + shape);
    const std::vector<Problem> softmaxes = test::make_problems(programs);
    KernelBatch batch;
    for (size_t i = 0; i < softmaxes.size(); ++i)
      add_plans(batch, softmaxes[i], profile, 1 + int(i % 3), " in the place of out", "in place");
    CHECK(batch.size() >= 12);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("few channels and the places of their row as one axis of the reduction") {
  for (const char* name : {"zen4", "sapphire_rapids"}) {
    const hw::Profile profile = std::string(name) == "zen4" ? hw::load_profile(name) : amx_profile();
    const bool amx = profile.has("amx-tile");
    if (!runs_here(amx ? without_amx(profile) : profile, true)) continue;
    std::vector<test::ProgramPtr> programs;
    for (const char* window :
         {R"--("ci": 3, "r": 3, "s": 3, "stride": 1, "pad": 1)--", R"--("ci": 3, "r": 7, "s": 7, "stride": 2, "pad": 3)--",
          R"--("ci": 3, "r": 4, "s": 4, "stride": 4, "pad": 0)--", R"--("ci": 5, "r": 2, "s": 6, "stride": 3, "pad": 2)--"}) {
      add_preset(programs, "conv2d", "bf16", std::string(R"--("n": 2, "h": 13, "w": 19, "co": 37, "out": "f32", )--") + window);
      add_preset(programs, "conv2d", "s8", std::string(R"--("n": 1, "h": 12, "w": 11, "co": 50, "out": "s32", )--") + window);
    }
    const std::vector<Problem> layers = test::make_problems(programs);
    KernelBatch batch;
    for (size_t i = 0; i < layers.size(); ++i)
      add_plans(batch, layers[i], profile, 1 + int(i % 3), "W_rows prepack", "joined", 3, {.emulate_amx = amx});
    CHECK(batch.size() >= 12);
    if (amx) CHECK(batch.mentioning("tile_dpbf16(") + batch.mentioning("tile_dpbssd(") > 0);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("tile registers of ragged tiles: a row less, a column less, a last step that is shorter") {
  const bool native = hw::missing_isa(amx_profile()).empty();
  const hw::Profile profile = amx_profile();
  if (!runs_here(native ? profile : without_amx(profile), true)) return;
  std::vector<test::ProgramPtr> programs;
  for (const char* shape :
       {"\"m\": 33, \"n\": 40, \"k\": 104", "\"m\": 63, \"n\": 70, \"k\": 51", "\"m\": 127, \"n\": 21, \"k\": 130",
        "\"m\": 17, \"n\": 97, \"k\": 20", "\"m\": 95, \"n\": 48, \"k\": 700", "\"batch\": 3, \"m\": 29, \"n\": 35, \"k\": 77"}) {
    add_preset(programs, "matmul", "bf16", shape + std::string(R"--(, "out": "f32")--"));
    add_preset(programs, "matmul", "s8", shape + std::string(R"--(, "out": "s32")--"));
  }
  for (const char* image : {R"--("h": 11, "w": 23, "ci": 40, "r": 1, "s": 1, "stride": 1, "pad": 0)--",
                            R"--("h": 19, "w": 9, "ci": 24, "r": 3, "s": 3, "stride": 1, "pad": 1)--",
                            R"--("h": 21, "w": 22, "ci": 70, "r": 1, "s": 3, "stride": 2, "pad": 0)--"})
    add_preset(programs, "conv2d", "bf16", std::string(R"--("n": 2, "co": 37, "out": "bf16", )--") + image);
  const std::vector<Problem> products = test::make_problems(programs);
  KernelBatch batch;
  for (size_t i = 0; i < products.size(); ++i)
    add_plans(batch, products[i], profile, 1 + int(i % 3), "tdp", "on tiles", 12, {.emulate_amx = !native});
  CHECK(batch.size() >= 4 * products.size());
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("tiles one after the other: results beside products, a factor past the first cache, sums that wait as tiles") {
  const bool native = hw::missing_isa(amx_profile()).empty();
  hw::Profile profile = amx_profile();
  profile.levels[0].capacity_bytes = 12 << 10, profile.levels[1].capacity_bytes = 96 << 10;
  if (!runs_here(native ? profile : without_amx(profile), true)) return;
  std::vector<test::ProgramPtr> programs;
  for (const char* shape : {"\"m\": 70, \"n\": 150, \"k\": 130", "\"m\": 190, \"n\": 70, \"k\": 704", "\"m\": 16, \"n\": 300, \"k\": 24",
                            "\"m\": 100, \"n\": 33, \"k\": 320"}) {
    add_preset(programs, "matmul", "bf16", shape + std::string(R"--(, "out": "bf16")--"));
    add_preset(programs, "matmul", "s8", shape + std::string(R"--(, "out": "s32")--"));
  }
  for (const char* image : {R"--("h": 19, "w": 40, "ci": 24, "co": 70, "r": 3, "s": 3, "stride": 1, "pad": 1)--",
                            R"--("h": 50, "w": 21, "ci": 64, "co": 40, "r": 1, "s": 1, "stride": 1, "pad": 0)--",
                            R"--("h": 9, "w": 90, "ci": 160, "co": 33, "r": 1, "s": 3, "stride": 2, "pad": 0)--"})
    add_preset(programs, "conv2d", "bf16", std::string(R"--("n": 1, "out": "bf16", )--") + image);
  // taps left out in a loop inside of another one
  programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(R"--({"name": "taps",
    "inputs": {"X": {"shape": [19, 5, 67], "dtype": "bf16"}, "W": {"shape": [48, 67, 4, 4], "dtype": "bf16", "constant": true}},
    "compute": ["C[o:48, q:3, p:6] = sum(r:4, s:4, c:67 | X[3*p + r, 2*q + s - 3, c ? 0] * W[o, c, r, s])"], "outputs": ["C"]})--")));
  const std::vector<Problem> products = test::make_problems(programs);
  KernelBatch batch;
  for (size_t i = 0; i < products.size(); ++i) {
    const int threads = 1 + int(i % 3);
    add_plans(batch, products[i], profile, threads, "tdp", "on tiles", 8, {.emulate_amx = !native});
    add_plans(batch, products[i], amx_profile(), 1, "tdp", "on tiles", 2, {.emulate_amx = !native});
    add_plans(batch, products[i], profile, threads, "past the first cache", "past", 4, {.emulate_amx = !native});
    for (const char* chunks : {" k:", " c:"})
      add_plans(batch, products[i], profile, threads, chunks, "in chunks", 4, {.emulate_amx = !native});
  }
  CHECK(batch.mentioning("_run(") >= 4 * products.size());
  CHECK(batch.mentioning("tile_stream_load(") >= products.size());
  CHECK(batch.mentioning("const sums = t->acc_partial") + batch.mentioning("const sums = t->out_partial") >= 3);
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("steps of a reduction that jump from line to line: later ones' lines asked for") {
  std::vector<test::ProgramPtr> programs;
  for (const char* window :
       {R"--("ci": 37, "r": 3, "s": 3, "stride": 1, "pad": 1)--", R"--("ci": 50, "r": 4, "s": 4, "stride": 2, "pad": 0)--",
        R"--("ci": 70, "r": 1, "s": 1, "stride": 1, "pad": 0)--"})
    for (const char* dtype : {"f32", "bf16"})
      add_preset(programs, "conv2d", dtype, std::string(R"--("n": 1, "h": 29, "w": 43, "co": 40, "layout": "NCHW", )--") + window);
  check_in_memory(programs, "later steps asked for", [&](const KernelBatch& batch) {
    CHECK(batch.size() >= programs.size());
    CHECK(batch.mentioning("prefetch_l1(") == batch.size());
  });
}

TEST_CASE("rows from parts of a tensor by turns") {
  for (const char* name : {"haswell_avx2", "zen4"}) {
    const hw::Profile profile = test::with_tiny_caches(hw::load_profile(name));
    if (!runs_here(profile)) continue;
    std::vector<test::ProgramPtr> programs;
    for (const char* op : {"reduce_sum", "reduce_max", "reduce_mean"})
      for (const char* shape : {"[36, 75], \"axis\": 1", "[5, 1001], \"axis\": 1", "[14, 7, 33], \"axis\": 2", "[130, 49], \"axis\": 1",
                                "[56, 75], \"axis\": 0", "[14, 7, 33], \"axis\": 0", "[129, 49], \"axis\": 0"})
        add_preset(programs, op, "f32", std::string("\"shape\": ") + shape);
    for (const char* shape : {"[39, 301], \"axis\": 1", "[40, 301], \"axis\": 0"})
      add_preset(programs, "reduce_sum", "bf16", std::string("\"shape\": ") + shape);
    const std::vector<Problem> sums = test::make_problems(programs);
    KernelBatch batch;
    for (size_t i = 0; i < sums.size(); ++i) add_plans(batch, sums[i], profile, 1 + int(i % 3), "parts of the tensor by turns", "parts");
    CHECK(batch.size() >= 45);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("reductions of rows, a few at a time from end to end") {
  const hw::Profile profile = hw::load_profile("haswell_avx2");
  if (!runs_here(profile)) return;
  std::vector<test::ProgramPtr> programs;
  for (const std::string op : {"reduce_sum", "reduce_max", "reduce_mean"})
    for (const std::string dtype : {"f32", "bf16", "f16"})
      for (const char* shape : {"[61, 83], \"axis\": 0", "[3, 37, 29], \"axis\": 1"})
        add_preset(programs, op, dtype, std::string("\"shape\": ") + shape);
  const std::vector<Problem> in_rows = test::make_problems(programs);
  KernelBatch batch;
  for (size_t i = 0; i < in_rows.size(); ++i) {
    const auto plans = rtile::construct(*in_rows[i].program, profile, {1 + int(i % 3), 400});
    const auto chunked = std::find_if(plans.begin(), plans.end(),
                                      [](const rtile::Candidate& c) { return c.program->groups.front().nests.front().chunked(); });
    REQUIRE_MESSAGE(chunked != plans.end(), in_rows[i].program->name);
    batch.add(in_rows[i], profile, *chunked, "chunked");
  }
  check(batch, {"g++", {"-O1"}, {}, 2});
}

TEST_CASE("vectors that are needed in part, read whole but at the end of their tensors") {
  std::vector<test::ProgramPtr> programs;
  for (const char* dtype : {"f32", "bf16", "s8"}) {
    add_preset(programs, "maxpool", dtype, R"("n": 2, "h": 7, "w": 7, "c": 5, "r": 3, "s": 3, "stride": 1, "pad": 1, "layout": "NCHW")");
    for (const char* axis : {"0", "1"}) add_preset(programs, "reduce_max", dtype, std::string(R"("shape": [11, 37], "axis": )") + axis);
    add_preset(programs, "reduce_sum", dtype, R"("shape": [9, 29], "axis": 1)");
    add_preset(programs, "relu", dtype, R"("shape": [5, 13])");
    add_preset(programs, "conv2d", dtype,
               R"("n": 1, "h": 13, "w": 15, "ci": 6, "co": 6, "groups": 6, "r": 7, "s": 7, "stride": 2, "pad": 3, "layout": "NCHW")");
  }
  const std::vector<Problem> odd = test::make_problems(programs);
  for (const hw::Profile& profile : {hw::load_profile("haswell_avx2"), test::portable_profile()}) {
    if (!runs_here(profile)) continue;
    KernelBatch batch;
    for (size_t i = 0; i < odd.size(); ++i) {
      std::set<int> along;  // a plan for each vector axis
      for (const rtile::Candidate& c : rtile::construct(*odd[i].program, profile, {1, 200, 4})) {
        const rtile::NestPlan& plan = c.program->groups.front().nests.front();
        if (plan.reads_on() && plan.tile[size_t(plan.vec)].tail() != plan.lanes && along.insert(plan.vec).second)
          batch.add(odd[i], profile, c, "along" + std::to_string(plan.vec));
      }
    }
    CHECK(batch.mentioning("_end(") >= 15);
    CHECK(batch.mentioning("f_first(") >= 1);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("rows inside of their images, ends of vectors outside; and images whose rows share sets") {
  std::vector<test::ProgramPtr> programs;
  const auto conv = [&](const char* dtype, const std::string& image, const char* more) {
    add_preset(programs, "conv2d", dtype, "\"n\": 2, " + image + ", \"layout\": \"NCHW\", " + more);
  };
  for (const char* dtype : {"f32", "bf16"}) {
    conv(dtype, R"("h": 9, "w": 16)", R"("ci": 3, "co": 7, "r": 3, "s": 3, "stride": 1, "pad": 1)");
    conv(dtype, R"("h": 12, "w": 21)", R"("ci": 5, "co": 6, "r": 5, "s": 5, "stride": [2, 1], "pad": 2)");
    conv(dtype, R"("h": 11, "w": 37)", R"("ci": 6, "co": 6, "groups": 6, "r": 3, "s": 3, "stride": 1, "pad": 1)");
    conv(dtype, R"("h": 7, "w": 25)", R"("ci": 4, "co": 3, "r": 1, "s": 7, "stride": 1, "pad": [0, 3])");
    conv(dtype, R"("h": 32, "w": 32)", R"("ci": 40, "co": 6, "r": 1, "s": 1, "stride": 1, "pad": 0)");
    conv(dtype, R"("h": 1, "w": 1024)", R"("ci": 33, "co": 5, "r": 1, "s": 1, "stride": 1, "pad": 0)");
    add_preset(programs, "maxpool", dtype, R"("n": 2, "h": 9, "w": 19, "c": 5, "r": 3, "s": 3, "stride": 1, "pad": 1, "layout": "NCHW")");
  }
  const std::vector<Problem> images = test::make_problems(programs);
  for (const char* name : {"haswell_avx2", "zen4"}) {
    const hw::Profile profile = hw::load_profile(name);
    KernelBatch batch;
    int threads = 1;
    for (const Problem& p : images)
      for (const char* text : {"X padded copy", ""}) add_plans(batch, p, profile, threads = threads % 3 + 1, text, text);
    const bool avx2 = profile.vector_bits == 256;
    CHECK(batch.mentioning("_sides(") >= (avx2 ? 10 : 3));
    CHECK((batch.mentioning("f_within(") >= 10) == avx2);
    CHECK(batch.mentioning("X_padded") + batch.mentioning("pad_X") >= 6);
    if (runs_here(profile)) check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("reductions in parts, where threads outnumber results") {
  const hw::Profile profile = hw::load_profile("haswell_avx2");
  if (!runs_here(profile)) return;
  std::vector<test::ProgramPtr> programs;
  const auto add = [&](const std::string& op, const std::string& dtype, const std::string& params) {
    add_preset(programs, op, dtype, params);
  };
  for (const char* type : {"f32", "bf16"}) {
    for (const char* op : {"reduce_sum", "reduce_max", "reduce_mean"}) {
      add(op, type, "\"shape\": [1, 150001], \"axis\": 1");
      add(op, type, "\"shape\": [40013, 3], \"axis\": 0");
    }
    add("matmul", type, "\"m\": 1, \"n\": 3, \"k\": 60007");
    add("matmul", type, "\"m\": 2, \"n\": 7, \"k\": 30001");
  }
  add("matmul", "s8", "\"m\": 1, \"n\": 5, \"k\": 60007");
  add("softmax", "f32", "\"shape\": [1, 50257]");
  add("layernorm", "f32", "\"shape\": [1, 100003]");
  const std::vector<Problem> long_sums = test::make_problems(programs);
  KernelBatch batch;
  int parts = 0;
  for (size_t i = 0; i < long_sums.size(); ++i) {
    const auto plans = rtile::construct(*long_sums[i].program, profile, {2 + int(i % 7), 1});
    parts += plans.front().program->extended != nullptr;
    batch.add(long_sums[i], profile, plans.front(), "parts");
  }
  CHECK(parts >= int(long_sums.size()) / 2);
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("neighbours taken apart and put together: few channels, small groups") {
  for (const char* name : {"haswell_avx2", "skylake_avx512"}) {
    const hw::Profile profile = hw::load_profile(name);
    if (!runs_here(profile)) continue;
    std::vector<test::ProgramPtr> programs;
    const auto add = [&](const std::string& op, const std::string& dtype, const std::string& params) {
      add_preset(programs, op, dtype, params);
    };
    for (int s = 2; s <= int(rtile::kNeighbours); ++s) {
      const std::string few = std::to_string(s), type = s % 3 == 0 ? "bf16" : s % 3 == 1 ? "s8" : "f32";
      add("transpose", type, "\"shape\": [3, 53, " + few + "], \"perm\": [0, 2, 1]");
      add("transpose", "f32", "\"shape\": [2, " + few + ", 71], \"perm\": [0, 2, 1]");
      const std::string channels = "\"ci\": " + std::to_string(19 * s) + ", \"co\": " + std::to_string(19 * s) + ", \"groups\": 19";
      add("conv2d", s % 2 ? "f32" : "f16", "\"n\": 1, \"h\": 5, \"w\": 9, \"r\": 3, \"s\": 2, \"stride\": 1, \"pad\": 1, " + channels);
    }
    const std::vector<Problem> few = test::make_problems(programs);
    KernelBatch batch;
    int maps = 0, groups = 0;
    for (size_t i = 0; i < few.size(); ++i) {
      const auto plans = rtile::construct(*few[i].program, profile, {1 + int(i % 3), 200, 4});
      const auto apart = std::find_if(plans.begin(), plans.end(), [](const rtile::Candidate& c) {
        const rtile::NestPlan& n = c.program->groups.back().nests.back();
        return n.store_neighbours > 0 || std::any_of(n.operands.begin(), n.operands.end(), [](const auto& o) { return o.neighbours > 0; });
      });
      const bool map = few[i].program->name.starts_with("transpose");
      if (apart == plans.end()) continue;  // better off without
      batch.add(few[i], profile, *apart, "apart");
      (map ? maps : groups) += 1;
    }
    CHECK(maps >= 12);
    CHECK(groups >= 2);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("factors widened: bf16 and f16 to f32, bytes to s16") {
  for (const char* name : {"haswell_avx2", "zen3", "skylake_avx512"}) {
    const hw::Profile profile = hw::load_profile(name);
    if (!runs_here(profile)) continue;
    std::vector<test::ProgramPtr> programs;
    for (const char* dtype : {"bf16", "f16", "s8", "u8"}) {
      for (const char* size : {"\"m\": 8, \"n\": 8, \"k\": 2", "\"m\": 13, \"n\": 37, \"k\": 41", "\"m\": 67, \"n\": 21, \"k\": 127"})
        add_preset(programs, "matmul", dtype, size);
      add_preset(programs, "conv2d", dtype,
                 "\"n\": 2, \"h\": 9, \"w\": 7, \"ci\": 11, \"co\": 19, \"r\": 3, \"s\": 3, \"stride\": 1, \"pad\": 1");
      add_preset(programs, "conv2d", dtype,
                 "\"n\": 1, \"h\": 11, \"w\": 8, \"ci\": 10, \"co\": 9, \"r\": 1, \"s\": 3, \"stride\": 2, \"pad\": 1, "
                 "\"layout\": \"NCHW\"");
    }
    const std::vector<Problem> products = test::make_problems(programs);
    KernelBatch batch;
    int widened = 0;
    for (size_t i = 0; i < products.size(); ++i) {
      const auto plans = rtile::construct(*products[i].program, profile, {1 + int(i % 3), 200, 4});
      const auto wide = std::find_if(plans.begin(), plans.end(), [](const rtile::Candidate& c) {
        const auto& extended = c.program->extended;
        return extended &&
               std::any_of(extended->tensors.begin(), extended->tensors.end(), [](const ir::Tensor& t) { return t.widens >= 0; });
      });
      if (wide == plans.end()) continue;  // better off as they are
      ++widened;
      batch.add(products[i], profile, *wide, "widened");
    }
    CHECK(widened >= 16);
    CHECK(batch.mentioning("vi_dpwssd(") >= 6);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("packed bytes widened where they are loaded") {
  const hw::Profile profile = hw::load_profile("zen3");
  if (!runs_here(profile)) return;
  std::vector<test::ProgramPtr> programs;
  for (const char* dtype : {"s8", "u8"})
    for (const char* size : {"\"m\": 1, \"n\": 37, \"k\": 41", "\"m\": 3, \"n\": 64, \"k\": 2", "\"m\": 7, \"n\": 21, \"k\": 127",
                             "\"m\": 29, \"n\": 70, \"k\": 300"})
      add_preset(programs, "matmul", dtype, size);
  add_preset(programs, "conv2d", "s8",
             "\"n\": 2, \"h\": 9, \"w\": 7, \"ci\": 11, \"co\": 19, \"r\": 3, \"s\": 3, \"stride\": 1, \"pad\": 1");
  const std::vector<Problem> products = test::make_problems(programs);
  KernelBatch batch;
  for (size_t i = 0; i < products.size(); ++i) {
    const auto plans = rtile::construct(*products[i].program, profile, {1 + int(i % 3), 200});
    const auto narrow = std::find_if(plans.begin(), plans.end(), [](const rtile::Candidate& c) {
      const rtile::NestPlan& plan = c.program->groups.back().nests.back();
      return plan.form == rtile::AtomForm::group && plan.widens_b(1) && !c.program->extended->tensors.empty() &&
             std::none_of(c.program->extended->tensors.begin(), c.program->extended->tensors.end(),
                          [](const ir::Tensor& t) { return t.widens >= 0; });
    });
    REQUIRE_MESSAGE(narrow != plans.end(), products[i].program->name);
    batch.add(products[i], profile, *narrow, "narrow");
  }
  CHECK(batch.mentioning("vi_load_group_s8(") >= 5);
  CHECK(batch.mentioning("vi_load_group_u8(") == 4);
  check(batch, {"g++", {"-O1"}, {}, 2});
}

TEST_CASE("partial sums in another order than their results") {
  for (const char* name : {"haswell_avx2", "zen4"}) {
    const hw::Profile profile = hw::load_profile(name);
    if (!runs_here(profile)) continue;
    std::vector<test::ProgramPtr> programs;
    for (const char* dtype : {"f32", "bf16"})
      for (const char* size : {"\"h\": 7, \"w\": 7, \"ci\": 331, \"co\": 37, \"r\": 1, \"s\": 1, \"pad\": 0",
                               "\"h\": 5, \"w\": 9, \"ci\": 163, \"co\": 21, \"r\": 3, \"s\": 3, \"pad\": 1"})
        add_preset(programs, "conv2d", dtype, std::string("\"n\": 2, \"stride\": 1, \"layout\": \"NCHW\", ") + size);
    const std::vector<Problem> products = test::make_problems(programs);
    KernelBatch batch;
    for (size_t i = 0; i < products.size(); ++i)
      for (const bool turned : {false, true}) {  // results stored as they come, and transposed
        const auto plans = rtile::construct(*products[i].program, profile, {1 + int(i % 3), 800, 4});
        const auto chunked = std::find_if(plans.begin(), plans.end(), [&](const rtile::Candidate& c) {
          const rtile::NestPlan& plan = c.program->groups.back().nests.back();
          return plan.chunked() && c.program->groups.back().group.nests.back().axes[size_t(plan.vec)].name == "co" &&
                 (plan.store_transpose_axis >= 0) == turned;
        });
        if (chunked != plans.end()) batch.add(products[i], profile, *chunked, turned ? "turned" : "scattered");
      }
    CHECK(batch.size() >= 6);
    CHECK(batch.mentioning("_partial") == batch.size());
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("padded copies of small types: as bytes, and with signs flipped") {
  for (const char* name : {"zen4", "zen3"}) {
    const hw::Profile profile = hw::load_profile(name);
    if (!runs_here(profile)) continue;
    std::vector<test::ProgramPtr> programs;
    for (const char* dtype : {"s8", "u8", "bf16", "f16"}) {
      for (const char* size : {"\"m\": 3, \"n\": 32, \"k\": 5", "\"m\": 29, \"n\": 70, \"k\": 131", "\"m\": 24, \"n\": 33, \"k\": 1024"})
        add_preset(programs, "matmul", dtype, size);
      for (const char* size : {"\"h\": 9, \"w\": 11, \"ci\": 37, \"co\": 21, \"r\": 3, \"s\": 3, \"stride\": 2, \"pad\": 1",
                               "\"h\": 5, \"w\": 40, \"ci\": 3, \"co\": 32, \"r\": 1, \"s\": 5, \"stride\": 1, \"pad\": 2"})
        add_preset(programs, "conv2d", dtype, std::string("\"n\": 2, ") + size);
    }
    const std::vector<Problem> products = test::make_problems(programs);
    KernelBatch batch;
    int flipped = 0;
    for (size_t i = 0; i < products.size(); ++i) {
      const auto plans = rtile::construct(*products[i].program, profile, {1 + int(i % 3), 400});
      const auto copied = std::find_if(plans.begin(), plans.end(), [](const rtile::Candidate& c) {
        const auto& operands = c.program->groups.front().nests.front().operands;
        return std::any_of(operands.begin(), operands.end(), [](const rtile::Operand& o) { return o.placement == rtile::Placement::box; });
      });
      if (copied == plans.end()) continue;
      flipped += copied->program->groups.front().nests.front().copy_flips();
      batch.add(products[i], profile, *copied, "copied");
    }
    CHECK(batch.size() >= 8);
    CHECK(batch.mentioning("vi_store_bytes(") >= 6);
    if (name == std::string("zen4")) CHECK(flipped >= 4);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("products of two activations: one of them packed in groups at every call") {
  hw::Profile portable = test::portable_profile();  // with the instructions whose plain versions every unit has
  hw::Atom bf16 = portable.atoms.back();
  bf16.name = "bfdot", bf16.a = bf16.b = DType::bf16, bf16.m = 1, bf16.n = 4, bf16.k = 2;
  portable.atoms.push_back(bf16);
  for (const hw::Profile& profile : {portable, flipping_profile(), hw::load_profile("zen3"), hw::load_profile("zen4")}) {
    if (!runs_here(profile)) continue;
    std::vector<test::ProgramPtr> programs;
    for (const char* dtype : {"bf16", "s8", "u8"})
      for (const char* size : {"\"m\": 19, \"n\": 37, \"k\": 23", "\"m\": 40, \"n\": 64, \"k\": 32", "\"m\": 33, \"n\": 70, \"k\": 4108",
                               "\"m\": 12, \"n\": 5, \"k\": 70"})
        for (const char* transposed : {"", ", \"transpose_b\": true"})
          add_preset(programs, "matmul", dtype, std::string("\"batch\": 3, ") + size + transposed);
    add_preset(programs, "attention", "bf16", "\"heads\": 3, \"seq\": 53, \"dim\": 18");
    const std::vector<Problem> products = test::make_problems(programs);
    KernelBatch batch;
    int chunked = 0, fused = 0, corrected = 0;
    for (size_t i = 0; i < products.size(); ++i) {
      const auto plans = rtile::construct(*products[i].program, profile, {1 + int(i % 3), 400, 4});
      bool done[3] = {};  // of each kind one: as it comes, in chunks, in a fused group
      for (const rtile::Candidate& c : plans)
        for (const rtile::GroupPlan& g : c.program->groups)
          for (const rtile::NestPlan& p : g.nests) {
            const int kind = !g.shared.empty() ? 2 : p.chunked() ? 1 : 0;
            if (!p.repacks_b() || std::exchange(done[kind], true)) continue;
            chunked += kind == 1, fused += kind == 2, corrected += p.offset_a;
            batch.add(products[i], profile, c, std::string("repacked") + "skf"[kind]);
          }
    }
    CHECK(batch.size() >= 10);
    CHECK(batch.mentioning("_pack_") == batch.size());
    CHECK(chunked >= 1);
    CHECK(batch.mentioning("vi_pair(") + batch.mentioning("vi_quad(") >= 6);
    MESSAGE(profile.name << ": " << chunked << " in chunks, " << fused << " fused, " << corrected << " corrected");
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("packed vectors apart, for a memory that delivers rows by turns faster, and in two streams for others") {
  for (const hw::Profile& machine : {flipping_profile(), hw::load_profile("zen3"), hw::load_profile("zen4")}) {
    if (!runs_here(machine)) continue;
    hw::Profile profile = test::with_tiny_caches(machine);
    hw::MemoryLevel& memory = profile.levels.back();
    std::vector<test::ProgramPtr> programs;
    for (const char* dtype : {"f32", "bf16", "s8"})
      for (const char* size : {"\"m\": 1, \"n\": 101, \"k\": 203", "\"m\": 2, \"n\": 330, \"k\": 96", "\"m\": 1, \"n\": 70, \"k\": 3001"})
        add_preset(programs, "matmul", dtype, size);
    const std::vector<Problem> products = test::make_problems(programs);
    KernelBatch batch;
    int corrected = 0, wide = 0;
    for (const bool several : {true, false}) {
      memory.rows = memory.row = memory.read;
      for (hw::SharedBandwidth& b : memory.row) b.gbs /= several ? 2 : 1;
      for (size_t i = 0; i < products.size(); ++i) {
        const auto plans = rtile::construct(*products[i].program, profile, {1 + int(i % 3), 200});
        const auto apart = std::find_if(plans.begin(), plans.end(), [&](const rtile::Candidate& c) {
          const rtile::NestPlan& p = c.program->groups.back().nests.back();
          return std::any_of(p.operands.begin(), p.operands.end(), [&](const rtile::Operand& o) {
            return several ? o.streams > 1 : o.streams == 2 && p.tile[size_t(p.vec)].hi > 2;
          });
        });
        if (apart == plans.end()) continue;
        corrected += apart->program->groups.back().nests.back().offset_a, wide += !several;
        batch.add(products[i], profile, *apart, "apart");
      }
    }
    CHECK(batch.size() >= 9);
    CHECK(wide >= 3);
    if (profile.name == "portable") CHECK(corrected >= 2);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("as users compile: -O2, GCC and Clang") {
  const hw::Profile profile = hw::load_profile("haswell_avx2");
  if (!runs_here(profile)) return;
  for (const char* compiler : {"g++", "clang++"}) {
    if (!test::available(compiler)) {
      MESSAGE("skipped: there is no " << compiler);
      continue;
    }
    KernelBatch batch;
    for (size_t i = 0; i < problems().size(); i += 7) batch.add(problems()[i], profile, 2);
    check(batch, {compiler, {"-O2"}, {}, 2});
  }
}

TEST_CASE("the way users go: plan, emit, compile, load and call on a pool of threads") {
  const auto profile = std::make_shared<const hw::Profile>(hw::load_profile("haswell_avx2"));
  if (!runs_here(*profile)) return;
  const run::ThreadPool pool(3);
  for (const char* compiler : {"g++", "clang++"}) {
    if (!test::available(compiler)) continue;
    for (const char* name : {"mm_all", "conv_3x3_nchw", "softmax_bf16_3x5x67", "mlp_31_37_11_7_b13"}) {
      const auto problem = std::find_if(problems().begin(), problems().end(), [&](const Problem& p) { return p.program->name == name; });
      REQUIRE(problem != problems().end());
      const auto plans = driver::plan(problem->program, profile, {3, 1, "cpp"});
      const driver::Kernel kernel = driver::compile(plans.front(), {compiler, std::getenv("PATH"), ""});
      auto outputs = run::make_outputs(*problem->program);
      std::vector<run::Buffer> packed;
      std::vector<void*> args;
      for (size_t i = 0; i < problem->inputs.size(); ++i) {
        args.push_back(problem->inputs[i].data());
        if (!kernel.prepack[i]) continue;
        packed.emplace_back(size_t(kernel.prepack_bytes[i]));
        REQUIRE(kernel.prepack[i](args[i], packed.back().data()) == 0);
        args[i] = packed.back().data();
      }
      for (const run::Buffer& o : outputs) args.push_back(o.data());
      const run::Buffer workspace(size_t(kernel.workspace_bytes));
      for (const rgen_threads* threads : {pool.handle(), static_cast<const rgen_threads*>(nullptr)}) {
        REQUIRE(kernel.entry(args.data(), nullptr, kernel.workspace_bytes ? workspace.data() : nullptr, threads) == 0);
        const run::Comparison c = run::compare(*problem->program, problem->reference, outputs);
        CHECK_MESSAGE(c.ok, name << " by " << compiler << ": " << c.worst);
      }
    }
  }
}
