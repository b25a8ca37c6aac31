// Seconds of one matrix product on a device, from its shape alone.
//
//   time   = start + sum4(waves, memory), where sum4(a, b) = (a^4 + b^4)^(1/4)
//   waves  = least over tiles and splits of k: waves x wave / matmul_efficiency(flops); a started wave costs
//            a whole one, except for wave_overlap
//   wave   = sum4(arithmetic, cache) + wave_seconds + tile_seconds x rows columns / 32768
//   arithmetic = 2 rows columns k / (peak / multiprocessors x the tile's share)
//   cache  = (rows + columns) k element bytes x tiles at once / cache_bandwidth
//   memory = (bytes + ramp_bytes) / (bandwidth x memory_share)
//
//   16 bits on an A100, 512 x 6144 x 6144: 96 tiles of 128 x 256 fill 0.89 of a wave of 108 multiprocessors
//
// The constants are fitted to measured products (docs/profiles.md).
#pragma once

#include <cstdint>
#include <span>

#include "backends/machines/forward.h"
#include "ir/types.h"

namespace boxcar::sim {

struct MatmulShape {
  int64_t batch = 1, m = 0, n = 0, k = 0;
};

// REQUIRES all extents >= 1. `bytes`: read and written. `rate`: a factor on the peak.
double matmul_seconds(const backends::DeviceProfile& device, const MatmulShape& shape, ir::DType type,
                      double bytes, double rate = 1);

// Numbers of parts that k may be split into, ascending from 1, while parts of all tiles come to at most
// `most_waves`.
struct Splits {
  std::span<const int> parts;
  double most_waves;
};

// The product's waves alone, in `model`'s tiles, at `peak`.
double waves_seconds(const backends::DeviceProfile& device, const backends::MatmulModel& model,
                     const MatmulShape& shape, ir::DType type, double peak, const Splits& splits);
double fourth_power_sum(double a, double b);  // (a^4 + b^4)^(1/4)
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Peak by the operands' type; float32's if the type has none.
double peak_flops(const backends::DeviceProfile& device, ir::DType type);

}  // namespace boxcar::sim
