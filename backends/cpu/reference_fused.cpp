// Chains of elementwise ops: step by step, and backwards through the graph of the steps.
#include <fmt/format.h>

#include "backends/cpu/evaluate.h"
#include "backends/cpu/reference.h"
#include "ir/autodiff.h"
#include "ir/ops/fused.h"
#include "sbp/at.h"

namespace boxcar::backends::cpu {
namespace {

void fused(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  Tensors values = in;
  for (const ir::FusedStep& step : ir::parse_fused(ir::attr_text(attrs, "program"), in.size())) {
    Tensors operands;
    for (const int operand : step.operands) operands.push_back(at(values, operand));
    values.push_back(run_reference(step.op, operands, step.attrs)[0]);
  }
  out[0].data = values.back().data;
}

// The gradient of sum(dy * program(xs)), every x stretched to the result's shape first.
void fused_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  if (in[0].data.empty()) return;
  const ir::Shape shape = in[0].type.shape;
  ir::Builder b("fused");
  Values given = {{"dy", in[0]}};
  std::vector<ir::TensorId> values;
  for (size_t i = 1; i < in.size(); ++i) {
    const std::string name = fmt::format("x{}", i - 1);
    given[name] =
        run_reference("broadcast_to", {in[i]}, ir::complete(ir::op("broadcast_to"), {{"shape", shape}}))[0];
    values.push_back(b.parameter(name, given[name].type));
  }
  for (const ir::FusedStep& step : ir::parse_fused(ir::attr_text(attrs, "program"), in.size() - 1)) {
    std::vector<ir::TensorId> operands;
    for (const int operand : step.operands) operands.push_back(at(values, operand));
    values.push_back(b.op1(step.op, operands, step.attrs));
  }
  const ir::TensorId product =
      b.op1("mul", {values.back(), b.input("dy", {shape, b.type(values.back()).dtype})});
  std::vector<int64_t> axes;
  for (size_t i = 0; i < shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  const ir::TensorId loss = b.op1("reduce_sum", {product}, {{"axes", axes}});
  ir::Graph graph = b.finish();
  const auto gradients = ir::differentiate(graph, loss);
  const Values results = evaluate(graph, given);
  for (const ir::Gradient& gradient : gradients) {
    const std::string& name = graph.tensor(gradient.parameter).name;  // "x2"
    at(out, std::stoul(name.substr(1))).data = results.at(graph.tensor(gradient.gradient).name).data;
  }
}

}  // namespace

void add_fused_kernels(KernelTable& table) {
  table["fused"] = fused;
  table["fused_grad"] = fused_grad;
}

}  // namespace boxcar::backends::cpu
