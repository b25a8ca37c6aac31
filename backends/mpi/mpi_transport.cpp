#include "backends/mpi/mpi_transport.h"

#define OMPI_SKIP_MPICXX 1  // the C interface is enough
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <initializer_list>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "backends/mpi/endings.h"
#include "backends/mpi/termination.h"
#include "backends/peers.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends {
namespace {

using Clock = std::chrono::steady_clock;
using Message = std::span<const std::byte>;

// Tags: the channels, and one for what transports tell each other: a Sign, then perhaps text. `ended` has two
// bytes before it: whether the process is a cause, and its exit code.
constexpr int sign_tag = channels;
enum class Sign : uint8_t { alive, says, failed, done, ended, speaks };
constexpr std::chrono::seconds beat_period{1};
constexpr std::chrono::seconds longest_drain{1};

void ok(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error::fault(what, std::string(text, static_cast<size_t>(length)));
}

// Between looks at something that may take long: at first often, then every fifth of a millisecond.
class Pause {
 public:
  void wait() {
    if (looks_ < 50) {
      ++looks_;
      std::this_thread::yield();
    } else {
      looks_ = std::min(looks_ + 1, 60);
      std::this_thread::sleep_for(std::chrono::microseconds(20 * (looks_ - 50)));
    }
  }
  void reset() { looks_ = 0; }

 private:
  int looks_ = 0;
};

std::atomic<bool> begun = false;

// MPI_Init waits for all processes and has no limit of its own. The first process speaks first, and mpirun
// then ends the others.
class StartWatch {
 public:
  explicit StartWatch(double seconds)
      : thread_([this, seconds] { watch(seconds + std::min(started_process(), 4) * 2); }) {}
  ~StartWatch() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void watch(double seconds) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return done_; })) return;
    fmt::print(
        stderr,
        "boxcar: process {}: MPI_Init has waited {} s for all {} processes to start (one is stopped, or "
        "its machine cannot be reached)\n",
        started_process(), seconds, started_processes());
    std::fflush(stderr);
    std::_Exit(static_cast<int>(Exit::fault));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;  // last: uses the others
};

