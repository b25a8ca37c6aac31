#include <dlfcn.h>
#include <fmt/format.h>

#include "backends/cuda/nccl_api.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

constexpr const char* needed =
    "collectives between GPUs need NCCL 2.18 or later; install it, or name its "
    "folder in LD_LIBRARY_PATH";

template <typename Function>
void find(void* library, const std::string& name, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (!function) throw Error::cannot_run(name, fmt::format("has no {}; {}", symbol, needed));
}

}  // namespace

NcclApi load_nccl(const std::string& name) {
  void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw Error::cannot_run(name, fmt::format("is not found; {}", needed));
  NcclApi api{};
  find(library, name, "ncclGetVersion", api.ncclGetVersion);
  find(library, name, "ncclGetErrorString", api.ncclGetErrorString);
  find(library, name, "ncclGetLastError", api.ncclGetLastError);
  find(library, name, "ncclGetUniqueId", api.ncclGetUniqueId);
  find(library, name, "ncclCommInitRankConfig", api.ncclCommInitRankConfig);
  find(library, name, "ncclCommGetAsyncError", api.ncclCommGetAsyncError);
  find(library, name, "ncclCommAbort", api.ncclCommAbort);
  find(library, name, "ncclGroupStart", api.ncclGroupStart);
  find(library, name, "ncclGroupEnd", api.ncclGroupEnd);
  find(library, name, "ncclAllReduce", api.ncclAllReduce);
  find(library, name, "ncclReduceScatter", api.ncclReduceScatter);
  find(library, name, "ncclReduce", api.ncclReduce);
  find(library, name, "ncclAllGather", api.ncclAllGather);
  find(library, name, "ncclBroadcast", api.ncclBroadcast);
  find(library, name, "ncclSend", api.ncclSend);
  find(library, name, "ncclRecv", api.ncclRecv);
  int version = 0;
  if (api.ncclGetVersion(&version) != nccl_success || version < 21800)
    throw Error::cannot_run(
        name, fmt::format("is version {}.{}; {}", version / 10000, version / 100 % 100, needed));
  return api;
}

}  // namespace boxcar::backends::cuda
