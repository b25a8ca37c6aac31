#include "cli/sbp_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/sbp_arguments.h"
#include "ir/op.h"
#include "planner/op_layout.h"
#include "sbp/apply.h"
#include "sbp/boxing.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t most_dimensions = 4;

struct RulesArguments {
  std::string op, devices = "2", dtype;
  std::vector<std::string> shapes, attrs;
  bool json = false;
};

struct BoxArguments {
  std::string shape, dtype = "float32";
  End from{"from", {}, {}, {}}, to{"to", {}, {}, {}};
  bool json = false;
};

// The types of an op's operands: shape as given, element type as given ("4x6:int64"), else that of the op's
// first example, where --dtype stands for any float.
ir::Types read_operands(const ir::OpDef& def, const RulesArguments& arguments) {
  const ir::Types examples = def.samples([] { return int64_t{4}; }).at(0).inputs;
  ir::Types types;
  for (size_t i = 0; i < arguments.shapes.size(); ++i) {
    const std::string& text = arguments.shapes[i];
    const size_t colon = text.find(':');
    ir::TensorType type{read_shape("shape", text.substr(0, colon)), ir::DType::float32};
    if (!examples.empty()) type.dtype = examples[std::min(i, examples.size() - 1)].dtype;
    if (!arguments.dtype.empty() && ir::is_float(type.dtype))
      type.dtype = read_dtype("--dtype", arguments.dtype);
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

// "(S(0), B), (B, S(1)) -> (S(0), S(1))", as sbp::to_text of a signature is for one dimension.
std::string to_text(const planner::OpLayout& layout) {
  const auto joined = [](const std::vector<sbp::NdSbp>& layouts) {
    std::vector<std::string> texts;
    for (const sbp::NdSbp& one : layouts) texts.push_back(sbp::to_text(one));
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  return joined(layout.inputs) + " -> " + joined(layout.outputs);
}

void print_ops(std::ostream& out, bool json) {
  Json names = Json::array();
  for (const ir::OpDef& def : ir::all_ops()) names.push_back(def.name);
  if (json)
    out << names.dump() << "\n";
  else
    for (const Json& name : names) out << name.get<std::string>() << "\n";
}

void print_rules(std::ostream& out, const RulesArguments& arguments) {
  const ir::OpDef& def = ir::op(arguments.op);
  const sbp::Shape mesh = read_mesh("--devices", arguments.devices);
  if (!arguments.dtype.empty()) read_dtype("--dtype", arguments.dtype);
  const ir::Attrs attrs = ir::complete(def, read_attrs(arguments.attrs));
  const ir::Types inputs = read_operands(def, arguments);
  def.infer(inputs, attrs);
  const std::vector<planner::OpLayout> rules = planner::legal_layouts(def, inputs, attrs, mesh);
  if (!arguments.json) {
    for (const planner::OpLayout& rule : rules) out << to_text(rule) << "\n";
    return;
  }
  Json list = Json::array();
  for (const planner::OpLayout& rule : rules)
    list.push_back({{"inputs", texts(rule.inputs)}, {"outputs", texts(rule.outputs)}});
  out << list.dump() << "\n";
}

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

// The same after a step, and what stands there where no slice writes.
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

// Up to eight lines, then how many more.
std::string lines(size_t count, const std::function<std::string(size_t)>& line) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(count, 8); ++i) text += "     " + line(i) + "\n";
  return count <= 8 ? text : text + fmt::format("     and {} more (--json lists all)\n", count - 8);
}

std::string step_text(const sbp::Step& step, int64_t element_bytes) {
  std::string text = sbp::to_text(step.collective);
  if (step.collective == sbp::Collective::none) text = "local";
  if (reduces(step)) text += fmt::format(" ({})", sbp::to_text(step.reduction));
  text += fmt::format(" -> {}, {} bytes\n",
                      step.result.sbp.empty() ? "blocks at roots" : sbp::to_text(step.result),
                      step.elements_moved * element_bytes);
  text += lines(step.groups.size(),
                [&](size_t i) { return fmt::format("among {}", fmt::join(step.groups[i], ", ")); });
  std::vector<sbp::Slice> moved;
  std::copy_if(step.slices.begin(), step.slices.end(), std::back_inserter(moved),
               [](const sbp::Slice& slice) { return slice.from != slice.to; });
  return text + lines(moved.size(), [&](size_t i) {
           std::vector<std::string> ranges;
           for (const sbp::Range range : moved[i].block)
             ranges.push_back(fmt::format("{}:{}", range.begin, range.end));
           return fmt::format("{} -> {} [{}], {} bytes", moved[i].from, moved[i].to, fmt::join(ranges, ", "),
                              volume(moved[i]) * element_bytes);
         });
}

void print_box(std::ostream& out, BoxArguments arguments) {
  const sbp::Shape shape = read_shape("--shape", arguments.shape);
  const ir::DType dtype = read_dtype("--dtype", arguments.dtype);
  if (arguments.to.devices.empty()) arguments.to.devices = arguments.from.devices;
  const sbp::Layout from = read_layout(arguments.from, shape), to = read_layout(arguments.to, shape, &from);
  const sbp::Route route = sbp::box(from, to);
  const int64_t bytes = ir::size_of(dtype);
  if (arguments.json) {
    Json json{{"shape", shape},
              {"dtype", ir::to_text(dtype)},
              {"from", sbp::to_text(from)},
              {"to", sbp::to_text(to)}};
    json.update(route_json(route, from, bytes));
    out << json.dump() << "\n";
    return;
  }
  out << fmt::format("{}: {} -> {}\n", ir::to_text(ir::TensorType{shape, dtype}), sbp::to_text(from),
                     sbp::to_text(to));
  for (size_t i = 0; i < route.steps.size(); ++i)
    out << fmt::format("  {}. {}", i + 1, step_text(route.steps[i], bytes));
  if (route.steps.empty()) out << "  nothing to do\n";
  out << fmt::format("moved: {} bytes\n", route.elements_moved * bytes);
  for (size_t i = 0; i < route.devices.size(); ++i)
    out << fmt::format("  device {} receives {} bytes\n", route.devices[i], route.received[i] * bytes);
}

CLI::App* add(CLI::App& parent, const char* name, const char* help) {
  CLI::App* command = parent.add_subcommand(name, help);
  command->allow_extras();
  return command;
}

void add_ops(CLI::App& parent, std::ostream& out) {
  CLI::App* command = add(parent, "ops", "list the names of all ops");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print a JSON list");
  command->callback([command, json, &out] {
    refuse_extras(*command);
    print_ops(out, *json);
  });
}

void add_rules(CLI::App& parent, std::ostream& out) {
  CLI::App* command = add(parent, "rules", "list the layouts under which an op may run on a mesh of devices");
  auto a = std::make_shared<RulesArguments>();
  command->add_option("op", a->op, "an op's name (boxcar sbp ops)")->required();
  command->add_option("shape", a->shapes, "operand shapes: 4x6, scalar, 8:int64")->required();
  command->add_option("--devices", a->devices, "the mesh: 4, 2x2, 2x2x2 (default 2)");
  command->add_option("--attr", a->attrs, "an attribute: transpose_b=true, axes=[0,1]")
      ->allow_extra_args(false);
  command->add_option("--dtype", a->dtype, "element type of the floating-point operands (default float32)");
  command->add_flag("--json", a->json, "print JSON");
  command->callback([command, a, &out] {
    refuse_extras(*command);
    print_rules(out, *a);
  });
}

void add_box(CLI::App& parent, std::ostream& out) {
  CLI::App* command = add(parent, "box", "work out the cheapest route from one layout to another");
  auto a = std::make_shared<BoxArguments>();
  command->add_option("--shape", a->shape, "global shape: 8x6, scalar")->required();
  command->add_option("--dtype", a->dtype, "element type (default float32)");
  command->add_option("--from", a->from.sbp, "layout to begin with: S(0), \"(B, S(1))\", P(max)")->required();
  command->add_option("--to", a->to.sbp, "layout to end with")->required();
  command->add_option("--from-devices", a->from.devices, "its devices: 0-3, 0,2,5")->required();
  command->add_option("--to-devices", a->to.devices, "default: those of --from-devices");
  command->add_option("--from-mesh", a->from.mesh, "its mesh: 2x2 (default: as square as it goes)");
  command->add_option("--to-mesh", a->to.mesh,
                      "default: that of --from where it fits, else as square as it goes");
  command->add_flag("--json", a->json, "print JSON");
  command->callback([command, a, &out] {
    refuse_extras(*command);
    print_box(out, *a);
  });
}

}  // namespace

void add_sbp_command(CLI::App& app, std::ostream& out) {
  CLI::App* command = app.add_subcommand("sbp", "ask the layout algebra: ops, rules, boxing");
  command->allow_extras();
  command->parse_complete_callback([command] {  // before the callbacks of ops, rules and box
    const auto extras = command->remaining();
    if (!extras.empty())
      throw Error::input("sbp " + extras[0], fmt::format("no such command{}; there are ops, rules and box",
                                                         did_you_mean(extras[0], {"ops", "rules", "box"})));
    if (command->get_subcommands().empty()) throw Error::input("sbp", "which one? ops, rules or box");
  });
  add_ops(*command, out);
  add_rules(*command, out);
  add_box(*command, out);
}

}  // namespace boxcar::cli
