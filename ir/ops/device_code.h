// A mark for formulas shared by kernels of the CPU and of CUDA. Plain C++17.
#pragma once

#ifdef __CUDACC__
#define BOXCAR_DEVICE __device__
#else
#define BOXCAR_DEVICE
#endif
