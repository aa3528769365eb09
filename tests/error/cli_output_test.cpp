// Usage, folders and compilers, end to end: the right exit status, and never a part of a file.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "error/cli.h"

using namespace rgen::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> host = {"--hw", "host", "--no-measure"};

std::vector<std::string> with_host(const std::string& verb, const std::vector<std::string>& rest) {
  std::vector<std::string> all = {verb};
  all.insert(all.end(), host.begin(), host.end());
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

std::string fake_compiler(const Cli& rgen, const std::string& name, const std::string& body) {
  const std::string path = rgen.file(name, "#!/bin/sh\n" + body + "\n");
  chmod(path.c_str(), 0755);
  return path;
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(folder)) names.push_back(e.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("usage errors exit with 2") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{{},
                                                                                         {"gen"},
                                                                                         {"gen", spec},
                                                                                         {"gen", "--hw", "zen5"},
                                                                                         {"gen", "--hw", "zen5", spec, "--no-such-flag"},
                                                                                         {"gen", "--hw", "zen5", spec, "--threads", "-1"},
                                                                                         {"gen", "--hw", "zen5", spec, "--threads", "many"},
                                                                                         {"gen", "--hw", "zen5", spec, "--top-k", "0"},
                                                                                         {"gen", "--hw", "zen5", spec, "--emit", "sO"},
                                                                                         {"gen", "--hw", "zen5", spec, "-D", "m=4"},
                                                                                         {"run", "--hw", "zen5", spec, "--cc", "--jit"},
                                                                                         {"profile"},
                                                                                         {"profile", "diff", "zen5"},
                                                                                         {"cache", "polish"},
                                                                                         {"ops", "no-such-op"}}) {
    CAPTURE(arguments.size());
    const ProcessResult r = rgen(arguments);
    CAPTURE(r.err);
    CHECK(r.status == 2);
    CHECK_FALSE(r.err.empty());
  }
}

TEST_CASE("a mistyped verb is recognised") {
  const Cli rgen;
  const ProcessResult r = rgen({"predcit", "--hw", "zen5", "x.json"});
  CHECK(r.status != 0);
  CHECK(contains(r.err, "did you mean the verb 'predict'"));
}

TEST_CASE("what this build cannot do exits with 4 and says what works") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  const ProcessResult cubin = rgen({"gen", "--hw", "zen5", spec, "--emit", "cubin", "-o", rgen.path("out")});
  CHECK(cubin.status == 4);
  CHECK(contains(cubin.err, "profile 'zen5' takes 'cpp'"));
  const ProcessResult range = rgen.predict(
      R"({"name":"x","dims":{"M":{"min":1,"max":64}},"inputs":{"A":{"shape":["M"],"dtype":"f32"}},"compute":["C[m:M] = A[m] + 1"],"outputs":["C"]})");
  CHECK((range.status == 4 || range.status == 0));
}

TEST_CASE("no compiler: exit status 7, and what was looked for") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  ProcessOptions options;
  options.env["PATH"] = rgen.path("");
  const ProcessResult r = rgen({"gen", "--hw", "zen5", spec, "--emit", "so", "-o", rgen.path("out")}, options);
  CHECK(r.status == 7);
  CHECK(contains(r.err, "'c++', 'g++', 'clang++'"));
  CHECK(files_in(rgen.path("out")).empty());
  CHECK(rgen(with_host("run", {spec, "--compiler", "/no/such/cc"})).status == 7);
}

TEST_CASE("a compiler that fails: exit status 7, its message, and no file") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  const std::string failing =
      fake_compiler(rgen, "fake-cc", "case $1 in --version) echo fake 1.0;; *) echo 'k.cpp:1: error: out of ideas' >&2; exit 1;; esac");
  const ProcessResult r = rgen({"gen", "--hw", "zen5", spec, "--emit", "so", "-o", rgen.path("out"), "--compiler", failing});
  CHECK(r.status == 7);
  CHECK(contains(r.err, "out of ideas"));
  CHECK(files_in(rgen.path("out")).empty());
  const ProcessResult json = rgen({"gen", "--hw", "zen5", spec, "--emit", "so", "-o", rgen.path("out"), "--compiler", failing, "--json"});
  CHECK(json.status == 7);
  CHECK(nlohmann::json::parse(json.out)["results"][0]["error"]["code"] == "toolchain");
}

TEST_CASE("an output folder that is a file") {
  const Cli rgen;
  const ProcessResult r = rgen({"gen", "--hw", "zen5", rgen.file("spec.json", matmul_spec), "-o", rgen.file("taken", "x")});
  CHECK(r.status == 2);
  CHECK(contains(r.err, "taken"));
}

