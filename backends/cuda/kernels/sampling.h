// Classes drawn at random together with those of all labels (ir/ops/nn_sampling.cpp). Like launch.h: plain
// C++, the kernels' side of sample_rows, its gradient and sample_labels.
#pragma once

#include "backends/cuda/kernels/launch.h"

namespace boxcar::backends::cuda {

struct Sampling {
  Array labels;
  int64_t label_count = 0, classes = 0, samples = 0, parts = 1, first = 0;
  uint64_t key = 0;
  const uint64_t* key_at = nullptr;  // the key in device memory, used instead
  int64_t* found = nullptr;          // gets 1 + a part that has more classes of labels than it draws
};
// Finds the place of each class in the sample, in scratch memory, for the launchers below.
int64_t scratch_of(const Sampling& sampling);
void launch_draw(const Sampling& sampling, void* scratch, Stream stream);

// rows[place of r] = table[r], and its gradient: table[r] = rows[place of r], or zero. All are NaN if a part
// has more classes of labels than it draws.
void launch_sample_rows(const Sampling& sampling, Array table, Array rows, int64_t width, void* scratch,
                        Stream stream);
void launch_sample_rows_grad(const Sampling& sampling, Array rows, Array table, int64_t width, void* scratch,
                             Stream stream);
// places[i] = the place of label i.
void launch_sample_labels(const Sampling& sampling, Array places, void* scratch, Stream stream);

}  // namespace boxcar::backends::cuda
