// A model of the user's own: graph text (ir/graph.h) of the forward pass of one micro-batch, up to its loss.
//
//   graph mlp layers=2
//   %images: float32[batch, 784] = input()
//   %labels: int64[batch] = input()
//   %fc1.weight: float32[784, 512] = parameter()
//   %fc1 = matmul(%images, %fc1.weight) layer=0
//   %hidden = relu(%fc1)
//   %fc2.weight: float32[512, 10] = parameter()
//   %logits = matmul(%hidden, %fc2.weight) layer=1
//   %losses = cross_entropy(%logits, %labels)
//   %loss = reduce_mean(%losses) {axes=[0]}
//
// `batch`, in brackets, is the number of samples of a micro-batch, also in products: [batch*16]. It is the
// first extent of every input. %loss is one float32, the mean over samples. A parameter with role=constant is
// not trained. An op without a layer is in the last of its operands' layers; a source is in the layer of its
// first reader. A graph without layers is one layer. In training, values of whole-number inputs must be
// smaller than the tables and losses that read them allow: rows of a table, classes of a loss.
//
//   const GraphModel model = read_graph_model(text);   model.layers == 2
//   build(model, 32)                                   %images: float32[32, 784], all ops with their layers
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace boxcar::ir::models {

struct GraphModel {
  std::string family = "graph";
  int64_t layers = 0;
  std::shared_ptr<const std::string> text = {};  // shared by copies
  std::set<Module> modules = {};                 // of its ops
  friend bool operator==(const GraphModel& a, const GraphModel& b) {
    return a.text == b.text || (a.text && b.text && *a.text == *b.text);
  }
};

// Throws Error (bad input) with line and column, or naming the op, if the text is not a forward pass: a
// placement, layout, phase, role or update in it; an input that does not begin with the batch; no loss; an op
// that reads a tensor of a later layer.
GraphModel read_graph_model(std::string text);

// Throws Error (bad input) if a size that follows from the batch is too large.
Graph build(const GraphModel& model, int64_t batch);

int64_t parameters(const GraphModel& model);

// A parameter with role=constant is a table that is not trained: it keeps its given values.
struct GraphParameter {
  std::string name;
  TensorType type;
  bool trained = true;
};
std::vector<GraphParameter> parameters_of(const GraphModel& model);

struct GraphInput {
  std::string name;
  TensorType sample;  // without the batch
  int64_t below = 0;  // whole numbers are 0 to below - 1; 0 if no reader gives a limit
};
std::vector<GraphInput> inputs_of(const GraphModel& model);

}  // namespace boxcar::ir::models
