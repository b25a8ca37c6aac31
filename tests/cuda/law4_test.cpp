// Law 4 on GPUs: the plans of tests/train, which train like one device on the CPU backend, do so on devices
// that share the available GPUs. Skipped if there is no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "gpu.h"
#include "plans.h"
#include "support/error_of.h"
#include "trainer.h"

namespace boxcar::tests {
namespace {

using planner::LaidOut;

constexpr int steps = 5;

struct Case {
  std::string name;
  std::function<LaidOut(const ir::TrainOptions& options)> laying;
  std::function<Start()> start;
  ir::Precision narrow = ir::Precision::fp32;  // beside float64
  bool wide_alone = false;                     // no narrower type
};
std::ostream& operator<<(std::ostream& out, const Case& one) { return out << one.name; }

Case case_of(const TransformerRow& row) {
  return {
      row.name,
      [&row](const ir::TrainOptions& options) { return planner::lay_out(job_of(row, plan_batch, options)); },
      [&row] { return transformer_start(job_of(row, plan_batch, {})); }};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const TransformerRow& row : transformer_plans()) all.push_back(case_of(row));
  for (const TransformerRow& row : image_plans()) {
    all.push_back(case_of(row));
    all.back().wide_alone = true;  // rounding grows through fifty norms, and from step to step
  }
  for (const NarrowRow& narrow : narrow_plans()) {
    all.push_back(case_of(narrow.row));
    all.back().narrow = narrow.precision;
  }
  for (const NetRow& row : net_plans())
    for (const auto& [name, net, elements] :
         {std::tuple{"mlp_", &mlp, 6}, {"conv_net_", &convnet, 3 * 8 * 6}})
      all.push_back(
          {name + std::string(row.name),
           [&row, net = net](const ir::TrainOptions& options) { return lay_out_net(net, row, options); },
           [elements = elements] { return graph_start(elements); }});
  return all;
}

ir::TrainOptions options_of(ir::Precision precision) {
  ir::TrainOptions options;
  options.optimizer = ir::Optimizer::adam;
  options.learning_rate = 0.01;
  options.weight_decay = 0.01;
  options.clip_norm = 0.5;
  options.precision = precision;
  return options;
}

std::string why;  // there is no GPU
auto on_gpus(int devices) { return gpus(devices, why); }

void expect_refused(const LaidOut& laid, const Start& start) {
  EXPECT_THAT(support::error_of([&] { train(laid, start, steps, on_gpus); }),
              testing::HasSubstr("this backend has no kernels of the host (--backend cpu has, for "
                                 "offload_optimizer and servers)"));
}

class GpuLaw4 : public testing::TestWithParam<Case> {};

TEST_P(GpuLaw4, TrainsAsOnTheCpu) {
  if (!gpus(1, why)) GTEST_SKIP() << why;
  const Case& one = GetParam();
  const Start start = one.start();
  ir::TrainOptions options = options_of(ir::Precision::fp64);
  if (one.wide_alone) options.optimizer = ir::Optimizer::momentum, options.learning_rate = 1e-3;
  const LaidOut wide = one.laying(options);
  if (wide.hints.servers > 0) return expect_refused(wide, start);
  const Outcome exact = train(wide, start, steps);
  {
    SCOPED_TRACE("float64");
    expect_same(train(wide, start, steps, on_gpus), exact, 1e-8);
  }
  if (one.wide_alone) return;
  // The allowed distance from the exact losses is eight times that of the CPU's rounding. (Where gradients
  // are zero, rounding alone moves Adam's weights.)
  SCOPED_TRACE("narrower");
  const LaidOut narrow = one.laying(options_of(one.narrow));
  if (narrow.hints.offload_optimizer) return expect_refused(narrow, start);
  const Outcome here = train(narrow, start, steps), there = train(narrow, start, steps, on_gpus);
  const double largest = *std::max_element(exact.losses.begin(), exact.losses.end());
  EXPECT_LE(loss_distance(there, exact), 8 * loss_distance(here, exact) + 1e-3 * largest);
}
INSTANTIATE_TEST_SUITE_P(Plans, GpuLaw4, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace boxcar::tests
