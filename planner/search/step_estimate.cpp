#include "planner/search/step_estimate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/mesh.h"
#include "planner/schedule.h"
#include "planner/search/cost.h"
#include "sim/models/collective_time.h"

namespace boxcar::search {
namespace {

using planner::Hints;
using planner::Job;

void add(StateTime& sum, const StateTime& part, double times) {
  sum.whole += times * part.whole;
  sum.least += times * part.least;
}

void add(StageCost& sum, const StageCost& part, double times = 1) {
  sum.forward += times * part.forward;
  sum.backward += times * part.backward;
  add(sum.update, part.update, times);
  add(sum.accumulate, part.accumulate, times);
  sum.computing += times * part.computing;
  sum.elements += times * part.elements;
  sum.expert_elements += times * part.expert_elements;
  sum.transient = std::max(sum.transient, part.transient);
  for (size_t kind = 0; kind < sum.bytes.size(); ++kind) sum.bytes[kind] += times * part.bytes[kind];
}

// Micro-batches, or parts of one, whose activations a stage holds at most.
double in_flight(const Hints& h, int stage, double micro_batches) {
  const double before = h.pp - stage - 1;
  if (h.schedule == "gpipe") return micro_batches;
  if (h.schedule == "zb-h1") return std::min<double>(micro_batches, h.pp);
  if (h.schedule == "zb-h2") return std::min<double>(micro_batches, 2 * h.pp - 1);
  if (const std::vector<int> counts = planner::under_way_of(h.schedule); !counts.empty())
    return std::min<double>(micro_batches, counts[static_cast<size_t>(stage)]);
  if (h.virtual_stages == 1) return std::min(micro_batches, before + 1);
  // Every chunk has slots of its own for the most that it has under way; after some rounds that is all.
  const planner::Pipeline pipeline =
      planner::pipeline_of(h, static_cast<int>(std::min<double>(micro_batches, 4 * h.pp)));
  const std::vector<int> most = planner::chunks_in_flight(pipeline, stage);
  return std::accumulate(most.begin(), most.end(), 0.0) / h.virtual_stages;
}

// Of states that are sharded, what a device keeps: the dp ranks share them, of experts those with the same.
double sharded_part(const Hints& h, const StageCost& stage) {
  const double experts = stage.elements > 0 ? stage.expert_elements / stage.elements : 0;
  return (1 - experts + experts * h.ep) / h.dp;
}

double stage_bytes(const Job& job, const ModelCost& cost, const StageCost& stage, int index) {
  const Hints& h = job.parallel;
  const auto kind = [](ir::MemoryKind k) { return static_cast<size_t>(k); };
  const double dp = 1 / sharded_part(h, stage);
  double each = cost.layer.bytes[kind(ir::MemoryKind::activations)] * stage.layers;
  double ends = std::max(cost.first.bytes[kind(ir::MemoryKind::activations)],
                         cost.last.bytes[kind(ir::MemoryKind::activations)]);
  if (!cost.layers.empty()) {
    each = stage.bytes[kind(ir::MemoryKind::activations)];
    ends = stage.transient;
  }
  double bytes = in_flight(h, index, job.train.micro_batches) * each + ends;
  bytes += stage.bytes[kind(ir::MemoryKind::optimizer)] / (h.zero >= 1 ? dp : 1);
  bytes += stage.bytes[kind(ir::MemoryKind::gradients)] / (h.zero >= 2 ? dp : 1);
  bytes += stage.bytes[kind(ir::MemoryKind::parameters)] / (h.zero >= 3 ? dp : 1);
  double layer = cost.layer.bytes[kind(ir::MemoryKind::parameters)];
  for (const StageCost& l : cost.layers) layer = std::max(layer, l.bytes[kind(ir::MemoryKind::parameters)]);
  // Of three layers the gradients, which are made, wait, and are reduced; of two the parameters.
  if (h.zero >= 2) bytes += 3 * layer;
  if (h.zero >= 3) bytes += 2 * layer;
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

// What a communication adds to the work that it runs behind: a part of it has nothing to hide behind, and
// what is hidden takes multiprocessors from kernels.
double added(const Job& job, double seconds, double behind, double open) {
  const double shown = open * seconds + (1 - open) * std::max(seconds - behind, 0.0);
  return shown + job.cluster.device.overlap_slowdown * (seconds - shown);
}

// Elements of the parameters that a stage's forward pass begins with: its first layer, and embeddings.
double first_elements(const ModelCost& cost, const planner::Hints& h, int stage) {
  if (cost.layers.empty()) return cost.layer.elements + (stage == 0 ? cost.first.elements : 0);
  const auto before = std::accumulate(h.stage_layers.begin(), h.stage_layers.begin() + stage, 0);
  return cost.layers[static_cast<size_t>(before)].elements;
}

// Of a stage's devices, those on one node.
int on_node(const Job& job, const planner::Mesh& mesh) {
  const Hints& h = job.parallel;
  const int ranks = h.dp * h.tp * h.cp, node = job.cluster.node.gpus;
  if (mesh.stage_stride * h.pp >= node) return std::min(mesh.stage_stride, ranks);
  return std::min(ranks, node / h.pp);
}

// The communication of data parallelism and the update, of the slowest stage.
double state_seconds(const Job& job, const planner::Mesh& mesh, const StageCost& stage, double first) {
  const Hints& h = job.parallel;
  const double update = h.zero >= 1 ? stage.update.sharded(sharded_part(h, stage)) : stage.update.whole;
  if (h.dp == 1) return update;
  // From a data-parallel rank to the next one.
  const int innermost = std::max({mesh.dim("replica"), mesh.dim("dp"), mesh.dim("ep")});
  const int stride = mesh.strides[static_cast<size_t>(innermost)];
  // Over every `apart`-th data-parallel rank.
  const auto among = [&](sbp::Collective collective, double bytes, int apart) {
    if (bytes == 0 || h.dp == apart) return 0.0;
    std::vector<int> group;
    for (int d = 0; d < h.dp; d += apart) group.push_back(d * stride);
    const sim::Span span = sim::span_of(job.cluster, group);
    return together(job.cluster,
                    sim::collective_time(job.cluster, collective, static_cast<int64_t>(bytes), span),
                    on_node(job, mesh));
  };
  const auto seconds = [&](sbp::Collective collective, double size) {
    return among(collective, (stage.elements - stage.expert_elements) * size, 1) +
           among(collective, stage.expert_elements * size, h.ep);
  };
  // Layer by layer, in every micro-batch.
  const double layers = std::max(1, stage.layers);
  const auto by_layer = [&](sbp::Collective collective, double size) {
    return layers * seconds(collective, size / layers);
  };
  const bool mixed = ir::is_mixed(job.train.precision);
  const double size = job.train.precision == ir::Precision::fp64 ? 8 : 4, half = mixed ? 2 : size;
  // Gradients of the embeddings and of the first layer come last, and their parameters are wanted first.
  const double open = stage.elements > 0 ? first / stage.elements : 0;
  if (h.zero == 0) {
    const double reduce = seconds(sbp::Collective::all_reduce, size);
    return update + (h.overlap_grad ? added(job, reduce, stage.backward, open) : reduce);
  }
  const double once =
      added(job, seconds(sbp::Collective::all_gather, half), h.overlap_param ? stage.forward : 0, open);
  if (h.zero == 1) {
    const double reduce = seconds(sbp::Collective::reduce_scatter, size);
    return update + once + (h.overlap_grad ? added(job, reduce, stage.backward, open) : reduce);
  }
  const double m = job.train.micro_batches;
  const double reduce = by_layer(sbp::Collective::reduce_scatter, half);
  const double sums = stage.accumulate.sharded(sharded_part(h, stage)), saved = stage.accumulate.whole - sums;
  if (h.zero == 2) return update + once + m * (added(job, reduce, stage.backward, open) - saved);
  // On the way back a layer's gradients are reduced before the next layer's parameters are gathered, which
  // its kernels wait for: only the adding up of gradients is behind them.
  const double gather = by_layer(sbp::Collective::all_gather, half);
  return update +
         m * (added(job, gather, stage.forward, open) + added(job, gather + reduce, sums, open) - saved);
}

// Of the gradients of a head that shares the word embedding, between the last stage and the first: nothing is
// left to hide them.
double tied_seconds(const Job& job, const planner::Mesh& mesh, const ModelCost& cost) {
  const Hints& h = job.parallel;
  if (h.pp == 1 || !job.model.tied || cost.last.elements == 0) return 0;
  const double size = job.train.precision == ir::Precision::fp64 ? 8 : 4;
  const double bytes = size * cost.last.elements / (h.zero >= 1 ? h.dp : 1);
  const sim::Span span = sim::span_of(job.cluster, {mesh.device(0, 0), mesh.device(0, h.pp - 1)});
  return together(
      job.cluster,
      sim::collective_time(job.cluster, sbp::Collective::all_reduce, static_cast<int64_t>(bytes), span),
      on_node(job, mesh));
}

// Of what a stage sends the next one for a micro-batch, by all its ranks at once.
double hop_seconds(const Job& job, const planner::Mesh& mesh, const ModelCost& cost, int stage) {
  const Hints& h = job.parallel;
  double bytes = cost.boundary_bytes;
  if (!cost.boundaries.empty()) {  // virtual stages: as where the first of them ends
    int layers = 0;
    for (int s = 0; s <= stage; ++s) layers += h.stage_layers[static_cast<size_t>(s)];
    bytes = cost.boundaries[static_cast<size_t>(layers) - 1];
  }
  return together(job.cluster,
                  sim::transfer_time(job.cluster, static_cast<int64_t>(bytes), mesh.device(0, stage),
                                     mesh.device(0, stage + 1)),
                  on_node(job, mesh));
}

void drop_states(StageCost& cost) {
  cost.update = {};
  cost.elements = 0;
  for (const ir::MemoryKind kind :
       {ir::MemoryKind::parameters, ir::MemoryKind::gradients, ir::MemoryKind::optimizer})
    cost.bytes[static_cast<size_t>(kind)] = 0;
}

// By stage: its virtual stages together.
std::vector<StageCost> stages_of(const Job& job, const ModelCost& cost) {
  const Hints& h = job.parallel;
  std::vector<StageCost> stages(static_cast<size_t>(h.pp));
  size_t layer = 0;
  for (size_t part = 0; part < h.stage_layers.size(); ++part) {
    StageCost& stage = stages[part % stages.size()];
    const int layers = h.stage_layers[part];
    stage.layers += layers;
    add(stage, cost.layer, layers);
    for (int l = 0; l < layers && !cost.layers.empty(); ++l)
      add(stage, cost.layers[layer + static_cast<size_t>(l)]);
    layer += static_cast<size_t>(layers);
  }
  add(stages.front(), cost.first);
  StageCost last = cost.last;
  if (job.model.tied && h.pp == 1) drop_states(last);  // its weight is the first's
  add(stages.back(), last);
  return stages;
}

std::vector<PipelineStage> pipeline_of(const Job& job, const planner::Mesh& mesh, const ModelCost& cost,
                                       const std::vector<StageCost>& stages) {
  std::vector<PipelineStage> pipeline;
  double back = 0;
  for (int s = 0; s < job.parallel.pp; ++s) {
    const StageCost& stage = stages[static_cast<size_t>(s)];
    const double send = s + 1 < job.parallel.pp ? hop_seconds(job, mesh, cost, s) : 0;
    pipeline.push_back({stage.forward, stage.backward, send, std::exchange(back, send)});
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
  const planner::Mesh mesh = planner::mesh_of(h);
  const std::vector<StageCost> stages = stages_of(job, cost);
  Estimate result;
  double slowest = 0, sum = 0, state = 0, forward = 0;
  for (int s = 0; s < h.pp; ++s) {
    const StageCost& stage = stages[static_cast<size_t>(s)];
    slowest = std::max(slowest, stage.forward + stage.backward);
    forward = std::max(forward, stage.forward);
    sum += stage.forward + stage.backward;
    state = std::max(state, state_seconds(job, mesh, stage, first_elements(cost, h, s)));
    const double bytes = stage_bytes(job, cost, stage, s);
    if (bytes > result.bytes) result.bytes = bytes, result.fullest_stage = s;
  }
  if (h.virtual_stages == 1) result.split_saves = 2 * (h.pp - 1) * forward;
  double period = slowest;
  if (h.pp > 1) {
    const std::vector<PipelineStage> pipeline = pipeline_of(job, mesh, cost, stages);
    double slowest_hop = 0;
    for (const PipelineStage& stage : pipeline) {
      result.seconds += stage.send + stage.send_back;
      slowest_hop = std::max(slowest_hop, stage.send);
    }
    // With virtual stages every run waits for what it reads.
    period = h.virtual_stages == 1 ? period_with(pipeline, under_way_by(h, m))
                                   : slowest + h.virtual_stages * slowest_hop;
  }
  result.seconds += m * period + (sum - slowest) / h.virtual_stages + state + tied_seconds(job, mesh, cost);
  return result;
}

std::string schedule_for(const Job& job, const ModelCost& cost, double slack) {
  const Hints& h = job.parallel;
  if (h.pp == 1 || h.virtual_stages > 1) return "";
  const std::vector<PipelineStage> stages = pipeline_of(job, planner::mesh_of(h), cost, stages_of(job, cost));
  std::vector<int> counts = under_way(stages, (1 + slack) * least_period(stages));
  const std::vector<int> usual = under_way_by(h, job.train.micro_batches);
  for (int& count : counts) count = std::min(count, job.train.micro_batches);
  return counts == usual ? "" : fmt::format("{}", fmt::join(counts, ","));
}

namespace {

// Of layers that differ: of all cuts one whose slowest stage is fastest, by dynamic programming over the
// first layers and the stages that they take.
std::vector<int> level_cut(const std::vector<StageCost>& layers, size_t stages) {
  const size_t n = layers.size();
  std::vector<double> until{0};
  for (const StageCost& layer : layers) until.push_back(until.back() + layer.forward + layer.backward);
  std::vector<double> best = until;                                    // by layers, on one stage
  std::vector<std::vector<size_t>> begin{std::vector<size_t>(n + 1)};  // by stages - 1: of the last stage
  for (size_t s = 2; s <= stages; ++s) {
    std::vector<double> next(n + 1, infinity);
    begin.emplace_back(n + 1);
    for (size_t end = s; end <= n; ++end)
      for (size_t from = s - 1; from < end; ++from) {
        const double slowest = std::max(best[from], until[end] - until[from]);
        if (slowest < next[end]) next[end] = slowest, begin.back()[end] = from;
      }
    best = std::move(next);
  }
  std::vector<int> result;
  for (size_t s = stages, end = n; s > 0; --s) {
    result.insert(result.begin(), static_cast<int>(end - begin[s - 1][end]));
    end = begin[s - 1][end];
  }
  return result;
}

}  // namespace

std::vector<int> level_layers(int64_t layers, int stages, const ModelCost& cost) {
  if (!cost.layers.empty()) return level_cut(cost.layers, static_cast<size_t>(stages));
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
