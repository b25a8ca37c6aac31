// Rewrite passes over the logical graph. Each takes a graph and changes it; run() verifies after each one and any can
// be switched off by name.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ir/autodiff.h"
#include "ir/graph.h"

namespace boxcar::ir {

enum class Precision : uint8_t { fp32, tf32, fp16, bf16 };
enum class Recompute : uint8_t { none, selective, full };
enum class Optimizer : uint8_t { sgd, momentum, adam };

struct TrainOptions {
  Precision precision = Precision::fp16;
  Optimizer optimizer = Optimizer::adam;
  Recompute recompute = Recompute::none;
  int recompute_layers = -1;        // full: only the first this many layers of each stage; -1: all
  bool flash = false;               // attention as one op
  double clip_norm = 1.0;           // 0: no clipping
  double learning_rate = 1e-4;
  int micro_batches = 1;            // gradients are accumulated over this many
  std::set<std::string> off;        // passes switched off, by name
};

// From a forward graph with a loss to a whole training step, in this order:
//   fuse_patterns     bias+gelu, bias+dropout+add, scale+mask+softmax, or one attention op
//   fuse_elementwise  chains of elementwise ops
//   mixed_precision   compute in 16 bits, master weights and loss scale in float32 (fp16), reductions in float32
//   differentiate     backward ops
//   recompute         forward ops run again before the backward ops that need them
//   accumulate        "accumulate" ops: gradients over micro-batches, in float32 where precision is mixed
//   clip              global norm over all gradients, one scale
//   optimize          update ops: one per parameter; and the cast to 16 bits
// Later passes may be switched off by name (options.off); each is followed by verify().
Graph training_step(Graph forward, TensorId loss, const TrainOptions& options);

std::vector<std::string> pass_names();

}  // namespace boxcar::ir
