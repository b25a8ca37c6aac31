// NCCL's C interface as a table of functions, found in a shared library when a run needs it: programs build
// and start without NCCL, and tests load a library of their own in its place.
//
//   const NcclApi nccl = load_nccl();                           // libnccl.so.2, wherever the system finds it
//   nccl.ncclGetUniqueId(&id);
//
// The declarations are NCCL's own since 2.18 (values and layouts do not change); if nccl.h is found,
// nccl_header.cpp checks them against it.
#pragma once

#include <climits>
#include <cstddef>
#include <string>

namespace boxcar::backends::cuda {

struct ncclComm;  // opaque
struct NcclId {
  char internal[128];
};
// Configuration of version 2.18, as the library reads it.
struct NcclConfig {
  static constexpr int undefined = INT_MIN;
  size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21800;
  int blocking = 0;
  int cga_cluster_size = undefined;
  int least_blocks = undefined, most_blocks = undefined;  // of a kernel: multiprocessors that it takes
  const char* net_name = nullptr;
  int split_share = undefined;
};

enum NcclResult : int { nccl_success = 0, nccl_in_progress = 7 };
enum NcclType : int {
  nccl_int8 = 0,
  nccl_uint8 = 1,
  nccl_int32 = 2,
  nccl_int64 = 4,
  nccl_float16 = 6,
  nccl_float32 = 7,
  nccl_float64 = 8,
  nccl_bfloat16 = 9
};
enum NcclReduction : int { nccl_sum = 0, nccl_max = 2, nccl_min = 3 };

struct NcclApi {
  NcclResult (*ncclGetVersion)(int* version);
  const char* (*ncclGetErrorString)(NcclResult result);
  const char* (*ncclGetLastError)(ncclComm* comm);
  NcclResult (*ncclGetUniqueId)(NcclId* id);
  NcclResult (*ncclCommInitRankConfig)(ncclComm** comm, int ranks, NcclId id, int rank, NcclConfig* config);
  NcclResult (*ncclCommGetAsyncError)(ncclComm* comm, NcclResult* result);
  NcclResult (*ncclCommAbort)(ncclComm* comm);
  NcclResult (*ncclGroupStart)();
  NcclResult (*ncclGroupEnd)();
  NcclResult (*ncclAllReduce)(const void* in, void* out, size_t count, NcclType type, NcclReduction reduction,
                              ncclComm* comm, void* stream);
  NcclResult (*ncclReduceScatter)(const void* in, void* out, size_t count, NcclType type,
                                  NcclReduction reduction, ncclComm* comm, void* stream);
  NcclResult (*ncclReduce)(const void* in, void* out, size_t count, NcclType type, NcclReduction reduction,
                           int root, ncclComm* comm, void* stream);
  NcclResult (*ncclAllGather)(const void* in, void* out, size_t count, NcclType type, ncclComm* comm,
                              void* stream);
  NcclResult (*ncclBroadcast)(const void* in, void* out, size_t count, NcclType type, int root,
                              ncclComm* comm, void* stream);
  NcclResult (*ncclSend)(const void* from, size_t count, NcclType type, int peer, ncclComm* comm,
                         void* stream);
  NcclResult (*ncclRecv)(void* to, size_t count, NcclType type, int peer, ncclComm* comm, void* stream);
};

// Looks where the loader looks, then in `folder` unless it is empty. The library stays loaded. Throws Error
// (cannot run) if there is none, or it is too old.
NcclApi load_nccl(const std::string& library = "libnccl.so.2", const std::string& folder = "");

}  // namespace boxcar::backends::cuda
