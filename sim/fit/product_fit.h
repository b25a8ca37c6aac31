// Fits the model of matrix products in tiles and waves (sim/models/matmul_time.h) to measured ones, as
// experiments/fit/fit_matmul.py does to published tables.
#pragma once

#include <vector>

#include "backends/machines/forward.h"
#include "sim/models/matmul_time.h"

namespace boxcar::fit {

struct ProductSample {
  sim::MatmulShape shape;
  ir::DType type = ir::DType::float32;
  double bytes = 0, seconds = 0;
};

// Sets device.matmul and device.matmul_efficiency; the device's peaks by type, bandwidth and number of
// multiprocessors are known. Products of `type` decide; other types get a share of their own. By steps
// along one constant after the other (dials.h).
void fit_products(const std::vector<ProductSample>& samples, ir::DType type, backends::DeviceProfile& device);

}  // namespace boxcar::fit
