// The file of `boxcar profile --samples`: every measurement before anything is fitted to it, so that a fit
// can be repeated, or a kernel's time looked up, without the device.
//
//   write_file(path, [&](std::ostream& out) { out << samples_text(samples); });
//   Samples again = read_samples(path);            // fit_device(again) is fit_device(samples)
#pragma once

#include <string>

#include "backends/measure/samples.h"

namespace boxcar::cli {

// A JSON document, a line for each kernel (docs/output.md).
std::string samples_text(const measure::Samples& samples);
// Throws Error (bad input) at `path` if a key is missing or of another type, for unknown ops, tensors without
// elements, types that an op does not have, and times that are not above zero.
measure::Samples read_samples(const std::string& path);

}  // namespace boxcar::cli