// One MPI for a process: begun and ended once. After a failure it is not ended, which would wait for all.
class Mpi {
 public:
  explicit Mpi(double start) {
    if (begun) throw Error::fault("mpi", "one transport per process, and there has been one");
    int provided = 0;
    {
      const StartWatch watch(start);
      ok(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    }
    begun = true;
    if (provided != MPI_THREAD_MULTIPLE) {
      throw Error::cannot_run("mpi",
                              "it does not allow several threads; use one built with "
                              "MPI_THREAD_MULTIPLE");
    }
    ok(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    ok(MPI_Comm_rank(MPI_COMM_WORLD, &process_), "MPI_Comm_rank");
    ok(MPI_Comm_size(MPI_COMM_WORLD, &processes_), "MPI_Comm_size");
  }
  void end() { ok(MPI_Finalize(), "MPI_Finalize"); }
  int process() const { return process_; }
  int processes() const { return processes_; }

 private:
  int process_ = 0, processes_ = 1;
};

class MpiTransport : public Transport {
 public:
  explicit MpiTransport(const MpiOptions& options)
      : termination_([this] { return last_words(); }),
        mpi_(options.start),
        peers_(mpi_.process(), mpi_.processes(), options.silence),
        endings_(mpi_.processes()),
        said_(static_cast<size_t>(mpi_.processes())),
        progress_([this] { progress(); }) {
    ready_ = true;
  }

  ~MpiTransport() override { stop(); }

  int process() const override { return mpi_.process(); }
  int processes() const override { return mpi_.processes(); }

  std::vector<std::string> exchange(const std::string& text) override {
    says(process(), text);
    tell(Sign::says, {}, text);
    const std::string whom = "the other processes to begin";
    const Waiting::Act name("start");
    std::optional<Waiting::Entry> entry;
    for (Pause pause; !all_said(); pause.wait()) {
      if (!entry) entry.emplace(waiting(), whom);
      check_wait(whom);
    }
    std::vector<std::string> texts;
    const std::lock_guard lock(mutex_);
    for (std::deque<std::string>& said : said_) {
      texts.push_back(std::move(said.front()));
      said.pop_front();
    }
    return texts;
  }

  void listen(Channel channel, Listener listener) override {
    Listener& place = at(listeners_, channel);
    if (place || started_) throw Error::fault("transport", "one listener per channel, and before start()");
    place = std::move(listener);
  }
  void start() override { started_ = true; }

  // The progress thread brings messages that others wait for, so it does not wait itself.
  void send(int process, Channel channel, Message bytes) override {
    if (std::this_thread::get_id() == progress_.get_id()) {
      post(process, static_cast<int>(channel), {bytes.begin(), bytes.end()});
      return;
    }
    MPI_Request request = begin_send(process, static_cast<int>(channel), bytes);
    std::optional<Waiting::Entry> entry;
    Pause pause;
    for (auto next = Clock::now() + patience; !is_done(request); pause.wait()) {
      if (Clock::now() < next) continue;
      const std::string whom = fmt::format("process {} to take {} bytes", process, bytes.size());
      if (!entry) entry.emplace(waiting(), whom);
      check_wait(whom);
      next = Clock::now() + patience;
    }
  }

  void fail(const std::string& why) override {
    peers_.failed(process(), why);
    tell(Sign::failed, {}, why);
  }
  void check() const override { peers_.check(); }

  void finish() override {
    if (stopping_) return;
    try {
      const std::string whom = "the other processes to finish";
      check_wait(whom);
      peers_.done(process());
      tell(Sign::done);
      for (Pause pause; !peers_.all_done(); pause.wait()) check_wait(whom);
    } catch (const Error&) {  // signs go on, for agree()
      const std::lock_guard lock(delivery_);
      started_ = false;
      throw;
    }
    stop();
    mpi_.end();
  }

  Error agree(const Error& error) override {
    if (stopping_) return error;
    const bool is_cause = error.code() != Exit::fault || !peers_.another_failed();
    if (is_cause) fail(error.what());
    endings_.ended(process(), {is_cause, error.code(), error.what()});
    tell(Sign::ended, {static_cast<char>(is_cause), static_cast<char>(error.code())}, error.what());
    const auto end = Clock::now();
    const auto waited = [&] { return std::chrono::duration<double>(Clock::now() - end).count(); };
    for (Pause pause; !endings_.is_speaker(process(), waited());) pause.wait();
    tell(Sign::speaks);
    return endings_.agreed(process());
  }

 private:
  static constexpr std::chrono::milliseconds patience{50};

  // A message on its way that belongs to the transport.
  struct Posted {
    MPI_Request request;
    std::vector<std::byte> bytes;
  };

  static bool is_done(MPI_Request& request) {
    int done = 0;
    ok(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

  static MPI_Request begin_send(int process, int tag, Message bytes) {
    if (bytes.size() > std::numeric_limits<int>::max()) {
      throw Error::fault("mpi", fmt::format("a message of {} bytes; at most {} can be sent at once",
                                            bytes.size(), std::numeric_limits<int>::max()));
    }
    MPI_Request request;
    ok(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, process, tag, MPI_COMM_WORLD,
                 &request),
       "MPI_Isend");
    return request;
  }

  void check_wait(const std::string& whom) const {
    try {
      check();
    } catch (const Error& error) {
      throw Error::fault("waits for " + whom, error.what());
    }
  }

  void says(int process, std::string text) {
    const std::lock_guard lock(mutex_);
    at(said_, process).push_back(std::move(text));
  }
  bool all_said() {
    const std::lock_guard lock(mutex_);
    return std::all_of(said_.begin(), said_.end(), [](const auto& said) { return !said.empty(); });
  }

  // May be called before all processes have begun MPI, when there is nothing to tell. Another process reports
  // a known failure.
  std::string last_words() {
    if (!ready_ || endings_.is_spoken() || peers_.any_failed()) return "";
    const std::string waits = waiting().text();
    return fmt::format(
        "process {}: ended by SIGTERM, which mpirun sends when another process dies or it is interrupted{}{}",
        process(), waits.empty() ? "" : "; ", waits);
  }

  void post(int process, int tag, std::vector<std::byte> bytes) {
    std::lock_guard lock(mutex_);
    posted_.push_back({MPI_REQUEST_NULL, std::move(bytes)});
    posted_.back().request = begin_send(process, tag, posted_.back().bytes);
  }
  void tell(Sign sign, std::initializer_list<char> more = {}, const std::string& text = "") {
    std::vector<std::byte> bytes{static_cast<std::byte>(sign)};
    for (char c : more) bytes.push_back(static_cast<std::byte>(c));
    for (char c : text) bytes.push_back(static_cast<std::byte>(c));
    for (int p = 0; p < processes(); ++p) {
      if (p != process()) post(p, sign_tag, bytes);
    }
  }

  void progress() {
    Pause pause;
    try {
      for (; !stopping_; pause.wait()) {
        look_around();
        if (receive()) pause.reset();
      }
      for (const auto end = Clock::now() + longest_drain; Clock::now() < end && !all_sent(); pause.wait()) {
      }
    } catch (const std::exception& error) {
      give_up(error.what());
    }
  }

  // If MPI itself failed, the others will find this process silent.
  void give_up(const std::string& why) {
    try {
      fail(why);
    } catch (const Error&) {
    }
  }

  // Work that is due whether or not there are messages.
  void look_around() {
    const auto now = Clock::now();
    peers_.tick(std::chrono::duration<double>(now - begin_).count());
    if (now >= next_beat_) {
      tell(Sign::alive);
      next_beat_ = now + beat_period;
    }
    all_sent();
  }

  // Frees sent messages.
  bool all_sent() {
    std::lock_guard lock(mutex_);
    posted_.remove_if([](Posted& posted) { return is_done(posted.request); });
    return posted_.empty();
  }

  // Receives one message, if there is any. Until start() nobody reads messages other than signs.
  bool receive() {
    int found = 0;
    MPI_Message message;
    MPI_Status status;
    ok(MPI_Improbe(MPI_ANY_SOURCE, started_ ? MPI_ANY_TAG : sign_tag, MPI_COMM_WORLD, &found, &message,
                   &status),
       "MPI_Improbe");
    if (!found) return false;
    int bytes = 0;
    ok(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    const auto size = static_cast<size_t>(bytes);
    if (received_.size() < size) received_.resize(size);
    MPI_Request request;
    ok(MPI_Imrecv(received_.data(), bytes, MPI_BYTE, &message, &request), "MPI_Imrecv");
    Pause pause;
    for (; !is_done(request); pause.wait()) look_around();
    peers_.heard(status.MPI_SOURCE);
    deliver(status.MPI_SOURCE, status.MPI_TAG, Message(received_).first(size));
    return true;
  }

  void deliver(int from, int tag, Message bytes) {
    if (tag == sign_tag) return read_sign(from, bytes);
    const std::lock_guard lock(delivery_);
    if (!started_) return;
    const Listener& listener = at(listeners_, tag);
    if (!listener) throw Error::fault("transport", fmt::format("nobody listens to channel {}", tag));
    listener(from, bytes);
  }

  void read_sign(int from, Message bytes) {
    const auto sign = static_cast<Sign>(bytes[0]);
    const auto text = [bytes](size_t begin) {
      return std::string(reinterpret_cast<const char*>(bytes.data()) + begin, bytes.size() - begin);
    };
    if (sign == Sign::says) says(from, text(1));
    if (sign == Sign::done) peers_.done(from);
    if (sign == Sign::failed) peers_.failed(from, text(1));
    if (sign == Sign::ended)
      endings_.ended(from, {bytes[1] != std::byte{}, Exit{std::to_integer<int>(bytes[2])}, text(3)});
    if (sign == Sign::speaks) endings_.another_speaks();
  }

  void stop() {
    stopping_ = true;
    if (progress_.joinable()) progress_.join();
  }

  std::atomic<bool> ready_ = false;
  Termination termination_;  // before MPI starts threads, which then leave the signal alone too
  Mpi mpi_;
  Peers peers_;
  Endings endings_;
  std::array<Listener, channels> listeners_;
  std::atomic<bool> started_ = false, stopping_ = false;
  std::mutex delivery_;  // held while a listener is called
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_beat_ = begin_;
  std::mutex mutex_;
  std::list<Posted> posted_;
  std::vector<std::deque<std::string>> said_;  // by process, and not yet read
  std::vector<std::byte> received_;            // only grows
  std::thread progress_;                       // last: uses the others
};

}  // namespace

bool has_mpi() { return true; }
bool mpi_has_begun() { return begun; }

std::unique_ptr<Transport> make_mpi_transport(const MpiOptions& options) {
  return std::make_unique<MpiTransport>(options);
}

}  // namespace boxcar::backends
