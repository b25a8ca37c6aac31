// A backend for tests of the runtime: real memory and threads, kernels whose output a test can check. Plays
// several processes in one, each with a transport that has its own delivery thread.
//
//   FakeCluster cluster(4, 2);               // 4 devices on 2 processes
//   cluster.act_late(7);                     // queues with marks (late_queue.h); 7 seeds how late
//   Runtime run(plan, cluster.backend(0), hooks);
//
// All values are float32 and small whole numbers, so that sums are exact in any order. Op "test" writes
// test_value() of all its operands; "add" adds; "nothing" does nothing. A mismatch throws.
#pragma once

#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/backend.h"
#include "backends/random.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "support/late_queue.h"

namespace boxcar::support {

using backends::mix;

// Element `element` of output `output` of an act of "test": from its attributes, its moment and its inputs.
inline uint64_t test_hash(const ir::Attrs& attrs, const backends::Moment& moment) {
  uint64_t hash = mix(static_cast<uint64_t>(moment.step * 1000 + moment.micro_batch));
  for (const char c : ir::to_text(attrs)) hash = mix(hash ^ static_cast<uint64_t>(c));
  return hash;
}
inline uint64_t test_hash(uint64_t hash, const float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) hash = mix(hash ^ static_cast<uint64_t>(values[i]));
  return mix(hash + static_cast<uint64_t>(count));
}
inline float test_value(uint64_t hash, size_t output, int64_t element) {
  return static_cast<float>(mix(hash ^ mix(output * 1000 + static_cast<uint64_t>(element))) % 1001);
}

class FakeHub;  // shared by all processes

class FakeQueue : public backends::Queue {
 public:
  void copy(void* to, const void* from, const backends::Block& block) override {
    for (int64_t row = 0; row < block.rows; ++row)
      std::memcpy(static_cast<std::byte*>(to) + row * block.to_stride,
                  static_cast<const std::byte*>(from) + row * block.from_stride,
                  static_cast<size_t>(block.bytes));
  }
  void fill_zero(void* to, int64_t bytes) override { std::memset(to, 0, static_cast<size_t>(bytes)); }
  void finish() override {}
};

class FakeKernel : public backends::Kernel {
 public:
  // `failing`: makes the kernel throw before it acts at this moment.
  using Failing = std::function<bool(const backends::Call& call, const backends::Moment& moment)>;
  FakeKernel(backends::Call call, const Failing& failing) : call_(std::move(call)), failing_(failing) {}

  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           const backends::Moment& moment) override {
    if (call_.op == "nothing") return;
    if (call_.op == "add") {
      auto* sum = static_cast<float*>(outputs[0]);
      for (int64_t i = 0; i < call_.outputs[0].elements(); ++i)
        sum[i] += static_cast<const float*>(inputs[1])[i];
      return;
    }
    if (failing_ && failing_(call_, moment)) throw Error::fault("test", "it is broken");
    uint64_t hash = test_hash(call_.attrs, moment);
    for (size_t i = 0; i < inputs.size(); ++i)
      hash = test_hash(hash, static_cast<const float*>(inputs[i]), call_.inputs[i].elements());
    for (size_t o = 0; o < outputs.size(); ++o)
      for (int64_t e = 0; e < call_.outputs[o].elements(); ++e)
        static_cast<float*>(outputs[o])[e] = test_value(hash, o, e);
  }

 private:
  backends::Call call_;
  const Failing& failing_;
};

// Wraps another kernel, on a queue that acts late.
class LateKernel : public backends::Kernel {
 public:
  LateKernel(std::unique_ptr<Kernel> kernel, LateQueue& queue) : kernel_(std::move(kernel)), queue_(queue) {}
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           const backends::Moment& moment) override {
    queue_.put([this, in = std::vector<const void*>(inputs.begin(), inputs.end()),
                out = std::vector<void*>(outputs.begin(), outputs.end()),
                moment] { kernel_->run(in, out, moment); });
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  LateQueue& queue_;
};

