#include "cuda_on_cpu/tally.h"
#include "fake_nccl/stream.h"

namespace fake_nccl {

void put(void* stream, Act act, int blocks) {
  cuda_on_cpu::put_until(static_cast<cudaStream_t>(stream), std::move(act), blocks);
}
bool captures(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status);
  return status == cudaStreamCaptureStatusActive;
}
void touch() { cuda_on_cpu::touch(); }

}  // namespace fake_nccl
