#include "run/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace rgen::run {

namespace {

/// Actions and attributes of a spawn: output into `out`, nothing to read, signals as in a fresh process.
class SpawnSetup {
 public:
  explicit SpawnSetup(int out) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

std::string read_all(int fd) {
  std::string all;
  char chunk[4096];
  for (;;) {
    const ssize_t n = read(fd, chunk, sizeof chunk);
    if (n > 0)
      all.append(chunk, size_t(n));
    else if (n == 0 || errno != EINTR)
      return all;
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv) {
  std::vector<char*> raw;
  for (const std::string& a : argv) raw.push_back(const_cast<char*>(a.c_str()));
  raw.push_back(nullptr);

  int fds[2];
  // O_CLOEXEC: a child started by another thread at the same time must not keep our pipe open.
  if (pipe2(fds, O_CLOEXEC) != 0) throw Error(ErrorCode::toolchain, std::strerror(errno), argv[0]);
  pid_t pid = 0;
  int failed;
  {
    SpawnSetup setup(fds[1]);
    failed = posix_spawn(&pid, raw[0], &setup.actions, &setup.attributes, raw.data(), environ);
  }
  close(fds[1]);
  ProcessResult result;
  if (failed == 0) result.output = read_all(fds[0]);
  close(fds[0]);
  if (failed != 0) throw Error(ErrorCode::toolchain, std::string("cannot be started: ") + std::strerror(failed), argv[0]);

  int status = 0;
  pid_t waited;
  do waited = waitpid(pid, &status, 0);
  while (waited < 0 && errno == EINTR);
  // An embedding program that ignores SIGCHLD leaves no status (ECHILD): callers also check that the result exists.
  if (waited == pid) {
    if (WIFSIGNALED(status))
      result.signal = WTERMSIG(status);
    else
      result.exit_code = WEXITSTATUS(status);
  }
  return result;
}

}  // namespace rgen::run
