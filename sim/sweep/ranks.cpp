#include "sim/sweep/ranks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "sbp/error.h"
#include "sim/sweep/child.h"
#include "sim/sweep/line.h"

namespace boxcar::sweep {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto to_be_found = 120s;  // rank 0
constexpr auto to_come = 10s;       // the others
constexpr int connect_ms = 3000;
constexpr const char* this_machine = "127.0.0.1";

// The variables of a launcher. `ids` together name a launch.
struct Launcher {
  const char* rank;
  const char* size;
  std::vector<const char*> ids;
};

// Open MPI first: its processes under Slurm also have Slurm's variables, those of the program that starts
// them.
const std::vector<Launcher>& launchers() {
  static const std::vector<Launcher> all{
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", {"PMIX_NAMESPACE"}},
      {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
      {"PMI_RANK", "PMI_SIZE", {}},
  };
  return all;
}

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// IPv4 addresses of interfaces that are up and not local.
std::vector<std::string> own_addresses() {
  std::vector<std::string> all;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return all;
  for (const ifaddrs* one = list; one; one = one->ifa_next) {
    if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    sockaddr_in address{};
    std::memcpy(&address, one->ifa_addr, sizeof address);
    std::array<char, INET_ADDRSTRLEN> text{};
    if (inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size())) all.emplace_back(text.data());
  }
  freeifaddrs(list);
  return all;
}

std::string random_password() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 4; ++i) text += fmt::format("{:08x}", random());
  return text;
}

// A connection whose other machine is silent for `silence_s` is closed by the system.
void notice_silence(int socket) {
  constexpr int on = 1, idle_s = 15, between_s = 5, times = (silence_s - idle_s) / between_s;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
#ifdef __linux__
  constexpr int unsent_ms = silence_s * 1000;
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent_ms, sizeof unsent_ms);
#endif
}

std::string meeting_path(const std::string& runs) { return runs + ".ranks"; }

// Readable only by its owner, since it holds the password; whole when it appears.
void write_secret(const std::string& path, const std::string& text) {
  const std::string beside = fmt::format("{}.{}", path, getpid());
  const int file = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written = file >= 0 &&
                       write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fsync(file) == 0;
  const int reason = errno;
  if (file >= 0) close(file);
  if (!written || rename(beside.c_str(), path.c_str()) != 0) {
    unlink(beside.c_str());
    throw Error::input(path, fmt::format("cannot be written: {}", std::strerror(reason)));
  }
}

int connect_to(const std::string& address, uint16_t port) {
  const int line = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET, to.sin_port = htons(port);
  inet_pton(AF_INET, address.c_str(), &to.sin_addr);
  pollfd wait{line, POLLOUT, 0};
  int refused = 0;
  socklen_t size = sizeof refused;
  const bool begun =
      connect(line, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 || errno == EINPROGRESS;
  if (begun && poll(&wait, 1, connect_ms) == 1 &&
      getsockopt(line, SOL_SOCKET, SO_ERROR, &refused, &size) == 0 && refused == 0) {
    fcntl(line, F_SETFL, 0);  // blocking again
    notice_silence(line);
    return line;
  }
  if (line >= 0) close(line);
  return -1;
}

std::string read_meeting(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error::input(path, "cannot be read; check the path");
  return {std::istreambuf_iterator<char>(in), {}};
}

// The document that rank 0 has written, once it is there.
json find_meeting(const std::string& runs, const Launch& launch) {
  const std::string path = meeting_path(runs);
  for (const auto end = std::chrono::steady_clock::now() + to_be_found;
       std::chrono::steady_clock::now() < end;) {
    std::error_code none;
    if (std::filesystem::exists(path, none)) {
      json found = json::parse(read_meeting(path), nullptr, false);
      if (found.is_object() && found.value("launch", "") == launch.id) return found;
    }
    std::this_thread::sleep_for(100ms);
  }
  throw Error::cannot_run("", fmt::format("rank {} on {} did not find rank 0 in {} s: it writes {}, and all "
                                          "machines are to share that folder",
                                          launch.rank, host_name(), to_be_found.count(), path));
}

// A rank's part: a child that works, and another one when it dies.
class Keeper {
 public:
  Keeper(json meeting, const Launch& launch, const Part& part)
      : meeting_(std::move(meeting)),
        name_(fmt::format("rank {} on {}", launch.rank, host_name())),
        part_(part) {}

  // A line to rank 0; -1: it has ended, or this machine is cut off.
  int reach() const {
    std::vector<std::string> addresses = meeting_.at("addresses");
    if (meeting_.at("host") == host_name()) addresses.insert(addresses.begin(), this_machine);
    for (const std::string& address : addresses)
      if (const int line = connect_to(address, meeting_.at("port")); line >= 0) {
        if (send_answer(line, {meeting_.at("password").get<std::string>() + name_})) return line;
        close(line);
      }
    return -1;
  }

  // Returns when rank 0 has ended.
  void keep(int line, const NumberWork& work) const {
    for (; line >= 0; line = reach()) {
      const int status = wait_for(start(line, work), line);
      close(line);
      if (WIFEXITED(status)) return;
      part_.tell(fmt::format("{}: a worker was {}; another one goes on", name_, end_text(status)));
      std::this_thread::sleep_for(1s);  // the cause may last
    }
  }

  pid_t start(int line, const NumberWork& work) const {
    const pid_t child = start_child();
    if (child > 0) return child;
    serve(line, work);
    _exit(0);
  }

  const std::string& name() const { return name_; }

 private:
  // The status with which the child ended; 0 if it was ended because rank 0 is gone.
  static int wait_for(pid_t child, int line) {
    int status = 0;
    while (waitpid(child, &status, WNOHANG) != child) {
      pollfd gone{line, POLLRDHUP, 0};
      if (poll(&gone, 1, 100) <= 0) continue;
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return 0;
    }
    return status;
  }

  json meeting_;
  std::string name_;
  const Part& part_;
};

// Whether rank 0 gives a number. It does not if there are none, or if it fails, and then it gives the reason.
bool has_work(int line) {
  pollfd first{line, POLLIN, 0};
  while (poll(&first, 1, -1) < 0 && errno == EINTR) {
  }
  char byte = 0;
  return recv(line, &byte, 1, MSG_PEEK) > 0;
}

}  // namespace

