#include "run/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "run/host_compiler.h"

namespace rgen::run {

std::optional<std::string> read_file(const std::filesystem::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string content;
  struct stat st;
  if (fstat(fd, &st) == 0 && st.st_size > 0) content.reserve(size_t(st.st_size));
  char chunk[1 << 16];
  ssize_t n;
  while ((n = read(fd, chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) content.append(chunk, size_t(n));
  close(fd);
  if (n < 0) return std::nullopt;
  return content;
}

TemporaryFolder::TemporaryFolder() {
  std::error_code error;
  std::filesystem::path root = std::filesystem::temp_directory_path(error);
  if (error) root = P_tmpdir;  // TMPDIR names no folder: where the compiler goes then, too
  std::string name = root / "rgen-XXXXXX";
  if (!mkdtemp(name.data()))
    throw Error(ErrorCode::toolchain, std::string("cannot make a temporary folder: ") + std::strerror(errno), name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw Error(ErrorCode::usage, std::string("cannot write: ") + std::strerror(error), path.string());
}

/// 0, or errno.
int write_all(int fd, const std::string& content) {
  for (size_t done = 0; done < content.size();) {
    const ssize_t n = write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    done += size_t(n);
  }
  return 0;
}

/// A file of a new name beside `path`: a rename must not cross file systems.
int open_beside(const std::filesystem::path& path, std::filesystem::path& temporary) {
  static std::atomic<unsigned> counter{0};
  for (;;) {
    temporary = path;
    temporary.replace_filename("." + path.filename().string() + "." + std::to_string(getpid()) + "-" + std::to_string(counter++) + ".tmp");
    const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
}

}  // namespace

void write_atomically(const std::filesystem::path& path, const std::string& content) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) fail(path, EISDIR);
  std::filesystem::path temporary;
  const int fd = open_beside(path, temporary);
  if (fd < 0) fail(path, errno);
  int error = write_all(fd, content);
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(temporary.c_str());
    fail(path, error);
  }
}

}  // namespace rgen::run
