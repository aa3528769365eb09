// A content-addressed store of compiled kernels on disk. What it reads it checks (length and hash) before it trusts.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace rgen::run {

class Cache {
 public:
  /// "" disables: every lookup misses and nothing is stored. The folder is created on first store.
  explicit Cache(std::filesystem::path folder);
  /// Path of a verified entry, or nothing; a damaged entry is removed and counts as a miss.
  std::optional<std::filesystem::path> find(const std::string& key) const;
  /// Stores a file's content under the key, atomically; concurrent stores of one key are harmless. Failure to store is not an error.
  std::optional<std::filesystem::path> store(const std::string& key, const std::filesystem::path& file) const;
  struct Info {
    std::filesystem::path folder;
    int64_t entries = 0, bytes = 0;
  };
  Info info() const;
  int64_t clear() const;  ///< entries removed
  bool enabled() const { return !folder_.empty(); }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

/// 128-bit content hash as 32 hex digits (stable across machines and versions).
std::string content_hash(std::string_view bytes);

}  // namespace rgen::run
