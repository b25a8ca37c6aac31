// A backend whose groups communicate by NcclCommunicator over the fake NCCL library: memory of this process,
// queues that act late in place of streams.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/cpu_device.h"
#include "backends/cuda/nccl_communicator.h"
#include "support/late_queue.h"

namespace boxcar::tests {

inline const backends::cuda::NcclApi& fake_nccl() {
  static const backends::cuda::NcclApi api = backends::cuda::load_nccl(BOXCAR_FAKE_NCCL);
  return api;
}

class LateStream : public backends::cuda::NcclStream {
 public:
  LateStream(support::LateQueue& queue, int64_t& token) : queue_(queue), token_(token) {}
  void* handle() override { return static_cast<backends::Queue*>(&queue_); }
  std::function<bool()> probe() override {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    queue_.put([done] { *done = true; });
    return [done] { return done->load(); };
  }
  void* token() override { return &token_; }

 private:
  support::LateQueue& queue_;
  int64_t& token_;
};

class LateDevice : public backends::cpu::CpuDevice {
 public:
  std::unique_ptr<backends::Queue> queue(ir::QueueKind) override {
    return std::make_unique<support::LateQueue>(3);
  }
};

class NcclBackend : public backends::Backend {
 public:
  NcclBackend(int devices, std::unique_ptr<backends::Transport> transport, double seconds = 60,
              double leaving = 15)
      : devices_(static_cast<size_t>(devices)),
        waits_(transport.get()),
        transport_(std::move(transport)),
        groups_(fake_nccl(), waits_, mailboxes_, transport_.get(), seconds, leaving) {
    if (transport_)
      transport_->listen(backends::Channel::control,
                         [this](int, std::span<const std::byte> bytes) { mailboxes_.put(bytes); });
  }
  int devices() const override { return static_cast<int>(devices_.size()); }
  int process_of(int device) const override {
    return transport_ ? device * transport_->processes() / devices() : 0;
  }
  bool is_local(int device) const override {
    return process_of(device) == (transport_ ? transport_->process() : 0);
  }
  backends::Device& device(int device) override { return devices_.at(static_cast<size_t>(device)); }
  std::unique_ptr<backends::Communicator> communicator(const std::string& name, std::span<const int> group,
                                                       int device, backends::Queue& queue) override {
    return groups_.communicator(
        name, group, device, std::make_unique<LateStream>(dynamic_cast<support::LateQueue&>(queue), token()),
        [this](int d) { return process_of(d); });
  }
  bool sends() const override { return true; }
  backends::Transport* transport() override { return transport_.get(); }
  void abort(const std::string& why) override { waits_.abort(why); }
  backends::cpu::Waits& waits() { return waits_; }
  backends::cuda::NcclGroups& groups() { return groups_; }

 private:
  int64_t& token() {
    const std::lock_guard lock(mutex_);
    return tokens_.emplace_back(0);
  }

  std::vector<LateDevice> devices_;
  std::mutex mutex_;
  std::deque<int64_t> tokens_;  // of streams; a queue may read one after its communicator has ended
  backends::cpu::Waits waits_;
  backends::cpu::Mailboxes mailboxes_;
  std::unique_ptr<backends::Transport> transport_;  // ends before what its listener uses
  backends::cuda::NcclGroups groups_;               // ends first: it watches the transport
};

}  // namespace boxcar::tests