class FakeDevice : public backends::Device {
 public:
  // `late`: the seed by which queues act late; -1: they act at once.
  FakeDevice(const FakeKernel::Failing& failing, const int64_t& late) : failing_(failing), late_(late) {}
  void reserve(int64_t bytes) override {
    if (!memory_.empty()) throw std::logic_error("reserved twice");
    memory_.assign(static_cast<size_t>(bytes + 8) / 8, 0);
  }
  std::byte* arena() override { return reinterpret_cast<std::byte*>(memory_.data()); }
  std::unique_ptr<backends::Queue> queue(ir::QueueKind kind) override {
    if (late_ < 0) return std::make_unique<FakeQueue>();
    return std::make_unique<LateQueue>(static_cast<unsigned>(late_ * 10 + static_cast<int64_t>(kind)));
  }
  std::unique_ptr<backends::Kernel> prepare(const backends::Call& call, backends::Queue& queue) override {
    if (call.op != "test" && call.op != "add" && call.op != "nothing")
      throw Error::fault(call.op, "no such kernel");
    auto kernel = std::make_unique<FakeKernel>(call, failing_);
    auto* const late = dynamic_cast<LateQueue*>(&queue);
    if (!late) return kernel;
    return std::make_unique<LateKernel>(std::move(kernel), *late);
  }
  void to_host(void* to, const void* from, int64_t bytes) override {
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
  }
  void from_host(void* to, const void* from, int64_t bytes) override {
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
  }

 private:
  const FakeKernel::Failing& failing_;
  const int64_t& late_;
  std::vector<double> memory_;
};

// The meeting place of a group's members. Each publishes the address of its part, waits for all, computes its
// own result, and waits again before writing it.
class FakeMeeting {
 public:
  explicit FakeMeeting(size_t size) : in_(size), counts_(size) {}
  void meet() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++arrived_ == in_.size()) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ > round || !why_.empty(); });
    if (round_ == round) throw Error::fault("communicator", why_);
  }
  void abort(const std::string& why) {
    const std::lock_guard lock(mutex_);
    why_ = why;
    changed_.notify_all();
  }
  std::vector<const float*>& in() { return in_; }
  std::vector<std::vector<int64_t>>& counts() { return counts_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t arrived_ = 0;
  int64_t round_ = 0;
  std::string why_;
  std::vector<const float*> in_;
  std::vector<std::vector<int64_t>> counts_;
};

class FakeCommunicator : public backends::Communicator {
 public:
  FakeCommunicator(FakeMeeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(meeting_.in().size()); }

  void all_reduce(const void* in, void* out, int64_t count, ir::DType, sbp::Reduction reduction) override {
    act(in, out, [&] { return reduced(0, count, reduction); });
  }
  void reduce_scatter(const void* in, void* out, std::span<const int64_t> counts, ir::DType,
                      sbp::Reduction reduction) override {
    int64_t begin = 0;
    for (int r = 0; r < rank_; ++r) begin += at(counts, r);
    act(in, out, [&] { return reduced(begin, at(counts, rank_), reduction); });
  }
  void all_gather(const void* in, void* out, std::span<const int64_t> counts, ir::DType) override {
    act(in, out, [&] {
      std::vector<float> all;
      for (size_t r = 0; r < counts.size(); ++r)
        all.insert(all.end(), meeting_.in()[r], meeting_.in()[r] + counts[r]);
      return all;
    });
  }
  void all_to_all(const void* in, std::span<const int64_t> send_counts, void* out,
                  std::span<const int64_t> receive_counts, ir::DType) override {
    const auto mine = static_cast<size_t>(rank_);
    meeting_.counts()[mine].assign(send_counts.begin(), send_counts.end());
    act(in, out, [&] {
      std::vector<float> all;
      for (size_t r = 0; r < meeting_.in().size(); ++r) {
        const std::vector<int64_t>& counts = meeting_.counts()[r];
        if (counts[mine] != receive_counts[r]) throw std::logic_error("counts of all to all do not match");
        const float* from = meeting_.in()[r];
        for (size_t k = 0; k < mine; ++k) from += counts[k];
        all.insert(all.end(), from, from + counts[mine]);
      }
      return all;
    });
  }
  void broadcast(const void* in, void* out, int64_t count, ir::DType) override {
    act(in, out, [&] { return std::vector<float>(meeting_.in()[0], meeting_.in()[0] + count); });
  }
  void barrier() override { meeting_.meet(); }
  void send_to(const void* in, int64_t, int) override {
    at(meeting_.in(), rank_) = static_cast<const float*>(in);
    meeting_.meet();
    meeting_.meet();
  }
  void receive_from(void* out, int64_t bytes, int from) override {
    meeting_.meet();
    std::memcpy(out, at(meeting_.in(), from), static_cast<size_t>(bytes));
    meeting_.meet();
  }

