// Plans on AMX, by its tile registers or by their emulation, executed and compared with the f64 reference.
#include <algorithm>
#include <functional>

#include "hwmodel/profile.h"
#include "rtile/rprogram.h"
#include "support/native_plans.h"

using namespace rgen;
using namespace rgen::test;

namespace {

bool tiles_here() { return runs_here(amx_profile()); }
emit::CppOptions stood_for() { return test::stood_for(amx_profile()); }

constexpr char kBiasRelu[] = R"("bias", "relu")";

/// The first plan of one thread of each program whose rows of a are placed so.
void check_first(const std::vector<ProgramPtr>& programs,
                 const std::function<bool(const rtile::NestPlan&, const rtile::Operand&)>& placed) {
  const std::vector<Problem> problems = make_problems(programs);
  KernelBatch batch;
  for (const Problem& problem : problems) {
    const auto plans = rtile::construct(*problem.program, amx_profile(), {1, 100});
    const auto found = std::find_if(plans.begin(), plans.end(), [&](const rtile::Candidate& c) {
      const rtile::NestPlan& p = c.program->groups[0].nests[0];
      return p.form == rtile::AtomForm::matrix && placed(p, p.operands[size_t(p.operand_a)]);
    });
    REQUIRE(found != plans.end());
    batch.add(problem, amx_profile(), *found, "placed", stood_for());
  }
  CHECK(batch.mentioning("tile_dp") == problems.size());
  check(batch, {"g++", {"-O1"}, {}, 2});
}

}  // namespace

TEST_CASE("matrix tiles: products of bf16 and of bytes at odd extents, convolutions over rows of pixels") {
  if (!tiles_here()) return;
  std::vector<ProgramPtr> programs;
  add_preset(programs, "matmul", "bf16", R"("m": 32, "n": 48, "k": 64, "out": "bf16")");
  add_preset(programs, "matmul", "bf16", R"("m": 37, "n": 67, "k": 127, "out": "f32")", kBiasRelu);
  add_preset(programs, "matmul", "bf16", R"("m": 64, "n": 130, "k": 1024, "out": "bf16")");
  add_preset(programs, "matmul", "s8", R"("m": 50, "n": 33, "k": 96, "out": "s32")");
  add_preset(programs, "matmul", "s8", R"("m": 83, "n": 127, "k": 331, "out": "s32")");
  add_preset(programs, "conv2d", "bf16", R"("n":1,"h":9,"w":13,"ci":32,"co":48,"r":3,"s":3,"stride":1,"pad":1,"out":"bf16")", kBiasRelu);
  add_preset(programs, "conv2d", "bf16", R"("n":2,"h":7,"w":7,"ci":40,"co":32,"r":3,"s":3,"stride":2,"pad":[0,1,1,0],"out":"bf16")");
  add_preset(programs, "conv2d", "s8", R"("n":1,"h":14,"w":14,"ci":64,"co":32,"r":1,"s":1,"stride":1,"pad":0)");
  const std::vector<Problem> problems = make_problems(programs);
  KernelBatch batch;
  for (size_t i = 0; i < problems.size(); ++i)
    for (int rank : {0, 5, 7, 15}) batch.add(problems[i], amx_profile(), 1 + int(i % 3), rank, stood_for());
  CHECK(batch.mentioning("tile_dp") >= 24);  // the model takes them for 30 of the 32
  check(batch, {"g++", {"-O1"}, {}, 2});
}

TEST_CASE("matrix tiles: channels that are no whole steps, in copies whose steps all begin lines") {
  if (!tiles_here()) return;
  std::vector<ProgramPtr> programs;
  add_preset(programs, "conv2d", "bf16", R"("n":1,"h":9,"w":23,"ci":40,"co":33,"r":3,"s":3,"stride":1,"pad":1,"out":"bf16")", kBiasRelu);
  add_preset(programs, "conv2d", "bf16", R"("n":1,"h":9,"w":23,"ci":80,"co":32,"r":3,"s":3,"stride":[1,2],"pad":[2,1,1,0],"out":"f32")");
  add_preset(programs, "conv2d", "s8", R"("n":2,"h":8,"w":17,"ci":100,"co":32,"r":3,"s":3,"stride":1,"pad":1)");
  add_preset(programs, "matmul", "bf16", R"("m": 300, "n": 500, "k": 50, "out": "bf16")");
  add_preset(programs, "matmul", "s8", R"("m": 128, "n": 96, "k": 77, "out": "s32")");
  check_first(programs, [](const rtile::NestPlan& p, const rtile::Operand& a) {
    return a.placement == rtile::Placement::box && a.whole_steps && p.k_step == p.atom->k;
  });
}

