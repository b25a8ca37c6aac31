#include "backends/mpi/mpi_transport.h"

#define OMPI_SKIP_MPICXX 1  // the C interface is enough
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "backends/mpi/termination.h"
#include "backends/peers.h"
#include "sbp/error.h"

namespace boxcar::backends {
namespace {

using Clock = std::chrono::steady_clock;
using Message = std::span<const std::byte>;

// Tags: the channels, and one for what transports tell each other: a Sign, then perhaps text.
constexpr int sign_tag = channels;
enum class Sign : uint8_t { alive, failed, done };
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

// One MPI for a process: begun and ended once. After a failure it is not ended, which would wait for all.
class Mpi {
 public:
  Mpi() {
    int begun = 0;
    MPI_Initialized(&begun);
    if (begun) throw Error::fault("mpi", "one transport per process, and there has been one");
    int provided = 0;
    ok(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
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
        peers_(mpi_.process(), mpi_.processes(), options.silence),
        progress_([this] { progress(); }) {}

  ~MpiTransport() override { stop(); }

  int process() const override { return mpi_.process(); }
  int processes() const override { return mpi_.processes(); }

  void listen(Channel channel, Listener listener) override {
    Listener& place = listeners_[static_cast<size_t>(channel)];
    if (place || started_) throw Error::fault("transport", "one listener per channel, and before start()");
    place = std::move(listener);
  }
  void start() override { started_ = true; }

  // The progress thread, which brings what others wait for, does not wait itself.
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
    tell(Sign::failed, why);
  }
  void check() const override { peers_.check(); }

  void finish() override {
    if (stopping_) return;
    if (!peers_.any_failed()) {
      peers_.done(process());
      tell(Sign::done, "");
      Pause pause;
      for (; !peers_.all_done(); pause.wait()) check_wait("the other processes to finish");
    }
    stop();
    if (!peers_.any_failed()) mpi_.end();
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

  // May be asked for before MPI has begun.
  std::string last_words() {
    const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
    const std::string waits = waiting().text();
    return fmt::format("process {}: ended by SIGTERM, which mpirun sends when another process dies{}{}",
                       rank ? rank : "0", waits.empty() ? "" : "; ", waits);
  }

  void post(int process, int tag, std::vector<std::byte> bytes) {
    std::lock_guard lock(mutex_);
    posted_.push_back({MPI_REQUEST_NULL, std::move(bytes)});
    posted_.back().request = begin_send(process, tag, posted_.back().bytes);
  }
  void tell(Sign sign, const std::string& text) {
    std::vector<std::byte> bytes{static_cast<std::byte>(sign)};
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

  // Where MPI itself is what failed, the others will find this process silent.
  void give_up(const std::string& why) {
    try {
      fail(why);
    } catch (const Error&) {
    }
  }

  // What is due whether or not there are messages.
  void look_around() {
    const auto now = Clock::now();
    peers_.tick(std::chrono::duration<double>(now - begin_).count());
    if (now >= next_beat_) {
      tell(Sign::alive, "");
      next_beat_ = now + beat_period;
    }
    all_sent();
  }

  // Lets go of what has been sent.
  bool all_sent() {
    std::lock_guard lock(mutex_);
    posted_.remove_if([](Posted& posted) { return is_done(posted.request); });
    return posted_.empty();
  }

  // One message, if there is any. Until start() there is nobody to read others than signs.
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
    const Listener& listener = listeners_[static_cast<size_t>(tag)];
    if (!listener) throw Error::fault("transport", fmt::format("nobody listens to channel {}", tag));
    listener(from, bytes);
  }

  void read_sign(int from, Message bytes) {
    const auto sign = static_cast<Sign>(bytes[0]);
    if (sign == Sign::done) peers_.done(from);
    if (sign != Sign::failed) return;
    peers_.failed(from, std::string(reinterpret_cast<const char*>(bytes.data()) + 1, bytes.size() - 1));
  }

  void stop() {
    stopping_ = true;
    if (progress_.joinable()) progress_.join();
  }

  Termination termination_;  // before MPI starts threads, which then leave the signal alone too
  Mpi mpi_;
  Peers peers_;
  std::array<Listener, channels> listeners_;
  std::atomic<bool> started_ = false, stopping_ = false;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point next_beat_ = begin_;
  std::mutex mutex_;
  std::list<Posted> posted_;
  std::vector<std::byte> received_;  // only grows
  std::thread progress_;             // last: uses the others
};

}  // namespace

bool has_mpi() { return true; }

std::unique_ptr<Transport> make_mpi_transport(const MpiOptions& options) {
  return std::make_unique<MpiTransport>(options);
}

}  // namespace boxcar::backends
