#include "ir/passes/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/derived_name.h"
#include "ir/order.h"
#include "ir/passes/pass.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::ir {
namespace {

struct Pass {
  const char* name;
  void (*run)(Step&);
};
constexpr Pass passes[] = {{"double_precision", double_precision},
                           {"fuse_patterns", fuse_patterns},
                           {"fuse_elementwise", fuse_elementwise},
                           {"fuse_loss", fuse_loss},
                           {"mixed_precision", mixed_precision},
                           {"differentiate", differentiate_loss},
                           {"recompute", recompute},
                           {"fuse_products", fuse_products},
                           {"sparse_tables", sparse_tables},
                           {"accumulate", accumulate},
                           {"clip", clip},
                           {"optimize", optimize},
                           {"running_averages", running_averages}};

void check_names(const std::set<std::string>& off) {
  const std::vector<std::string> known = pass_names();
  for (const std::string& name : off)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error::input("passes", fmt::format("no pass '{}'{}", name, did_you_mean(name, known)));
}

// Check of a pass's result: the full check if assertions are on, else only the order of definitions.
#ifndef NDEBUG
constexpr auto check = verify;
#else
constexpr auto check = verify_order;
#endif

}  // namespace

void Step::finish(Rewriter& rewrite) {
  rewrite.finish();
  const auto follow = [&](TensorId& id) {
    if (id >= 0) id = rewrite.renumbered(rewrite.current(id));
  };
  follow(loss);
  follow(scale);
  follow(finite);
  for (Gradient& gradient : gradients) {
    follow(gradient.parameter);
    follow(gradient.gradient);
    follow(gradient.indices);
  }
}

const Op& state_op(const Graph& graph, TensorId leaf) {
  const Op& op = at(graph.ops, graph.tensor(leaf).producer);
  return op.inputs.empty() ? op : at(graph.ops, graph.tensor(op.inputs[0]).producer);
}

// Backward starts from the loss scale divided by the number of micro-batches, so gradients sum to those of
// the scaled mean loss.
void differentiate_loss(Step& step) {
  const std::string seed = derived_name(step.graph.tensor(step.loss).name, Derived::gradient);
  step.gradients = differentiate(step.graph, step.loss);
  const double scale = scales_loss(step.options) ? step.options.loss_scale : 1;
  for (Op& op : step.graph.ops)
    if (op.name == seed) op.attrs["value"] = scale / step.options.micro_batches;
}

bool scales_loss(const TrainOptions& options) {
  return options.precision == Precision::fp16 && !options.off.contains("mixed_precision") &&
         !options.off.contains("clip");
}

Graph training_step(Graph forward, TensorId loss, const TrainOptions& options) {
  check_names(options.off);
  if (options.micro_batches < 1)
    throw Error::input("micro_batches", fmt::format("is {}, expected at least 1", options.micro_batches));
  Step step{std::move(forward), loss, {}, -1, -1, options};
  for (const Pass& pass : passes) {
    if (options.off.contains(pass.name)) continue;
    pass.run(step);
    try {
      check(step.graph);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("after pass {}", pass.name), error.what());
    }
  }
  verify(step.graph);
  return std::move(step.graph);
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : passes) names.emplace_back(pass.name);
  return names;
}

}  // namespace boxcar::ir
