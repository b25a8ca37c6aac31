// Layers and attention cores of an imported graph, found by names and structure.
#pragma once

#include <map>
#include <string>

#include "backends/onnx/onnx_model.h"
#include "ir/graph.h"

namespace boxcar::backends::onnx {

// Layers, for pipeline stages and recomputation, by the numbered modules in the names of operators or of the
// weights that they read: "/encoder/layer.3/attention/MatMul" is of "encoder/layer.3". Each has a weight;
// what comes after the last is after the layers. `node_of_op` tells where an op comes from, by its name.
void mark_blocks(ir::Graph& graph, const OnnxModel& model, const std::map<std::string, size_t>& node_of_op);

// Between a product of matrices, a softmax of it and the product of that: an attention's core.
void mark_cores(ir::Graph& graph);

}  // namespace boxcar::backends::onnx
