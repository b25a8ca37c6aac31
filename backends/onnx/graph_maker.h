// The graph of one micro-batch of a model of ONNX: which operators the output needs, their conversion in turn
// (conversion.h), the weights that ops read, and the loss.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backends/onnx/conversion.h"
#include "backends/onnx/import.h"

namespace boxcar::backends::onnx {

class GraphMaker {
 public:
  // `model` has had its layers recognized.
  GraphMaker(const OnnxModel& model, const ImportOptions& options, int64_t batch);

  struct Made {
    ir::Graph graph;
    std::map<std::string, StoredTensor> weights;  // by the graph's names
    int64_t fixed_batch;                          // of the file's inputs; 0 if it is open
  };
  // Throws Error (bad input) if the model cannot be written as a graph.
  Made run();

 private:
  friend class Conversion;

  void find_needed();
  bool is_needed(const OnnxNode& node) const;
  void check_operators() const;
  void add_inputs();
  void convert(const OnnxNode& node);
  void add_loss();
  ir::TensorId with_classes_last(const Value& scores);
  ir::Shape rows_of(ir::TensorId scores) const;
  ir::TensorId labels_like(ir::TensorId scores);
  // An op of the graph.
  std::vector<ir::TensorId> add(const OnnxNode& node, std::string_view op, const std::vector<Value>& operands,
                                ir::Attrs attrs, std::string_view what);
  // A value as a tensor of the graph, which `reader` reads.
  ir::TensorId place(const Value& value, const OnnxNode& reader);
  ir::TensorId parameter(const std::string& name, const HostTensor& value);
  std::string parameter_name(const std::string& weight, const OnnxNode& reader) const;
  std::string op_name(const OnnxNode& node, std::string_view what);
  std::string unique(const std::string& name);
  const OnnxValue& chosen_output() const;

  const OnnxModel& model_;
  const ImportOptions& options_;
  int64_t batch_;
  int64_t file_batch_ = 0;  // of the file's inputs; 0 if it is open
  ir::Builder builder_;
  std::map<std::string, Value> values_;
  std::set<std::string> needed_;  // names of values
  std::map<std::string, ir::TensorId> parameters_;
  std::map<std::shared_ptr<const Origin>, std::vector<ir::TensorId>> made_;
  std::map<std::pair<std::string, double>, ir::TensorId> constants_;
  std::map<std::string, std::string> ends_;  // of a weight's name, as its reader asks
  std::map<std::string, StoredTensor> weights_;
  struct Producer {
    std::string op;
    ir::TensorId first = -1;  // its first operand
  };
  std::map<ir::TensorId, Producer> producers_;
  std::vector<ir::TensorId> tables_;  // parameters that are not trained
  std::map<std::string, size_t> node_of_op_;
  std::set<std::string> names_;
};

}  // namespace boxcar::backends::onnx
