#include "support/process.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <filesystem>
#include <stdexcept>

using rgen::test::ProcessResult;
using rgen::test::run_process;
using namespace std::chrono_literals;

TEST_CASE("both streams and the status are captured apart") {
  const ProcessResult r = run_process({"sh", "-c", "printf out; printf err >&2; exit 7"});
  CHECK(r.status == 7);
  CHECK(r.out == "out");
  CHECK(r.err == "err");
  CHECK_FALSE(r.timed_out);
}

TEST_CASE("arguments reach the program unchanged") {
  CHECK(run_process({"printf", "[%s]", "a b", "$HOME", "", "'\"*"}).out == "[a b][$HOME][]['\"*]");
}

TEST_CASE("input longer than a pipe goes through while output comes back") {
  const std::string text(1 << 20, 'x');
  const ProcessResult r = run_process({"cat"}, {.input = text, .env = {}, .working_directory = {}});
  CHECK(r.status == 0);
  CHECK(r.out == text);
}

TEST_CASE("a program that does not read its input is no error") {
  CHECK(run_process({"true"}, {.input = std::string(1 << 20, 'x'), .env = {}, .working_directory = {}}).status == 0);
}

TEST_CASE("environment and working directory") {
  const ProcessResult r = run_process({"sh", "-c", "printf '%s ' \"$RGEN_TEST_VALUE\"; pwd"},
                                      {.input = {}, .env = {{"RGEN_TEST_VALUE", "1=2"}}, .working_directory = "/"});
  CHECK(r.out == "1=2 /\n");
}

TEST_CASE("a signal is reported as such") {
  const ProcessResult r = run_process({"sh", "-c", "kill -TERM $$"});
  CHECK(r.status == -1);
  CHECK(r.signal == SIGTERM);
  CHECK_FALSE(r.timed_out);
}

TEST_CASE("the time limit ends the program and what it started") {
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult r =
      run_process({"sh", "-c", "printf begun; sleep 60 & wait"}, {.input = {}, .env = {}, .working_directory = {}, .timeout = 200ms});
  CHECK(r.timed_out);
  CHECK(r.signal == SIGKILL);
  CHECK(r.out == "begun");
  CHECK(std::chrono::steady_clock::now() - start < 30s);
}

TEST_CASE("a program that closes its streams and goes on is still ended") {
  const ProcessResult r =
      run_process({"sh", "-c", "exec >&- 2>&- <&-; sleep 60"}, {.input = {}, .env = {}, .working_directory = {}, .timeout = 200ms});
  CHECK(r.timed_out);
}

TEST_CASE("a program that is not there throws and names it") {
  CHECK_THROWS_WITH_AS(run_process({"/nonexistent/program"}), "cannot run /nonexistent/program: No such file or directory",
                       std::runtime_error);
}
