// Layout: FOLDER/kk/KEY-LENGTH-HASH, kk being the key's first two digits. An entry is one file whose name says what its content must
// be, so that no second file can disagree with it and a rename makes it whole.
#include "run/cache.h"

#include <functional>
#include <system_error>

#include "base/error.h"
#include "run/files.h"
#include "run/host_compiler.h"

namespace rgen::run {

namespace fs = std::filesystem;

namespace {

/// Keys are any text; file names are their hashes.
std::string stem(const std::string& key) { return content_hash(key) + "-"; }
fs::path shard(const fs::path& folder, const std::string& stem) { return folder / stem.substr(0, 2); }
std::string seal(const std::string& content) { return std::to_string(content.size()) + "-" + content_hash(content); }

void for_each_file(const fs::path& folder, const std::function<void(const fs::directory_entry&)>& f) {
  std::error_code ec;
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code not_a_file;
    if (it->is_regular_file(not_a_file)) f(*it);
  }
}

/// Every entry of every shard, half-written temporary files excluded.
void for_each_entry(const fs::path& folder, const std::function<void(const fs::directory_entry&)>& f) {
  std::error_code ec;
  for (fs::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec))
    if (it->path().filename().string().size() == 2)
      for_each_file(it->path(), [&](const fs::directory_entry& e) {
        if (e.path().filename().string()[0] != '.') f(e);
      });
}

}  // namespace

Cache::Cache(fs::path folder) : folder_(std::move(folder)) {}

std::optional<fs::path> Cache::find(const std::string& key) const {
  if (!enabled()) return std::nullopt;
  const std::string prefix = stem(key);
  std::optional<fs::path> found;
  for_each_file(shard(folder_, prefix), [&](const fs::directory_entry& e) {
    const std::string name = e.path().filename().string();
    if (found || name.compare(0, prefix.size(), prefix) != 0) return;
    const auto content = read_file(e.path());
    if (content && name == prefix + seal(*content)) {
      found = e.path();
    } else {
      std::error_code ignored;
      fs::remove(e.path(), ignored);
    }
  });
  return found;
}

std::optional<fs::path> Cache::store(const std::string& key, const fs::path& file) const {
  if (!enabled()) return std::nullopt;
  const auto content = read_file(file);
  if (!content) return std::nullopt;
  const std::string prefix = stem(key);
  const fs::path entry = shard(folder_, prefix) / (prefix + seal(*content));
  std::error_code ec;
  fs::create_directories(entry.parent_path(), ec);
  try {
    write_atomically(entry, *content);
  } catch (const Error&) {  // a full or read-only cache only costs time
    return std::nullopt;
  }
  return entry;
}

Cache::Info Cache::info() const {
  Info info{folder_, 0, 0};
  if (!enabled()) return info;
  for_each_entry(folder_, [&](const fs::directory_entry& e) {
    std::error_code ec;
    const auto size = e.file_size(ec);
    if (ec) return;
    ++info.entries;
    info.bytes += int64_t(size);
  });
  return info;
}

int64_t Cache::clear() const {
  int64_t removed = 0;
  if (!enabled()) return removed;
  for_each_entry(folder_, [&](const fs::directory_entry& e) {
    std::error_code ec;
    removed += fs::remove(e.path(), ec) ? 1 : 0;
  });
  return removed;
}

}  // namespace rgen::run
