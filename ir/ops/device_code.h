// What a formula is marked with that kernels of the CPU and of CUDA are made of. Plain C++17.
#pragma once

#ifdef __CUDACC__
#define BOXCAR_DEVICE __device__
#else
#define BOXCAR_DEVICE
#endif
