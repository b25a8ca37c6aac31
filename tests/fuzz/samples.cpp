// The output of `boxcar profile --samples`, and the fit to it.
#include "backends/machines/device_profile.h"
#include "cli/samples_file.h"
#include "folder.h"
#include "harness.h"
#include "sim/fit/device_fit.h"

namespace boxcar::fuzz {

void fuzz_samples(std::string_view input) {
  const std::string path = put("samples.json", input);
  measure::Samples samples;
  if (ends([&] { samples = cli::read_samples(path); })) ends([&] { fit::fit_device(samples); });
}

}  // namespace boxcar::fuzz
