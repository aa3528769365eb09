// The way from a spec to a called kernel, through the public interfaces.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "rgen/rgen.h"
#include "rgen/rgen.hpp"
#include "run/files.h"
#include "run/kernel.h"
#include "support/check.h"

using namespace rgen;
using nlohmann::json;
using test::error_of;

namespace {

const std::string mm_relu =
    R"({"name": "mm_relu", "op": "matmul", "dtype": "f32", "params": {"m": 37, "n": 41, "k": 29}, "epilogue": ["relu"]})";

Profile host() { return Profile::load("host", {false, {}}); }

/// relu(A B) of small integers, in f32: exact in any order.
struct Problem {
  std::vector<float> a, b, want, got;
  Problem() : a(37 * 29), b(29 * 41), want(37 * 41), got(37 * 41) {
    for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 7) - 3;
    for (size_t i = 0; i < b.size(); ++i) b[i] = float(i % 5) - 2;
    for (size_t m = 0; m < 37; ++m)
      for (size_t n = 0; n < 41; ++n) {
        float sum = 0;
        for (size_t k = 0; k < 29; ++k) sum += a[m * 29 + k] * b[k * 41 + n];
        want[m * 41 + n] = std::fmax(sum, 0.0f);
      }
  }
};

}  // namespace

TEST_CASE("a program knows its tensors") {
  const Program p = Program::parse(mm_relu);
  CHECK(p.name() == "mm_relu");
  REQUIRE(p.inputs().size() == 2);
  CHECK(p.inputs()[0].name == "A");
  CHECK(p.inputs()[0].shape == std::vector<int64_t>{37, 29});
  CHECK(p.inputs()[1].constant);
  CHECK(p.outputs()[0].strides == std::vector<int64_t>{41, 1});
  REQUIRE(p.work().has_value());
  CHECK(p.work()->operations == doctest::Approx(2.0 * 37 * 41 * 29 + 37 * 41));
  CHECK(p.work()->bytes == doctest::Approx(4.0 * (37 * 29 + 29 * 41 + 37 * 41)));
  CHECK(Program::parse(p.json()).json() == p.json());
}

TEST_CASE("one of several programs is picked by name") {
  const std::string both =
      "[" + mm_relu + R"(, {"name": "t", "op": "transpose", "dtype": "f32", "params": {"shape": [4, 5], "perm": [1, 0]}}])";
  CHECK(Program::parse(both, "spec", "t").name() == "t");
  CHECK(error_of([&] { Program::parse(both); }).code() == ErrorCode::usage);
  CHECK(error_of([&] { Program::parse(both, "spec", "s"); }).code() == ErrorCode::invalid_spec);
  CHECK(parse_specs(both).size() == 2);
}

TEST_CASE("the manifest says what the contract promises") {
  const Profile profile = Profile::load("zen5");
  const Plan best = plan(Program::parse(mm_relu), profile).front();
  const Source source = best.emit();
  const json m = json::parse(source.manifest);
  for (const char* key : {"rgen", "name", "symbol", "target", "isa", "profile", "profile_hash", "inputs", "outputs", "dims",
                          "workspace_bytes", "prepack", "predicted_us", "plan"}) {
    CAPTURE(key);
    CHECK(m.contains(key));
  }
  CHECK(m["rgen"] == version());
  CHECK(m["name"] == "mm_relu");
  CHECK(m["target"] == "cpp");
  CHECK(m["profile"] == "zen5");
  CHECK(m["profile_hash"] == profile.hash());
  CHECK(m["symbol"] == source.symbol);
  CHECK(source.text.find(source.symbol) != std::string::npos);
  CHECK(m["inputs"][0] ==
        json{{"name", "A"}, {"shape", {37, 29}}, {"dtype", "f32"}, {"strides", {29, 1}}, {"constant", false}, {"alignment", 4}});
  CHECK(m["inputs"][1]["constant"] == true);
  CHECK(m["outputs"][0] == json{{"name", "out"}, {"shape", {37, 41}}, {"dtype", "f32"}, {"strides", {41, 1}}, {"alignment", 4}});
  CHECK(m["dims"].empty());
  CHECK(m["predicted_us"] == doctest::Approx(best.predicted_us()));
  for (const json& p : m["prepack"]) CHECK(source.text.find(p["symbol"].get<std::string>()) != std::string::npos);
}

