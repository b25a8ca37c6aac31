#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>

#include "backends/cpu/evaluate.h"
#include "backends/host/safetensors.h"
#include "dump.h"
#include "ir/autodiff.h"
#include "sbp/error.h"

namespace boxcar::tests {
namespace {

using backends::cpu::HostTensor;
using backends::cpu::Values;
using backends::host::StoredFile;
using backends::host::StoredTensor;
using ir::DType;
using Json = nlohmann::ordered_json;

template <class T>
StoredTensor stored_as(const HostTensor& tensor, DType dtype) {
  const std::vector<T> numbers(tensor.data.begin(), tensor.data.end());
  StoredTensor result{{tensor.type.shape, dtype}, std::vector<std::byte>(numbers.size() * sizeof(T))};
  if (!numbers.empty()) std::memcpy(result.bytes.data(), numbers.data(), result.bytes.size());
  return result;
}

StoredTensor stored(const HostTensor& tensor) {
  if (ir::is_float(tensor.type.dtype)) return stored_as<double>(tensor, DType::float64);
  return tensor.type.dtype == DType::boolean ? stored_as<uint8_t>(tensor, DType::boolean)
                                             : stored_as<int64_t>(tensor, DType::int64);
}

HostTensor draw(std::mt19937_64& random, const ir::TensorType& type, const ir::Domain& domain) {
  HostTensor tensor = backends::cpu::zeros(type);
  std::uniform_real_distribution<double> real(domain.low, domain.high);
  std::uniform_int_distribution<int64_t> whole(static_cast<int64_t>(domain.low),
                                               static_cast<int64_t>(domain.high));
  for (double& x : tensor.data)
    x = ir::is_float(type.dtype) ? real(random) : static_cast<double>(whole(random));
  return tensor;
}

Json to_json(const ir::Attrs& attrs) {
  Json json = Json::object();
  for (const auto& attr : attrs) std::visit([&](const auto& v) { json[attr.first] = v; }, attr.second);
  return json;
}

// An op on one sample, and the sum of dy y over its first outputs as a loss.
class Case {
 public:
  Case(const ir::OpDef& def, const ir::Sample& sample, uint64_t seed)
      : def_(def), attrs_(ir::complete(def, sample.attrs)), random_(seed) {
    for (size_t i = 0; i < sample.inputs.size(); ++i)
      given_.emplace(
          fmt::format("x{}", i),
          draw(random_, sample.inputs[i], i < sample.domains.size() ? sample.domains[i] : ir::Domain{}));
  }

  void run(const std::string& prefix, StoredFile& file, std::set<std::string>& used) {
    gradient_graph();
    const Values values = backends::cpu::evaluate(graph_, given_);
    for (const ir::Op& op : graph_.ops)
      if (op.type != def_.name) used.insert(op.type);
    for (const auto& [name, tensor] : given_) file.tensors[prefix + name] = stored(tensor);
    for (size_t i = 0; i < outputs_.size(); ++i)
      file.tensors[fmt::format("{}y{}", prefix, i)] = stored(values.at(graph_.tensor(outputs_[i]).name));
    for (const ir::Gradient& g : gradients_)
      file.tensors[fmt::format("{}d{}", prefix, graph_.tensor(g.parameter).name)] =
          stored(values.at(graph_.tensor(g.gradient).name));
    if (const auto mask = dropout_mask()) file.tensors[prefix + "mask"] = stored(*mask);
  }

  Json description() const { return {{"op", def_.name}, {"attrs", to_json(attrs_)}}; }

 private:
  // Differentiates as many outputs as have gradients: all floating-point ones, else the first, else none.
  void gradient_graph() {
    const size_t all = forward_graph(0);
    for (size_t differentiated = all; differentiated > 0; --differentiated) {
      if (differentiated < all && differentiated > 1) continue;
      forward_graph(differentiated);
      try {
        gradients_ = ir::differentiate(graph_, loss_);
        return;
      } catch (const Error&) {  // that output has no gradient
      }
    }
    forward_graph(0);
  }

