// Files of the runtime: reading whole ones, and folders that vanish with their owner.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace rgen::run {

/// The whole content, or nothing when it cannot be read.
std::optional<std::string> read_file(const std::filesystem::path& path);

/// A private folder in the system's temporary directory, removed with its content on destruction.
class TemporaryFolder {
 public:
  TemporaryFolder();  ///< throws Error{toolchain}
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace rgen::run
