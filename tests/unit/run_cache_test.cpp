#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "run/cache.h"
#include "run/files.h"
#include "run/host_compiler.h"

using namespace rgen::run;
namespace fs = std::filesystem;

namespace {
void put(const fs::path& file, const std::string& content) { std::ofstream(file, std::ios::binary) << content; }
}  // namespace

TEST_CASE("a stored entry is found again, by another Cache of the folder too") {
  const TemporaryFolder folder;
  const fs::path source = folder.path() / "kernel.so";
  put(source, std::string("\0binary\xff", 8));
  const Cache cache(folder.path() / "cache");
  CHECK_FALSE(cache.find("key").has_value());
  REQUIRE(cache.store("key", source).has_value());
  const auto found = Cache(folder.path() / "cache").find("key");
  REQUIRE(found.has_value());
  CHECK(read_file(*found) == std::string("\0binary\xff", 8));
  CHECK_FALSE(cache.find("another key").has_value());
  CHECK(cache.info().entries == 1);
  CHECK(cache.info().bytes == 8);
  CHECK(cache.clear() == 1);
  CHECK_FALSE(cache.find("key").has_value());
  CHECK(cache.info().entries == 0);
}

TEST_CASE("a disabled cache misses and stores nothing") {
  const TemporaryFolder folder;
  put(folder.path() / "f", "x");
  const Cache cache("");
  CHECK_FALSE(cache.enabled());
  CHECK_FALSE(cache.store("key", folder.path() / "f").has_value());
  CHECK_FALSE(cache.find("key").has_value());
  CHECK(cache.clear() == 0);
}

TEST_CASE("clear leaves what is not an entry") {
  const TemporaryFolder folder;
  put(folder.path() / "host.json", "{}");
  put(folder.path() / "f", "x");
  const Cache cache(folder.path());
  REQUIRE(cache.store("key", folder.path() / "f").has_value());
  CHECK(cache.clear() == 1);
  CHECK(fs::exists(folder.path() / "host.json"));
}

TEST_CASE("concurrent stores and finds of one key give whole entries only") {
  const TemporaryFolder folder;
  const std::string content(100000, 'k');
  put(folder.path() / "f", content);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      const Cache cache(folder.path() / "cache");
      for (int i = 0; i < 50; ++i) {
        if (!cache.store("key", folder.path() / "f")) ++wrong;
        const auto found = cache.find("key");
        if (!found || read_file(*found) != content) ++wrong;
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(Cache(folder.path() / "cache").info().entries == 1);
}
