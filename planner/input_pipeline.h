// The actors of a plan that prepare its inputs on the host. One reads the files of a micro-batch, and several
// each decode a part of its samples. The load, which exists already, converts them to numbers and copies them
// to the device.
//
//   images.read host read() -> %images.files on read in F
//   images.decode0 host decode(%images.files) {decoders=2, part=0} -> %images.pixels0 on decode0 in F
//   images.decode1 host decode(%images.files) {decoders=2, part=1} -> %images.pixels1 on decode1 in F
//   images copy load(%images.pixels0, %images.pixels1) -> %images on copy_in in F
//
// Files and pixels lie in host memory, which the plan's driver keeps (training/input_pipeline.h). Their
// registers are the credit for it and take no device memory.
#pragma once

#include <string_view>

#include "ir/plan.h"

namespace boxcar::planner {

// Adds them for each load of a register named `reg`. `decoders`: number per device, at most the samples of
// its micro-batch. `slots` of each register: micro-batches that are ready at once. Both are at least 1.
void add_input_pipeline(ir::Plan& plan, std::string_view reg, int decoders, int slots);

// The samples [first, last) of `rows` that decoder `part` of `decoders` decodes.
struct Rows {
  int64_t first = 0, last = 0;
};
Rows decoded_rows(int64_t rows, int64_t part, int64_t decoders);

}  // namespace boxcar::planner
