#include "backends/cuda/kernel_faults.h"

#include <atomic>

#include "backends/cuda/cuda_device.h"

namespace boxcar::backends::cuda {

KernelFaults::KernelFaults() = default;
KernelFaults::~KernelFaults() = default;

int64_t* KernelFaults::word(Tell tell) {
  const std::lock_guard lock(mutex_);
  const size_t number = tells_.size(), place = number % words_of_page;
  if (place == 0) pages_.push_back(std::make_unique<PinnedMemory>(words_of_page * sizeof(int64_t)));
  tells_.push_back(std::move(tell));
  return reinterpret_cast<int64_t*>(pages_.back()->data()) + place;
}

void KernelFaults::check() const {
  const std::lock_guard lock(mutex_);
  for (size_t number = 0; number < tells_.size(); ++number) {
    auto* const page = reinterpret_cast<int64_t*>(pages_[number / words_of_page]->data());
    const int64_t found = std::atomic_ref(page[number % words_of_page]).load();
    if (found != 0) tells_[number](found);
  }
}

}  // namespace boxcar::backends::cuda
