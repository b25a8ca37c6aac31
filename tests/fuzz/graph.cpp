// Graph text, also as a user's own model; for valid graphs the queries that planning makes of each op.
#include "ir/graph.h"

#include "harness.h"
#include "ir/models/graph_model.h"
#include "ir/op.h"

namespace boxcar::fuzz {
namespace {

ir::Types types_of(const ir::Graph& graph, const std::vector<ir::TensorId>& tensors) {
  ir::Types types;
  for (const ir::TensorId id : tensors) types.push_back(graph.tensor(id).type);
  return types;
}

void plan(const ir::Graph& graph, const ir::Op& op) {
  const ir::OpDef& def = ir::op(op.type);
  const ir::Types inputs = types_of(graph, op.inputs), outputs = types_of(graph, op.outputs);
  ir::work(def, inputs, outputs, op.attrs);
  for (const int64_t parts : {2, 3})
    for (const sbp::Signature& signature : ir::signatures(def, inputs, op.attrs, parts))
      ir::localize(def, inputs, op.attrs, signature, parts, parts - 1);
}

}  // namespace

void fuzz_graph(std::string_view input) {
  if (const auto model = allowed([&] { return ir::models::read_graph_model(std::string(input)); })) {
    ir::models::inputs_of(*model);
    ends([&] { ir::models::build(*model, 3); });  // sizes may become too large
  }
  const auto graph = reads_back(input, ir::parse_graph, [](const ir::Graph& g) { return ir::to_text(g); });
  if (!graph || !ends([&] { ir::verify(*graph); })) return;
  for (const ir::Op& op : graph->ops)
    if (ir::has_op(op.type)) ends([&] { plan(*graph, op); });
}

}  // namespace boxcar::fuzz