TEST_CASE("a read-only output folder") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  // /proc refuses new files to root too.
  const ProcessResult r = rgen({"gen", "--hw", "zen5", spec, "-o", "/proc/self"});
  CHECK(r.status == 2);
  CHECK(contains(r.err, "/proc/self"));
  CHECK(contains(r.err, "cannot write"));
}

TEST_CASE("a full output folder") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec), out = rgen.path("full");
  fs::create_directories(out);
  if (mount("tmpfs", out.c_str(), "tmpfs", 0, "size=4k") != 0) {
    MESSAGE("not allowed to mount a small file system");
    return;
  }
  rgen::run::write_atomically(out + "/filler", std::string(4096, 'x'));
  const ProcessResult r = rgen({"gen", "--hw", "zen5", spec, "-o", out});
  const std::vector<std::string> left = files_in(out);
  umount(out.c_str());
  CHECK(r.status == 2);
  CHECK(contains(r.err, "No space left on device"));
  CHECK(left == std::vector<std::string>{"filler"});
}

TEST_CASE("a standard output that cannot be written is an error") {
  const Cli rgen;
  const ProcessResult r = run_process({"/bin/sh", "-c", std::string(RGEN_PROGRAM) + " ops > /dev/full"});
  CHECK(r.status == 2);
  CHECK(contains(r.err, "standard output"));
}

TEST_CASE("a killed run leaves no half-written output") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec), out = rgen.path("out");
  fs::create_directories(out);
  const std::string slow = fake_compiler(rgen, "slow-cc", "case $1 in --version) echo slow 1.0;; *) sleep 30;; esac");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    setpgid(0, 0);  // the compiler is killed with it
    setenv("RGEN_CACHE_DIR", rgen.path("cache").c_str(), 1);
    execl(RGEN_PROGRAM, RGEN_PROGRAM, "gen", "--hw", "zen5", spec.c_str(), "--emit", "so", "-o", out.c_str(), "--compiler", slow.c_str(),
          nullptr);
    _exit(127);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(-child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK(files_in(out).empty());
}

TEST_CASE("calls killed at any moment leave whole files or none") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec), out = rgen.path("out");
  fs::create_directories(out);
  for (int ms = 0; ms < 20; ++ms) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
      execl(RGEN_PROGRAM, RGEN_PROGRAM, "gen", "--hw", "zen5", spec.c_str(), "-o", out.c_str(), nullptr);
      _exit(127);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string manifest = out + "/mm.manifest.json", source = out + "/mm.cpp";
    if (fs::exists(manifest)) {
      const auto document = nlohmann::json::parse(*rgen::run::read_file(manifest));
      CHECK(contains(*rgen::run::read_file(source), document["symbol"].get<std::string>()));
    }
    for (const std::string& name : files_in(out)) fs::remove(out + "/" + name);
  }
}

TEST_CASE("two specs of one name in one call do not overwrite each other") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  const ProcessResult r = rgen({"gen", "--hw", "zen5", spec, spec, "-o", rgen.path("out")});
  CHECK(r.status == 2);
  CHECK(files_in(rgen.path("out")) == std::vector<std::string>{"mm.cpp", "mm.manifest.json"});
}

TEST_CASE("a name from a spec does not leave the output folder") {
  const Cli rgen;
  std::string spec = matmul_spec;
  spec.replace(spec.find("\"mm\""), 4, "\"../../escape\"");
  const ProcessResult r = rgen({"gen", "--hw", "zen5", rgen.file("spec.json", spec), "-o", rgen.path("out")});
  CHECK_FALSE(fs::exists(rgen.path("../escape.cpp")));
  if (r.status == 0) CHECK(files_in(rgen.path("out")).size() == 2);
}

TEST_CASE("a damaged entry of the kernel cache is compiled again") {
  const Cli rgen;
  const std::string spec = rgen.file("spec.json", matmul_spec);
  const auto cache_of = [&] {
    const ProcessResult r = rgen(with_host("run", {spec, "--json", "--seconds", "0.01"}));
    CAPTURE(r.err);
    REQUIRE(r.status == 0);
    return nlohmann::json::parse(r.out)["results"][0]["cache"].get<std::string>();
  };
  CHECK(cache_of() == "miss");
  CHECK(cache_of() == "hit");
  for (const auto& e : fs::recursive_directory_iterator(rgen.path("cache/kernels")))
    if (e.is_regular_file()) rgen::run::write_atomically(e.path(), "not a library");
  CHECK(cache_of() == "miss");
  CHECK(cache_of() == "hit");
}
