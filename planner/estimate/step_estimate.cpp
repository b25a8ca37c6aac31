#include "planner/estimate/step_estimate.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "planner/estimate/pipeline_runs.h"
#include "planner/estimate/placed_probe.h"
#include "planner/estimate/slow_stages.h"
#include "planner/estimate/state_times.h"
#include "planner/mesh.h"
#include "planner/schedule.h"
#include "planner/sharding.h"
#include "planner/stages.h"
#include "sbp/at.h"
#include "sim/models/collective_time.h"

namespace boxcar::search {
namespace {

using planner::Hints;
using planner::Job;

constexpr int few_runs = 32;  // forward passes of (virtual) stages in a step, of all stages

void add(StateTime& sum, const StateTime& part, double times) {
  sum.whole += times * part.whole;
  sum.least += times * part.least;
}

void add(StageCost& sum, const StageCost& part, double times = 1) {
  sum.forward += times * part.forward;
  sum.backward += times * part.backward;
  sum.weight += times * part.weight;
  sum.forward_kernels += times * part.forward_kernels;
  sum.backward_kernels += times * part.backward_kernels;
  sum.weight_kernels += times * part.weight_kernels;
  add(sum.update, part.update, times);
  add(sum.updating, part.updating, times);
  add(sum.accumulate, part.accumulate, times);
  sum.accumulate_launches += times * part.accumulate_launches;
  sum.before_parameters += times * part.before_parameters;
  sum.lead += times * part.lead;
  sum.computing += times * part.computing;
  sum.forward_computing += times * part.forward_computing;
  sum.waiting += times * part.waiting;
  sum.forward_waiting += times * part.forward_waiting;
  sum.elements += times * part.elements;
  sum.expert_elements += times * part.expert_elements;
  sum.cp_made_elements += times * part.cp_made_elements;
  sum.apart_tensors += times * part.apart_tensors;
  sum.layers += part.layers;
  sum.to_backward += times * part.to_backward;
  sum.to_weight += times * part.to_weight;
  sum.added_sums += times * part.added_sums;
  sum.transient = std::max(sum.transient, part.transient);
  for (size_t kind = 0; kind < sum.bytes.size(); ++kind) sum.bytes[kind] += times * part.bytes[kind];
}

// The share of experts in a stage's parameters.
double experts_of(const StageCost& stage) {
  return stage.elements > 0 ? stage.expert_elements / stage.elements : 0;
}

// Whether several ranks have the same experts, so that their states are sharded too.
bool shares_experts(const Hints& h) { return planner::ep_in_dp(h) < planner::shards_of(h); }

// The cost of a layer. If every n-th layer has experts, that layer has the states of n layers' experts.
StageCost layer_at(const Job& job, const ModelCost& cost, size_t index) {
  StageCost layer = cost.layers.empty() ? cost.layer : cost.layers[index];
  const auto every = static_cast<size_t>(ir::models::expert_every(job.model));
  if (every == 1 || layer.elements <= 0) return layer;
  const double experts = experts_of(layer);
  const double times = (index + 1) % every == 0 ? static_cast<double>(every) : 0;
  for (const ir::MemoryKind kind :
       {ir::MemoryKind::parameters, ir::MemoryKind::gradients, ir::MemoryKind::optimizer})
    at(layer.bytes, kind) *= 1 - experts + times * experts;
  layer.elements += (times - 1) * layer.expert_elements;
  layer.expert_elements *= times;
  layer.cp_made_elements *= times;
  return layer;
}

// Consecutive layers on a stage. Recomputed ones come first.
struct Part {
  int stage = 0, begin = 0, layers = 0, recomputed = 0;
  bool first = false, last = false;  // whether the model's ends are here
  bool has(int layer) const { return begin <= layer && layer < begin + layers; }
};

// By stage, its virtual stages.
std::vector<std::vector<Part>> parts_of(const Job& job) {
  const std::vector<int>& layers = job.parallel.stage_layers;
  const planner::PartPlaces places = planner::part_places(job.parallel);
  std::vector<std::vector<Part>> parts(static_cast<size_t>(job.parallel.pp));
  int begin = 0;
  for (size_t v = 0; v < layers.size(); begin += layers[v++]) {
    const int stage = places.stage(static_cast<int>(v));
    at(parts, stage)
        .push_back({stage, begin, layers[v], recomputed_layers(job.train, v, layers[v]), v == 0,
                    v + 1 == layers.size()});
  }
  return parts;
}

// Uses of a tied table on one stage, in order.
std::vector<const TiedUse*> tied_uses(const Hints& h, const ModelCost& cost, int stage) {
  std::vector<const TiedUse*> uses;
  for (const TiedUse& use : cost.tied)
    if (stage_of(h, use.layer) == stage) uses.push_back(&use);
  return uses;
}

double parameter_bytes(const StageCost& cost) { return at(cost.bytes, ir::MemoryKind::parameters); }

// When the gradient of a table's first use is made, that of its last use still waits, and both wait for their
// sum.
double waiting(const TiedUse& first) { return 2 * parameter_bytes(first.states); }

// A unit for which ZeRO gathers parameters and reduces gradients: a layer, or an end of the model.
struct Piece {
  double parameters = 0, transient = 0, kept = 0;  // bytes on a device; kept by a micro-batch
};

std::vector<Piece> pieces_of(const Job& job, const ModelCost& cost, const Part& part) {
  std::vector<Piece> pieces;
  const bool gathers_experts = shares_experts(job.parallel);
  const auto add = [&](const StageCost& c) {
    const double kept = at(c.bytes, ir::MemoryKind::activations);
    pieces.push_back({parameter_bytes(c) * (1 - (gathers_experts ? 0 : experts_of(c))), c.transient, kept});
  };
  if (part.first) add(cost.first);
  for (int l = part.begin; l < part.begin + part.layers; ++l)
    add(layer_at(job, cost, static_cast<size_t>(l)));
  if (part.last) add(cost.last);
  const std::vector<const TiedUse*> tied = tied_uses(job.parallel, cost, part.stage);
  if (tied.size() > 1 && (tied[0]->layer < 0 ? part.first : part.has(tied[0]->layer)))
    at(pieces, std::max(0, tied[0]->layer - part.begin)).transient += waiting(*tied[0]);
  return pieces;
}

// The most bytes that acts of a backward pass need temporarily if gradients are reduced layer by layer: while
// a piece's gradients are made, those of the next piece wait, and those of the one after it are reduced. With
// an allocator (`frees`), the bytes that later pieces kept are free by then.
double transient_with_gradients(const std::vector<Piece>& pieces, double fragmented, double reduced,
                                bool frees) {
  double most = 0, freed = 0;
  for (size_t i = pieces.size(); i-- > 0;) {
    double bytes = fragmented * (pieces[i].transient - freed) + pieces[i].parameters;
    for (size_t behind = i + 1; behind < std::min(i + 3, pieces.size()); ++behind)
      bytes += reduced * pieces[behind].parameters;
    most = std::max(most, bytes);
    if (frees) freed += pieces[i].kept;
  }
  return most;
}

double stage_bytes(const Job& job, const ModelCost& cost, const StageCost& stage,
                   const std::vector<Part>& parts) {
  const Hints& h = job.parallel;
  const auto kind = [](ir::MemoryKind k) { return static_cast<size_t>(k); };
  const planner::Sharding sharding = planner::sharding_of(h);
  const double part = sharded_part(h, stage);
  const double optimizer = stage.bytes[kind(ir::MemoryKind::optimizer)],
               gradients = stage.bytes[kind(ir::MemoryKind::gradients)],
               parameters = stage.bytes[kind(ir::MemoryKind::parameters)];
  const double fragmented = 1 + job.cluster.framework->fragmentation;
  const bool allocates = job.cluster.framework->allocator.has_value();
  const GradientBytes gradient = gradient_bytes(job);
  double transient = fragmented * stage.transient;
  if (sharding.reduces_each_micro_batch())
    for (const Part& one : parts)
      transient = std::max(transient, transient_with_gradients(pieces_of(job, cost, one), fragmented,
                                                               gradient.reduced / gradient.made, allocates));
  double bytes = optimizer * (sharding.states ? part : 1) +
                 (gradients + stage.added_sums) * (sharding.gradients ? part : 1) +
                 parameters * (sharding.parameters ? part : 1);
  // Tensors that are kept whole also exist in parts: a gather's inputs and a reduction's outputs.
  const double shards =
      sharding.states && planner::shards_of(h) > 1 ? part - (shares_experts(h) ? 0 : experts_of(stage)) : 0;
  const double reduced = gradient.reduced / gradient.summed;  // before reduction, with a cast, and after
  const bool cast = h.dp * h.cp > 1 && gradient.is_cast(false);
  double in_parts = gradients * (sharding.gradients ? 0 : (cast ? reduced : 0) + shards * reduced) +
                    parameters * (sharding.parameters ? 0 : shards);
  // What servers add up goes to them in parts, and comes back in parts and then whole.
  if (h.servers > 0 && !h.servers_update)
    in_parts += gradients * reduced * (1 + 2.0 / planner::inner_replicas(h));
  const double in_passes = fragmented * (stage.bytes[kind(ir::MemoryKind::activations)] +
                                         stage.bytes[kind(ir::MemoryKind::workspace)]) +
                           transient;
  // An allocator gives bytes to the parts after the passes; an arena has all at once.
  bytes += allocates ? std::max(in_passes, in_parts) : in_passes + in_parts;
  // Each pass of a chunk gathers its first parameters while the device does other work. With an allocator
  // these bytes are held when the fewest others are.
  if (sharding.gathers_in_each_pass() && !allocates)
    for (const Part& one : parts) {
      const std::vector<Piece> pieces = pieces_of(job, cost, one);
      if (!pieces.empty()) bytes += pieces.front().parameters + pieces.back().parameters;
    }
  return bytes;
}

// Seconds to send `bytes` from each rank of a stage to one of another, by all ranks at once. In a mesh of
// links the slowest pair of a node decides.
double send_seconds(const Job& job, const planner::Mesh& mesh, double bytes, int from, int to) {
  const backends::Node& node = job.cluster.node;
  const bool alike = node.link != backends::LinkKind::nvlink_mesh;
  const double of_leaf = part_of_leaf(job.cluster, mesh);
  double slowest = 0;
  for (int place = 0; place < (alike ? 1 : std::min(mesh.devices(), node.gpus)); ++place)
    slowest = std::max(
        slowest, sim::seconds_beside(job.cluster,
                                     sim::transfer_time(job.cluster, static_cast<int64_t>(bytes),
                                                        mesh.device(place, from), mesh.device(place, to)),
                                     on_node(job, mesh), of_leaf));
  return slowest;
}

// Seconds in which a (virtual) stage sends the next one its output for a micro-batch; 0 on the same stage.
double hop_seconds(const Job& job, const planner::Mesh& mesh, const ModelCost& cost, int part) {
  const Hints& h = job.parallel;
  const planner::PartPlaces places = planner::part_places(h);
  const int from = places.stage(part), to = places.stage(part + 1);
  if (from == to) return 0;
  double bytes = cost.boundary_bytes;
  if (!cost.boundaries.empty()) {
    int layers = 0;
    for (int v = 0; v <= part; ++v) layers += at(h.stage_layers, v);
    // Stages without layers, at the ends, pass on what the layers next to them do.
    bytes = at(cost.boundaries, std::clamp(layers - 1, 0, static_cast<int>(cost.boundaries.size()) - 1));
  }
  return send_seconds(job, mesh, bytes, from, to);
}

// Seconds to send an encoder's output from its stage to all stages of the decoder, one after the other.
double memory_seconds(const Job& job, const planner::Mesh& mesh, const ModelCost& cost) {
  const int64_t decoder = ir::models::decoder_layers(job.model), encoder = job.model.layers() - decoder;
  if (decoder == 0) return 0;
  const double bytes = at(cost.boundaries, encoder - 1);
  const int from = stage_of(job.parallel, static_cast<int>(encoder) - 1);
  double sum = 0;
  for (int to = from + 1; to < job.parallel.pp; ++to) sum += send_seconds(job, mesh, bytes, from, to);
  return sum;
}

void add_layers(StageCost& sum, const Job& job, const ModelCost& cost, int begin, int layers) {
  if (layers > 0 && cost.layers.empty() && ir::models::expert_every(job.model) == 1)
    return add(sum, cost.layer, layers);
  for (int l = begin; l < begin + layers; ++l) add(sum, layer_at(job, cost, static_cast<size_t>(l)));
}

// Costs of a part, with activations of the micro-batches that it holds. Its input counts with its first
// layer, its output with its last.
StageCost cost_of(const Job& job, const KindCosts& costs, const Part& part, const Held& held) {
  const ModelCost& front = part.recomputed > 0 ? costs.recomputed : costs.others;
  const ModelCost& back = part.recomputed < part.layers ? costs.others : costs.recomputed;
  StageCost one = front.joint_of(part.begin);
  add_layers(one, job, costs.recomputed, part.begin, part.recomputed);
  add_layers(one, job, costs.others, part.begin + part.recomputed, part.layers - part.recomputed);
  if (part.first) add(one, front.first);
  if (part.last) add(one, back.last);
  double& activations = at(one.bytes, ir::MemoryKind::activations);
  activations = held.to_end * activations + held.to_backward * one.to_backward + held.between * one.to_weight;
  one.layers = part.layers;
  return one;
}

// By stage: its virtual stages together, activations of all micro-batches in flight.
std::vector<StageCost> stages_of(const Job& job, const KindCosts& costs,
                                 const std::vector<std::vector<Part>>& parts, const InFlight& in_flight) {
  const Hints& h = job.parallel;
  const ModelCost& cost = costs.recomputed;
  std::vector<StageCost> stages(static_cast<size_t>(h.pp));
  for (size_t s = 0; s < stages.size(); ++s)
    for (size_t chunk = 0; chunk < parts[s].size(); ++chunk)
      add(stages[s], cost_of(job, costs, parts[s][chunk], in_flight[s][chunk]));
  const double sum = job.train.precision == ir::Precision::fp64 ? 8 : 4;
  const double gradient = ir::is_mixed(job.train.precision) ? 2 : sum;
  for (size_t s = 0; s < stages.size(); ++s) {
    const std::vector<const TiedUse*> uses = tied_uses(h, cost, static_cast<int>(s));
    for (size_t later = 1; later < uses.size(); ++later) {
      const StageCost& again = uses[later]->states;
      const double transient = std::max(stages[s].transient, uses[0]->states.transient + waiting(*uses[0]));
      add(stages[s], again, -1);
      if (planner::virtual_stage(h.stage_layers, uses[0]->layer) !=
          planner::virtual_stage(h.stage_layers,
                                 uses[later]->layer)) {  // it has its own sum, added to a third
        stages[s].added_sums += 2 * at(again.bytes, ir::MemoryKind::gradients);
        continue;
      }
      stages[s].transient = transient;
      // Its gradient is added to that of the first use, not to its own sum. This takes three reads and writes
      // in the gradient's type, while a sum is read and written in the sum's type.
      const double saved = again.accumulate.whole * (1 - 3 * gradient / (gradient + 2 * sum));
      stages[s].backward -= saved, stages[s].backward_kernels -= saved;
    }
  }
  const std::vector<double> slowness = slowness_by_stage(h, job.cluster);
  for (size_t s = 0; s < stages.size(); ++s) stages[s] = stages[s].slowed(slowness[s]);
  return stages;
}

std::vector<PipelineStage> pipeline_of(const Job& job, const planner::Mesh& mesh, const ModelCost& cost,
                                       const std::vector<StageCost>& stages) {
  std::vector<PipelineStage> pipeline;
  double back = 0;
  for (int s = 0; s < job.parallel.pp; ++s) {
    const StageCost& stage = at(stages, s);
    const double send = s + 1 < job.parallel.pp ? hop_seconds(job, mesh, cost, s) : 0;
    pipeline.push_back({stage.forward, stage.backward, send, std::exchange(back, send)});
  }
  return pipeline;
}

// Whether runs are followed one by one: with few micro-batches, backward passes in two parts, unequal virtual
// stages, or unequal groups.
bool is_irregular(const Job& job) {
  const Hints& h = job.parallel;
  if (h.pp > 1 && int64_t{h.pp} * h.virtual_stages * job.train.micro_batches <= few_runs) return true;
  if (planner::splits_backward(h.schedule.kind)) return h.pp > 1;
  if (h.virtual_stages == 1) return false;
  const auto [least, most] = std::minmax_element(h.stage_layers.begin(), h.stage_layers.end());
  return *least != *most || job.train.micro_batches % h.pp != 0;
}

// Adds the share of a stage's states to the runs of one of its virtual stages.
void add_states(const StateTimes& states, double share, RunTimes& runs) {
  const bool splits = runs.weight > 0;  // gradients are made, and reduced, in the second part
  runs.forward += share * states.forward;
  runs.before_input += share * states.before_input;
  (splits ? runs.weight : runs.backward) += share * states.backward;
  if (splits) return;
  runs.before_gradient += share * states.before_gradient;
  runs.behind_gradient += share * states.behind_gradient;
}

// By stage, the end of all forward and backward passes, with transfers and the states of each micro-batch.
std::vector<double> passes_ends(const Job& job, const planner::Mesh& mesh, const KindCosts& costs,
                                const std::vector<std::vector<Part>>& parts,
                                const std::vector<StageCost>& stages, const std::vector<StateTimes>& states) {
  const Hints& h = job.parallel;
  const bool splits = planner::splits_backward(h.schedule.kind);
  const std::vector<double> slowness = slowness_by_stage(h, job.cluster);
  const planner::PartPlaces places = planner::part_places(h);
  std::vector<RunTimes> times(h.stage_layers.size());
  for (size_t s = 0; s < stages.size(); ++s) {
    double backward = 0;
    for (size_t chunk = 0; chunk < parts[s].size(); ++chunk) {
      const StageCost one = cost_of(job, costs, parts[s][chunk], {}).slowed(slowness[s]);
      RunTimes& own = at(times, places.part(static_cast<int>(s), static_cast<int>(chunk)));
      own = {.forward = one.forward, .backward = one.backward - one.weight, .weight = one.weight};
      const Part& part = parts[s][chunk];
      if (part.layers > 0) {
        own.before_gradient =
            (part.recomputed == part.layers ? costs.recomputed : costs.others).before_gradient;
        own.behind_gradient = (part.recomputed > 0 ? costs.recomputed : costs.others).behind_boundary;
      }
      add_states(states[s], static_cast<double>(part.layers) / std::max(1, stages[s].layers), own);
      backward += one.backward;
    }
    // A table that occurs twice on a stage saves some of the time.
    for (int v = 0; v < static_cast<int>(times.size()); ++v)
      if (RunTimes& own = at(times, v); places.stage(v) == static_cast<int>(s))
        (splits ? own.weight : own.backward) -= (backward - stages[s].backward) / h.virtual_stages;
  }
  for (size_t v = 0; v + 1 < times.size(); ++v)
    times[v].send = hop_seconds(job, mesh, costs.recomputed, static_cast<int>(v));
  return runs_ends(planner::pipeline_of(h, job.train.micro_batches), times);
}

constexpr int all_of_them = 1 << 30;

// By stage, if there are no virtual stages.
std::vector<int> counts_of(const InFlight& in_flight) {
  std::vector<int> counts;
  for (const std::vector<Held>& of_stage : in_flight) counts.push_back(static_cast<int>(of_stage[0].to_end));
  return counts;
}

bool are_enough(const std::vector<PipelineStage>& stages, double period, const std::vector<int>& counts) {
  const std::vector<int> needed = in_flight(stages, period);
  return std::equal(needed.begin(), needed.end(), counts.begin(), std::less_equal<>());
}

// The least period possible with these numbers in flight.
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

std::vector<double> bytes_by_stage(const Job& job, const KindCosts& costs, const InFlight& in_flight) {
  const auto parts = parts_of(job);
  const std::vector<StageCost> stages = stages_of(job, costs, parts, in_flight);
  std::vector<double> bytes;
  for (size_t s = 0; s < stages.size(); ++s)
    bytes.push_back(stage_bytes(job, costs.recomputed, stages[s], parts[s]));
  return bytes;
}

StageNeeds needs_of(const Job& job, const KindCosts& costs, const InFlight& in_flight, int stage, int layers,
                    int recomputed, double slowness) {
  const int after = static_cast<int>(job.model.layers()) - layers;
  const int begin = stage == 0 ? 0 : stage + 1 == job.parallel.pp ? after : std::min(1, after);
  const Part part{stage, begin, layers, recomputed, stage == 0, stage + 1 == job.parallel.pp};
  const StageCost cost = cost_of(job, costs, part, at(in_flight, stage)[0]).slowed(slowness);
  return {cost.forward + cost.backward, stage_bytes(job, costs.recomputed, cost, {part})};
}

double sharded_part(const planner::Hints& h, const StageCost& stage) {
  return (1 + experts_of(stage) * (planner::ep_in_dp(h) - 1)) / planner::shards_of(h);
}

Estimate estimate(const Job& job, const KindCosts& costs) { return estimate(job, costs, in_flight_of(job)); }

Estimate estimate(const Job& job, const KindCosts& costs, const InFlight& in_flight) {
  const Hints& h = job.parallel;
  const ModelCost& cost = costs.recomputed;
  const double m = job.train.micro_batches;
  const planner::Mesh mesh = planner::mesh_of(h);
  const auto parts = parts_of(job);
  const std::vector<StageCost> stages = stages_of(job, costs, parts, in_flight);
  Estimate result;
  double slowest = 0, sum = 0, forward = 0;
  for (int s = 0; s < h.pp; ++s) {
    const StageCost& stage = at(stages, s);
    slowest = std::max(slowest, stage.forward + stage.backward);
    forward = std::max(forward, stage.forward);
    sum += stage.forward + stage.backward;
    const double bytes = stage_bytes(job, cost, stage, at(parts, s));
    if (bytes > result.bytes) result.bytes = bytes, result.fullest_stage = s;
  }
  // Of its idle time zb-v keeps half a stage's forward pass for each stage before the last. It has the first
  // layer and the last on one device, so that their gradients of a tied table need no exchange.
  const double tied = tied_seconds(job, mesh, cost);
  if (h.virtual_stages <= 2 && !planner::splits_backward(h.schedule.kind))
    result.split_saves = (h.virtual_stages == 1 ? 2.5 : 1) * (h.pp - 1) * forward + tied;
  const std::vector<StateTimes> states = state_times(job, mesh, cost, stages);
  if (is_irregular(job)) {
    const std::vector<double> ends = passes_ends(job, mesh, costs, parts, stages, states);
    result.seconds = step_end(job, mesh, cost, stages, states, ends, true) + tied;
    return result;
  }
  double period = slowest;
  if (h.pp > 1) {
    const std::vector<PipelineStage> pipeline = pipeline_of(job, mesh, cost, stages);
    double slowest_hop = 0, sending = 0;
    for (const PipelineStage& stage : pipeline) {
      result.seconds += stage.send + stage.send_back;
      slowest_hop = std::max(slowest_hop, stage.send);
      sending = std::max(sending, stage.send + stage.send_back);
    }
    // A stage with room for all micro-batches of a step never waits for room.
    std::vector<int> counts = counts_of(in_flight);
    std::replace_if(
        counts.begin(), counts.end(), [&](int count) { return count >= m; }, all_of_them);
    // With virtual stages every run waits for its inputs.
    period = h.virtual_stages == 1 ? period_with(pipeline, counts) : slowest + h.virtual_stages * slowest_hop;
    period = std::max({period, h.virtual_stages * sending, memory_seconds(job, mesh, cost)});
  }
  // Stages end their last backward passes one after the other, the first stage last.
  std::vector<double> ends{result.seconds + m * period + (sum - slowest) / h.virtual_stages};
  for (int s = 0; s + 1 < h.pp; ++s) ends.push_back(ends.back() - at(stages, s).backward / h.virtual_stages);
  result.seconds = step_end(job, mesh, cost, stages, states, ends, false) + tied;
  return result;
}

std::optional<planner::PipelineSchedule> schedule_for(const Job& job, const KindCosts& costs, double slack) {
  const Hints& h = job.parallel;
  if (h.pp == 1 || h.virtual_stages > 1) return std::nullopt;
  const InFlight usual = in_flight_of(job);
  const std::vector<PipelineStage> stages =
      pipeline_of(job, planner::mesh_of(h), costs.recomputed, stages_of(job, costs, parts_of(job), usual));
  std::vector<int> counts = in_flight(stages, (1 + slack) * least_period(stages));
  for (int& count : counts) count = std::min(count, job.train.micro_batches);
  if (counts == counts_of(usual)) return std::nullopt;
  return planner::PipelineSchedule(std::move(counts));
}

}  // namespace boxcar::search
