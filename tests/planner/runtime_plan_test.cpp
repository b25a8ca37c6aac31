// Compiled plans that run on the CPU backend, on threads, give the same results as the reference kernels,
// which run the plan one act at a time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <mutex>
#include <ostream>
#include <variant>

#include "actors/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/random.h"
#include "plan_runner.h"
#include "planner/planner.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

using actors::Runtime;

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// The plan in float64, so that sums in another order agree: every float type becomes float64, and all memory
// grows by the same factor.
ir::Plan widened(ir::Plan plan) {
  for (ir::Program& program : plan.programs) {
    for (ir::Register& reg : program.registers) {
      if (ir::is_float(reg.type.dtype)) reg.type.dtype = ir::DType::float64;
      reg.bytes *= 4;
      if (reg.offset > 0) reg.offset *= 4;
    }
    program.arena_bytes *= 4;
    for (ir::Actor& actor : program.actors)
      for (auto& [name, attr] : actor.attrs)
        if (auto* text = std::get_if<std::string>(&attr))
          for (const char* narrow : {"bfloat16", "float16", "float32"}) replace_all(*text, narrow, "float64");
  }
  return plan;
}

// A register's value before the step, or a loaded value: small and positive, token numbers for indices.
HostTensor source(const ir::Program& program, const ir::Register& reg, int device) {
  HostTensor value = backends::cpu::zeros(reg.type);
  const ir::Actor& producer = at(program.actors, reg.producer);
  if (producer.op == "constant") {
    value.data.assign(value.data.size(), ir::attr_float(producer.attrs, "value"));
    return value;
  }
  uint64_t hash = backends::mix(static_cast<uint64_t>(device));
  for (const char c : reg.name) hash = backends::mix(hash ^ static_cast<uint64_t>(c));
  for (size_t i = 0; i < value.data.size(); ++i) {
    const uint64_t drawn = backends::mix(hash ^ i);
    value.data[i] = ir::is_float(reg.type.dtype) ? 0.1 + 0.4 * static_cast<double>(drawn >> 40) * 0x1p-24
                                                 : static_cast<double>(drawn % 16);
  }
  return value;
}

void store(const HostTensor& value, std::span<std::byte> bytes) {
  for (size_t i = 0; i < value.data.size(); ++i) {
    const auto whole = static_cast<int64_t>(value.data[i]);
    switch (value.type.dtype) {
      case ir::DType::float64:
        std::memcpy(bytes.data() + 8 * i, &value.data[i], 8);
        break;
      case ir::DType::int64:
        std::memcpy(bytes.data() + 8 * i, &whole, 8);
        break;
      case ir::DType::int32:
        std::memcpy(bytes.data() + 4 * i, &whole, 4);
        break;
      default:
        throw boxcar::Error::fault("store", ir::to_text(value.type));
    }
  }
}

void expect_same(const Job& given, int64_t chaos) {
  const ir::Plan plan = widened(compile(resolve(given)));
  PlanRunner expected(plan, [&](const ir::Register& reg, int program, int device) {
    return source(at(plan.programs, program), reg, device);
  });
  expected.run();

  const auto backend = backends::cpu::make_cpu_backend(plan.devices);
  actors::Hooks hooks;
  hooks.fill = [&](int device, const ir::Register& reg, const backends::Moment&, std::span<std::byte> bytes) {
    store(source(at(plan.programs, expected.program_of(device)), reg, device), bytes);
  };
  std::mutex mutex;
  std::vector<double> losses(static_cast<size_t>(plan.devices));
  hooks.watch = {"loss"};
  hooks.watched = [&](int device, const ir::Register&, const backends::Moment&,
                      std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex);
    std::memcpy(&at(losses, device), bytes.data(), 8);
  };
  Runtime run(plan, *backend, hooks, {.chaos = chaos, .probe = true});
  run.steps(1, 0);

  int compared = 0;
  for (int d = 0; d < plan.devices; ++d) {
    const ir::Program& program = at(plan.programs, expected.program_of(d));
    EXPECT_LE(at(run.memory(), d).held, program.arena_bytes);
    for (size_t r = 0; r < program.registers.size(); ++r) {
      const ir::Register& reg = program.registers[r];
      const bool stays = reg.initial > 0 || updated_in_place(program, static_cast<int>(r));
      const bool is_loss = reg.name == "loss";
      if ((!stays && !is_loss) || reg.bytes == 0 || reg.type.dtype != ir::DType::float64) continue;
      const HostTensor& want = expected.value(reg.name, d);
      std::vector<double> got(want.data.size());
      if (is_loss)
        got = {at(losses, d)};
      else
        std::memcpy(got.data(), run.read(d, reg.name).data(), got.size() * 8);
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], want.data[i], 1e-9 * std::max(1.0, std::abs(want.data[i])))
            << reg.name << " of device " << d << " element " << i;
      ++compared;
    }
  }
  EXPECT_GT(compared, 4 * plan.devices);
}

struct Layout {
  const char* name;
  std::function<void(Job&)> change;
};
std::ostream& operator<<(std::ostream& out, const Layout& layout) { return out << layout.name; }

class RuntimePlan : public testing::TestWithParam<Layout> {};

TEST_P(RuntimePlan, LeavesWhatTheReferenceLeaves) {
  Job job = small_job(1, 1, 1, 2, 1);
  job.gpus = job.parallel.dp = 0;
  job.global_batch = 2;
  job.model->dropout = 0;
  GetParam().change(job);
  const Hints& h = job.parallel;
  job.gpus = std::max(h.dp, 1) * h.tp * h.pp * h.cp;
  job.global_batch *= std::max(h.dp, 1);
  for (const int64_t chaos : {-1, 4}) expect_same(job, chaos);
}

const Layout layouts[] = {
    {"one_device", [](Job&) {}},
    {"tp", [](Job& j) { j.parallel.tp = 2; }},
    {"pp_zero1",
     [](Job& j) { j.parallel.pp = 2, j.parallel.dp = 2, j.parallel.zero = 1, j.global_batch = 4; }},
    {"interleaved",
     [](Job& j) {
       j.model->layers = 4, j.parallel.pp = 2, j.parallel.virtual_stages = 2, j.global_batch = 4;
     }},
    {"zero2_uneven", [](Job& j) { j.parallel.dp = 3, j.parallel.zero = 2; }},
    {"zero3", [](Job& j) { j.parallel.dp = 2, j.parallel.tp = 2, j.parallel.zero = 3; }},
    {"sequence_context",
     [](Job& j) { j.parallel.cp = 2, j.parallel.tp = 2, j.parallel.sequence_parallel = true; }},
    {"fp32_sgd_recompute",
     [](Job& j) {
       j.parallel.dp = 2, j.train.precision = ir::Precision::fp32, j.train.optimizer = ir::Optimizer::sgd;
       j.train.recompute = ir::Recompute::full;
     }},
};
INSTANTIATE_TEST_SUITE_P(Jobs, RuntimePlan, testing::ValuesIn(layouts),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::planner
