#include "sim/explain/report.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "sbp/at.h"
#include "sbp/boxing.h"
#include "sbp/words.h"
#include "sim/durations.h"

namespace boxcar::explain {
namespace {

double fact(const ir::Plan& plan, const std::string& name) {
  auto found = plan.facts.find(name);
  return found == plan.facts.end() ? 0 : found->second;
}

// The device's dense peak for the type that the job's products are in.
double peak_flops(const ir::Plan& plan, const backends::Cluster& cluster) {
  const auto type = ir::type_of_products(precision_of(plan.labels).value_or(ir::Precision::fp32));
  const auto peak = cluster.device->peak_flops.find(type);
  return peak == cluster.device->peak_flops.end() ? 0 : peak->second;
}

int64_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

void add_stage_times(Report& r, const sim::Result& result) {
  std::vector<double> weight(r.stages.size(), 0);
  for (const sim::ClassResult& cls : result.classes) {
    StageReport& stage = at(r.stages, cls.program);
    stage.held_bytes = std::max(stage.held_bytes, cls.peak_bytes);
    double n = static_cast<double>(cls.devices.size());
    double idle = cls.span > 0 ? 1 - cls.busy / cls.span : 0;
    stage.busy_seconds += n * cls.busy;
    if (cls.busy > stage.most_busy_seconds) {
      stage.most_busy_seconds = cls.busy;
      stage.most_busy_exposed_seconds = cls.exposed_comm;
    }
    stage.bubble_fraction += n * idle;
    stage.exposed_comm_seconds = std::max(stage.exposed_comm_seconds, cls.exposed_comm);
    at(weight, cls.program) += n;
  }
  for (size_t i = 0; i < r.stages.size(); ++i) {
    if (weight[i] == 0) continue;
    r.stages[i].busy_seconds /= weight[i];
    r.stages[i].bubble_fraction /= weight[i];
    r.bubble_fraction += r.stages[i].bubble_fraction / static_cast<double>(r.stages.size());
    r.exposed_comm_seconds = std::max(r.exposed_comm_seconds, r.stages[i].exposed_comm_seconds);
  }
}

}  // namespace

std::optional<ir::Precision> precision_of(const std::map<std::string, std::string>& labels) {
  const auto label = labels.find("train.precision");
  return label == labels.end() ? std::nullopt : parse_word<ir::Precision>(label->second);
}

const StageReport& fullest(const Report& r) {
  return *std::max_element(r.stages.begin(), r.stages.end(), [](const StageReport& a, const StageReport& b) {
    return a.peak_bytes < b.peak_bytes;
  });
}

Binding binding(const Report& r) {
  const StageReport& stage = *std::max_element(
      r.stages.begin(), r.stages.end(),
      [](const StageReport& a, const StageReport& b) { return a.most_busy_seconds < b.most_busy_seconds; });
  Binding b{stage.name, std::min(1.0, stage.most_busy_seconds / r.step_seconds)};
  b.communication = std::min(1 - b.kernels, stage.most_busy_exposed_seconds / r.step_seconds);
  b.waiting = 1 - b.kernels - b.communication;
  return b;
}

// The table of errors has every type of products, except those of 16 bits, as its own device, and mixtures
// apart.
campaign::ErrorBar error_of(const std::map<std::string, std::string>& labels,
                            const backends::Cluster& cluster, int gpus) {
  const std::optional<ir::Precision> precision = precision_of(labels);
  const bool other = precision && precision != ir::Precision::fp16 && precision != ir::Precision::bf16;
  const auto experts = labels.find("model.experts");
  const bool mixture = experts != labels.end() && experts->second != "0";
  const std::string of_type = other ? " in " + word(*precision) : "";
  return campaign::error_bar(
      cluster.framework->name,
      cluster.device->name + of_type + (mixture ? std::string(campaign::with_experts) : ""), gpus);
}

std::map<std::string, double> comm_bytes(const ir::Plan& plan, const backends::Cluster& cluster) {
  std::map<std::string, double> total;
  for (const ir::RankClass& cls : plan.classes) {
    const ir::Program& program = at(plan.programs, cls.program);
    std::vector<double> runs(program.phases.size(), 0);
    for (const ir::PhaseRun& run : program.schedule) at(runs, run.phase) += 1;
    for (const ir::Actor& actor : program.actors) {
      bool pull = actor.kind == ir::ActorKind::pull;
      if (!pull && actor.kind != ir::ActorKind::collective) continue;
      const double sent = sim::moved_bytes(plan, cluster, program, actor, cls.devices.front()).sent;
      double acts = at(runs, actor.phase) * static_cast<double>(cls.devices.size());
      total[pull ? "pull" : sbp::to_text(actor.collective)] += sent * acts;
    }
  }
  return total;
}

// The largest sum of needs over the devices of one node, whose memory is also the host's.
int64_t node_peak(const ir::Plan& plan, int gpus, const std::vector<planner::MemoryUse>& memory) {
  std::map<int, int64_t> nodes;
  for (const planner::MemoryUse& use : memory)
    for (int device : at(plan.classes, use.cls).devices)
      nodes[device / gpus] += use.total + at(plan.programs, at(plan.classes, use.cls).program).host_bytes;
  int64_t most = 0;
  for (const auto& [node, bytes] : nodes) most = std::max(most, bytes);
  return most;
}

Report memory_report(const ir::Plan& plan, const backends::Cluster& cluster,
                     const std::vector<planner::MemoryUse>& memory) {
  Report r;
  r.configuration = plan.labels;
  r.memory_limit_bytes = cluster.device->memory_bytes;
  r.outside_bytes = static_cast<int64_t>(backends::outside_bytes(cluster));
  r.allocates = cluster.framework->allocator.has_value();
  r.library_workspaces = static_cast<int64_t>(backends::library_workspaces(cluster));
  r.plan = ir::size_of(plan);
  r.programs = static_cast<int>(plan.programs.size());
  r.classes = static_cast<int>(plan.classes.size());
  r.comm_bytes = comm_bytes(plan, cluster);
  for (const ir::Program& program : plan.programs) {
    explain::StageReport& stage = r.stages.emplace_back();
    stage.name = program.name;
    stage.stage = program.stage;
    stage.host_bytes = program.host_bytes;
  }
  for (const planner::MemoryUse& use : memory) {
    const ir::RankClass& cls = at(plan.classes, use.cls);
    StageReport& stage = at(r.stages, cls.program);
    stage.devices += static_cast<int>(cls.devices.size());
    if (use.total < stage.peak_bytes) continue;
    stage.peak_bytes = use.total;
    stage.kept_bytes = use.kept_activations;
    std::copy(use.by_kind.begin(), use.by_kind.end(), stage.by_kind.begin());
  }
  for (const StageReport& stage : r.stages) r.fits = r.fits && stage.peak_bytes <= r.memory_limit_bytes;
  if (cluster.node.cores > 0) r.node_peak_bytes = node_peak(plan, cluster.node.gpus, memory);
  r.fits = r.fits && r.node_peak_bytes <= r.memory_limit_bytes;
  r.peak_rss_bytes = peak_rss();
  return r;
}

Report report(const ir::Plan& plan, const backends::Cluster& cluster,
              const std::vector<planner::MemoryUse>& memory, const sim::Result& result) {
  Report r = memory_report(plan, cluster, memory);
  r.simulated = true;
  r.step_seconds = result.step_seconds;
  r.first_step_seconds = result.first_step_seconds;
  r.error = error_of(plan.labels, cluster, static_cast<int>(plan.devices));
  if (r.step_seconds > 0) {
    r.samples_per_second = fact(plan, "samples") / r.step_seconds;
    r.tokens_per_second = fact(plan, "tokens") / r.step_seconds;
    double per_gpu = r.step_seconds * plan.devices * 1e12;
    r.model_tflops = fact(plan, "model_flops") / per_gpu;
    r.hardware_tflops = fact(plan, "hardware_flops") / per_gpu;
    double peak = peak_flops(plan, cluster);
    r.mfu = peak > 0 ? r.model_tflops * 1e12 / peak : 0;
  }
  add_stage_times(r, result);
  r.events = result.events;
  r.folded = result.folded;
  return r;
}

}  // namespace boxcar::explain
