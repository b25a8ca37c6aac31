#include "planner/law4.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/cpu/evaluate.h"
#include "ir/ops/batch_statistics.h"
#include "ir/ops/optimizers.h"
#include "planner/plan_runner.h"
#include "planner/small_jobs.h"
#include "planner/training_graph.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

namespace {

using backends::cpu::Values;

// The plan's graph and its tensors' places, and the same step on one device.
struct Comparison {
  Job job;
  LaidOut laid;
  Places places;
  Values before, after;

  Comparison(const Job& given, LaidOut laid_out)
      : job(resolve(given)), laid(std::move(laid_out)), places(places_of(laid)) {
    Job alone = job;  // on one stage, in one micro-batch
    Hints& h = alone.parallel;
    alone.gpus /= h.pp;
    alone.global_batch = int64_t{h.micro_batch} * h.dp;
    h.pp = h.virtual_stages = 1;
    h.schedule = {}, h.stage_layers.clear(), h.stage_order.clear();
    alone.train.recompute_layers.clear();
    const ir::Graph single = training_graph(resolve(alone));
    before = backends::cpu::draw(single, 7,
                                 job.model.conv_net() ? job.model.conv_net()->classes : job.model->vocab);
    for (auto& [name, tensor] :
         before)  // a step divides by their roots: near zero, rounding would move weights
      if (name.ends_with(".v") || name.ends_with(".r") || name.ends_with(".c"))
        for (double& element : tensor.data) element += 0.01;
    after = backends::cpu::evaluate(single, before);
  }

  // The expected value of a device's part of a register: of its tensor, or of the updated tensor (suffix
  // ".next"). Every micro-batch is alike.
  HostTensor local(const Values& values, const std::string& reg, int device, const char* suffix = "") const {
    const Place* place = places.find(reg);
    if (!place) throw Error::fault(reg, "has no place");
    HostTensor value = values.at(place->tensor + suffix);
    value.type.dtype = place->type.dtype;
    return backends::cpu::take(value, at(place->ranges, device));
  }
};

// Gradients of keys' biases are mathematically zero, and Adam divides them by its eps: rounding of 1e-14 is a
// millionth of a step, Adagrad's a ten thousandth. A trust ratio makes any gradient a step of the weights'
// size, with its rounding. Moments show the gradient itself.
double tolerance_of(const Job& job, const std::string& state, const Comparison& c) {
  const bool moment = state.ends_with(".m") || state.ends_with(".v") || ir::is_running_average(state);
  const ir::OptimizerRow& row = ir::row_of(job.train.optimizer);
  if (moment || row.positive == 0) return 1e-9;
  const double divided = 1e-14 / job.train.eps;
  if (!row.has_trust()) return divided;
  double largest = 0;
  for (const double m : c.after.at(c.places.find(state)->tensor + ".m.next").data)
    largest = std::max(largest, std::abs(m));
  return divided + 1e-16 / largest;
}

void expect_near(const HostTensor& got, const HostTensor& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.type.shape, want.type.shape) << what;
  for (size_t i = 0; i < got.data.size(); ++i)
    ASSERT_NEAR(got.data[i], want.data[i], tolerance * std::max(1.0, std::abs(want.data[i])))
        << what << " element " << i;
}

}  // namespace

void expect_law_4(const Job& job, const Choose& choose) { expect_law_4(job, lay_out(resolve(job), choose)); }

void expect_law_4(const Job& job, LaidOut laid) {
  const Comparison c(job, std::move(laid));
  const ir::Plan plan = compile(c.laid);
  ir::check_types(plan);
  verify(plan);
  PlanRunner runner(
      plan, [&](const ir::Register& reg, int, int device) { return c.local(c.before, reg.name, device); });
  runner.run();
  for (const ir::Update& update : c.laid.graph.updates) {
    const std::string& state = c.laid.graph.tensor(update.state).name;
    for (int device = 0; device < plan.devices; ++device) {
      const ir::Program& program = at(plan.programs, runner.program_of(device));
      if (find_register(program, state))
        expect_near(runner.value(state, device), c.local(c.after, state, device, ".next"),
                    tolerance_of(job, state, c), fmt::format("{} on device {}", state, device));
    }
  }
}

}  // namespace boxcar::planner
