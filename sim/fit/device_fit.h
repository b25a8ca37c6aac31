// Fits the device that the time models read to measured samples (docs/profiles.md).
#pragma once

#include "backends/machines/forward.h"
#include "backends/measure/samples.h"

namespace boxcar::fit {

// One core as a device, and the host that the cores share; or a GPU, with the measured rates between host and
// GPUs. An op whose samples have too few bytes to determine its share keeps 1.
backends::DeviceProfile fit_device(const measure::Samples& samples);

}  // namespace boxcar::fit
