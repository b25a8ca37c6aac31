// Checks nccl_api.h against NCCL's own header, if that is found.
#if __has_include(<nccl.h>)
#include <nccl.h>

#include <type_traits>

#include "backends/cuda/nccl_api.h"

namespace boxcar::backends::cuda {
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
static_assert(offsetof(NcclConfig, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(NcclConfig, version) == offsetof(ncclConfig_t, version) &&
              offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking) &&
              offsetof(NcclConfig, cga_cluster_size) == offsetof(ncclConfig_t, cgaClusterSize) &&
              offsetof(NcclConfig, least_blocks) == offsetof(ncclConfig_t, minCTAs) &&
              offsetof(NcclConfig, most_blocks) == offsetof(ncclConfig_t, maxCTAs) &&
              offsetof(NcclConfig, net_name) == offsetof(ncclConfig_t, netName) &&
              offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare) &&
              NcclConfig::undefined == NCCL_CONFIG_UNDEF_INT);
static_assert(int{nccl_success} == ncclSuccess && int{nccl_in_progress} == ncclInProgress);
static_assert(int{nccl_int8} == ncclInt8 && int{nccl_uint8} == ncclUint8 && int{nccl_int32} == ncclInt32 &&
              int{nccl_int64} == ncclInt64 && int{nccl_float16} == ncclFloat16 &&
              int{nccl_float32} == ncclFloat32 && int{nccl_float64} == ncclFloat64 &&
              int{nccl_bfloat16} == ncclBfloat16);
static_assert(int{nccl_sum} == ncclSum && int{nccl_max} == ncclMax && int{nccl_min} == ncclMin);

}  // namespace
}  // namespace boxcar::backends::cuda
#endif
