// Updates of the rows of a look-up table that indices name (ir/ops/update_rows.cpp). Like launch.h: plain
// C++.
#pragma once

#include "backends/cuda/kernels/launch.h"

namespace boxcar::backends::cuda {

struct RowsUpdate : UpdateRule {
  Gather read;           // `out` has the gradients of rows
  Update::Tensor table;  // without g; results overwrite states
};
// Takes scratch_of_update() of its Gather.
int64_t scratch_of_update(const Gather& read);
void launch_update_rows(const RowsUpdate& update, void* scratch, bool wide, Stream stream);

}  // namespace boxcar::backends::cuda
