#include "sim/explain/device_trace.h"

#include <gtest/gtest.h>

#include <optional>

namespace boxcar::explain {
namespace {

TEST(DeviceTrace, KernelsByTheirNames) {
  const auto class_of = [](const char* name) { return class_of_kernel(name); };
  EXPECT_EQ(class_of("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"), WorkClass::products);
  EXPECT_EQ(class_of("void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<...>>"),
            WorkClass::products);
  EXPECT_EQ(class_of("void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>"),
            WorkClass::attention);
  EXPECT_EQ(class_of("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7"),
            WorkClass::attention);
  EXPECT_EQ(class_of("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
            WorkClass::collectives);
  EXPECT_EQ(class_of("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"), WorkClass::transfers);
  EXPECT_EQ(class_of("sm90_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc"),
            WorkClass::convolutions);
  EXPECT_EQ(class_of("triton_poi_fused_add_mul_3"), WorkClass::kernels);
  EXPECT_EQ(class_of("multi_tensor_apply_kernel<...>"), WorkClass::kernels);
  EXPECT_EQ(class_of("my_own_kernel"), std::nullopt);
}

}  // namespace
}  // namespace boxcar::explain
