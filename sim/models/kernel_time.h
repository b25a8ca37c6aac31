// How long a kernel runs on a device. The one truth that search and simulator ask.
//
// A size-aware roofline: time = max(flops / (peak x share by size), bytes / (bandwidth x share by size)), at least
// the device's shortest kernel, plus launch. The shares come from measured tables (docs/profiles.md).
#pragma once

#include "backends/cluster.h"
#include "ir/op.h"

namespace boxcar::sim {

// Seconds for one run of `def` on local types. Zero-element kernels take nothing.
double kernel_seconds(const backends::Device& device, const ir::OpDef& def, const ir::Types& inputs,
                      const ir::Types& outputs, const ir::Attrs& attrs);

}  // namespace boxcar::sim
