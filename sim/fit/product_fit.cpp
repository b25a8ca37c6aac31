#include "sim/fit/product_fit.h"

#include <algorithm>
#include <cmath>

#include "backends/machines/device_profile.h"
#include "sim/fit/dials.h"

namespace boxcar::fit {
namespace {

double mean_misfit(const std::vector<ProductSample>& samples, const backends::DeviceProfile& device) {
  double sum = 0;
  for (const ProductSample& s : samples)
    sum += misfit(sim::matmul_seconds(device, s.shape, s.type, s.bytes), s.seconds);
  return sum / static_cast<double>(samples.size());
}

}  // namespace

void fit_products(const std::vector<ProductSample>& samples, ir::DType type,
                  backends::DeviceProfile& device) {
  std::vector<ProductSample> main, others;
  for (const ProductSample& sample : samples) (sample.type == type ? main : others).push_back(sample);
  if (main.empty()) return;
  // Starts near the devices that were fitted from tables.
  backends::MatmulModel& m = device.matmul;
  m.tiles = {{256, 128, 1}, {128, 128, 0.95}, {256, 64, 0.9}, {128, 64, 0.85}, {64, 64, 0.7}};
  m.wave_overlap = 0.7, m.wave_seconds = 1.5e-6, m.split_seconds = 2e-6, m.start_seconds = 1e-6;
  m.memory_share = 0.8, m.ramp_bytes = 3e6;
  m.tile_seconds = 0.5e-6, m.cache_bandwidth = 5 * device.memory_bandwidth;
  backends::Curve& curve = device.matmul_efficiency;
  for (const ProductSample& sample : main) {
    const double flops = 2.0 * static_cast<double>(sample.shape.batch * sample.shape.m) *
                         static_cast<double>(sample.shape.n * sample.shape.k);
    const double decade = std::pow(10, std::clamp(std::round(std::log10(flops)), 7.0, 13.0));
    if (std::find(curve.x.begin(), curve.x.end(), decade) == curve.x.end()) curve.x.push_back(decade);
  }
  std::sort(curve.x.begin(), curve.x.end());
  curve.y.assign(curve.x.size(), 1.0);

  std::vector<Dial> dials;
  for (auto& tile : m.tiles) dials.push_back({&tile.share, 1e-2, 1.5});
  for (double& share : curve.y) dials.push_back({&share, 1e-3, 1.5});
  dials.push_back({&m.wave_overlap, 0.01, 1});
  dials.push_back({&m.wave_seconds, 1e-8, 1e-3});
  dials.push_back({&m.tile_seconds, 1e-8, 1e-3});
  dials.push_back({&m.split_seconds, 1e-8, 1e-3});
  dials.push_back({&m.start_seconds, 1e-8, 1e-3});
  dials.push_back({&m.memory_share, 0.01, 1});
  dials.push_back({&m.ramp_bytes, 1, 1e9});
  dials.push_back({&m.cache_bandwidth, device.memory_bandwidth, 1e15});
  // A few hundred thousand products in a second.
  turn_dials(dials, [&] { return mean_misfit(main, device); });
  for (const ProductSample& sample : others) m.type_share.emplace(sample.type, 1.0);
  for (auto& [other, share] : m.type_share) {
    std::vector<ProductSample> own;
    std::copy_if(others.begin(), others.end(), std::back_inserter(own),
                 [&other = other](const ProductSample& sample) { return sample.type == other; });
    turn_dials({{&share, 1e-3, 1.5}}, [&] { return mean_misfit(own, device); });
  }
}

}  // namespace boxcar::fit
