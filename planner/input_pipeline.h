// The actors of a plan that prepare what it loads, on the host: one reads the files of a micro-batch, several
// decode a part of its samples each, and the load, which was there before, makes numbers of them and copies
// them to the device.
//
//   images.read host read() -> %images.files on read in F
//   images.decode0 host decode(%images.files) {decoders=2, part=0} -> %images.pixels0 on decode0 in F
//   images.decode1 host decode(%images.files) {decoders=2, part=1} -> %images.pixels1 on decode1 in F
//   images copy load(%images.pixels0, %images.pixels1) -> %images on copy_in in F
//
// Files and pixels lie in memory of the host, which the driver of the plan keeps (training/input_pipeline.h);
// their registers are the credit for it and take none of the device's.
#pragma once

#include <string_view>

#include "ir/plan.h"

namespace boxcar::planner {

// For each load of a register named `reg`. `decoders` of a device: no more than the samples of its
// micro-batch; `slots` of each register: micro-batches that are ready at once. Both at least 1.
void add_input_pipeline(ir::Plan& plan, std::string_view reg, int decoders, int slots);

// The samples of `rows` that decoder `part` of `decoders` decodes: from first to last, without last.
struct Rows {
  int64_t first = 0, last = 0;
};
Rows decoded_rows(int64_t rows, int64_t part, int64_t decoders);

}  // namespace boxcar::planner