TEST_CASE("plans are ranked, reproducible and not faster than the machine") {
  const Program program = Program::parse(mm_relu);
  PlanOptions options;
  options.top_k = 4;
  options.threads = 1;
  const std::vector<Plan> plans = plan(program, Profile::load("zen5"), options), again = plan(program, Profile::load("zen5"), options);
  REQUIRE(plans.size() == again.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    CHECK(plans[i].json() == again[i].json());
    CHECK(plans[i].threads() == 1);
    CHECK(plans[i].predicted_us() >= plans[i].limit_us() * 0.999);
    if (i > 0) CHECK(plans[i].predicted_us() >= plans[i - 1].predicted_us());
  }
  CHECK(plans[0].emit().text == again[0].emit().text);
}

TEST_CASE("wrong options are refused") {
  const Program program = Program::parse(mm_relu);
  const Profile profile = Profile::load("zen5");
  PlanOptions options;
  options.top_k = 0;
  CHECK(error_of([&] { plan(program, profile, options); }).code() == ErrorCode::usage);
  options.top_k = 1;
  options.threads = -1;
  CHECK(error_of([&] { plan(program, profile, options); }).code() == ErrorCode::usage);
  options.threads = 0;
  options.target = "fortran";
  CHECK(error_of([&] { plan(program, profile, options); }).code() == ErrorCode::unsupported);
}

TEST_CASE("a compiled kernel gives the right result, packed or not, with and without threads") {
  const run::TemporaryFolder folder;
  BuildOptions build;
  build.cache_dir = folder.path();
  const Program program = Program::parse(mm_relu);
  const Kernel kernel = compile(program, host(), {}, build);
  CHECK(kernel.report().cache == "miss");
  Problem p;
  kernel.run({p.a.data(), p.b.data(), p.got.data()});
  CHECK(p.got == p.want);
  const ThreadPool pool(3);
  std::fill(p.got.begin(), p.got.end(), -1.0f);
  kernel.run({p.a.data(), p.b.data(), p.got.data()}, pool.handle());
  CHECK(p.got == p.want);
  CHECK(error_of([&] { kernel.run({p.a.data()}); }).code() == ErrorCode::usage);
  CHECK(error_of([&] { kernel.prepack_bytes(2); }).code() == ErrorCode::usage);

  const Verification v = kernel.verify(5, pool.handle());
  CHECK(v.ok);
  CHECK(v.max_rel_err <= v.tolerance);
  CHECK(v.tolerance < 1e-4);
  CHECK(kernel.time(0.01).median_us > 0);

  CHECK(compile(program, host(), {}, build).report().cache == "hit");
  CHECK(cache_info(folder.path()).entries == 1);
  CHECK(cache_clear(folder.path()) == 1);
  CHECK(compile(program, host()).report().cache == "off");
}

TEST_CASE("a kernel is shared by threads") {
  const Kernel kernel = compile(Program::parse(mm_relu), host());
  const ThreadPool pool(2);
  int wrong[3] = {};
  std::vector<std::thread> threads;
  for (int& w : wrong)
    threads.emplace_back([&] {
      Problem p;
      for (int i = 0; i < 20; ++i) {
        kernel.run({p.a.data(), p.b.data(), p.got.data()}, pool.handle());
        w += p.got != p.want;
      }
    });
  for (auto& t : threads) t.join();
  for (int w : wrong) CHECK(w == 0);
}

TEST_CASE("a library is written as a file that anyone can load") {
  const run::TemporaryFolder folder;
  const Source source = plan(Program::parse(mm_relu), host()).front().emit();
  const BuildReport report = build_file(source, Artifact::shared_library, folder.path() / "k.so");
  CHECK(report.cache == "off");
  CHECK(run::read_file(folder.path() / "k.so")->substr(1, 3) == "ELF");
  CHECK(error_of([&] { build_file(source, Artifact::object, folder.path() / "no/such/k.o"); }).code() == ErrorCode::usage);
}

