// Elements of any float type, and bytes, as the stand-ins of libraries read and write them.
#pragma once

#include <cstdint>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime_api.h"

namespace cuda_on_cpu {

inline double read(const void* data, cudaDataType_t type, int64_t i) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<const double*>(data)[i];
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[i]);
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    case CUDA_R_8I:
      return static_cast<const int8_t*>(data)[i];
    default:
      return static_cast<const float*>(data)[i];
  }
}
inline void write(void* data, cudaDataType_t type, int64_t i, double x) {
  switch (type) {
    case CUDA_R_64F:
      static_cast<double*>(data)[i] = x;
      break;
    case CUDA_R_16F:
      static_cast<__half*>(data)[i] = __double2half(x);
      break;
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(data)[i] = __double2bfloat16(x);
      break;
    case CUDA_R_8I:
      static_cast<int8_t*>(data)[i] = static_cast<int8_t>(x);
      break;
    default:
      static_cast<float*>(data)[i] = static_cast<float>(x);
  }
}

}  // namespace cuda_on_cpu