  // Adds inputs, the op and its outputs; with `differentiated` outputs also a loss of these. Returns the
  // number of floating-point outputs.
  size_t forward_graph(size_t differentiated) {
    ir::Builder builder("case");
    std::vector<ir::TensorId> inputs;
    for (size_t i = 0; i < def_types().size(); ++i) {
      const std::string name = fmt::format("x{}", i);
      const ir::TensorType& type = given_.at(name).type;
      inputs.push_back(ir::is_float(type.dtype) ? builder.parameter(name, type) : builder.input(name, type));
    }
    outputs_ = builder.op(def_.name, inputs, attrs_, "op");
    gradients_.clear();
    std::vector<ir::TensorId> terms;
    size_t floats = 0;
    for (ir::TensorId y : outputs_) floats += ir::is_float(builder.type(y).dtype);
    for (size_t i = 0; i < differentiated; ++i) {
      const std::string name = fmt::format("dy{}", i);
      const ir::TensorType type = builder.type(outputs_[i]);
      if (!given_.count(name)) given_.emplace(name, draw(random_, type, {}));
      terms.push_back(
          builder.op1("reduce_sum", {builder.op1("mul", {outputs_[i], builder.input(name, type)})}));
      const DType first = builder.type(terms[0]).dtype;
      if (type.dtype != first)
        terms.back() = builder.op1("cast", {terms.back()}, {{"to", ir::to_text(first)}});
    }
    std::erase_if(given_, [&](const auto& row) {
      return row.first.starts_with("dy") && std::stoul(row.first.substr(2)) >= differentiated;
    });
    if (!terms.empty()) loss_ = builder.op1("sum", terms, {}, "loss");
    graph_ = builder.finish();
    return floats;
  }

  std::vector<std::string> def_types() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : given_)
      if (name.starts_with("x")) names.push_back(name);
    return names;
  }

  // The dropout probability; a fused op states it in its program, "dropout(1) {p=0.1}".
  std::optional<double> dropped() const {
    if (attrs_.count("p")) return ir::attr_float(attrs_, "p");
    if (def_.name != "fused") return std::nullopt;
    const std::string& program = ir::attr_text(attrs_, "program");
    const size_t at = program.find("{p=");
    if (at == std::string::npos) return std::nullopt;
    return std::stod(program.substr(at + 3));
  }

  std::optional<HostTensor> dropout_mask() const {
    const std::optional<double> p = dropped();
    if (!p) return std::nullopt;
    ir::Shape shape = given_.at("x0").type.shape;
    if (def_.name.starts_with("scaled_dot_product_attention")) shape.back() = given_.at("x1").type.shape[2];
    const ir::OpDef& dropout = ir::op("dropout");
    ir::Attrs attrs;
    for (const auto& [name, value] : attrs_)
      if (dropout.attrs.count(name)) attrs.emplace(name, value);
    attrs.insert_or_assign("p", *p);
    HostTensor ones = backends::cpu::zeros({shape, DType::float32});
    ones.data.assign(ones.data.size(), 1);
    return backends::cpu::run_reference("dropout", {ones}, ir::complete(dropout, attrs))[0];
  }

  const ir::OpDef& def_;
  ir::Attrs attrs_;
  std::mt19937_64 random_;
  Values given_;
  ir::Graph graph_;
  std::vector<ir::TensorId> outputs_;
  std::vector<ir::Gradient> gradients_;
  ir::TensorId loss_ = -1;
};

}  // namespace

void dump_ops(const std::string& path, uint64_t seed) {
  StoredFile file;
  Json cases = Json::array(), registry = Json::array();
  std::set<std::string> used;
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int64_t> extent(2, 7);
  for (const ir::OpDef& def : ir::all_ops()) {
    registry.push_back(def.name);
    for (const ir::Sample& sample : def.samples([&] { return extent(random); })) {
      Case one(def, sample, random());
      one.run(fmt::format("{}.", cases.size()), file, used);
      cases.push_back(one.description());
    }
  }
  file.metadata = {{"cases", cases.dump()}, {"registry", registry.dump()}, {"used", Json(used).dump()}};
  backends::host::write_safetensors(path, file);
}

}  // namespace boxcar::tests
