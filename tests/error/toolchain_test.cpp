// What goes wrong with compilers, folders and cache entries: every failure is an Error that names the cause, and leaves no part of a file.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "run/cache.h"
#include "run/files.h"
#include "run/host_compiler.h"
#include "support/check.h"

using namespace rgen;
using namespace rgen::run;
using test::contains;
using test::error_of;
namespace fs = std::filesystem;

namespace {

const std::string search_path = "/usr/local/bin:/usr/bin:/bin";

/// A compiler that behaves as the shell script says.
Compiler fake(const fs::path& folder, const std::string& body) {
  const fs::path p = folder / "fake-cc";
  write_atomically(p, "#!/bin/sh\n" + body + "\n");
  chmod(p.c_str(), 0755);
  return {p, "fake", false, false};
}

bool has_files(const fs::path& folder) { return fs::directory_iterator(folder) != fs::directory_iterator(); }

}  // namespace

TEST_CASE("no compiler: the error says what was looked for and where") {
  const TemporaryFolder empty;
  const Error e = error_of([&] { find_compiler("", empty.path()); });
  CHECK(e.code() == ErrorCode::toolchain);
  CHECK(contains(e, "'c++', 'g++', 'clang++'"));
  CHECK(contains(e, empty.path()));
  CHECK(contains(error_of([&] { find_compiler("no-such-cc", search_path); }), "'no-such-cc'"));
  CHECK(error_of([&] { find_compiler("/no/such/cc", search_path); }).code() == ErrorCode::toolchain);
}

TEST_CASE("something that is no compiler is refused") {
  const TemporaryFolder folder;
  const Error e = error_of([&] { find_compiler(fake(folder.path(), "echo cannot run here; exit 9").path, ""); });
  CHECK(e.code() == ErrorCode::toolchain);
  CHECK(contains(e, "exit status 9"));
  CHECK(contains(e, "cannot run here"));
}

TEST_CASE("a compiler that fails: its first errors are told, without the paths of vanished files") {
  const TemporaryFolder folder;
  const Compiler cc = find_compiler("", search_path);
  const Error e = error_of([&] { compile(cc, "int f() { return undefined_name; }", {}, Output::shared_library, folder.path() / "k.so"); });
  CHECK(e.code() == ErrorCode::toolchain);
  CHECK(contains(e, "k.cpp:1"));
  CHECK(contains(e, "undefined_name"));
  CHECK_FALSE(contains(e, "/tmp/rgen-"));
  CHECK(e.context() == cc.path);
  CHECK_FALSE(has_files(folder.path()));
}

TEST_CASE("a failing compiler leaves the old output as it was") {
  const TemporaryFolder folder;
  write_atomically(folder.path() / "k.so", "old");
  const Compiler cc = find_compiler("", search_path);
  CHECK_THROWS_AS(compile(cc, "syntax error", {}, Output::shared_library, folder.path() / "k.so"), Error);
  CHECK(read_file(folder.path() / "k.so") == "old");
}

TEST_CASE("a compiler killed by a signal is reported as such") {
  const TemporaryFolder bin, out;
  const Error e = error_of([&] { compile(fake(bin.path(), "kill -9 $$"), "", {}, Output::object, out.path() / "k.o"); });
  CHECK(e.code() == ErrorCode::toolchain);
  CHECK(contains(e, "killed by signal 9"));
  CHECK_FALSE(has_files(out.path()));
}

TEST_CASE("a compiler that claims success without an output is an error") {
  const TemporaryFolder bin, out;
  CHECK(contains(error_of([&] { compile(fake(bin.path(), "exit 0"), "", {}, Output::object, out.path() / "k.o"); }), "wrote no output"));
}

TEST_CASE("an output that cannot be written names the path and the cause") {
  const TemporaryFolder folder;
  const Error missing = error_of([&] { write_atomically(folder.path() / "no/such/folder/f", "x"); });
  CHECK(missing.code() == ErrorCode::usage);
  CHECK(contains(missing, "no/such/folder/f"));
  CHECK(contains(missing, "No such file or directory"));
  fs::create_directories(folder.path() / "d");
  CHECK(contains(error_of([&] { write_atomically(folder.path() / "d", "x"); }), "Is a directory"));
  CHECK(contains(error_of([&] { write_atomically("/proc/self/f", "x"); }), "/proc/self/f"));
}

TEST_CASE("a read-only output folder") {
  const TemporaryFolder folder;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // Root may write everywhere: become nobody.
    if (chmod(folder.path().c_str(), 0555) != 0 || (getuid() == 0 && setuid(65534) != 0)) _exit(2);
    const Error e = error_of([&] { write_atomically(folder.path() / "f", "x"); });
    _exit(contains(e, "Permission denied") && e.code() == ErrorCode::usage ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK_FALSE(has_files(folder.path()));
}

TEST_CASE("a full output folder: a limit on the file's size") {
  const TemporaryFolder folder;
  write_atomically(folder.path() / "f", "old");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Error e = error_of([&] { write_atomically(folder.path() / "f", std::string(100000, 'x')); });
    _exit(contains(e, "File too large") ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(read_file(folder.path() / "f") == "old");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a full output folder: no space on the device") {
  const TemporaryFolder folder;
  if (mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=16k") != 0) {
    MESSAGE("not allowed to mount a small file system: the test above stands alone");
    return;
  }
  const Error e = error_of([&] { write_atomically(folder.path() / "f", std::string(100000, 'x')); });
  const bool left = has_files(folder.path());
  umount(folder.path().c_str());
  CHECK(contains(e, "No space left on device"));
  CHECK_FALSE(left);
}

TEST_CASE("a killed run leaves nothing at its target") {
  const TemporaryFolder bin, out;
  const Compiler slow = fake(bin.path(), "sleep 30");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    setpgid(0, 0);  // so that the test can end the compiler too
    compile(slow, "", {}, Output::object, out.path() / "k.o");
    _exit(0);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(-child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  CHECK_FALSE(has_files(out.path()));
}

TEST_CASE("processes that compile one output at once all succeed") {
  const TemporaryFolder folder;
  const Compiler cc = find_compiler("", search_path);
  pid_t children[3];
  for (pid_t& child : children) {
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        compile(cc, "extern \"C\" int f() { return 1; }", {}, Output::shared_library, folder.path() / "k.so");
        _exit(0);
      } catch (...) { _exit(1); }
    }
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a damaged cache entry is removed and counts as a miss") {
  const TemporaryFolder folder;
  write_atomically(folder.path() / "f", "the content");
  const Cache cache(folder.path() / "cache");
  for (const std::string& damage : {std::string("the c0ntent"), std::string("the conten"), std::string("the content+"), std::string()}) {
    CAPTURE(damage);
    const auto entry = cache.store("key", folder.path() / "f");
    REQUIRE(entry.has_value());
    write_atomically(*entry, damage);
    CHECK_FALSE(cache.find("key").has_value());
    CHECK_FALSE(fs::exists(*entry));
  }
  REQUIRE(cache.store("key", folder.path() / "f").has_value());
  CHECK(cache.find("key").has_value());
}

TEST_CASE("a cache that cannot be written only misses") {
  const Cache cache("/proc/self/no/cache");
  const TemporaryFolder folder;
  write_atomically(folder.path() / "f", "x");
  CHECK_FALSE(cache.store("key", folder.path() / "f").has_value());
  CHECK_FALSE(cache.find("key").has_value());
  CHECK(cache.info().entries == 0);
}
