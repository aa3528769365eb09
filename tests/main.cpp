// The main of every test program. Beyond doctest's own: a filter that selects nothing fails, since a test that does not run cannot pass.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

namespace {

struct RequireTests : doctest::IReporter {
  const doctest::ContextOptions& options;
  explicit RequireTests(const doctest::ContextOptions& in) : options(in) {}

  void test_run_end(const doctest::TestRunStats& stats) override {
    if (stats.numTestCasesPassingFilters > 0) return;
    std::fputs("no test case matches the filter\n", stderr);
    std::exit(3);
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

}  // namespace

REGISTER_LISTENER("require_tests", 1, RequireTests);
