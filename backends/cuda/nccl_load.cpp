#include <fmt/format.h>

#include "backends/cuda/nccl_api.h"
#include "backends/cuda/shared_library.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

constexpr const char* needed =
    "collectives between GPUs need NCCL 2.18 or later; install it, or name its "
    "folder in LD_LIBRARY_PATH";

}  // namespace

NcclApi load_nccl(const std::string& name, const std::string& folder) {
  const SharedLibrary library(name, needed, folder);
  NcclApi api{};
  library.find("ncclGetVersion", api.ncclGetVersion);
  library.find("ncclGetErrorString", api.ncclGetErrorString);
  library.find("ncclGetLastError", api.ncclGetLastError);
  library.find("ncclGetUniqueId", api.ncclGetUniqueId);
  library.find("ncclCommInitRankConfig", api.ncclCommInitRankConfig);
  library.find("ncclCommGetAsyncError", api.ncclCommGetAsyncError);
  library.find("ncclCommAbort", api.ncclCommAbort);
  library.find("ncclGroupStart", api.ncclGroupStart);
  library.find("ncclGroupEnd", api.ncclGroupEnd);
  library.find("ncclAllReduce", api.ncclAllReduce);
  library.find("ncclReduceScatter", api.ncclReduceScatter);
  library.find("ncclReduce", api.ncclReduce);
  library.find("ncclAllGather", api.ncclAllGather);
  library.find("ncclBroadcast", api.ncclBroadcast);
  library.find("ncclSend", api.ncclSend);
  library.find("ncclRecv", api.ncclRecv);
  int version = 0;
  if (api.ncclGetVersion(&version) != nccl_success || version < 21800)
    throw Error::cannot_run(
        name, fmt::format("is version {}.{}; {}", version / 10000, version / 100 % 100, needed));
  return api;
}

}  // namespace boxcar::backends::cuda
