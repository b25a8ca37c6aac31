#include "backends/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "backends/cpu/cpu_communicator.h"
#include "backends/cpu/cpu_device.h"
#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(int devices, std::unique_ptr<Transport> transport)
      : devices_(static_cast<size_t>(devices)), waits_(transport.get()), transport_(std::move(transport)) {
    if (transport_) {
      transport_->listen(Channel::control,
                         [this](int, std::span<const std::byte> bytes) { mailboxes_.put(bytes); });
    }
  }

  int devices() const override { return static_cast<int>(devices_.size()); }
  int process_of(int device) const override {
    const int64_t processes = transport_ ? transport_->processes() : 1;
    return static_cast<int>(device * processes / devices());
  }
  bool is_local(int device) const override {
    return process_of(device) == (transport_ ? transport_->process() : 0);
  }
  Device& device(int device) override { return devices_.at(static_cast<size_t>(device)); }

  std::unique_ptr<Communicator> communicator(const std::string& name, std::span<const int> group, int device,
                                             Queue&) override {
    const auto member = std::find(group.begin(), group.end(), device);
    if (member == group.end() || !is_local(device)) {
      throw Error::fault(name, fmt::format("device {} is no member in this process", device));
    }
    const CpuCommunicator::Links links{waits_, mailboxes_, transport_.get(),
                                       [this](int other) { return process_of(other); }};
    return std::make_unique<CpuCommunicator>(name, meeting(name, group),
                                             static_cast<int>(member - group.begin()), links);
  }
  Transport* transport() override { return transport_.get(); }
  void abort(const std::string& why) override { waits_.abort(why); }

 private:
  // The one of this name that members here have, or a new one.
  std::shared_ptr<Meeting> meeting(const std::string& name, std::span<const int> group) {
    std::lock_guard lock(mutex_);
    std::weak_ptr<Meeting>& entry = meetings_[name];
    std::shared_ptr<Meeting> meeting = entry.lock();
    if (!meeting) {
      meeting = std::make_shared<Meeting>(group);
      entry = meeting;
    }
    if (!std::equal(group.begin(), group.end(), meeting->devices.begin(), meeting->devices.end())) {
      throw Error::fault(name, "two groups of this name are in use at once");
    }
    return meeting;
  }

  std::vector<CpuDevice> devices_;
  Waits waits_;
  Mailboxes mailboxes_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Meeting>> meetings_;
  std::unique_ptr<Transport> transport_;  // ends first: its listener uses the others
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int devices, std::unique_ptr<Transport>&& transport) {
  if (devices < 1) throw Error::input("devices", fmt::format("{} is less than 1", devices));
  if (transport && transport->processes() > devices) {
    throw Error::input("devices", fmt::format("{} for {} processes; start at most {}", devices,
                                              transport->processes(), devices));
  }
  return std::make_unique<CpuBackend>(devices, std::move(transport));
}

}  // namespace boxcar::backends::cpu
