#include "planner/search/step_estimate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "planner/schedule.h"
#include "sim/models/collective_time.h"

namespace boxcar::search {
namespace {

using planner::Hints;
using planner::Job;

StageCost stage_of(const ModelCost& cost, int layers, bool first, bool last) {
  StageCost stage;
  stage.layers = layers;
  const auto add = [&](const StageCost& part, double times) {
    stage.forward += times * part.forward;
    stage.backward += times * part.backward;
    stage.update += times * part.update;
    stage.elements += times * part.elements;
    for (size_t kind = 0; kind < stage.bytes.size(); ++kind) stage.bytes[kind] += times * part.bytes[kind];
  };
  add(cost.layer, layers);
  if (first) add(cost.first, 1);
  if (last) add(cost.last, 1);
  return stage;
}

// Micro-batches, or parts of one, whose activations a stage holds at most.
double in_flight(const Hints& h, int stage, double micro_batches) {
  const double before = h.pp - stage - 1;
  if (h.schedule == "gpipe") return micro_batches;
  if (const std::vector<int> counts = planner::under_way_of(h.schedule); !counts.empty())
    return std::min<double>(micro_batches, counts[static_cast<size_t>(stage)]);
  if (h.virtual_stages == 1) return std::min(micro_batches, before + 1);
  const double chunks = 2 * before + (h.virtual_stages - 1) * h.pp + 1;
  return std::min(micro_batches, chunks / h.virtual_stages);
}

double stage_bytes(const Job& job, const ModelCost& cost, const StageCost& stage, int index) {
  const Hints& h = job.parallel;
  const auto kind = [](ir::MemoryKind k) { return static_cast<size_t>(k); };
  const double dp = h.dp;
  const double each = cost.layer.bytes[kind(ir::MemoryKind::activations)] * stage.layers;
  const double ends = std::max(cost.first.bytes[kind(ir::MemoryKind::activations)],
                               cost.last.bytes[kind(ir::MemoryKind::activations)]);
  double bytes = in_flight(h, index, job.train.micro_batches) * each + ends;
  bytes += stage.bytes[kind(ir::MemoryKind::optimizer)] / (h.zero >= 1 ? dp : 1);
  bytes += stage.bytes[kind(ir::MemoryKind::gradients)] / (h.zero >= 2 ? dp : 1);
  bytes += stage.bytes[kind(ir::MemoryKind::parameters)] / (h.zero >= 3 ? dp : 1);
  if (h.zero >= 3) bytes += 2 * cost.layer.bytes[kind(ir::MemoryKind::parameters)];
  return bytes;
}

// Of a communication that up to `many` of a node's devices or groups begin at once, over its NICs.
double together(const backends::Cluster& cluster, const sim::CommTime& alone, int many) {
  if (!alone.between_nodes) return alone.seconds();
  const backends::Node& node = cluster.node;
  const double wanted = std::min(many, node.gpus) * alone.link_bandwidth;
  const double share = std::max(1.0, wanted / (node.nics * node.nic_bandwidth));
  return alone.latency + share * alone.bytes_on_link / alone.link_bandwidth;
}

// What is left of a communication that runs behind other work; its last part has nothing to hide behind.
double exposed(double seconds, double behind) { return std::max(seconds - behind, 0.05 * seconds); }

// The communication of data parallelism and the update, of the slowest stage.
double state_seconds(const Job& job, const StageCost& stage) {
  const Hints& h = job.parallel;
  const double update = stage.update / (h.zero >= 1 ? h.dp : 1);
  if (h.dp == 1) return update;
  std::vector<int> group;
  for (int d = 0; d < h.dp; ++d) group.push_back(d * h.tp * h.cp);
  const sim::Span span = sim::span_of(job.cluster, group);
  const auto seconds = [&](sbp::Collective collective, double bytes) {
    return together(job.cluster,
                    sim::collective_time(job.cluster, collective, static_cast<int64_t>(bytes), span),
                    h.dp * h.tp * h.cp);
  };
  const bool mixed = job.train.precision == ir::Precision::fp16 || job.train.precision == ir::Precision::bf16;
  const double size = job.train.precision == ir::Precision::fp64 ? 8 : 4;
  if (h.zero == 0) {
    const double reduce = seconds(sbp::Collective::all_reduce, stage.elements * size);
    return update + (h.overlap_grad ? exposed(reduce, stage.backward) : reduce);
  }
  const double reduce = seconds(sbp::Collective::reduce_scatter, stage.elements * size);
  const double gather = seconds(sbp::Collective::all_gather, stage.elements * (mixed ? 2 : size));
  const double once = exposed(gather, h.overlap_param ? stage.forward : 0);
  if (h.zero == 1) return update + once + (h.overlap_grad ? exposed(reduce, stage.backward) : reduce);
  const double m = job.train.micro_batches;
  if (h.zero == 2) return update + once + m * exposed(reduce, stage.backward);
  return update + m * (exposed(gather, stage.forward) + exposed(gather + reduce, stage.backward));
}

// Of what a stage sends the next one for a micro-batch, by all its ranks at once.
double hop_seconds(const Job& job, const ModelCost& cost, int stage) {
  const Hints& h = job.parallel;
  const int ranks = h.dp * h.tp * h.cp, from = stage * ranks;
  return together(
      job.cluster,
      sim::transfer_time(job.cluster, static_cast<int64_t>(cost.boundary_bytes), from, from + ranks), ranks);
}

std::vector<StageCost> stages_of(const Job& job, const ModelCost& cost) {
  const Hints& h = job.parallel;
  const auto parts = static_cast<int>(h.stage_layers.size());
  std::vector<StageCost> stages;
  for (int s = 0; s < h.pp; ++s) {
    int layers = 0;
    for (int v = s; v < parts; v += h.pp) layers += h.stage_layers[static_cast<size_t>(v)];
    stages.push_back(stage_of(cost, layers, s == 0, s + 1 == h.pp));
  }
  return stages;
}

std::vector<PipelineStage> pipeline_of(const Job& job, const ModelCost& cost,
                                       const std::vector<StageCost>& stages) {
  std::vector<PipelineStage> pipeline;
  for (int s = 0; s < job.parallel.pp; ++s) {
    const StageCost& stage = stages[static_cast<size_t>(s)];
    const double send = s + 1 < job.parallel.pp ? hop_seconds(job, cost, s) : 0;
    const double back = s > 0 ? hop_seconds(job, cost, s - 1) : 0;
    pipeline.push_back({stage.forward, stage.backward, send, back});
  }
  return pipeline;
}

// By stage.
std::vector<int> under_way_by(const Hints& h, double micro_batches) {
  std::vector<int> counts;
  for (int s = 0; s < h.pp; ++s) counts.push_back(static_cast<int>(in_flight(h, s, micro_batches)));
  return counts;
}

bool are_enough(const std::vector<PipelineStage>& stages, double period, const std::vector<int>& counts) {
  const std::vector<int> needed = under_way(stages, period);
  return std::equal(needed.begin(), needed.end(), counts.begin(), std::less_equal<>());
}

// The least period that these numbers under way keep.
double period_with(const std::vector<PipelineStage>& stages, const std::vector<int>& counts) {
  double low = least_period(stages), high = low;
  while (!are_enough(stages, high, counts)) low = high, high *= 2;
  while (high - low > 1e-3 * high) {
    const double middle = (low + high) / 2;
    (are_enough(stages, middle, counts) ? high : low) = middle;
  }
  return high;
}

}  // namespace

Estimate estimate(const Job& job, const ModelCost& cost) {
  const Hints& h = job.parallel;
  const double m = job.train.micro_batches;
  const std::vector<StageCost> stages = stages_of(job, cost);
  Estimate result;
  double slowest = 0, sum = 0, state = 0;
  for (int s = 0; s < h.pp; ++s) {
    const StageCost& stage = stages[static_cast<size_t>(s)];
    slowest = std::max(slowest, stage.forward + stage.backward);
    sum += stage.forward + stage.backward;
    state = std::max(state, state_seconds(job, stage));
    const double bytes = stage_bytes(job, cost, stage, s);
    if (bytes > result.bytes) result.bytes = bytes, result.fullest_stage = s;
  }
  double period = slowest;
  if (h.pp > 1) {
    const std::vector<PipelineStage> pipeline = pipeline_of(job, cost, stages);
    double slowest_hop = 0;
    for (const PipelineStage& stage : pipeline) {
      result.seconds += stage.send + stage.send_back;
      slowest_hop = std::max(slowest_hop, stage.send);
    }
    // With virtual stages every run waits for what it reads.
    period = h.virtual_stages == 1 ? period_with(pipeline, under_way_by(h, m))
                                   : slowest + h.virtual_stages * slowest_hop;
  }
  result.seconds += m * period + (sum - slowest) / h.virtual_stages + state;
  return result;
}

std::string schedule_for(const Job& job, const ModelCost& cost, double slack) {
  const Hints& h = job.parallel;
  if (h.pp == 1 || h.virtual_stages > 1) return "";
  const std::vector<PipelineStage> stages = pipeline_of(job, cost, stages_of(job, cost));
  std::vector<int> counts = under_way(stages, (1 + slack) * least_period(stages));
  const std::vector<int> usual = under_way_by(h, job.train.micro_batches);
  for (int& count : counts) count = std::min(count, job.train.micro_batches);
  return counts == usual ? "" : fmt::format("{}", fmt::join(counts, ","));
}

std::vector<int> level_layers(int64_t layers, int stages, const ModelCost& cost) {
  const double each = cost.layer.forward + cost.layer.backward;
  std::vector<double> times(static_cast<size_t>(stages), each);
  std::vector<int> result(static_cast<size_t>(stages), 1);
  times.front() += cost.first.forward + cost.first.backward;
  times.back() += cost.last.forward + cost.last.backward;
  for (int64_t left = layers - stages; left > 0; --left) {
    // Of equals the last: the first stages hold the most micro-batches.
    const auto least = std::min_element(times.rbegin(), times.rend());
    const auto at = static_cast<size_t>(times.rend() - least - 1);
    times[at] += each;
    ++result[at];
  }
  return result;
}

}  // namespace boxcar::search
