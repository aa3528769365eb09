// A golden file that is missing or different is a failure that says where.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "run/files.h"
#include "support/golden.h"

using namespace rgen;

TEST_CASE("golden files are compared, not written") {
  if (std::getenv("RGEN_UPDATE_GOLDEN")) return;  // this run writes them
  const run::TemporaryFolder folder;
  const std::string file = folder.path().string() + "/golden.txt";
  CHECK(test::golden_difference(file, "a\nb\nc\n").find("is missing") != std::string::npos);
  CHECK(!std::filesystem::exists(file));
  std::ofstream(file) << "a\nb\nc\n";
  CHECK(test::golden_difference(file, "a\nb\nc\n").empty());
  const std::string message = test::golden_difference(file, "a\nX\nc\n");
  CHECK(message.find("differs from line 2") != std::string::npos);
  CHECK(message.find("\n  -b\n  -c\n  +X\n  +c") != std::string::npos);
  CHECK(!test::golden_difference(file, "a\nb\nc").empty());  // the end of the last line counts
  CHECK(!test::golden_difference(file, "a\nb\nc\nd\n").empty());
}
