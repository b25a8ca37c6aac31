#include "cli/sbp_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/sbp_documents.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

struct RulesArguments : RulesQuestion {
  bool json = false;
};

struct BoxArguments : RouteQuestion {
  bool json = false;
};

// "(S(0), B), (B, S(1)) -> (S(0), S(1))", like sbp::to_text of a signature for one dimension.
std::string to_text(const planner::OpLayout& layout) {
  const auto joined = [](const std::vector<sbp::NdSbp>& layouts) {
    std::vector<std::string> texts;
    for (const sbp::NdSbp& one : layouts) texts.push_back(sbp::to_text(one));
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  return joined(layout.inputs) + " -> " + joined(layout.outputs);
}

void print_ops(std::ostream& out, bool json, bool signatures) {
  if (json)
    out << ops_json().dump() << "\n";
  else
    for (const std::string& name : op_names())
      out << (signatures ? signature_of(ir::op(name)) : name) << "\n";
}

void print_rules(std::ostream& out, const RulesArguments& arguments) {
  const std::vector<planner::OpLayout> legal = layout_rules(arguments);
  if (arguments.json)
    out << to_json(legal).dump() << "\n";
  else
    for (const planner::OpLayout& rule : legal) out << to_text(rule) << "\n";
}

// Up to eight lines, then the number of further ones.
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

void print_box(std::ostream& out, const BoxArguments& arguments) {
  const RouteAnswer answer = route_between(arguments);
  if (arguments.json) {
    out << to_json(answer).dump() << "\n";
    return;
  }
  const sbp::Route& route = answer.route;
  const int64_t bytes = ir::size_of(answer.type.dtype);
  out << fmt::format("{}: {} -> {}\n", ir::to_text(answer.type), sbp::to_text(answer.from),
                     sbp::to_text(answer.to));
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
  auto json = std::make_shared<bool>(false), signatures = std::make_shared<bool>(false);
  CLI::Option* as_json = command->add_flag("--json", *json, "print JSON");
  command
      ->add_flag("--signatures", *signatures,
                 "with operands, attributes and results, and which have no gradient")
      ->excludes(as_json);
  command->callback([command, json, signatures, &out] {
    refuse_extras(*command);
    print_ops(out, *json, *signatures);
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
