// Seconds of one matrix product on a device, from its shape alone.
//
//   time   = start + (waves^4 + memory^4)^(1/4)
//   waves  = least over tiles and splits of k: waves x (2 rows columns k / (peak / multiprocessors x share)
//            + wave_seconds) / matmul_efficiency(flops); a started wave costs a whole, but for wave_overlap
//   memory = (bytes + ramp_bytes) / (bandwidth x memory_share)
//
//   16 bits on an A100, 512 x 6144 x 6144: 96 tiles of 128 x 256 fill 0.89 of a wave of 108 multiprocessors
//
// The constants are fitted to measured products (docs/profiles.md).
#pragma once

#include <cstdint>

#include "backends/cluster.h"

namespace boxcar::sim {

struct MatmulShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
};

// REQUIRES all extents >= 1. `bytes`: what is read and written.
double matmul_seconds(const backends::DeviceProfile& device, const MatmulShape& shape, ir::DType type,
                      double bytes);

// The product's waves alone, in `model`'s tiles, at `peak`: k is split in up to `most_split` parts.
double waves_seconds(const backends::DeviceProfile& device, const backends::MatmulModel& model,
                     const MatmulShape& shape, double peak, int most_split);
double fourth_power_sum(double a, double b);  // (a^4 + b^4)^(1/4)

// Peak by the operands' type; of float32 where the type has none.
double peak_flops(const backends::DeviceProfile& device, ir::DType type);

}  // namespace boxcar::sim
