// A model as an ONNX file describes it (https://onnx.ai/onnx/repo-docs/IR.html), with the element types that
// graphs here compute in: all floating-point numbers are float32, all whole numbers int64.
//
//   const OnnxModel model = read_onnx("model.onnx");
//   model.nodes[0].type == "Conv";   model.weights.at("layer1.0.conv1.weight").type == float32[64, 3, 7, 7]
//   model.inputs[0].extents[0].symbol == "batch"
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backends/host/files.h"
#include "backends/host/safetensors.h"
#include "ir/types.h"

namespace boxcar::backends::onnx {

using host::StoredTensor;

// An attribute of a node. Lists of floating-point numbers and other kinds are read as no value.
using OnnxAttribute =
    std::variant<std::monostate, int64_t, double, std::string, std::vector<int64_t>, StoredTensor>;

struct OnnxNode {
  std::string name = {};                               // "/layer1/layer1.0/conv1/Conv"; may be empty
  std::string type = {};                               // "Conv"
  std::vector<std::string> inputs = {}, outputs = {};  // "": an optional one that is left out
  std::map<std::string, OnnxAttribute> attributes = {};
};

// A number, or a symbol without a number.
struct OnnxExtent {
  int64_t size = 0;  // 0: not given
  std::string symbol = {};
};

struct OnnxValue {
  std::string name;
  ir::DType dtype = ir::DType::float32;
  std::vector<OnnxExtent> extents;
};

struct OnnxModel {
  int64_t opset = 0;            // of ONNX's own operators
  std::vector<OnnxNode> nodes;  // each after those it reads from
  std::map<std::string, StoredTensor> weights;
  std::vector<OnnxValue> inputs, outputs;  // inputs without the weights
};

// The contents of a file, or Error (bad input).
using ReadFile = std::string (*)(const std::string& path);

// Weights may lie in files beside it ("external data"), which are looked for in its folder alone. Throws
// Error (bad input) naming the file if it cannot be read, is no ONNX model, or has weights cut short, of an
// unknown type or outside its folder; Error (cannot run) if this build lacks protobuf. `read_file` is for the
// model's own file: host::read_text takes no pipes.
OnnxModel read_onnx(const std::string& path, ReadFile read_file = host::read_text);

}  // namespace boxcar::backends::onnx
