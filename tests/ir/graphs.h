// Small graphs and comparisons shared by the tests of ir/.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "backends/cpu/evaluate.h"
#include "ir/models/transformer.h"
#include "ir/passes/passes.h"

namespace boxcar::tests {

// One layer with small, distinct sizes: 2 sequences of 3 tokens, 4 heads of 2, 11 words.
inline ir::models::Transformer tiny(const std::string& family) {
  ir::models::Transformer config = ir::models::defaults(family);
  config.layers = 1;
  config.hidden = 8;
  config.heads = 4;
  config.seq = 3;
  config.vocab = 11;
  config.ffn = 12;
  config.pad_vocab_to = 4;
  return config;
}

inline ir::Graph step_of(const ir::Graph& forward, const ir::TrainOptions& options) {
  return ir::training_step(forward, ir::find_tensor(forward, "loss"), options);
}

inline ir::Graph gpt(int64_t layers = 1) {
  ir::models::Transformer config = tiny("gpt");
  config.layers = layers;
  return ir::models::build(config, 2);
}

// float32 without dropout state, for finite differences and comparisons of passes.
inline ir::TrainOptions plain() {
  ir::TrainOptions options;
  options.precision = ir::Precision::fp32;
  options.clip_norm = 0;
  return options;
}

// Elements of all parameters of a graph.
inline int64_t counted(const ir::Graph& graph) {
  int64_t n = 0;
  for (const ir::Op& op : graph.ops)
    if (op.type == "parameter") n += graph.tensor(op.outputs[0]).type.elements();
  return n;
}

// Flops of matrix products, convolutions and attention in all ops of a graph, recomputed ones left out.
inline double counted_flops(const ir::Graph& graph) {
  double flops = 0;
  for (const ir::Op& op : graph.ops) {
    if (op.recomputed || !ir::has_op(op.type)) continue;
    const ir::OpDef& def = ir::op(op.type);
    if (def.family == ir::Family::memory || def.family == ir::Family::none) continue;
    ir::Types inputs, outputs;
    for (const ir::TensorId id : op.inputs) inputs.push_back(graph.tensor(id).type);
    for (const ir::TensorId id : op.outputs) outputs.push_back(graph.tensor(id).type);
    flops += ir::work(def, inputs, outputs, op.attrs).flops;
  }
  return flops;
}

inline void expect_near(const backends::cpu::HostTensor& got, const backends::cpu::HostTensor& wanted,
                        const std::string& what, double tolerance = 1e-9) {
  ASSERT_EQ(got.data.size(), wanted.data.size()) << what;
  for (size_t i = 0; i < got.data.size(); ++i)
    ASSERT_NEAR(got.data[i], wanted.data[i], tolerance * (1 + std::abs(wanted.data[i])))
        << what << "[" << i << "]";
}

}  // namespace boxcar::tests