 private:
  template <typename Result>
  void act(const void* in, void* out, Result result) {
    at(meeting_.in(), rank_) = static_cast<const float*>(in);
    meeting_.meet();
    const std::vector<float> values = result();
    meeting_.meet();
    if (!values.empty()) std::memcpy(out, values.data(), values.size() * sizeof(float));
  }
  std::vector<float> reduced(int64_t begin, int64_t count, sbp::Reduction reduction) const {
    std::vector<float> sum;
    for (int64_t i = begin; i < begin + count; ++i) {
      float value = meeting_.in()[0][i];
      for (size_t r = 1; r < meeting_.in().size(); ++r) {
        const float next = meeting_.in()[r][i];
        value = reduction == sbp::Reduction::sum   ? value + next
                : reduction == sbp::Reduction::max ? std::max(value, next)
                                                   : std::min(value, next);
      }
      sum.push_back(value);
    }
    return sum;
  }

  FakeMeeting& meeting_;
  int rank_;
};

// Wraps another communicator; its calls become acts of a late queue.
class LateCommunicator : public backends::Communicator {
 public:
  LateCommunicator(std::unique_ptr<Communicator> communicator, LateQueue& queue)
      : communicator_(std::move(communicator)), queue_(queue) {}
  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }
  void all_reduce(const void* in, void* out, int64_t count, ir::DType dtype,
                  sbp::Reduction reduction) override {
    queue_.put([=, this] { communicator_->all_reduce(in, out, count, dtype, reduction); });
  }
  void reduce_scatter(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype,
                      sbp::Reduction reduction) override {
    queue_.put([=, this, counts = kept(counts)] {
      communicator_->reduce_scatter(in, out, counts, dtype, reduction);
    });
  }
  void all_gather(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype) override {
    queue_.put([=, this, counts = kept(counts)] { communicator_->all_gather(in, out, counts, dtype); });
  }
  void all_to_all(const void* in, std::span<const int64_t> send_counts, void* out,
                  std::span<const int64_t> receive_counts, ir::DType dtype) override {
    queue_.put([=, this, send = kept(send_counts), receive = kept(receive_counts)] {
      communicator_->all_to_all(in, send, out, receive, dtype);
    });
  }
  void broadcast(const void* in, void* out, int64_t count, ir::DType dtype) override {
    queue_.put([=, this] { communicator_->broadcast(in, out, count, dtype); });
  }
  void barrier() override {
    queue_.put([this] { communicator_->barrier(); });
  }
  void send_to(const void* in, int64_t bytes, int to) override {
    queue_.put([=, this] { communicator_->send_to(in, bytes, to); });
  }
  void receive_from(void* out, int64_t bytes, int from) override {
    queue_.put([=, this] { communicator_->receive_from(out, bytes, from); });
  }

 private:
  static std::vector<int64_t> kept(std::span<const int64_t> counts) { return {counts.begin(), counts.end()}; }

  std::unique_ptr<Communicator> communicator_;
  LateQueue& queue_;
};

class FakeTransport : public backends::Transport {
 public:
  FakeTransport(FakeHub& hub, int process) : hub_(hub), process_(process) {}
  ~FakeTransport() override { stop(); }
  int process() const override { return process_; }
  int processes() const override;
  void listen(backends::Channel channel, Listener listener) override {
    listeners_.at(static_cast<size_t>(channel)) = std::move(listener);
  }
  void start() override {
    progress_ = std::thread([this] { deliver(); });
  }
  void send(int process, backends::Channel channel, std::span<const std::byte> bytes) override;
  void fail(const std::string& why) override;
  void check() const override {
    const std::lock_guard lock(mutex_);
    if (!why_.empty()) throw Error::fault("transport", why_);
  }
  void finish() override;

  void push(int from, backends::Channel channel, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    queue_.push_back({from, channel, {bytes.begin(), bytes.end()}});
    changed_.notify_one();
  }
  void failed(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (why_.empty()) why_ = why;
  }

 private:
  struct Item {
    int from = 0;
    backends::Channel channel = backends::Channel::bus;
    std::vector<std::byte> bytes;
  };
  void deliver() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !queue_.empty() || stopping_; });
      if (queue_.empty()) return;
      const Item item = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      listeners_.at(static_cast<size_t>(item.channel))(item.from, item.bytes);
      lock.lock();
    }
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_one();
    }
    if (progress_.joinable()) progress_.join();
  }

  FakeHub& hub_;
  int process_;
  std::array<Listener, backends::channels> listeners_;
  std::thread progress_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool stopping_ = false;
  std::string why_;
};

