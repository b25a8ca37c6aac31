// Small models to train: transformers, an MLP and a convolution net.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "ir/graph.h"
#include "planner/planner.h"
#include "trainer.h"

namespace boxcar::tests {

// A job of `batch` sequences on one device in one micro-batch. Sizes are uneven if possible: 31 tokens in the
// vocabulary, 22 columns in the feed-forward layer of llama. ResNet-50 and AlexNet have few channels and
// classes, and no dropout.
planner::Job transformer(const std::string& family, double dropout, int64_t batch);
// The initial state of such a job: GPT-2's rules with eight times the deviation, since widths are small.
// Tokens are random; each label is a function of its token.
Start transformer_start(const planner::Job& job);

// A row of a test's table: a model, and the hints that choose its plan.
struct TransformerRow {
  const char* name;
  const char* family;
  double dropout;
  int micro_batches;
  std::function<void(planner::Job&)> change;
};
std::ostream& operator<<(std::ostream& out, const TransformerRow& row);
// The row's job of `batch` sequences on the number of devices that the hints need.
planner::ResolvedJob job_of(const TransformerRow& row, int64_t batch, const ir::TrainOptions& options);

// Forward graphs of `batch` samples to the loss. The MLP: 6 -> 10 -> 9 -> 5 classes. The convolution net:
// conv, batch norm, relu, max pool, strided conv, average pool, product; 3 x 8 x 6 pixels, 5 classes.
// Three layers each, for stages. Inputs are normal around a mean that depends on the class, with `elements`
// numbers per sample.
ir::Graph mlp(int64_t batch);
ir::Graph convnet(int64_t batch);
Start graph_start(int64_t elements);

}  // namespace boxcar::tests
