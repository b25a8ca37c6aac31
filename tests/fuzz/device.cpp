// Descriptions of devices.
#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "harness.h"

namespace boxcar::fuzz {

void fuzz_device(std::string_view input) {
  reads_back(
      input, [](std::string_view text) { return backends::parse_device(std::string(text), "device.yaml"); },
      [](const backends::DeviceProfile& device) { return backends::to_yaml(device); });
}

}  // namespace boxcar::fuzz
