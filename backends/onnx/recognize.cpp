#include "backends/onnx/recognize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "backends/host/parts.h"

namespace boxcar::backends::onnx {
namespace {

// Whether it has the operands that are looked at here: files may come from anywhere.
bool is_whole(const OnnxNode& node) {
  constexpr std::string_view binary[] = {"Add", "Sub", "Mul", "Div", "Pow", "NegativeLogLikelihoodLoss"};
  const size_t operands = node.type == "Constant" ? 0
                          : std::find(std::begin(binary), std::end(binary), node.type) != std::end(binary)
                              ? 2
                              : 1;
  return node.inputs.size() >= operands && !node.outputs.empty();
}

class Recognizer {
 public:
  explicit Recognizer(OnnxModel& model) : model_(model) {
    for (size_t n = 0; n < model.nodes.size(); ++n) {
      for (const std::string& output : model.nodes[n].outputs) producers_[output] = n;
      for (const std::string& input : model.nodes[n].inputs) readers_[input].push_back(n);
    }
  }

  void run() {
    for (OnnxNode& node : model_.nodes) part_weight(node);
    for (OnnxNode& node : model_.nodes) {
      if (!is_whole(node)) continue;
      if (node.type == "Div" || node.type == "Mul") norm(node);
      if (node.type == "Mul") gelu(node) || swish(node);
      if (node.type == "NegativeLogLikelihoodLoss") loss(node);
    }
  }

 private:
  // Identity(weight): the exporter found its values equal to another's.
  void part_weight(OnnxNode& node) {
    if (node.type != "Identity" || !is_whole(node)) return;
    const auto weight = model_.weights.find(node.inputs[0]);
    if (weight == model_.weights.end() || model_.weights.contains(node.outputs[0])) return;
    StoredTensor copy = weight->second;
    model_.weights.emplace(node.outputs[0], std::move(copy));
    producers_.erase(node.outputs[0]);
    node.type = "";  // gone
    node.outputs.clear();
    node.inputs.clear();
  }

  const OnnxNode* maker(const std::string& value, const char* type) const {
    const auto found = producers_.find(value);
    if (found == producers_.end()) return nullptr;
    const OnnxNode& node = model_.nodes[found->second];
    return node.type == type && is_whole(node) ? &node : nullptr;
  }

  // The one operator that reads a value.
  OnnxNode* reader(const std::string& value, const char* type) {
    const auto found = readers_.find(value);
    if (found == readers_.end() || found->second.size() != 1) return nullptr;
    OnnxNode& node = model_.nodes[found->second[0]];
    return node.type == type && is_whole(node) ? &node : nullptr;
  }

  // The number that a value is, of one element.
  std::optional<double> number(const std::string& value) const {
    const StoredTensor* tensor = nullptr;
    if (const auto weight = model_.weights.find(value); weight != model_.weights.end())
      tensor = &weight->second;
    else if (const OnnxNode* node = maker(value, "Constant"))
      if (const auto found = node->attributes.find("value"); found != node->attributes.end())
        tensor = std::get_if<StoredTensor>(&found->second);
    if (!tensor || tensor->type.elements() != 1 || tensor->type.dtype == ir::DType::boolean) return {};
    const double found = host::load_element(tensor->type.dtype, tensor->bytes.data());
    return std::stod(fmt::format("{}", static_cast<float>(found)));  // 1e-05 as it was written
  }
  bool is_number(const std::string& value, double expected) const {
    const auto found = number(value);
    return found && std::abs(*found - expected) <= 1e-3 * std::abs(expected);
  }

  // The operand, of two, that is not `one`.
  static const std::string& other(const OnnxNode& node, const std::string& one) {
    return node.inputs[0] == one ? node.inputs[1] : node.inputs[0];
  }
  static bool reads(const OnnxNode& node, const std::string& value) {
    return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
  }

  // --- norms

  bool is_over_last(const OnnxNode& mean) const {
    const auto found = mean.attributes.find("axes");
    if (found != mean.attributes.end()) {
      const auto* axes = std::get_if<std::vector<int64_t>>(&found->second);
      return axes && *axes == std::vector<int64_t>{-1};
    }
    return mean.inputs.size() > 1 && number(mean.inputs[1]) == -1;
  }

  // d if `value` is Sqrt(Add(ReduceMean(d x d), epsilon)).
  std::optional<std::pair<std::string, double>> deviation(const std::string& value) const {
    const OnnxNode* root = maker(value, "Sqrt");
    const OnnxNode* sum = root ? maker(root->inputs[0], "Add") : nullptr;
    if (!sum) return {};
    for (size_t i = 0; i < 2; ++i) {
      const OnnxNode* mean = maker(sum->inputs[i], "ReduceMean");
      const auto epsilon = number(sum->inputs[1 - i]);
      if (!mean || !epsilon || !is_over_last(*mean)) continue;
      if (const OnnxNode* power = maker(mean->inputs[0], "Pow"); power && is_number(power->inputs[1], 2))
        return std::pair(power->inputs[0], *epsilon);
      if (const OnnxNode* square = maker(mean->inputs[0], "Mul");
          square && square->inputs[0] == square->inputs[1])
        return std::pair(square->inputs[0], *epsilon);
    }
    return {};
  }

