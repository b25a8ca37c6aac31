// A small ResNet-50 to train on GPUs: 53 convolutions and 53 norms.
#pragma once

#include "models.h"

namespace boxcar::tests {

inline planner::LaidOut resnet(int64_t channels, bool channels_last, ir::Precision precision) {
  planner::Job job;
  job.model = ir::models::ConvNet{"resnet", 16, channels, 1, 64, 5, channels_last};
  job.train.optimizer = ir::Optimizer::momentum;
  job.train.precision = precision;
  job.gpus = job.parallel.dp = 1;
  job.parallel.micro_batch = 4;
  job.global_batch = 4;
  return planner::lay_out(planner::resolve(job));
}
inline Start resnet_start() { return graph_start(3 * 64 * 64); }

}  // namespace boxcar::tests
