#include "fuzz/pool.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <sstream>

#include "base/error.h"
#include "fuzz/batch.h"

namespace rgen::fuzz {

namespace {

/// One line a message: no tab or newline inside a field.
std::string field(std::string s) {
  std::replace_if(
      s.begin(), s.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
  return s;
}

void write_line(int fd, const std::string& line) {
  for (size_t at = 0; at < line.size();) {
    const ssize_t n = write(fd, line.data() + at, line.size() - at);
    if (n < 0 && errno != EINTR) _exit(1);
    if (n > 0) at += size_t(n);
  }
}

struct Worker {
  pid_t pid = 0;
  int fd = -1;
  std::vector<size_t> tasks;   ///< numbers in the whole list
  std::vector<bool> finished;  ///< of them
  size_t at = 0;               ///< which it is at
  std::string step = "starting", unread;
};

class Pool {
 public:
  Pool(const std::vector<Task>& tasks, const Options& options, const std::function<bool(const Task&, const Outcome&)>& done)
      : tasks_(tasks), options_(options), done_(done) {
    for (size_t i = 0; i < tasks.size(); i += size_t(options.batch)) {
      queue_.emplace_back();
      for (size_t k = i; k < std::min(tasks.size(), i + size_t(options.batch)); ++k) queue_.back().push_back(k);
    }
  }
  ~Pool() {
    for (Worker& w : workers_) end(w);
  }

  void run() {
    while (going_ && (!queue_.empty() || !workers_.empty())) {
      while (!queue_.empty() && int(workers_.size()) < options_.jobs) {
        start(std::move(queue_.front()));
        queue_.pop_front();
      }
      std::vector<pollfd> ready;
      for (const Worker& w : workers_) ready.push_back({w.fd, POLLIN, 0});
      if (poll(ready.data(), ready.size(), -1) < 0) continue;
      for (size_t i = ready.size(); i-- > 0 && going_;)
        if (ready[i].revents != 0 && !listen(workers_[i])) workers_.erase(workers_.begin() + std::ptrdiff_t(i));
    }
  }

 private:
  const std::vector<Task>& tasks_;
  const Options& options_;
  const std::function<bool(const Task&, const Outcome&)>& done_;
  std::deque<std::vector<size_t>> queue_;
  std::vector<Worker> workers_;
  bool going_ = true;

  void start(std::vector<size_t> numbers) {
    int fds[2];
    if (pipe(fds) != 0) throw Error(ErrorCode::internal, std::strerror(errno));
    const pid_t pid = fork();
    if (pid < 0) throw Error(ErrorCode::internal, std::strerror(errno));
    if (pid == 0) {
      close(fds[0]);
      setpgid(0, 0);  // with its compiler and kernels, so that all end together
      work(fds[1], numbers);
      _exit(0);
    }
    close(fds[1]);
    Worker w;
    w.pid = pid, w.fd = fds[0];
    w.finished.assign(numbers.size(), false);
    w.tasks = std::move(numbers);
    workers_.push_back(std::move(w));
  }

  /// In the child.
  void work(int fd, const std::vector<size_t>& numbers) const {
    std::vector<Task> batch;
    for (size_t n : numbers) batch.push_back(tasks_[n]);
    try {
      run_batch(
          batch, options_, [&](size_t i, const std::string& step) { write_line(fd, "at\t" + std::to_string(i) + "\t" + step + "\n"); },
          [&](size_t i, Outcome&& o) {
            std::string line = "done\t" + std::to_string(i) + "\t" + std::to_string(int(o.status)) + "\t" + field(o.message);
            for (const std::string& f : o.features) line += "\t" + field(f);
            write_line(fd, line + "\n");
          });
    } catch (const std::exception& e) { write_line(fd, "failed\t0\t" + field(e.what()) + "\n"); }
  }

  /// False when the worker is done or dead.
  bool listen(Worker& w) {
    char chunk[1 << 16];
    const ssize_t n = read(w.fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) return true;
    if (n > 0) {
      w.unread.append(chunk, size_t(n));
      for (size_t end; going_ && (end = w.unread.find('\n')) != std::string::npos; w.unread.erase(0, end + 1))
        message(w, w.unread.substr(0, end));
      return true;
    }
    int status = 0;
    while (waitpid(w.pid, &status, 0) < 0 && errno == EINTR) {}
    close(w.fd);
    std::vector<size_t> rest;
    for (size_t i = 0; i < w.tasks.size(); ++i)
      if (!w.finished[i]) rest.push_back(w.tasks[i]);
    if (rest.empty()) return false;
    // it died: of the task it was at
    const size_t culprit = w.tasks[w.at];
    std::erase(rest, culprit);
    const bool late = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    const std::string how = late ? "ran too long" : WIFSIGNALED(status) ? std::string("died of ") + strsignal(WTERMSIG(status)) : "ended";
    tell(culprit, {Status::crash, "the generator " + how + " while " + w.step, {}});
    if (!rest.empty()) queue_.push_front(std::move(rest));
    return false;
  }

  void message(Worker& w, const std::string& line) {
    std::vector<std::string> parts;
    std::istringstream in(line);
    for (std::string p; std::getline(in, p, '\t');) parts.push_back(p);
    parts.resize(std::max<size_t>(parts.size(), 4));
    const size_t i = std::stoul(parts[1]);
    if (parts[0] == "failed") throw Error(ErrorCode::toolchain, parts[2]);
    if (parts[0] == "at") {
      w.at = i, w.step = parts[2];
      return;
    }
    w.finished[i] = true;
    tell(w.tasks[i], {Status(std::stoi(parts[2])), parts[3], {parts.begin() + 4, parts.end()}});
  }

  void tell(size_t task, const Outcome& o) { going_ = done_(tasks_[task], o) && going_; }

  static void end(Worker& w) {
    kill(-w.pid, SIGKILL);
    while (waitpid(w.pid, nullptr, 0) < 0 && errno == EINTR) {}
    close(w.fd);
  }
};

}  // namespace

void run_tasks(const std::vector<Task>& tasks, const Options& options, const std::function<bool(const Task&, const Outcome&)>& done) {
  Pool(tasks, options, done).run();
}

}  // namespace rgen::fuzz