TEST_CASE("the C interface: from JSON to a result") {
  rgen_program* program = nullptr;
  rgen_profile* profile = nullptr;
  rgen_kernel* kernel = nullptr;
  REQUIRE(rgen_program_parse(mm_relu.c_str(), nullptr, &program) == RGEN_OK);
  REQUIRE(rgen_profile_parse(host().json().c_str(), &profile) == RGEN_OK);
  REQUIRE(rgen_compile(program, profile, nullptr, &kernel) == RGEN_OK);
  rgen_program_free(program);
  rgen_profile_free(profile);
  CHECK(json::parse(rgen_kernel_manifest(kernel))["name"] == "mm_relu");

  Problem p;
  const int64_t bytes = rgen_kernel_prepack_bytes(kernel, 1);
  run::Buffer packed{size_t(bytes)}, workspace{size_t(rgen_kernel_workspace_bytes(kernel))};
  if (bytes > 0) CHECK(rgen_kernel_prepack(kernel, 1, p.b.data(), packed.data()) == RGEN_OK);
  void* const args[] = {p.a.data(), bytes > 0 ? packed.data() : p.b.data(), p.got.data()};
  CHECK(rgen_kernel_call(kernel, args, nullptr, workspace.data(), nullptr) == RGEN_OK);
  CHECK(p.got == p.want);
  rgen_kernel_free(kernel);
}

TEST_CASE("the C interface turns failures into statuses and messages") {
  rgen_program* program = nullptr;
  CHECK(rgen_program_parse("{", nullptr, &program) == RGEN_INVALID);
  CHECK(program == nullptr);
  CHECK(std::string(rgen_last_error()).find("spec") != std::string::npos);
  CHECK(rgen_program_parse(nullptr, nullptr, &program) == RGEN_USAGE);
  rgen_profile* profile = nullptr;
  CHECK(rgen_profile_load("no-such-device", nullptr, &profile) == RGEN_INVALID);
  CHECK(std::string(rgen_last_error()).find("no-such-device") != std::string::npos);
  CHECK(rgen_compile(nullptr, nullptr, nullptr, nullptr) == RGEN_USAGE);
  CHECK(rgen_kernel_call(nullptr, nullptr, nullptr, nullptr, nullptr) == RGEN_USAGE);

  REQUIRE(rgen_program_parse(mm_relu.c_str(), nullptr, &program) == RGEN_OK);
  REQUIRE(rgen_profile_parse(host().json().c_str(), &profile) == RGEN_OK);
  rgen_options options = {};
  options.compiler = "/no/such/cc";
  rgen_kernel* kernel = nullptr;
  CHECK(rgen_compile(program, profile, &options, &kernel) == RGEN_TOOLCHAIN);
  CHECK(kernel == nullptr);
  std::string other = "untouched";
  std::thread([&] { other = rgen_last_error(); }).join();
  CHECK(other.empty());  // messages are the calling thread's
  rgen_program_free(program);
  rgen_profile_free(profile);
  rgen_program_free(nullptr);
  rgen_profile_free(nullptr);
  rgen_kernel_free(nullptr);
}

TEST_CASE("every preset is listed with its parameters") {
  bool conv = false;
  for (const Preset& p : presets()) {
    CHECK_FALSE(p.summary.empty());
    CHECK_FALSE(p.parameters.empty());
    conv |= p.name == "conv2d";
  }
  CHECK(conv);
}

TEST_CASE("profiles can be compared, summarised and read back") {
  for (const std::string& name : shipped_profiles()) {
    CAPTURE(name);
    const Profile p = Profile::load(name);
    CHECK(p.name() == name);
    CHECK(Profile::parse(p.json()).hash() == p.hash());
    CHECK(diff_profiles(p, Profile::parse(p.json())).empty());
    CHECK(p.summary().find(p.title()) != std::string::npos);
  }
  CHECK_FALSE(diff_profiles(Profile::load("zen5"), Profile::load("sapphire_rapids")).empty());
  CHECK(host().missing_isa().empty());
}
