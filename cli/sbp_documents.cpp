#include "cli/sbp_documents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/autodiff.h"
#include "ir/op.h"
#include "sbp/apply.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t most_dimensions = 4;
constexpr int schema_of_sbp = 1;

// The types of an op's operands: shape as given, element type as given ("4x6:int64"), otherwise that of the
// op's first example, where --dtype stands for any float.
ir::Types read_operands(const ir::OpDef& def, const RulesQuestion& question) {
  const ir::Types examples = def.samples([] { return int64_t{4}; }).at(0).inputs;
  ir::Types types;
  for (size_t i = 0; i < question.shapes.size(); ++i) {
    const std::string& text = question.shapes[i];
    const size_t colon = text.find(':');
    ir::TensorType type{read_shape("shape", text.substr(0, colon)), ir::DType::float32};
    if (!examples.empty()) type.dtype = examples[std::min(i, examples.size() - 1)].dtype;
    if (!question.dtype.empty() && ir::is_float(type.dtype))
      type.dtype = read_dtype("--dtype", question.dtype);
    if (colon != text.npos) type.dtype = read_dtype("shape \"" + text + "\"", text.substr(colon + 1));
    types.push_back(std::move(type));
  }
  return types;
}

// "2x2": two mesh dimensions of two devices.
sbp::Shape read_mesh(const std::string& flag, const std::string& text) {
  sbp::Shape mesh;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('x', begin), text.size());
    mesh.push_back(read_count(flag, text.substr(begin, end - begin), sbp::max_device + 1));
    begin = end + 1;
  }
  if (mesh.size() > most_dimensions)
    throw Error::input(flag, fmt::format("\"{}\" has {} dimensions; a mesh has at most {}", text, mesh.size(),
                                         most_dimensions));
  return mesh;
}

// By operand: "S(0)" for one mesh dimension, ["S(0)", "B"] for two.
Json texts(const std::vector<sbp::NdSbp>& layouts) {
  Json list = Json::array();
  for (const sbp::NdSbp& layout : layouts) {
    Json dimensions = Json::array();
    for (const sbp::Sbp sbp : layout) dimensions.push_back(sbp::to_text(sbp));
    list.push_back(layout.size() == 1 ? dimensions[0] : dimensions);
  }
  return list;
}

Json block_json(const std::vector<sbp::Range>& block) {
  Json json = Json::array();
  for (const sbp::Range range : block) json.push_back({range.begin, range.end});
  return json;
}

// By device: the blocks that it holds under a layout.
Json holds_json(const sbp::Layout& layout) {
  Json json = Json::object();
  const auto& devices = layout.placement.devices;
  for (size_t i = 0; i < devices.size(); ++i) {
    const auto block =
        sbp::local_ranges(layout.shape, layout.sbp, layout.placement.mesh, static_cast<int64_t>(i));
    json[std::to_string(devices[i])] = Json::array({{{"block", block_json(block)}}});
  }
  return json;
}

// The same after a step, with the values in places to which no slice writes.
Json holds_json(const sbp::Step& step, const sbp::Layout& before) {
  Json json = Json::object();
  if (!step.result.sbp.empty()) json = holds_json(step.result);
  if (step.collective == sbp::Collective::reduce)
    json = {{std::to_string(step.groups[0][0]), json[std::to_string(step.groups[0][0])]}};
  if (step.result.sbp.empty())  // blocks at roots
    for (const sbp::Slice& slice : step.slices) {
      Json& pieces = json[std::to_string(slice.to)];
      const Json piece{{"block", block_json(slice.block)}};
      if (std::find(pieces.begin(), pieces.end(), piece) == pieces.end()) pieces.push_back(piece);
    }
  if (sbp::begins_with_identity(step, before))
    for (Json& pieces : json)
      for (Json& piece : pieces) piece["identity"] = sbp::to_text(step.reduction);
  for (const sbp::Fill& fill : step.fills)
    json[std::to_string(fill.device)][0]["fills"].push_back(
        {{"block", block_json(fill.block)}, {"identity", sbp::to_text(fill.reduction)}});
  return json;
}

