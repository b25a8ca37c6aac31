// Answers of the layout algebra, as values and as the documents of `boxcar sbp --json`: for the command, and
// for Python (cli/python).
//
//   to_json(layout_rules({.op = "matmul", .shapes = {"4x6", "6x8"}}))
//       == [{"inputs":["B","B"],"outputs":["B"]}, ...]
//   to_json(route_between({.shape = "8x6", .from = {"from", "S(0)", "0-3", ""}, .to = {"to", "B", "", ""}}))
//       == {"shape":[8,6], ..., "steps":[{"collective":"all_gather", ...}], ...} (docs/boxing.md)
//
// Every function may be called from any thread, and throws Error (bad input) that names the flag or argument.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/sbp_arguments.h"
#include "ir/op.h"
#include "planner/op_layout.h"
#include "sbp/boxing.h"

namespace boxcar::cli {

// Names of all ops.
std::vector<std::string> op_names();
// "layer_norm(x, gamma, beta) {eps=1e-05} -> y, mean, rstd"; "..." repeats an operand, "?" may be left out.
std::string signature_of(const ir::OpDef& op);
nlohmann::ordered_json ops_json();  // {"schema_version": 1, "ops": ["abs", ...]}

// The question of `boxcar sbp rules`: shapes "4x6" or "8:int64" of the operands, a mesh "2x2", attributes
// "axis=1".
struct RulesQuestion {
  std::string op, devices = "2", dtype = {};
  std::vector<std::string> shapes, attrs = {};
};
std::vector<planner::OpLayout> layout_rules(const RulesQuestion& question);
nlohmann::ordered_json to_json(
    const std::vector<planner::OpLayout>& rules);  // {"schema_version": 1, "rules": ...}

// The question of `boxcar sbp box`; without devices, `to` has those of `from`.
struct RouteQuestion {
  std::string shape, dtype = "float32";
  End from{"from", {}, {}, {}}, to{"to", {}, {}, {}};
};
struct RouteAnswer {
  ir::TensorType type;
  sbp::Layout from, to;
  sbp::Route route;
};
RouteAnswer route_between(RouteQuestion question);
nlohmann::ordered_json to_json(const RouteAnswer& answer);

bool reduces(const sbp::Step& step);
int64_t volume(const sbp::Slice& slice);  // in elements

}  // namespace boxcar::cli
