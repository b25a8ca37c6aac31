// The time of a kernel on a device. Search and simulator both ask this model.
//
//   matmul, batch_matmul, matmul_weight_grad   tiles in waves, from the shape (matmul_time.h)
//   fused attention                            flops / (peak x share by sequence length)
//   convolution                                product or winograd, from the shape (convolution_time.h);
//                                              without that model on the device:
//                                              flops / (peak x share by flops x op_share)
//   all other kernels                          bytes / (bandwidth x share by bytes x op_share x
//                                              half_op_share) + op_seconds
//
// The launch is added, and the shortest kernel's time unless the family has its own. Views (family none) take
// nothing unless op_share names them: then they are copies. The constants come from measured tables
// (docs/profiles.md). Pure; any thread.
#pragma once

#include "backends/machines/forward.h"
#include "ir/op.h"

namespace boxcar::sim {

// Seconds for one run of `def` on local types. Zero-element kernels take nothing.
double kernel_seconds(const backends::DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                      const ir::Types& outputs, const ir::Attrs& attrs);

// The same for a product that reads 8 bits if its operands have 16; float8_casts.h has their casts. REQUIRES
// device.float8.
double float8_product_seconds(const backends::DeviceProfile& device, const ir::OpDef& def,
                              const ir::Types& inputs, const ir::Types& outputs, const ir::Attrs& attrs);

inline bool is_half(ir::DType type) { return type == ir::DType::float16 || type == ir::DType::bfloat16; }

// Whether rows of an operand or the result have an odd number of elements in 16 bits. They begin at places
// that do not allow a load of two elements: such products have kernels of their own.
bool has_odd_rows(const ir::Types& inputs, const ir::Types& outputs);

// The products of a training step differ by layout: "matmul" forward, "matmul_input_grad" (a transposed
// weight), "matmul_weight_grad". op_share has these names; with "odd_" before, they are factors on the
// compute rate of odd rows.
const char* role_name(const ir::OpDef& def, const ir::Attrs& attrs);

}  // namespace boxcar::sim