Json step_json(const sbp::Step& step, const sbp::Layout& before, int64_t element_bytes) {
  Json json{{"collective", sbp::to_text(step.collective)}};
  if (!step.mesh_dims.empty()) json["mesh_dims"] = step.mesh_dims;
  if (step.collective == sbp::Collective::all_to_all) {
    json["gather_axis"] = step.axis;
    json["split_axis"] = step.axis2;
  } else if (step.collective == sbp::Collective::all_gather ||
             step.collective == sbp::Collective::reduce_scatter) {
    json["axis"] = step.axis;
  }
  if (reduces(step)) json["reduction"] = sbp::to_text(step.reduction);
  if (!step.groups.empty()) json["groups"] = step.groups;
  const bool local = step.collective == sbp::Collective::none;
  for (const sbp::Slice& slice : local ? sbp::kept_slices(step, before) : step.slices)
    json["slices"].push_back({{"from", slice.from},
                              {"to", slice.to},
                              {"block", block_json(slice.block)},
                              {"how", slice.add ? sbp::to_text(step.reduction) : "copy"},
                              {"bytes", slice.from == slice.to ? 0 : volume(slice) * element_bytes}});
  json["holds"] = holds_json(step, before);
  json["result"] = step.result.sbp.empty() ? "blocks at roots" : sbp::to_text(step.result);
  json["bytes_moved"] = step.elements_moved * element_bytes;
  json["latency_steps"] = step.latency_steps;
  return json;
}

Json route_json(const sbp::Route& route, const sbp::Layout& from, int64_t element_bytes) {
  Json json{{"holds", holds_json(from)},
            {"steps", Json::array()},
            {"bytes_moved", route.elements_moved * element_bytes}};
  const sbp::Layout* before = &from;
  for (const sbp::Step& step : route.steps) {
    json["steps"].push_back(step_json(step, *before, element_bytes));
    before = &step.result;
  }
  json["bytes_received_per_device"] = Json::object();
  for (size_t i = 0; i < route.devices.size(); ++i)
    json["bytes_received_per_device"][std::to_string(route.devices[i])] = route.received[i] * element_bytes;
  return json;
}

}  // namespace

bool reduces(const sbp::Step& step) {
  return step.collective == sbp::Collective::all_reduce ||
         step.collective == sbp::Collective::reduce_scatter || step.collective == sbp::Collective::reduce ||
         (!step.slices.empty() && step.slices[0].add);
}

int64_t volume(const sbp::Slice& slice) {
  int64_t elements = 1;
  for (const sbp::Range range : slice.block) elements *= range.size();
  return elements;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const ir::OpDef& def : ir::all_ops()) names.push_back(def.name);
  return names;
}

std::string signature_of(const ir::OpDef& op) {
  std::string text = fmt::format("{}({})", op.name, fmt::join(op.inputs, ", "));
  std::vector<std::string> attrs;
  for (const auto& [name, value] : op.attrs) attrs.push_back(fmt::format("{}={}", name, ir::to_text(value)));
  if (!attrs.empty()) text += fmt::format(" {{{}}}", fmt::join(attrs, ", "));
  text += fmt::format(" -> {}", fmt::join(op.outputs, ", "));
  return ir::has_gradient(op.name) ? text : text + "   (no gradient)";
}

Json ops_json() { return {{"schema_version", schema_of_sbp}, {"ops", op_names()}}; }

std::vector<planner::OpLayout> layout_rules(const RulesQuestion& question) {
  const ir::OpDef& def = ir::op(question.op);
  const sbp::Shape mesh = read_mesh("--devices", question.devices);
  if (!question.dtype.empty()) read_dtype("--dtype", question.dtype);
  const ir::Attrs attrs = ir::complete(def, read_attrs(question.attrs));
  const ir::Types inputs = read_operands(def, question);
  def.infer(inputs, attrs);
  return planner::legal_layouts(def, inputs, attrs, mesh);
}

Json to_json(const std::vector<planner::OpLayout>& rules) {
  Json list = Json::array();
  for (const planner::OpLayout& rule : rules)
    list.push_back({{"inputs", texts(rule.inputs)}, {"outputs", texts(rule.outputs)}});
  return {{"schema_version", schema_of_sbp}, {"rules", std::move(list)}};
}

RouteAnswer route_between(RouteQuestion question) {
  const sbp::Shape shape = read_shape("--shape", question.shape);
  const ir::DType dtype = read_dtype("--dtype", question.dtype);
  if (question.to.devices.empty()) question.to.devices = question.from.devices;
  const sbp::Layout from = read_layout(question.from, shape), to = read_layout(question.to, shape, &from);
  for (const auto& [flag, layout] : {std::pair{"--from", &from}, std::pair{"--to", &to}})
    if (dtype == ir::DType::boolean && std::ranges::count(layout->sbp, sbp::Sbp::P()) > 0)
      throw Error::input(flag,
                         "booleans have no sums (use P(max), which is \"or\", or P(min), which is \"and\")");
  return {{shape, dtype}, from, to, sbp::box(from, to)};
}

Json to_json(const RouteAnswer& answer) {
  Json json{{"schema_version", schema_of_sbp},
            {"shape", answer.type.shape},
            {"dtype", ir::to_text(answer.type.dtype)},
            {"from", sbp::to_text(answer.from)},
            {"to", sbp::to_text(answer.to)}};
  json.update(route_json(answer.route, answer.from, ir::size_of(answer.type.dtype)));
  return json;
}

}  // namespace boxcar::cli
