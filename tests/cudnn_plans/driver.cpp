// The part of CUDA's driver that cuDNN loads to plan for an absent GPU: it reports no GPU and accepts every
// library of kernels that cuDNN compiled. Nothing runs.

extern "C" {

constexpr int done = 0, no_gpu = 100;

int cuGetErrorString(int, const char** text) {
  *text = "there is no GPU";
  return done;
}
int cuGetErrorName(int error, const char** text) { return cuGetErrorString(error, text); }
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return done;
}
int cuDeviceGetCount(int* count) {
  *count = 0;
  return no_gpu;
}
int cuLibraryLoadData(void** library) {
  static char loaded;
  *library = &loaded;
  return done;
}
int cuLibraryGetKernel(void** kernel) { return cuLibraryLoadData(kernel); }
int cuLibraryUnload() { return done; }

// It wants them to be there.
int cuInit() { return no_gpu; }
int cuCtxGetCurrent() { return no_gpu; }
int cuCtxGetLimit() { return no_gpu; }
int cuCtxPopCurrent() { return no_gpu; }
int cuCtxPushCurrent() { return no_gpu; }
int cuDeviceGet() { return no_gpu; }
int cuKernelGetAttribute() { return no_gpu; }
int cuKernelSetAttribute() { return no_gpu; }
int cuLaunchCooperativeKernel() { return no_gpu; }
int cuLaunchKernel() { return no_gpu; }
int cuLaunchKernelEx() { return no_gpu; }
int cuLibraryLoadFromFile() { return no_gpu; }
int cuLinkAddData() { return no_gpu; }
int cuLinkComplete() { return no_gpu; }
int cuLinkCreate() { return no_gpu; }
int cuLinkDestroy() { return no_gpu; }
int cuOccupancyMaxPotentialClusterSize() { return no_gpu; }
int cuStreamGetCtx() { return no_gpu; }
}
