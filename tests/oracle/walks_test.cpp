// Plans that walk their tensors in ways of their own, for caches, pages and stores, executed and compared with the f64 reference.
#include <algorithm>
#include <set>

#include "rtile/rprogram.h"
#include "support/native_plans.h"

using namespace rgen;
using namespace rgen::test;

TEST_CASE("results that are collected in pieces of rows") {
  const std::pair<const char*, const char*> shapes[] = {
      {"[83, 207]", "[1, 0]"},       {"[5, 37, 150]", "[0, 2, 1]"}, {"[3, 7, 70, 19]", "[0, 2, 3, 1]"}, {"[4, 41, 5, 29]", "[0, 2, 1, 3]"},
      {"[61, 2, 131]", "[2, 1, 0]"}, {"[300, 11]", "[1, 0]"}};
  std::vector<ProgramPtr> programs;
  for (const auto& [shape, perm] : shapes)
    add_preset(programs, "transpose", "f32", "\"shape\": " + std::string(shape) + ", \"perm\": " + perm);
  programs.push_back(std::make_shared<const ir::TensorProgram>(ir::parse_program(
      R"--({"name": "scaled", "inputs": {"X": {"shape": [90, 77]}, "S": {"shape": [77]}},
            "compute": ["Y[i:77, j:90] = exp(X[j, i]) * S[i] + j"]})--")));
  check_in_memory(programs, "in pieces of",
                  [&](const KernelBatch& batch) { CHECK(batch.mentioning("stream_piece_f32(") >= 2 * programs.size()); });
}

TEST_CASE("results that go to memory from line to line of rows that begin anywhere") {
  std::vector<ProgramPtr> programs;
  for (const auto& [op, shape] :
       {std::pair{"softmax", "[37, 77]"}, {"layernorm", "[29, 211]"}, {"rmsnorm", "[5, 3, 50]"}, {"bias_act", "[41, 131]"}})
    add_preset(programs, op, "f32", "\"shape\": " + std::string(shape));
  check_in_memory(programs, "from line to line", [&](const KernelBatch& batch) { CHECK(batch.size() >= programs.size()); });
}

TEST_CASE("exponentials in the place of the results that they become") {
  for (const char* name : {"haswell_avx2", "zen4"}) {
    const hw::Profile profile = profile_here(name);
    if (!runs_here(profile)) continue;
    std::vector<ProgramPtr> programs;
    for (const char* shape : {"[37, 75]", "[5, 1001]", "[3, 7, 33]", "[1, 5000]", "[130, 16]", "[64, 3]"})
      add_preset(programs, "softmax", "f32", std::string("\"shape\": ") + shape);
    const std::vector<Problem> softmaxes = make_problems(programs);
    KernelBatch batch;
    for (size_t i = 0; i < softmaxes.size(); ++i)
      add_plans(batch, softmaxes[i], profile, 1 + int(i % 3), " in the place of out", "in place");
    CHECK(batch.size() >= 12);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("steps of a reduction that jump from line to line: later ones' lines asked for") {
  std::vector<ProgramPtr> programs;
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
    const hw::Profile profile = with_tiny_caches(profile_here(name));
    if (!runs_here(profile)) continue;
    std::vector<ProgramPtr> programs;
    for (const char* op : {"reduce_sum", "reduce_max", "reduce_mean"})
      for (const char* shape : {"[36, 75], \"axis\": 1", "[5, 1001], \"axis\": 1", "[14, 7, 33], \"axis\": 2", "[130, 49], \"axis\": 1",
                                "[56, 75], \"axis\": 0", "[14, 7, 33], \"axis\": 0", "[129, 49], \"axis\": 0"})
        add_preset(programs, op, "f32", std::string("\"shape\": ") + shape);
    for (const char* shape : {"[39, 301], \"axis\": 1", "[40, 301], \"axis\": 0"})
      add_preset(programs, "reduce_sum", "bf16", std::string("\"shape\": ") + shape);
    const std::vector<Problem> sums = make_problems(programs);
    KernelBatch batch;
    for (size_t i = 0; i < sums.size(); ++i) add_plans(batch, sums[i], profile, 1 + int(i % 3), "parts of the tensor by turns", "parts");
    CHECK(batch.size() >= 45);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("reductions of rows, a few at a time from end to end") {
  const hw::Profile profile = profile_here("haswell_avx2");
  if (!runs_here(profile)) return;
  std::vector<ProgramPtr> programs;
  for (const std::string op : {"reduce_sum", "reduce_max", "reduce_mean"})
    for (const std::string dtype : {"f32", "bf16", "f16"})
      for (const char* shape : {"[61, 83], \"axis\": 0", "[3, 37, 29], \"axis\": 1"})
        add_preset(programs, op, dtype, std::string("\"shape\": ") + shape);
  const std::vector<Problem> in_rows = make_problems(programs);
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
  std::vector<ProgramPtr> programs;
  for (const char* dtype : {"f32", "bf16", "s8"}) {
    add_preset(programs, "maxpool", dtype, R"("n": 2, "h": 7, "w": 7, "c": 5, "r": 3, "s": 3, "stride": 1, "pad": 1, "layout": "NCHW")");
    for (const char* axis : {"0", "1"}) add_preset(programs, "reduce_max", dtype, std::string(R"("shape": [11, 37], "axis": )") + axis);
    add_preset(programs, "reduce_sum", dtype, R"("shape": [9, 29], "axis": 1)");
    add_preset(programs, "relu", dtype, R"("shape": [5, 13])");
    add_preset(programs, "conv2d", dtype,
               R"("n": 1, "h": 13, "w": 15, "ci": 6, "co": 6, "groups": 6, "r": 7, "s": 7, "stride": 2, "pad": 3, "layout": "NCHW")");
  }
  const std::vector<Problem> odd = make_problems(programs);
  for (const hw::Profile& profile : {profile_here("haswell_avx2"), portable_profile()}) {
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
  std::vector<ProgramPtr> programs;
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
  const std::vector<Problem> images = make_problems(programs);
  for (const char* name : {"haswell_avx2", "zen4"}) {
    const hw::Profile profile = profile_here(name);
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

TEST_CASE("windows of more steps than are unrolled, over rows that leave their images") {
  std::vector<ProgramPtr> programs;
  for (const int co : {6, 7, 15})
    add_preset(
        programs, "conv2d", "f32",
        R"--("n": 1, "h": 14, "w": 14, "ci": 1, "r": 3, "s": 8, "stride": 1, "pad": 3, "layout": "NCHW", "co": )--" + std::to_string(co));
  const std::vector<Problem> images = make_problems(programs);
  for (const char* name : {"haswell_avx2", "zen4"}) {
    const hw::Profile profile = profile_here(name);
    if (!runs_here(profile)) continue;
    KernelBatch batch;
    for (const Problem& p : images) {
      int taken = 0;
      for (const rtile::Candidate& c : rtile::construct(*p.program, profile, {1, 2000, 16})) {
        const rtile::NestPlan& plan = c.program->groups.back().nests.back();
        const bool partly = std::any_of(plan.reduce_order.begin(), plan.reduce_order.end(), [&](int a) {
          const rtile::Blocking& t = plan.tile[size_t(a)];
          return t.extent == 8 && t.hi > 1 && t.extent % t.hi != 0;
        });
        if (partly && plan.guarded && ++taken <= 12) batch.add(p, profile, c, "partly");
      }
    }
    CHECK(batch.size() >= 12);
    check(batch, {"g++", {"-O1"}, {}, 2});
  }
}

TEST_CASE("reductions in parts, where threads outnumber results") {
  const hw::Profile profile = profile_here("haswell_avx2");
  if (!runs_here(profile)) return;
  std::vector<ProgramPtr> programs;
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
  const std::vector<Problem> long_sums = make_problems(programs);
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

TEST_CASE("partial sums in another order than their results") {
  for (const char* name : {"haswell_avx2", "zen4"}) {
    const hw::Profile profile = profile_here(name);
    if (!runs_here(profile)) continue;
    std::vector<ProgramPtr> programs;
    for (const char* dtype : {"f32", "bf16"})
      for (const char* size : {"\"h\": 7, \"w\": 7, \"ci\": 331, \"co\": 37, \"r\": 1, \"s\": 1, \"pad\": 0",
                               "\"h\": 5, \"w\": 9, \"ci\": 163, \"co\": 21, \"r\": 3, \"s\": 3, \"pad\": 1"})
        add_preset(programs, "conv2d", dtype, std::string("\"n\": 2, \"stride\": 1, \"layout\": \"NCHW\", ") + size);
    const std::vector<Problem> products = make_problems(programs);
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
