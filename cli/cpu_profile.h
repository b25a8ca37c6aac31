// From what was measured of a processor to the device that the time models read (docs/profiles.md).
#pragma once

#include "backends/cluster.h"
#include "cli/cpu_samples.h"

namespace boxcar::cli {

// One core as a device, and the host that the cores share. An op whose samples are all shorter than the
// shortest kernel keeps share 1.
backends::DeviceProfile fit(const Samples& samples);

}  // namespace boxcar::cli