class FakeBackend : public backends::Backend {
 public:
  FakeBackend(FakeHub& hub, int process);
  int devices() const override;
  int process_of(int device) const override;
  bool is_local(int device) const override { return process_of(device) == process_; }
  backends::Device& device(int device) override { return *devices_.at(static_cast<size_t>(device)); }
  std::unique_ptr<backends::Communicator> communicator(const std::string& name, std::span<const int> group,
                                                       int device, backends::Queue& queue) override;
  bool sends() const override;
  backends::Transport* transport() override { return transport_.get(); }
  void check_recording() const override {}  // nothing is recorded: for the runtime's own refusals
  void abort(const std::string& why) override;

 private:
  FakeHub& hub_;
  int process_;
  std::vector<std::unique_ptr<FakeDevice>> devices_;  // null for devices of other processes
  std::unique_ptr<FakeTransport> transport_;
};

class FakeHub {
 public:
  int devices = 1, processes = 1;
  FakeKernel::Failing failing;
  int64_t late = -1;
  bool sends = false;
  std::vector<FakeTransport*> transports;

  FakeMeeting& meeting(const std::string& name, size_t size) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<FakeMeeting>& meeting = meetings_[name];
    if (!meeting) meeting = std::make_unique<FakeMeeting>(size);
    return *meeting;
  }
  void abort(const std::string& why) {
    const std::lock_guard lock(mutex_);
    for (auto& [name, meeting] : meetings_) meeting->abort(why);
    failed_ = true;
    left_.notify_all();
  }
  // Waits until all processes are here or one has failed.
  void leave() {
    std::unique_lock lock(mutex_);
    ++gone_;
    left_.notify_all();
    left_.wait(lock, [&] { return gone_ >= processes || failed_; });
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<FakeMeeting>> meetings_;
  std::condition_variable left_;
  int gone_ = 0;
  bool failed_ = false;
};

inline int FakeTransport::processes() const { return hub_.processes; }
inline void FakeTransport::send(int process, backends::Channel channel, std::span<const std::byte> bytes) {
  hub_.transports.at(static_cast<size_t>(process))->push(process_, channel, bytes);
}
inline void FakeTransport::fail(const std::string& why) {
  for (FakeTransport* other : hub_.transports) other->failed(why);
}
inline void FakeTransport::finish() {
  hub_.leave();
  stop();
}

inline FakeBackend::FakeBackend(FakeHub& hub, int process) : hub_(hub), process_(process) {
  for (int d = 0; d < hub.devices; ++d)
    devices_.push_back(is_local(d) ? std::make_unique<FakeDevice>(hub.failing, hub.late) : nullptr);
  if (hub.processes == 1) return;
  transport_ = std::make_unique<FakeTransport>(hub, process);
  hub.transports.push_back(transport_.get());
}
inline bool FakeBackend::sends() const { return hub_.sends; }
inline int FakeBackend::devices() const { return hub_.devices; }
inline int FakeBackend::process_of(int device) const { return device * hub_.processes / hub_.devices; }
inline std::unique_ptr<backends::Communicator> FakeBackend::communicator(const std::string& name,
                                                                         std::span<const int> group,
                                                                         int device, backends::Queue& queue) {
  const auto rank = static_cast<int>(std::find(group.begin(), group.end(), device) - group.begin());
  auto communicator = std::make_unique<FakeCommunicator>(hub_.meeting(name, group.size()), rank);
  auto* const late = dynamic_cast<LateQueue*>(&queue);
  if (!late) return communicator;
  return std::make_unique<LateCommunicator>(std::move(communicator), *late);
}
inline void FakeBackend::abort(const std::string& why) {
  hub_.abort(why);
  if (transport_) transport_->fail(why);
}

class FakeCluster {
 public:
  FakeCluster(int devices, int processes) {
    hub_.devices = devices;
    hub_.processes = processes;
    for (int p = 0; p < processes; ++p) backends_.push_back(std::make_unique<FakeBackend>(hub_, p));
  }
  FakeBackend& backend(int process) { return *backends_.at(static_cast<size_t>(process)); }
  int processes() const { return hub_.processes; }
  // Kernels throw if `failing` returns true. Set before anything runs.
  void fail_where(FakeKernel::Failing failing) { hub_.failing = std::move(failing); }
  // With `sends`, pulls between processes are acts of both devices' queues.
  void act_late(int64_t seed, bool sends = false) { hub_.late = seed, hub_.sends = sends; }

 private:
  FakeHub hub_;
  std::vector<std::unique_ptr<FakeBackend>> backends_;
};

}  // namespace boxcar::support