  // d / deviation, however it is written.
  std::optional<std::pair<std::string, double>> normalized(const OnnxNode& node) const {
    const auto check = [&](const std::string& d, const std::string& by) {
      auto found = deviation(by);
      return found && found->first == d ? found : std::nullopt;
    };
    if (node.type == "Div") return check(node.inputs[0], node.inputs[1]);
    for (size_t i = 0; i < 2; ++i) {
      if (const OnnxNode* inverse = maker(node.inputs[i], "Reciprocal"))
        if (auto found = check(node.inputs[1 - i], inverse->inputs[0])) return found;
      if (const OnnxNode* inverse = maker(node.inputs[i], "Div"); inverse && is_number(inverse->inputs[0], 1))
        if (auto found = check(node.inputs[1 - i], inverse->inputs[1])) return found;
    }
    return {};
  }

  void norm(OnnxNode& node) {
    const auto found = normalized(node);
    if (!found) return;
    const auto& [d, epsilon] = *found;
    OnnxNode* scaled = reader(node.outputs[0], "Mul");
    if (!scaled || !model_.weights.contains(other(*scaled, node.outputs[0]))) return;
    const std::string gamma = other(*scaled, node.outputs[0]);
    const ir::Shape& width = model_.weights.at(gamma).type.shape;
    if (width.size() != 1 || width[0] < 2) return;  // not one number for each of a row
    const OnnxNode* centred = maker(d, "Sub");
    const OnnxNode* mean = centred ? maker(centred->inputs[1], "ReduceMean") : nullptr;
    if (!mean || mean->inputs[0] != centred->inputs[0] || !is_over_last(*mean)) {
      scaled->type = "RMSNormalization";
      scaled->inputs = {d, gamma};
      scaled->attributes = {{"epsilon", epsilon}};
      return;
    }
    OnnxNode* shifted = reader(scaled->outputs[0], "Add");
    if (!shifted || !model_.weights.contains(other(*shifted, scaled->outputs[0]))) return;
    const std::string beta = other(*shifted, scaled->outputs[0]);
    if (model_.weights.at(beta).type.shape != width) return;
    shifted->type = "LayerNormalization";
    shifted->inputs = {centred->inputs[0], gamma, beta};
    shifted->attributes = {{"epsilon", epsilon}};
  }

  // --- activations

  // The factors, also those of products that nothing else reads.
  std::vector<std::string> factors(const OnnxNode& product, int levels = 2) const {
    std::vector<std::string> found;
    for (const std::string& input : product.inputs) {
      const OnnxNode* inner = maker(input, "Mul");
      const auto readers = readers_.find(input);
      if (levels > 0 && inner && readers != readers_.end() && readers->second.size() == 1) {
        const std::vector<std::string> more = factors(*inner, levels - 1);
        found.insert(found.end(), more.begin(), more.end());
      } else {
        found.push_back(input);
      }
    }
    return found;
  }

  // The operand of Add(1, ...).
  const std::string* beside_one(const std::string& value) const {
    const OnnxNode* sum = maker(value, "Add");
    for (size_t i = 0; sum && i < 2; ++i)
      if (is_number(sum->inputs[i], 1)) return &sum->inputs[1 - i];
    return nullptr;
  }

  bool is_scaled(const std::string& value, const std::string& x, double factor) const {
    if (const OnnxNode* quotient = maker(value, "Div"))
      return quotient->inputs[0] == x && is_number(quotient->inputs[1], 1 / factor);
    const OnnxNode* product = maker(value, "Mul");
    return product && reads(*product, x) && is_number(other(*product, x), factor);
  }

  // sqrt(2 / pi) (x + 0.044715 x^3)
  bool is_tanh_operand(const std::string& value, const std::string& x) const {
    const OnnxNode* product = maker(value, "Mul");
    for (size_t i = 0; product && i < 2; ++i) {
      const OnnxNode* sum = maker(product->inputs[i], "Add");
      if (!sum || !is_number(product->inputs[1 - i], std::sqrt(2 / M_PI)) || !reads(*sum, x)) continue;
      const OnnxNode* cubic = maker(other(*sum, x), "Mul");
      for (size_t j = 0; cubic && j < 2; ++j) {
        const OnnxNode* cube = maker(cubic->inputs[j], "Pow");
        if (cube && cube->inputs[0] == x && is_number(cube->inputs[1], 3) &&
            is_number(cubic->inputs[1 - j], 0.044715))
          return true;
      }
    }
    return false;
  }