Launch started_together() {
  for (const Launcher& launcher : launchers()) {
    const int size = std::atoi(variable(launcher.size).c_str());
    if (size < 2) continue;
    Launch launch{std::atoi(variable(launcher.rank).c_str()), size, launcher.rank};
    for (const char* id : launcher.ids) launch.id += " " + variable(id);
    return launch;
  }
  return {};
}

Meeting::Meeting(const std::string& runs, const Launch& launch, const Program& program,
                 const std::string& sweep)
    : path_(meeting_path(runs)), others_(static_cast<size_t>(launch.size - 1)) {
  door_ = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), random_password(), {}};
  sockaddr_in here{};
  here.sin_family = AF_INET, here.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof here;
  notice_silence(door_.listener);  // incoming sockets inherit it
  if (bind(door_.listener, reinterpret_cast<const sockaddr*>(&here), size) != 0 ||
      listen(door_.listener, SOMAXCONN) != 0 ||
      getsockname(door_.listener, reinterpret_cast<sockaddr*>(&here), &size) != 0)
    throw Error::fault("", fmt::format("no socket listens for other ranks: {}", std::strerror(errno)));
  write_secret(path_, json{{"launch", launch.id},
                           {"host", host_name()},
                           {"addresses", own_addresses()},
                           {"port", ntohs(here.sin_port)},
                           {"password", door_.password},
                           {"version", program.version},
                           {"sweep", sweep}}
                          .dump());
}

void Meeting::expect_no_more() { others_ = door_.came.size(); }

Meeting::~Meeting() {
  wait_for_others();
  unlink(path_.c_str());
  close(door_.listener);
}

// Ranks that come now connect, and learn from the closed line that there is nothing to do.
void Meeting::wait_for_others() {
  const auto end = std::chrono::steady_clock::now() + to_come;
  while (door_.came.size() < others_ && std::chrono::steady_clock::now() < end) {
    pollfd wait{door_.listener, POLLIN, 0};
    if (poll(&wait, 1, 100) <= 0) continue;
    const int line = accept(door_.listener, nullptr, nullptr);
    if (line < 0) continue;
    pollfd greeting{line, POLLIN, 0};
    Answers answers;
    std::optional<Answer> answer;  // it may come in parts
    while (!answer && poll(&greeting, 1, connect_ms) == 1 && answers.read(line)) answer = answers.next();
    if (answer) greet(door_, answer->text);
    close(line);
  }
}

void join(const std::string& runs, const Launch& launch, const Program& program, const Part& part) {
  const json meeting = find_meeting(runs, launch);
  const Keeper keeper(meeting, launch, part);
  if (const std::string version = meeting.at("version"); version != program.version)
    throw Error::cannot_run("", fmt::format("{} is {} {}, and rank 0 is {}", keeper.name(), program.name,
                                            program.version, version));
  const int line = keeper.reach();
  if (line < 0 || !has_work(line)) return;
  const NumberWork work = part.worker_of(meeting.at("sweep"));
  std::vector<pid_t> others;
  for (int i = 1; i < part.workers; ++i) {
    if (const pid_t child = start_child(); child > 0) {
      others.push_back(child);
      continue;
    }
    close(line);
    keeper.keep(keeper.reach(), work);
    _exit(0);
  }
  keeper.keep(line, work);
  for (const pid_t other : others)
    while (waitpid(other, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace boxcar::sweep
