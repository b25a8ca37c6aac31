// Faults that kernels find in their operands: a word of pinned memory for each kernel that looks. The kernel
// writes what it found, and the host reads it where it waits for the kernel.
//
//   KernelFault& fault = faults.add([limit](int64_t index) { limit.check(index); });
//   fault.launched();                                       // by the thread of the act "device 0: e"
//   launch_check_limit(indices, count, below, fault.found, stream);
//   ...
//   faults.check();   // throws "device 0: e: embedding: has the index 7, expected 0 to 4"
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace boxcar::backends::cuda {

class PinnedMemory;

struct KernelFault {
  int64_t* found = nullptr;                 // 0 until the kernel writes to it
  std::function<void(int64_t found)> tell;  // throws Error (fault)
  std::string act = {};                     // that launches the kernel

  // Notes the calling thread's act.
  void launched();
};

class KernelFaults {
 public:
  KernelFaults();
  ~KernelFaults();
  KernelFaults(const KernelFaults&) = delete;
  KernelFaults& operator=(const KernelFaults&) = delete;
  // By a thread that has chosen a GPU. The result lives as long as this.
  KernelFault& add(std::function<void(int64_t found)> tell);
  // Throws what the first kernel tells that has found something, with its act.
  void check() const;

 private:
  static constexpr size_t words_of_page = 512;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<PinnedMemory>> pages_;  // of the words
  std::deque<KernelFault> faults_;
};

}  // namespace boxcar::backends::cuda
