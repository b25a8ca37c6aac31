// Layers and attention cores of an imported graph, found by names and structure.
#pragma once

#include <map>
#include <string>

#include "backends/onnx/onnx_model.h"
#include "ir/graph.h"

namespace boxcar::backends::onnx {

// Layers, for pipeline stages and recomputation, by the numbered modules in the names of operators or of the
// weights that they read: "/encoder/layer.3/attention/MatMul" is of "encoder/layer.3". Each has a weight; ops
// after the last one come after the layers. `node_of_op` maps an op's name to its node.
void mark_blocks(ir::Graph& graph, const OnnxModel& model, const std::map<std::string, size_t>& node_of_op);

// Marks attention cores: a product of matrices, a softmax of it, and the product of that.
void mark_cores(ir::Graph& graph);

}  // namespace boxcar::backends::onnx
