#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "base/error.h"
#include "run/files.h"
#include "run/host_compiler.h"
#include "run/kernel.h"
#include "run/process.h"

using namespace rgen::run;
namespace fs = std::filesystem;

namespace {

const std::string search_path = "/usr/local/bin:/usr/bin:/bin";
const std::string answer = "extern \"C\" int answer() { return 42; }\n";

/// A script in the folder that can be executed.
fs::path script(const fs::path& folder, const std::string& name, const std::string& body) {
  const fs::path p = folder / name;
  write_atomically(p, "#!/bin/sh\n" + body);
  chmod(p.c_str(), 0755);
  return p;
}

}  // namespace

TEST_CASE("processes get their arguments as they are and report how they ended") {
  const ProcessResult echo = run_process({"/bin/echo", "a b", "$HOME", "*"});
  CHECK(echo.ok());
  CHECK(echo.output == "a b $HOME *\n");
  CHECK(run_process({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}).exit_code == 3);
  CHECK(run_process({"/bin/sh", "-c", "echo err >&2"}).output == "err\n");
  CHECK(run_process({"/bin/sh", "-c", "kill -9 $$"}).signal == 9);
  CHECK_THROWS_AS(run_process({"/no/such/program"}), rgen::Error);
}

TEST_CASE("the compiler is found in the order of the names and of the path") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "one");
  fs::create_directories(folder.path() / "two");
  script(folder.path() / "one", "g++", "echo one g++ 1.0");
  script(folder.path() / "two", "c++", "echo two c++ 2.0");
  const std::string path = (folder.path() / "one").string() + ":" + (folder.path() / "two").string();
  CHECK(find_compiler("", path).version == "two c++ 2.0");
  CHECK(find_compiler("g++", path).path == folder.path() / "one/g++");
  CHECK_FALSE(find_compiler("g++", path).openmp);  // it exits with 0 but writes no library
  CHECK(find_compiler((folder.path() / "one/g++").string(), "").version == "one g++ 1.0");
}

TEST_CASE("what the probe found is remembered until the compiler changes") {
  const TemporaryFolder folder;
  const fs::path memory = folder.path() / "memory", count = folder.path() / "count";
  const auto fake = [&](const std::string& version) {
    return script(folder.path(), "cc", "echo run >> " + count.string() + "\necho clang version " + version + "\n").string();
  };
  const std::string cc = fake("1");
  const auto runs = [&] { return read_file(count).value_or("").size() / 4; };
  CHECK(find_compiler(cc, "", memory).clang);
  const size_t first = runs();
  CHECK(first == 2);
  CHECK(find_compiler(cc, "", memory).version == "clang version 1");
  CHECK(runs() == first);
  fake("22");
  CHECK(find_compiler(cc, "", memory).version == "clang version 22");
  CHECK(runs() == 2 * first);
  for (const auto& e : fs::directory_iterator(memory)) write_atomically(e.path(), "damaged");
  CHECK(find_compiler(cc, "", memory).version == "clang version 22");
  CHECK(runs() == 3 * first);
}

TEST_CASE("a compiled library loads, and its symbols are found") {
  const TemporaryFolder folder;
  const Compiler cc = find_compiler("", search_path);
  compile(cc, answer, {"-O1"}, Output::shared_library, folder.path() / "answer.so");
  const auto module = Module::open(folder.path() / "answer.so");
  CHECK(reinterpret_cast<int (*)()>(module->symbol("answer"))() == 42);
  CHECK_THROWS_AS(module->symbol("question"), rgen::Error);
  CHECK_THROWS_AS(Module::open(folder.path() / "missing.so"), rgen::Error);
  compile(cc, answer, {}, Output::object, folder.path() / "answer.o");
  CHECK(read_file(folder.path() / "answer.o")->substr(1, 3) == "ELF");
}

TEST_CASE("files get the permissions that the umask leaves") {
  const TemporaryFolder folder;
  const mode_t mask = umask(0022);
  write_atomically(folder.path() / "f", "x");
  umask(mask);
  CHECK((fs::status(folder.path() / "f").permissions() & fs::perms::mask) == fs::perms(0644));
}

TEST_CASE("concurrent compilations of one output do not collide") {
  const TemporaryFolder folder;
  const Compiler cc = find_compiler("", search_path);
  const fs::path so = folder.path() / "answer.so";
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { compile(cc, answer, {}, Output::shared_library, so); });
  for (auto& t : threads) t.join();
  CHECK(reinterpret_cast<int (*)()>(Module::open(so)->symbol("answer"))() == 42);
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}
