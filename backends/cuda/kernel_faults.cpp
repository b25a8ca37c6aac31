#include "backends/cuda/kernel_faults.h"

#include <atomic>
#include <utility>

#include "backends/cuda/cuda_device.h"
#include "backends/waiting.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {

void KernelFault::launched() {
  if (act.empty()) act = Waiting::here();
}

KernelFaults::KernelFaults() = default;
KernelFaults::~KernelFaults() = default;

KernelFault& KernelFaults::add(std::function<void(int64_t found)> tell) {
  const std::lock_guard lock(mutex_);
  const size_t place = faults_.size() % words_of_page;
  if (place == 0) pages_.push_back(std::make_unique<PinnedMemory>(words_of_page * sizeof(int64_t)));
  auto* const found = reinterpret_cast<int64_t*>(pages_.back()->data()) + place;
  return faults_.emplace_back(KernelFault{found, std::move(tell)});
}

void KernelFaults::check() const {
  const std::lock_guard lock(mutex_);
  for (const KernelFault& fault : faults_) {
    const int64_t found = std::atomic_ref(*fault.found).load();
    if (found == 0) continue;
    try {
      fault.tell(found);
    } catch (const Error& error) {
      if (fault.act.empty()) throw;
      throw Error::fault(fault.act, error.what());
    }
  }
}

}  // namespace boxcar::backends::cuda
