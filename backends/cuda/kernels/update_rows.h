// Updates of the rows of a look-up table that indices name (ir/ops/update_rows.cpp). Like launch.h: plain
// C++.
#pragma once

#include "backends/cuda/kernels/launch.h"

namespace boxcar::backends::cuda {

struct RowsUpdate {
  Gather read;  // `out` has the gradients of rows
  ir::Optimizer rule = ir::Optimizer::sgd;
  Update::Tensor table;                 // without g; results overwrite states
  const double* step_values = nullptr;  // as in Update
  double lr = 0, weight_decay = 0;
  double number[ir::OptimizerRow::most_numbers] = {}, left[ir::OptimizerRow::most_numbers] = {};
};
// Takes scratch_of_update() of its Gather.
int64_t scratch_of_update(const Gather& read);
void launch_update_rows(const RowsUpdate& update, void* scratch, bool wide, Stream stream);

}  // namespace boxcar::backends::cuda
