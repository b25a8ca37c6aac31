#include "sim/models/matmul_time.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/machines/device_profile.h"

namespace boxcar::sim {
namespace {

constexpr int parts_of_products[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 32};
constexpr Splits splits_of_products{parts_of_products, 8};
constexpr int64_t least_k_of_split = 256;
constexpr double largest_tile = 256 * 128;  // elements

struct Waves {
  const backends::MatmulModel& model;
  const MatmulShape& shape;
  double multiprocessors, peak_of_one, bandwidth, element_bytes;
  const Splits& splits;

  // With tiles of rows x columns, the best split of k.
  double seconds(int rows, int columns, double share) const {
    const double tiles =
        static_cast<double>(shape.batch * ceil_div(shape.m, rows) * ceil_div(shape.n, columns));
    const double k = static_cast<double>(shape.k), elements = static_cast<double>(rows) * columns;
    const double arithmetic = 2 * elements * k / (peak_of_one * share);
    const double constant = model.wave_seconds + model.tile_seconds * elements / largest_tile;
    double best = std::numeric_limits<double>::infinity();
    for (const int split : splits.parts) {
      const double parts = tiles * split;
      if (split > 1 && (parts > splits.most_waves * multiprocessors || shape.k < least_k_of_split * split))
        break;
      const double of_tile = fourth_power_sum(arithmetic, cache_seconds(rows + columns, k, parts)) / split;
      best = std::min(best, waves(parts) * (of_tile + constant) + split_cost(split));
    }
    return best;
  }

  // Reads of a tile's operands, by all tiles of a wave at once.
  double cache_seconds(int edges, double k, double parts) const {
    if (model.cache_bandwidth == 0) return 0;
    return edges * k * element_bytes * std::min(parts, multiprocessors) / model.cache_bandwidth;
  }

  double waves(double parts) const {
    double count = parts / multiprocessors;
    double whole = static_cast<double>(static_cast<int64_t>(count));
    if (whole < count) whole += 1;
    return whole + model.wave_overlap * (std::max(count, 1.0) - whole);
  }

  // Partial results in float32 are written and read once more.
  double split_cost(int split) const {
    if (split == 1) return 0;
    return model.split_seconds + split * 8.0 * static_cast<double>(shape.batch * shape.m * shape.n) /
                                     (model.cache_bandwidth == 0 ? bandwidth : model.cache_bandwidth);
  }
};

}  // namespace

double fourth_power_sum(double a, double b) {
  a *= a;
  b *= b;
  return std::sqrt(std::sqrt(a * a + b * b));
}

double waves_seconds(const backends::DeviceProfile& device, const backends::MatmulModel& model,
                     const MatmulShape& shape, ir::DType type, double peak, const Splits& splits) {
  const double count = device.multiprocessors;
  const Waves waves{
      model, shape, count, peak / count, device.memory_bandwidth, static_cast<double>(ir::size_of(type)),
      splits};
  double least = std::numeric_limits<double>::infinity();
  for (const auto& tile : model.tiles) {
    least = std::min(least, waves.seconds(tile.rows, tile.columns, tile.share));
    if (tile.rows != tile.columns)
      least = std::min(least, waves.seconds(tile.columns, tile.rows, tile.share));
  }
  return least;
}

double peak_flops(const backends::DeviceProfile& device, ir::DType type) {
  auto found = device.peak_flops.find(type);
  if (found == device.peak_flops.end()) found = device.peak_flops.find(ir::DType::float32);
  return found == device.peak_flops.end() ? 0 : found->second;
}

double matmul_seconds(const backends::DeviceProfile& device, const MatmulShape& shape, ir::DType type,
                      double bytes, double rate) {
  const backends::MatmulModel& model = device.matmul;
  double peak = peak_flops(device, type) * rate;
  if (auto share = model.type_share.find(type); share != model.type_share.end()) peak *= share->second;
  if (ir::size_of(type) <= 2) peak *= device.under_load;
  double flops = 2.0 * static_cast<double>(shape.batch) * static_cast<double>(shape.m) *
                 static_cast<double>(shape.n) * static_cast<double>(shape.k);
  double memory = (bytes + model.ramp_bytes) / (device.memory_bandwidth * model.memory_share);
  double compute = flops / peak;
  if (!model.tiles.empty() && device.multiprocessors > 0)
    compute = waves_seconds(device, model, shape, type, peak, splits_of_products);
  return model.start_seconds + fourth_power_sum(compute / device.matmul_efficiency.at(flops), memory);
}

}  // namespace boxcar::sim
