// A model of ONNX as graph text that simulate, search and train take (docs/import.md), and its weights.
//
//   const Imported imported = import_onnx(read_onnx("resnet50.onnx"), {.loss = "cross_entropy"});
//   imported.text      graph resnet50 layers=16 ...
//   imported.weights   by the names of the text's parameters
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "backends/host/safetensors.h"
#include "backends/onnx/onnx_model.h"

namespace boxcar::backends::onnx {

// In the letters that names of graphs have: "/h.0/ln_1/Add_1" -> "h.0.ln_1.Add_1", others as _.
std::string as_name(std::string_view name);

struct ImportOptions {
  std::string name = "model";                 // of the graph
  std::string loss = {};                      // cross_entropy, mean_squared; "" if the model has its own
  std::string output = {};                    // that the loss is of; "" if there is one
  std::map<std::string, int64_t> sizes = {};  // of symbols of extents: {"sequence", 128}
};

struct Imported {
  std::string text;  // ir::models::read_graph_model reads it
  host::StoredFile weights;
  int64_t fixed_batch = 0;  // that the file's inputs begin with; 0 if it is open
};

// Throws Error (bad input) for operators that have no form here (with how many there are of each) or none
// with their attributes or operands, an extent without a size, a result without the batch, and no loss.
Imported import_onnx(OnnxModel model, const ImportOptions& options);

}  // namespace boxcar::backends::onnx