  bool gelu(OnnxNode& node) {
    const std::vector<std::string> product = factors(node);
    if (product.size() != 3) return false;
    for (size_t half = 0; half < 3; ++half)
      for (size_t sum = 0; sum < 3; ++sum) {
        if (half == sum || !is_number(product[half], 0.5)) continue;
        const std::string* inner = beside_one(product[sum]);
        const std::string& x = product[3 - half - sum];
        const OnnxNode* erf = inner ? maker(*inner, "Erf") : nullptr;
        const OnnxNode* tanh = inner ? maker(*inner, "Tanh") : nullptr;
        const bool exact = erf && is_scaled(erf->inputs[0], x, std::sqrt(0.5));
        if (!exact && !(tanh && is_tanh_operand(tanh->inputs[0], x))) continue;
        node.type = "Gelu";
        node.inputs = {std::string(x)};
        node.attributes = {{"approximate", std::string(exact ? "none" : "tanh")}};
        return true;
      }
    return false;
  }

  bool swish(OnnxNode& node) {
    for (size_t i = 0; i < 2; ++i) {
      const OnnxNode* sigmoid = maker(node.inputs[i], "Sigmoid");
      if (!sigmoid || sigmoid->inputs[0] != node.inputs[1 - i]) continue;
      node.type = "Swish";
      node.inputs = {sigmoid->inputs[0]};
      return true;
    }
    return false;
  }

  void loss(OnnxNode& node) {
    const OnnxNode* logs = maker(node.inputs[0], "LogSoftmax");
    const auto axis = logs ? logs->attributes.find("axis") : node.attributes.end();
    const bool over_classes =
        logs && (axis == logs->attributes.end() || axis->second == OnnxAttribute(int64_t{1}) ||
                 axis->second == OnnxAttribute(int64_t{-1}));
    if (!over_classes) return;
    node.type = "SoftmaxCrossEntropyLoss";
    node.inputs[0] = logs->inputs[0];
  }

  OnnxModel& model_;
  std::map<std::string, size_t> producers_;
  std::map<std::string, std::vector<size_t>> readers_;
};

}  // namespace

namespace {

bool is_transposed(const StoredTensor& one, const StoredTensor& two) {
  const ir::Shape &a = one.type.shape, &b = two.type.shape;
  if (one.type.dtype != ir::DType::float32 || two.type.dtype != ir::DType::float32) return false;
  if (a.size() != 2 || b.size() != 2 || a[0] != b[1] || a[1] != b[0] || one.type.elements() < 2) return false;
  const auto element = [](const StoredTensor& tensor, int64_t row, int64_t column) {
    return tensor.bytes.data() + (row * tensor.type.shape[1] + column) * 4;
  };
  bool differ = false;  // what began with equal values is not tied
  for (int64_t i = 0; i < a[0]; ++i)
    for (int64_t j = 0; j < a[1]; ++j) {
      if (std::memcmp(element(one, i, j), element(two, j, i), 4) != 0) return false;
      differ = differ || std::memcmp(element(one, i, j), element(one, 0, 0), 4) != 0;
    }
  return differ;
}

bool is_copy(const std::string& weight) { return weight.find("::") != std::string::npos; }

bool is_uniform(const StoredTensor& tensor) {
  for (size_t at = 4; at < tensor.bytes.size(); at += 4)
    if (std::memcmp(tensor.bytes.data(), tensor.bytes.data() + at, 4) != 0) return false;
  return true;
}

// Equal copies are of one weight, which several operators read.
void join_copies(OnnxModel& model) {
  std::map<std::string, std::string> same;  // a copy's name: the first one's
  std::vector<const std::string*> firsts;
  for (const auto& [name, tensor] : model.weights) {
    if (!is_copy(name) || tensor.type.dtype != ir::DType::float32 || tensor.type.shape.size() < 2 ||
        is_uniform(tensor))
      continue;
    const StoredTensor& mine = tensor;
    const auto first = std::find_if(firsts.begin(), firsts.end(),
                                    [&](const std::string* one) { return model.weights.at(*one) == mine; });
    if (first == firsts.end())
      firsts.push_back(&name);
    else
      same[name] = **first;
  }
  for (OnnxNode& node : model.nodes)
    for (std::string& input : node.inputs)
      if (const auto found = same.find(input); found != same.end()) input = found->second;
}

// Copies have names of the exporter's own, "onnx::MatMul_145".
void tie_copies(OnnxModel& model) {
  std::vector<OnnxNode> transposes;
  for (const auto& [copy, tensor] : model.weights) {
    if (!is_copy(copy)) continue;
    for (const auto& [name, other] : model.weights)
      if (!is_copy(name) && is_transposed(tensor, other)) {
        transposes.push_back({"", "Transpose", {name}, {copy}, {}});
        break;
      }
  }
  for (const OnnxNode& node : transposes) model.weights.erase(node.outputs[0]);
  model.nodes.insert(model.nodes.begin(), transposes.begin(), transposes.end());
}

}  // namespace

void recognize_layers(OnnxModel& model) {
  join_copies(model);
  tie_copies(model);
  Recognizer(model).run();
}

}  // namespace boxcar::backends::onnx
