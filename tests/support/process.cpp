#include "support/process.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <tuple>

namespace rgen::test {
namespace {

using Clock = std::chrono::steady_clock;

/// A file descriptor closed at the end of its scope.
class Fd {
 public:
  Fd() = default;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }
  void reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read, write;
  Pipe() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
    read.reset(fds[0]);
    write.reset(fds[1]);
  }
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& s : strings) result.push_back(s.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string line = *entry;
    if (!changes.contains(line.substr(0, line.find('=')))) result.push_back(line);
  }
  for (const auto& [name, value] : changes) result.push_back(name + "=" + value);
  return result;
}

/// The child's half of fork(): async-signal-safe calls only, since this process may have threads.
[[noreturn]] void become(char* const* argv, char* const* env, const char* directory, int in, int out, int err, int failure) {
  setpgid(0, 0);
  signal(SIGPIPE, SIG_DFL);
  if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0 &&
      (*directory == '\0' || chdir(directory) == 0))
    execvpe(argv[0], argv, env);
  const int code = errno;
  if (write(failure, &code, sizeof code) < 0) _exit(126);
  _exit(127);
}

/// Feeds `input` and collects both streams until all are closed or `deadline` passes; false when it passed.
bool exchange(Fd& in, const std::string& input, Fd& out, std::string& out_text, Fd& err, std::string& err_text,
              Clock::time_point deadline) {
  size_t written = 0;
  if (input.empty()) in.reset();
  while (in.get() >= 0 || out.get() >= 0 || err.get() >= 0) {
    pollfd fds[] = {{in.get(), POLLOUT, 0}, {out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (poll(fds, 3, static_cast<int>(std::min<int64_t>(left, 1 << 30))) < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "poll");
    if (fds[0].revents != 0) {
      const ssize_t n = write(in.get(), input.data() + written, std::min<size_t>(input.size() - written, PIPE_BUF));
      if (n > 0) written += static_cast<size_t>(n);
      if (n < 0 || written == input.size()) in.reset();  // a reader that went away is its own business
    }
    char chunk[1 << 16];
    for (auto [revents, fd, text] : {std::tuple{fds[1].revents, &out, &out_text}, std::tuple{fds[2].revents, &err, &err_text}}) {
      if (revents == 0) continue;
      const ssize_t n = read(fd->get(), chunk, sizeof chunk);
      if (n > 0)
        text->append(chunk, static_cast<size_t>(n));
      else
        fd->reset();
    }
  }
  return true;
}

/// Waits for the child's end, which may come later than that of its streams; false when `deadline` passes first.
bool wait_until(pid_t child, int& status, Clock::time_point deadline) {
  for (;;) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    if (ended < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options) {
  if (argv.empty()) throw std::runtime_error("run_process: empty argv");
  signal(SIGPIPE, SIG_IGN);
  std::vector<std::string> arguments = argv, variables = environment(options.env);
  const std::vector<char*> argument_pointers = pointers(arguments), variable_pointers = pointers(variables);
  Pipe in, out, err, failure;
  const auto deadline = Clock::now() + options.timeout;

  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0)
    become(argument_pointers.data(), variable_pointers.data(), options.working_directory.c_str(), in.read.get(), out.write.get(),
           err.write.get(), failure.write.get());
  setpgid(child, child);  // by both, so that it holds whoever comes first
  in.read.reset(), out.write.reset(), err.write.reset(), failure.write.reset();

  int code = 0, status = 0;
  if (read(failure.read.get(), &code, sizeof code) == sizeof code) {
    waitpid(child, &status, 0);
    throw std::runtime_error("cannot run " + argv[0] + ": " + std::strerror(code));
  }

  ProcessResult result;
  const bool in_time = exchange(in.write, options.input, out.read, result.out, err.read, result.err, deadline);
  if (!in_time || !wait_until(child, status, deadline)) {
    result.timed_out = true;
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
  }
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace rgen::test
