// What kernels find wrong with their operands: a word of pinned memory for each kernel that looks. The kernel
// writes what it found, and the host reads it where it waits for the kernel.
//
//   int64_t* found = faults.word([limit](int64_t index) { limit.check(index); });
//   launch_check_limit(indices, count, below, found, stream);      // *found = 7, if an index is 7
//   ...
//   faults.check();                                                // embedding: has the index 7, expected 0
//   to 4
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace boxcar::backends::cuda {

class PinnedMemory;

class KernelFaults {
 public:
  using Tell = std::function<void(int64_t found)>;  // throws Error (fault)

  KernelFaults();
  ~KernelFaults();
  KernelFaults(const KernelFaults&) = delete;
  KernelFaults& operator=(const KernelFaults&) = delete;
  // The address of a word that is 0 until a kernel writes to it. By a thread that has chosen a GPU.
  int64_t* word(Tell tell);
  // Calls the first `tell` whose word is not 0.
  void check() const;

 private:
  static constexpr size_t words_of_page = 512;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<PinnedMemory>> pages_;
  std::vector<Tell> tells_;  // by word
};

}  // namespace boxcar::backends::cuda
