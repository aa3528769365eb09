// Kernels on tile registers, run on an emulation of the tile instructions wherever the host has none, against the reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "emit/backend.h"
#include "ir/ir.h"
#include "rtile/rprogram.h"
#include "run/host_compiler.h"
#include "run/kernel.h"

using namespace rgen;

namespace {

constexpr int kRanked = 100;  // plans to choose from

struct Checked {
  bool on_tiles;
  run::Comparison comparison;
};

Checked run_emulated(const std::string& spec, int threads, int rank) {
  const ir::TensorProgram program = ir::parse_program(spec, "amx");
  const hw::Profile profile = hw::load_profile("sapphire_rapids");
  const auto plans = rtile::construct(program, profile, {threads, kRanked});
  const emit::Emitted e = emit::emit_cpp(program, plans[std::min(size_t(rank), plans.size() - 1)], profile, {.emulate_amx = true});
  const auto so = std::filesystem::temp_directory_path() / (e.symbol + ".so");
  run::compile(run::find_compiler("", "/usr/local/bin:/usr/bin:/bin"), e.source, e.flags, run::Output::shared_library, so);
  const auto module = run::Module::open(so);
  std::filesystem::remove(so);
  const auto inputs = run::make_inputs(program, 1);
  const auto outputs = run::make_outputs(program);
  std::vector<const void*> raw;
  std::vector<void*> args;
  std::vector<run::Buffer> packed;
  for (const auto& b : inputs) raw.push_back(b.data()), args.push_back(b.data());
  for (const auto& b : outputs) args.push_back(b.data());
  for (const auto& p : e.prepack) {
    packed.emplace_back(size_t(p.bytes));
    REQUIRE(reinterpret_cast<run::PrepackFn>(module->symbol(p.symbol))(raw[size_t(p.input)], packed.back().data()) == 0);
    args[size_t(p.input)] = packed.back().data();
  }
  const run::Buffer workspace(size_t(e.workspace_bytes) + 64);
  std::memset(workspace.data(), 0xff, size_t(e.workspace_bytes) + 64);  // NaN, but for what the kernel writes
  const run::ThreadPool pool(threads);
  REQUIRE(reinterpret_cast<run::EntryFn>(module->symbol(e.symbol))(args.data(), nullptr, workspace.data(), pool.handle()) == 0);
  return {e.source.find("tile_dp") != std::string::npos, run::compare(program, ir::evaluate_reference(program, raw), outputs)};
}

std::string matmul(int m, int n, int k, const std::string& dtype, const std::string& out, const std::string& epilogue = "") {
  return R"({"name":"mm","op":"matmul","dtype":")" + dtype + R"(","params":{"m":)" + std::to_string(m) + R"(,"n":)" + std::to_string(n) +
         R"(,"k":)" + std::to_string(k) + R"(,"out":")" + out + R"("},"epilogue":[)" + epilogue + "]}";
}
std::string conv(const std::string& dtype, const std::string& params, const std::string& epilogue = "") {
  return R"({"name":"c","op":"conv2d","dtype":")" + dtype + R"(","params":{)" + params + R"(,"layout":"NHWC"},"epilogue":[)" + epilogue +
         "]}";
}

/// The emulation stands for tile registers alone: what surrounds them is AVX-512.
bool emulated_here() {
  hw::Profile profile = hw::load_profile("sapphire_rapids");
  std::erase_if(profile.isa, [](const std::string& f) { return f.starts_with("amx") || f == "avx512fp16"; });
  const bool here = hw::missing_isa(profile).empty();
  if (!here) MESSAGE("skipped: this machine has no AVX-512");
  return here;
}

}  // namespace

TEST_CASE("matrix tiles: products of bf16 and of bytes at odd extents") {
  if (!emulated_here()) return;
  const std::string bias = R"("bias","relu")";
  const std::vector<std::pair<std::string, int>> specs{{matmul(32, 48, 64, "bf16", "bf16"), 1},
                                                       {matmul(37, 67, 127, "bf16", "f32", bias), 2},
                                                       {matmul(64, 130, 1024, "bf16", "bf16"), 2},
                                                       {matmul(50, 33, 96, "s8", "s32"), 1},
                                                       {matmul(83, 127, 331, "s8", "s32"), 3}};
  int on_tiles = 0;
  for (const auto& [spec, threads] : specs)
    for (int rank : {0, 7, 15}) {
      CAPTURE(spec);
      CAPTURE(rank);
      const Checked c = run_emulated(spec, threads, rank);
      CHECK_MESSAGE(c.comparison.ok, c.comparison.worst);
      on_tiles += c.on_tiles;
    }
  CHECK(on_tiles >= 8);  // the model takes them for most of these
}

