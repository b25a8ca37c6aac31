#include "cli/sweep/workers.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <utility>

#include "cli/as_error.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

constexpr int look_ms = 200;

bool write_all(int descriptor, const void* data, size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = write(descriptor, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n, size -= static_cast<size_t>(n);
  }
  return true;
}

bool read_all(int descriptor, void* data, size_t size) {
  auto* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = read(descriptor, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n, size -= static_cast<size_t>(n);
  }
  return true;
}

// An answer: its length, whether it is a fault, and the text.
struct Header {
  uint64_t size = 0;
  uint64_t fault = 0;
};

[[noreturn]] void serve(int numbers, int answers, pid_t parent,
                        const std::function<std::string(int64_t)>& work) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (getppid() != parent) _exit(0);  // it died before that
  std::signal(SIGINT, SIG_IGN);       // Ctrl-C reaches all processes of a terminal: the parent ends this one
  std::signal(SIGTERM, SIG_DFL);
  for (int64_t number = 0; read_all(numbers, &number, sizeof number);) {
    std::string text;
    bool fault = false;
    try {
      text = work(number);
    } catch (const std::exception& e) {
      fault = true, text = as_error(e).what();
    }
    const Header header{text.size(), fault ? 1u : 0u};
    if (!write_all(answers, &header, sizeof header) || !write_all(answers, text.data(), text.size())) break;
  }
  _exit(0);  // nothing of the parent's is flushed or closed twice
}

struct Worker {
  pid_t process = -1;
  int numbers = -1, answers = -1;  // pipes to and from it
  int64_t group = -1;              // of the last number
  int64_t number = 0;              // that it is at
  bool busy = false;
};

// Writing to a process that has died is an error and no signal.
class NoPipeSignal {
 public:
  NoPipeSignal() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  ~NoPipeSignal() { std::signal(SIGPIPE, before_); }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  void (*before_)(int);
};

class Pool {
 public:
  explicit Pool(const std::function<std::string(int64_t)>& work) : work_(work) {}
  ~Pool() {
    for (Worker& worker : workers_) end(worker);
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  std::vector<Worker>& workers() { return workers_; }

  // A child has the ends of its own pipes alone, so that each sees when the parent closes its.
  void start(Worker& worker) {
    std::array<int, 2> to{}, from{};
    if (pipe(to.data()) != 0) refuse();
    if (pipe(from.data()) != 0) refuse();
    const pid_t parent = getpid(), child = fork();
    if (child < 0) refuse();
    if (child == 0) {
      close(to[1]), close(from[0]);
      for (const Worker& other : workers_)
        for (const int end : {other.numbers, other.answers})
          if (end >= 0) close(end);
      serve(to[0], from[1], parent, work_);
    }
    close(to[0]), close(from[1]);
    worker = {child, to[1], from[0]};
  }

  // How it ended: "ended by signal 9 (Killed)".
  static std::string end(Worker& worker) {
    if (worker.process < 0) return "";
    close(worker.numbers), close(worker.answers);
    kill(worker.process, SIGKILL);
    int status = 0;
    while (waitpid(worker.process, &status, 0) < 0 && errno == EINTR) {
    }
    worker = {};
    return WIFSIGNALED(status)
               ? fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))
               : fmt::format("ended with code {}", WEXITSTATUS(status));
  }

 private:
  [[noreturn]] static void refuse() {
    throw Error::fault("", fmt::format("no process can be started: {}", std::strerror(errno)));
  }

  const std::function<std::string(int64_t)>& work_;
  std::vector<Worker> workers_;
};

// The answer of a worker, or how it died.
Finished answer_of(Worker& worker) {
  Finished done{worker.number, "", ""};
  Header header;
  if (read_all(worker.answers, &header, sizeof header)) {
    std::string text(header.size, '\0');
    if (read_all(worker.answers, text.data(), text.size())) {
      (header.fault != 0 ? done.fault : done.text) = std::move(text);
      worker.busy = false;
      return done;
    }
  }
  // Its pipe closes before it has ended, and a kill meanwhile would be taken for its end.
  siginfo_t ended{};
  for (int i = 0; i < 100 && ended.si_pid == 0; ++i) {
    if (i > 0) usleep(10'000);
    if (waitid(P_PID, static_cast<id_t>(worker.process), &ended, WEXITED | WNOHANG | WNOWAIT) != 0) break;
  }
  done.fault = Pool::end(worker);
  return done;
}

}  // namespace

GroupQueue::GroupQueue(std::vector<std::vector<int64_t>> groups) : groups_(std::move(groups)) {
  for (std::vector<int64_t>& group : groups_) std::reverse(group.begin(), group.end());
}

GroupQueue::Taken GroupQueue::take(int64_t last) {
  const auto take_from = [&](size_t group) {
    const Taken taken{static_cast<int64_t>(group), groups_[group].back()};
    groups_[group].pop_back();
    return taken;
  };
  if (last >= 0 && !groups_[static_cast<size_t>(last)].empty()) return take_from(static_cast<size_t>(last));
  while (next_ < groups_.size() && groups_[next_].empty()) ++next_;
  if (next_ < groups_.size()) return take_from(next_++);
  const auto fullest = std::max_element(groups_.begin(), groups_.end(),
                                        [](const auto& a, const auto& b) { return a.size() < b.size(); });
  if (fullest == groups_.end() || fullest->empty()) return {};
  return take_from(static_cast<size_t>(fullest - groups_.begin()));
}

void run_in_processes(const std::vector<std::vector<int64_t>>& groups, int processes,
                      const std::function<std::string(int64_t)>& work,
                      const std::function<bool(std::vector<Finished>)>& finished) {
  size_t count = 0;
  for (const auto& group : groups) count += group.size();
  if (count == 0) return;
  const NoPipeSignal no_signal;
  GroupQueue queue(groups);
  Pool pool(work);
  pool.workers().resize(std::min(count, static_cast<size_t>(std::max(1, processes))));
  const auto feed = [&](Worker& worker) {
    const GroupQueue::Taken next = queue.take(worker.group);
    if (next.group < 0) return;
    if (worker.process < 0) pool.start(worker);
    worker.group = next.group, worker.number = next.number, worker.busy = true;
    write_all(worker.numbers, &next.number, sizeof next.number);  // if it died, its pipe says so
  };
  for (Worker& worker : pool.workers()) feed(worker);
  while (true) {
    std::vector<pollfd> waits;
    std::vector<Worker*> whose;
    for (Worker& worker : pool.workers())
      if (worker.busy) waits.push_back({worker.answers, POLLIN, 0}), whose.push_back(&worker);
    if (waits.empty()) return;
    std::vector<Finished> done;
    if (poll(waits.data(), waits.size(), look_ms) > 0) {
      for (size_t i = 0; i < waits.size(); ++i) {
        if (waits[i].revents == 0) continue;
        done.push_back(answer_of(*whose[i]));
        feed(*whose[i]);
      }
    }
    if (!finished(std::move(done))) return;
  }
}

}  // namespace boxcar::cli
