#include "cuda_on_cpu/tally.h"
#include "fake_nccl/stream.h"

namespace fake_nccl {

void put(void* stream, Act act) { cuda_on_cpu::put_until(static_cast<cudaStream_t>(stream), std::move(act)); }
bool captures(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status);
  return status == cudaStreamCaptureStatusActive;
}

}  // namespace fake_nccl