TEST_CASE("matrix tiles: convolution over rows of pixels") {
  if (!emulated_here()) return;
  for (const std::string& spec :
       {conv("bf16", R"("n":1,"h":9,"w":13,"ci":32,"co":48,"r":3,"s":3,"stride":1,"pad":1,"groups":1,"out":"bf16")", R"("bias","relu")"),
        conv("bf16", R"("n":2,"h":7,"w":7,"ci":40,"co":32,"r":3,"s":3,"stride":2,"pad":[0,1,1,0],"groups":1,"out":"bf16")"),
        conv("s8", R"("n":1,"h":14,"w":14,"ci":64,"co":32,"r":1,"s":1,"stride":1,"pad":0,"groups":1)")})
    for (int rank : {0, 5}) {
      CAPTURE(spec);
      const Checked c = run_emulated(spec, 2, rank);
      CHECK_MESSAGE(c.comparison.ok, c.comparison.worst);
    }
}

namespace {

/// The first plan of one thread whose rows of a are placed so, run and checked.
void check_first(const std::string& spec, const std::function<bool(const rtile::NestPlan&, const rtile::Operand&)>& placed) {
  CAPTURE(spec);
  const auto plans = rtile::construct(ir::parse_program(spec, "amx"), hw::load_profile("sapphire_rapids"), {1, kRanked});
  const auto found = std::find_if(plans.begin(), plans.end(), [&](const rtile::Candidate& c) {
    const rtile::NestPlan& p = c.program->groups[0].nests[0];
    return p.form == rtile::AtomForm::matrix && placed(p, p.operands[size_t(p.operand_a)]);
  });
  REQUIRE(found != plans.end());
  const Checked c = run_emulated(spec, 1, int(found - plans.begin()));
  CHECK(c.on_tiles);
  CHECK_MESSAGE(c.comparison.ok, c.comparison.worst);
}

}  // namespace

TEST_CASE("matrix tiles: channels that are no whole steps, in copies whose steps all begin lines") {
  if (!emulated_here()) return;
  for (const std::string& spec :
       {conv("bf16", R"("n":1,"h":9,"w":23,"ci":40,"co":33,"r":3,"s":3,"stride":1,"pad":1,"groups":1,"out":"bf16")", R"("bias","relu")"),
        conv("bf16", R"("n":1,"h":9,"w":23,"ci":80,"co":32,"r":3,"s":3,"stride":[1,2],"pad":[2,1,1,0],"groups":1,"out":"f32")"),
        conv("s8", R"("n":2,"h":8,"w":17,"ci":100,"co":32,"r":3,"s":3,"stride":1,"pad":1,"groups":1)"),
        matmul(300, 500, 50, "bf16", "bf16"), matmul(128, 96, 77, "s8", "s32")})
    check_first(spec, [](const rtile::NestPlan& p, const rtile::Operand& a) {
      return a.placement == rtile::Placement::box && a.whole_steps && p.k_step == p.atom->k;
    });
}

TEST_CASE("matrix tiles: rows read where they lie, some of them outside the tensor") {
  if (!emulated_here()) return;
  for (const std::string& spec :
       {conv("bf16", R"("n":1,"h":9,"w":83,"ci":32,"co":33,"r":3,"s":3,"stride":2,"pad":1,"groups":1,"out":"bf16")", R"("bias","relu")"),
        conv("bf16", R"("n":2,"h":11,"w":37,"ci":64,"co":20,"r":3,"s":5,"stride":1,"pad":[2,3,1,4],"groups":1,"out":"f32")"),
        conv("bf16", R"("n":1,"h":40,"w":35,"ci":96,"co":48,"r":7,"s":1,"stride":1,"pad":[3,0,3,0],"groups":1,"out":"bf16")"),
        conv("bf16", R"("n":1,"h":14,"w":14,"ci":20,"co":32,"r":1,"s":1,"stride":[1,3],"pad":[0,1,1,2],"groups":1,"out":"bf16")"),
        conv("s8", R"("n":1,"h":13,"w":29,"ci":64,"co":32,"r":3,"s":3,"stride":1,"pad":1,"groups":1)")})
    check_first(spec,
                [](const rtile::NestPlan& p, const rtile::Operand& a) { return a.placement == rtile::Placement::direct && p.guarded; });
}