TEST_CASE("matrix tiles: rows read where they lie, some of them outside the tensor") {
  if (!tiles_here()) return;
  std::vector<ProgramPtr> programs;
  add_preset(programs, "conv2d", "bf16", R"("n":1,"h":9,"w":83,"ci":32,"co":33,"r":3,"s":3,"stride":2,"pad":1,"out":"bf16")", kBiasRelu);
  add_preset(programs, "conv2d", "bf16", R"("n":2,"h":11,"w":37,"ci":64,"co":20,"r":3,"s":5,"stride":1,"pad":[2,3,1,4],"out":"f32")");
  add_preset(programs, "conv2d", "bf16", R"("n":1,"h":40,"w":35,"ci":96,"co":48,"r":7,"s":1,"stride":1,"pad":[3,0,3,0],"out":"bf16")");
  add_preset(programs, "conv2d", "bf16", R"("n":1,"h":14,"w":14,"ci":20,"co":32,"r":1,"s":1,"stride":[1,3],"pad":[0,1,1,2],"out":"bf16")");
  add_preset(programs, "conv2d", "s8", R"("n":1,"h":13,"w":29,"ci":64,"co":32,"r":3,"s":3,"stride":1,"pad":1)");
  check_first(programs,
              [](const rtile::NestPlan& p, const rtile::Operand& a) { return a.placement == rtile::Placement::direct && p.guarded; });
}

TEST_CASE("AMX in software: products and convolutions of small types") {
  if (!tiles_here()) return;
  KernelBatch batch;
  for (const Problem& p : small_problems(RGEN_SOURCE_DIR)) {
    const ir::Tensor& first = (*p.program)[p.program->inputs[0]];
    if (first.dtype == DType::bf16 || first.dtype == DType::s8 || first.dtype == DType::u8)
      batch.add(p, amx_profile(), 1, 0, {.emulate_amx = true});
  }
  CHECK(batch.mentioning("tile_dpbf16(") > 0);
  CHECK(batch.mentioning("tile_dpbssd(") > 0);
  check(batch, {"g++", {"-O1"}, {}, 2});
}

TEST_CASE("tile registers of ragged tiles: a row less, a column less, a last step that is shorter") {
  const hw::Profile profile = amx_profile();
  if (!tiles_here()) return;
  std::vector<ProgramPtr> programs;
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
  const std::vector<Problem> products = make_problems(programs);
  KernelBatch batch;
  for (size_t i = 0; i < products.size(); ++i) add_plans(batch, products[i], profile, 1 + int(i % 3), "tdp", "on tiles", 12, stood_for());
  CHECK(batch.size() >= 4 * products.size());
  check(batch, {"g++", {"-O1"}, {}, 4});
}

TEST_CASE("tiles one after the other: results beside products, a factor past the first cache, sums that wait as tiles") {
  hw::Profile profile = amx_profile();
  profile.levels[0].capacity_bytes = 12 << 10, profile.levels[1].capacity_bytes = 96 << 10;
  if (!tiles_here()) return;
  std::vector<ProgramPtr> programs;
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
  const std::vector<Problem> products = make_problems(programs);
  KernelBatch batch;
  for (size_t i = 0; i < products.size(); ++i) {
    const int threads = 1 + int(i % 3);
    add_plans(batch, products[i], profile, threads, "tdp", "on tiles", 8, stood_for());
    add_plans(batch, products[i], amx_profile(), 1, "tdp", "on tiles", 2, stood_for());
    add_plans(batch, products[i], profile, threads, "past the first cache", "past", 4, stood_for());
    for (const char* chunks : {" k:", " c:"}) add_plans(batch, products[i], profile, threads, chunks, "in chunks", 4, stood_for());
  }
  CHECK(batch.mentioning("_run(") >= 4 * products.size());
  CHECK(batch.mentioning("tile_stream_load(") >= products.size());
  CHECK(batch.mentioning("const sums = t->acc_partial") + batch.mentioning("const sums = t->out_partial") >= 3);
  check(batch, {"g++", {"-O1"}, {}, 4});
}
