#include "sim/sweep/workers.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "sbp/error.h"
#include "sim/sweep/child.h"
#include "sim/sweep/line.h"

namespace boxcar::sweep {
namespace {

using PatienceClock = std::chrono::steady_clock;

constexpr int look_ms = 200;
constexpr int longest_times = 10;            // of any other number's time, for patience
constexpr uint64_t most_of_greeting = 4096;  // bytes, from somebody who is not known yet

struct Worker {
  int socket = -1;     // to it
  pid_t process = -1;  // a child; -1: it came in by the door, or a child that is not there
  bool known = false;  // has greeted; children are
  std::string name = {};
  Answers answers = {};
  int64_t group = -1;                            // of the last number
  std::optional<int64_t> number = std::nullopt;  // that it is at
  PatienceClock::time_point since = {};
  bool late = false;
};

void hang_up(Worker& worker) {
  if (worker.socket < 0) return;
  shutdown(worker.socket, SHUT_RDWR);  // a child may have the descriptor too
  close(worker.socket);
  worker.socket = -1;
}

// A child closes its end before it has ended, and a kill meanwhile would be taken for its end.
void wait_for_end(pid_t child) {
  siginfo_t ended{};
  for (int i = 0; i < 100 && ended.si_pid == 0; ++i) {
    if (i > 0) usleep(10'000);
    if (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT) != 0) return;
  }
}

// Ends a child and says how it ended: "ended by signal 9 (Killed)".
std::string end_child(pid_t child) {
  kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return end_text(status);
}

class Pool {
 public:
  Pool(const std::vector<std::vector<int64_t>>& groups, const Processes& processes, const NumberWork& work)
      : queue_(groups), processes_(processes), work_(work) {
    workers_.resize(std::min(queue_.left(), static_cast<size_t>(std::max(1, processes.here))));
    here_ = workers_.size();
  }
  ~Pool() {
    for (Worker& worker : workers_) {
      hang_up(worker);
      if (worker.process >= 0) end_child(worker.process);
    }
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  bool is_done() const { return queue_.left() == 0; }

  // Gives numbers to all idle workers, and waits a moment for answers and for processes that come or go.
  std::vector<Finished> round() {
    for (size_t i = 0; i < workers_.size(); ++i) feed(workers_[i], i < here_);
    std::vector<Finished> done;
    std::vector<pollfd> waits;
    for (const Worker& worker : workers_) waits.push_back({worker.socket, POLLIN, 0});
    waits.push_back({listener(), POLLIN, 0});
    if (poll(waits.data(), waits.size(), look_ms) > 0) {  // those below 0 are left out
      const size_t known = workers_.size();
      for (size_t i = 0; i < known; ++i)
        if (waits[i].revents != 0) listen_to(workers_[i], done);
      if (waits[known].revents != 0) let_in();
    }
    doubt();
    const auto gone = [](const Worker& worker) { return worker.socket < 0; };
    workers_.erase(
        std::remove_if(workers_.begin() + static_cast<std::ptrdiff_t>(here_), workers_.end(), gone),
        workers_.end());
    return done;
  }

 private:
  int listener() const { return processes_.door ? processes_.door->listener : -1; }

  void feed(Worker& worker, bool is_here) {
    if (worker.number || (!is_here && !worker.known)) return;
    const GroupQueue::Taken next = queue_.take(worker.group);
    if (next.group < 0) return;
    if (is_here && worker.socket < 0) start(worker);
    worker.group = next.group, worker.number = next.number, worker.late = false;
    worker.since = PatienceClock::now();
    send_number(worker.socket, next.number);  // if it died, its socket says so
  }

  // A child has only the end of its own socket, so that each sees when the parent closes its.
  void start(Worker& worker) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0)
      throw Error::fault("", fmt::format("no process can be started: {}", std::strerror(errno)));
    const pid_t child = start_child();
    if (child == 0) {
      std::signal(SIGINT, SIG_IGN);  // Ctrl-C reaches all processes of a terminal: the parent ends this one
      std::signal(SIGTERM, SIG_DFL);
      close(ends[0]);
      for (const Worker& other : workers_)
        if (other.socket >= 0) close(other.socket);
      if (listener() >= 0) close(listener());
      serve(ends[1], work_);
      _exit(0);  // nothing of the parent's is flushed or closed twice
    }
    close(ends[1]);
    worker = {ends[0], child, true};
  }

  void let_in() {
    Worker one{accept4(listener(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (one.socket >= 0) workers_.push_back(std::move(one));
  }

  void listen_to(Worker& worker, std::vector<Finished>& done) {
    if (!(worker.known ? worker.answers.read(worker.socket)
                       : worker.answers.read(worker.socket, most_of_greeting)))
      return lose(worker, done);
    while (const std::optional<Answer> answer = worker.answers.next())
      if (!take_answer(worker, *answer, done)) return lose(worker, done);
  }

  // False: it is not an answer that a worker would give.
  bool take_answer(Worker& worker, const Answer& answer, std::vector<Finished>& done) {
    if (!worker.known) {
      worker.known = greet(*processes_.door, answer.text);
      if (worker.known) worker.name = answer.text.substr(processes_.door->password.size());
      return worker.known;
    }
    if (!worker.number) return false;
    longest_ = std::max(longest_, PatienceClock::now() - worker.since);
    Finished one{*worker.number, "", ""};
    (answer.fault ? one.fault : one.text) = answer.text;
    if (queue_.done(*worker.number)) done.push_back(std::move(one));
    worker.number.reset();
    return true;
  }

  void lose(Worker& worker, std::vector<Finished>& done) {
    hang_up(worker);
    std::string how = worker.name + " was lost";
    if (worker.process >= 0) {
      wait_for_end(worker.process);
      how = end_child(worker.process);
    }
    if (worker.number) {
      const bool given_up = queue_.lost(*worker.number);
      if (given_up) done.push_back({*worker.number, "", how});
      if (!given_up)
        processes_.tell(fmt::format("{}{}; another process runs its point",
                                    worker.process >= 0 ? "a process " : "", how));
    }
    worker = {};
  }

  // Gives the numbers of workers that may have stopped to others too.
  void doubt() {
    const auto patience = std::max<PatienceClock::duration>(processes_.patience, longest_times * longest_);
    for (Worker& worker : workers_) {
      if (!worker.number || worker.late || PatienceClock::now() - worker.since < patience) continue;
      worker.late = true;
      queue_.late(*worker.number);
    }
  }

  GroupQueue queue_;
  const Processes& processes_;
  const NumberWork& work_;
  std::vector<Worker> workers_;  // first children, or places for them
  size_t here_ = 0;              // their number
  PatienceClock::duration longest_{0};
};

}  // namespace

bool greet(Door& door, const std::string& text) {
  if (!text.starts_with(door.password)) return false;
  door.came.insert(text.substr(door.password.size()));
  return true;
}

void run_in_processes(const std::vector<std::vector<int64_t>>& groups, const Processes& processes,
                      const NumberWork& work, const std::function<bool(std::vector<Finished>)>& finished) {
  Pool pool(groups, processes, work);
  while (!pool.is_done())
    if (!finished(pool.round())) return;
}

}  // namespace boxcar::sweep
