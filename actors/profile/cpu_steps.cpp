#include "actors/profile/cpu_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "actors/layout.h"
#include "actors/profile/plan_calls.h"
#include "actors/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/host/parts.h"
#include "backends/machines/cluster.h"
#include "ir/op.h"
#include "planner/planner.h"
#include "planner/resolve.h"
#include "sbp/at.h"

namespace boxcar::profile {
namespace {

constexpr int64_t warm_steps = 1, timed_steps = 4;

planner::Job small_job(const std::string& family, int64_t hidden, int64_t seq, ir::Precision precision) {
  planner::Job job;
  job.model = ir::models::defaults(family);
  job.model->layers = 4, job.model->hidden = hidden, job.model->seq = seq, job.model->heads = 4;
  job.model->vocab = 256, job.model->pad_vocab_to = 1;
  job.train.precision = precision;
  job.parallel.micro_batch = 2;
  return job;
}

// Models of sizes that are trained on a processor, whole and in parts, with all variants of their graphs.
std::vector<planner::Job> jobs() {
  using ir::Precision;
  std::vector<planner::Job> jobs;
  for (int64_t hidden : {64, 128, 256}) jobs.push_back(small_job("gpt", hidden, hidden, Precision::fp32));
  const auto varied = [&](const char* family, auto change) {
    jobs.push_back(small_job(family, 128, 128, Precision::fp32));
    change(jobs.back());
  };
  for (int64_t seq : {64, 256, 1024})
    varied("gpt", [&](planner::Job& job) { job.model->flash = true, job.model->seq = seq; });
  varied("gpt", [](planner::Job& job) { job.model->dropout = 0, job.train.optimizer = ir::Optimizer::sgd; });
  varied("gpt", [](planner::Job& job) { job.parallel.tp = 2; });
  varied("gpt", [](planner::Job& job) { job.parallel.tp = 2, job.parallel.sequence_parallel = true; });
  varied("gpt", [](planner::Job& job) { job.train.optimizer = ir::Optimizer::momentum; });
  varied("bert", [](planner::Job&) {});
  varied("llama", [](planner::Job&) {});
  for (Precision precision : {Precision::fp64, Precision::bf16, Precision::fp16})
    jobs.push_back(small_job("gpt", 128, 128, precision));
  for (planner::Job& job : jobs) {
    job.gpus = job.parallel.tp;
    job.train.flash = job.model->flash;
    job.global_batch = 4 * job.parallel.micro_batch;
    job.cluster = backends::load_cluster("local", job.gpus);
  }
  return jobs;
}

// Tokens below 256, other numbers within 0.05 of 0.
void fill(const ir::Register& reg, std::span<std::byte> bytes) {
  const int64_t size = ir::size_of(reg.type.dtype);
  for (int64_t i = 0; i < reg.type.elements(); ++i) {
    if (ir::is_float(reg.type.dtype)) {
      backends::host::store_element(reg.type.dtype, bytes.data() + i * size,
                                    static_cast<double>(i * 7919 % 64 - 32) / 640);
    } else {
      const int64_t token = i * 31 % 256;
      std::memcpy(bytes.data() + i * size, &token, static_cast<size_t>(size));
    }
  }
}

// Seconds of all acts of the timed steps, by actor.
std::map<int, std::vector<double>> run_steps(const ir::Plan& plan, const actors::Layout& layout) {
  const auto backend = backends::cpu::make_cpu_backend(1);
  actors::Hooks hooks;
  hooks.fill = [](int, const ir::Register& reg, const backends::Moment&, std::span<std::byte> bytes) {
    fill(reg, bytes);
  };
  actors::Runtime run(plan, *backend, std::move(hooks), {.timeline = true});
  run.steps(warm_steps + timed_steps, 0);
  std::map<int, std::vector<double>> seconds;
  for (const actors::RunAct& act : run.timeline())
    if (act.index >= warm_steps * layout.program(0).acts_per_step(act.actor))
      seconds[act.actor].push_back(act.end - act.start);
  return seconds;
}

double median(std::vector<double>& values) {
  const auto half = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  return *half;
}

}  // namespace

std::vector<measure::KernelSample> measure_steps(std::set<std::string>& known,
                                                 const std::function<void(const std::string&)>& progress) {
  std::vector<measure::KernelSample> samples;
  const std::vector<planner::Job> all = jobs();
  for (size_t j = 0; j < all.size(); ++j) {
    if (all[j].gpus > 1) continue;
    progress(fmt::format("measuring steps of training, {} of {}", j + 1, all.size()));
    const ir::Plan plan = planner::compile(planner::resolve(all[j]));
    const actors::Layout layout(plan, [](int) { return 0; });
    std::map<std::string, std::pair<measure::Sampled, std::vector<double>>> kernels;
    for (auto& [actor, seconds] : run_steps(plan, layout)) {
      const ir::Actor& a = at(layout.program(0).actors, actor);
      if (!is_kernel(a)) continue;
      Known kernel = known_as(layout, a);
      auto& [sampled, all_seconds] = kernels[kernel.key];
      sampled = std::move(kernel.sampled);
      all_seconds.insert(all_seconds.end(), seconds.begin(), seconds.end());
    }
    for (auto& [key, kernel] : kernels)
      if (known.insert(key).second) samples.push_back({std::move(kernel.first.call), median(kernel.second)});
  }
  return samples;
}

std::vector<measure::Sampled> part_calls(std::set<std::string>& known) {
  std::vector<measure::Sampled> list;
  for (const planner::Job& job : jobs()) {
    if (job.gpus == 1) continue;
    for (measure::Sampled& call : calls_of(job, known)) list.push_back(std::move(call));
  }
  return list;
}

}  // namespace boxcar::profile
