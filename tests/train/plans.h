// The plans of law 4, one list for every backend: hints of all kinds over small transformers, nets and image
// models.
//
//   for (const TransformerRow& row : transformer_plans())
//     train(planner::lay_out(job_of(row, plan_batch, options)), transformer_start(...), 20);
#pragma once

#include <functional>
#include <iosfwd>
#include <span>
#include <string>

#include "models.h"

namespace boxcar::tests {

constexpr int64_t plan_batch = 12;  // samples of a step

// GPT, BERT, Llama, with and without experts.
std::span<const TransformerRow> transformer_plans();
// ResNet-50 and AlexNet with few channels, on small images.
std::span<const TransformerRow> image_plans();
// Throws std::out_of_range if no plan has this name.
const TransformerRow& plan_named(const std::string& name);

// A plan in 16 bits.
struct NarrowRow {
  ir::Precision precision;
  TransformerRow row;
};
std::ostream& operator<<(std::ostream& out, const NarrowRow& narrow);
std::span<const NarrowRow> narrow_plans();

// For the MLP and the convolution net of models.h.
struct NetRow {
  const char* name;
  int micro_batches;
  std::function<void(planner::Hints&)> change;
};
std::ostream& operator<<(std::ostream& out, const NetRow& row);
std::span<const NetRow> net_plans();
using Net = ir::Graph (*)(int64_t batch);
// A net's training graph under a row's hints, and on one device in the same number of micro-batches.
planner::LaidOut lay_out_net(Net net, const NetRow& row, ir::TrainOptions options);
planner::LaidOut lay_out_net_alone(Net net, const NetRow& row, ir::TrainOptions options);

}  // namespace boxcar::tests
