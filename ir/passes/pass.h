// State shared by the passes of a training step: the graph and the ids that one pass leaves for the next.
#pragma once

#include <string>
#include <vector>

#include "ir/passes/passes.h"
#include "ir/rewrite.h"

namespace boxcar::ir {

struct Step {
  Graph graph;
  TensorId loss = -1;
  std::vector<Gradient> gradients;   // of each parameter that the forward phase reads; later of its sum
  TensorId scale = -1, finite = -1;  // factor of every gradient; whether to take the step; -1: none
  const TrainOptions& options;

  // Finishes `rewrite` and renumbers the ids above.
  void finish(Rewriter& rewrite);
};

// One function per pass, one file each; see passes.h.
void double_precision(Step& step);
void fuse_patterns(Step& step);
void fuse_elementwise(Step& step);
void fuse_loss(Step& step);
void mixed_precision(Step& step);
void differentiate_loss(Step& step);
void recompute(Step& step);
void fuse_products(Step& step);
void sparse_tables(Step& step);
void accumulate(Step& step);
void clip(Step& step);
void optimize(Step& step);
void running_averages(Step& step);

// Of a factored optimizer: what its update takes in place of a gradient and the factor of all gradients.
struct Direction {
  TensorId direction = -1, scale = -1;
  std::vector<Update> moments;
};
// `like`: the parameter's op, in the update phase.
Direction factored_direction(const Step& step, Rewriter& rewrite, TensorId gradient, const Op& like,
                             bool is_vector);

// The "parameter" op of `leaf`, the tensor that the forward phase reads.
const Op& state_op(const Graph& graph, TensorId leaf);

// Whether the loss is multiplied by loss_scale: for products in fp16, if the pass clip divides the gradients
// by it again.
bool scales_loss(const TrainOptions& options);

inline bool is_mixed(const TrainOptions& options) { return is_mixed(options.precision); }

}  // namespace boxcar::ir
