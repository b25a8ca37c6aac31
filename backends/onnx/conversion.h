// Turns operators of ONNX into ops of a graph, one at a time.
//
//   GraphMaker maker(model, options, batch);     maker.run() -> the graph of one micro-batch, and its weights
//
// A value that does not depend on data (shapes that exporters compute, masks, folded weights) is computed
// here, by the reference kernels of the same ops, and not by the graph. It becomes a parameter, a constant or
// an attribute of the op on data that reads it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/reference.h"
#include "backends/onnx/onnx_model.h"
#include "ir/graph.h"

namespace boxcar::backends::onnx {

using cpu::HostTensor;

struct Origin;

// A value of the model: a tensor of the graph, or known elements, of a weight or computed.
struct Value {
  ir::TensorType type = {};
  ir::TensorId tensor = -1;              // -1: not in the graph
  const StoredTensor* stored = nullptr;  // a weight as the file has it
  std::optional<HostTensor> computed = {};
  std::string weight = {};                    // the weight that it is, or was made of; "" for none
  std::shared_ptr<const Origin> origin = {};  // how it is made of weights, which are trained
  size_t result = 0;                          // of the origin

  bool is_known() const { return tensor < 0; }
};

// An op on weights. If an op on data reads its results, the graph computes them, since the weights are
// trained; if elements must be known, they are computed here.
struct Origin {
  const OnnxNode* node;
  std::string op;
  std::vector<Value> operands;
  ir::Attrs attrs;
  std::string what;
  int depth;                       // 1 if all operands are weights or constants
  mutable cpu::Tensors made = {};  // the results, once they are asked for
};

class GraphMaker;

// One operator: its operands, attributes and results, and the ops that it becomes.
class Conversion {
 public:
  Conversion(GraphMaker& maker, const OnnxNode& node) : maker_(maker), node_(node) {}

  const OnnxNode& node() const { return node_; }
  int64_t opset() const;
  bool has(size_t i) const { return i < node_.inputs.size() && !node_.inputs[i].empty(); }
  size_t operands() const { return node_.inputs.size(); }
  const Value& in(size_t i) const;  // throws Error if it is left out
  void out(Value value, size_t i = 0);
  bool reads_out(size_t i) const;  // whether the model needs this result

  int64_t whole(const char* attribute, int64_t absent) const;
  double number(const char* attribute, double absent) const;
  std::string text(const char* attribute, const char* absent) const;
  std::vector<int64_t> wholes(const char* attribute, std::vector<int64_t> absent) const;
  bool has_attribute(const char* attribute) const { return node_.attributes.contains(attribute); }
  const StoredTensor* tensor_attribute(const char* attribute) const;

  // Elements of an operand that must not depend on data.
  HostTensor known(const Value& value, const char* what) const;
  std::vector<int64_t> known_wholes(const Value& value, const char* what) const;
  ir::Shape known_shape(const Value& value) const;  // extents, or -1 or 0 with another meaning
  double known_number(const Value& value, const char* what) const;
  // The one number that all elements of a known value have, unless it is a weight.
  std::optional<double> uniform(const Value& value) const;

  // An op of the registry on these; computed here if all are known. `what` distinguishes the ops of one
  // operator.
  Value emit(std::string_view op, const std::vector<Value>& operands, ir::Attrs attrs = {},
             const char* what = "") const;
  std::vector<Value> emit_all(std::string_view op, const std::vector<Value>& operands, ir::Attrs attrs,
                              const char* what = "") const;
  Value constant(double value, ir::Shape shape = {}, ir::DType dtype = ir::DType::float32) const;
  Value computed(HostTensor tensor, std::string weight = {}) const;
  // A shape of the file: if it begins with the file's batch, with this batch in its place.
  ir::Shape for_batch(ir::Shape shape, const Value& of) const;
  // A weight whose name ends in `end`: names decide how training starts (host::initial_rule).
  Value named(Value weight, const char* end) const;

  [[noreturn]] void refuse(const std::string& message) const;

 private:
  std::vector<Value> made_of_weights(std::string_view op, const std::vector<Value>& operands, ir::Attrs attrs,
                                     const char* what, const std::string& weight) const;

  GraphMaker& maker_;
  const OnnxNode& node_;
};

int64_t rank(const Value& x);
// x times a factor; x itself if that is 1.
Value scaled(const Conversion& c, const Value& x, double factor, const char* what = "");
Value absolute(const Conversion& c, const Value& x, const char* what = "");
// x itself if it has this shape.
Value reshaped(const Conversion& c, const Value& x, const ir::Shape& shape, const char* what = "");
// x times[i] times along axis i: element by element, "aabb", or as a whole, "abab". Throws Error unless there
// is a number of at least 1 for each axis.
enum class Repeat : char { elements, whole };
Value repeated(const Conversion& c, const Value& x, const std::vector<int64_t>& times, Repeat order);
// The axis counted from the first; throws Error if it is none of so many.
int64_t axis_of(const Conversion& c, int64_t axis, int64_t axes);

using Converter = void (*)(Conversion&);
// By the operator's name, in the groups of operators_*.cpp.
using Converters = std::map<std::string, Converter, std::less<>>;
void add_pointwise_converters(Converters& table);
void add_product_converters(Converters& table);
void add_image_converters(Converters& table);
void add_row_converters(Converters& table);
void add_shape_converters(Converters& table);
void add_known_converters(Converters& table);
const Converters& converters();

}  // namespace boxcar::backends::onnx
