#include "planner/estimate/state_times.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "backends/machines/device_profile.h"
#include "planner/estimate/placed_probe.h"
#include "planner/estimate/step_estimate.h"
#include "planner/sharding.h"
#include "planner/stages.h"
#include "sbp/at.h"
#include "sim/models/collective_time.h"

namespace boxcar::search {

using planner::Hints;
using planner::Job;
using planner::MeshDim;

GradientBytes gradient_bytes(const Job& job) {
  if (!ir::is_mixed(job.train.precision)) {
    const double size = job.train.precision == ir::Precision::fp64 ? 8 : 4;
    return {size, size, size};
  }
  const double summed = job.train.gradients == ir::Gradients::float32 ? 4 : 2;
  switch (job.parallel.grad_reduction) {
    case planner::Reduction::sums:
      return {2, summed, summed};
    case planner::Reduction::half:
      return {2, summed, 2};
    case planner::Reduction::float32:
      break;
  }
  return {2, summed, 4};
}

int stage_of(const Hints& h, int layer) {
  return planner::part_places(h).stage(planner::virtual_stage(h.stage_layers, layer));
}

int on_node(const Job& job, const planner::Mesh& mesh) {
  const Hints& h = job.parallel;
  const int ranks = h.dp * h.tp * h.cp, node = job.cluster.node.gpus;
  if (mesh.stage_stride * h.pp >= node) return std::min(mesh.stage_stride, ranks);
  return std::min(ranks, node / h.pp);
}

namespace {

// Seconds that a communication adds to the work beside which it runs, `behind` seconds. The share `open` has
// no work to hide it, the share `first` of the work nothing to hide, and the hidden part takes
// multiprocessors from kernels.
double added(const Job& job, double seconds, double behind, double open, double first) {
  const double shown = std::max(open * seconds, seconds - (1 - first) * behind);
  return shown + job.cluster.device->overlap_slowdown * (seconds - shown);
}

// The increase of a backward pass with this many more seconds on the device and in launches. The pass takes
// as long as the slower of device and host.
double longer(const StageCost& stage, double seconds, double launches) {
  return std::max(stage.lead + seconds, launches) - std::max(stage.lead, 0.0);
}

// The time of other kernels over that of sums of gradients as they are made, for equal bytes: some frameworks
// add those of 16 bits more slowly.
double time_of_others(const backends::DeviceProfile& device, const GradientBytes& gradient) {
  const auto share = device.half_op_share.find("accumulate");
  return gradient.made == 2 && share != device.half_op_share.end() ? share->second : 1;
}

// How many backward passes of a stage may hide the reduction of its gradients. Without virtual stages that is
// the pass of the last micro-batch. With them, a stage runs the last pp micro-batches chunk by chunk, and the
// gradients of a chunk are reduced behind the chunks that follow.
//
//   pp 2, two virtual stages: chunk 1 of micro-batches 6 and 7 | chunk 0 of 6 and 7 | end     1.5 passes
double passes_behind(const Job& job) {
  const Hints& h = job.parallel;
  const double last = 1.0 / h.virtual_stages;
  return last + (1 - last) * std::min(h.pp, job.train.micro_batches);
}

// The buckets in which a stage's gradients are reduced, or its parameters gathered. One is full with the
// tensor that exceeds its limit, so it is larger by half a tensor on average. Weighted by size, half a tensor
// of a transformer's layer (3, 1, 4 and 4 of 12 parts) is 0.15 of the layer. A large table has a bucket of
// its own.
struct Buckets {
  double bytes = 0;  // of one; 0: all is exchanged at once
  double table = 0;
};

Buckets buckets_of(const Hints& h, double layers_bytes, double table_bytes, double layers) {
  const double bytes = static_cast<double>(int64_t{h.grad_bucket_mb} << 20) + 0.15 * layers_bytes / layers;
  return {bytes, table_bytes > bytes ? table_bytes : 0};
}

// Elements of the parameters with which a stage's forward passes begin: those of the first layer and of
// embeddings. If gradients are sharded, every virtual stage waits for those of its first layer, which it sums
// last.
double first_elements(const ModelCost& cost, const planner::Hints& h, int stage) {
  const int waits = planner::sharding_of(h).gradients ? h.virtual_stages : 1;
  if (cost.layers.empty()) return waits * cost.layer.elements + (stage == 0 ? cost.first.elements : 0);
  const auto before = std::accumulate(h.stage_layers.begin(), h.stage_layers.begin() + stage, 0);
  return at(cost.layers, before).elements;
}

// The groups of a stage's ranks that gather its states and reduce its gradients. All stages have the same.
class StateGroups {
 public:
  StateGroups(const Job& job, const planner::Mesh& mesh)
      : job_(job),
        dp_stride_(stride(mesh, {MeshDim::replica, MeshDim::dp, MeshDim::ep})),
        cp_stride_(stride(mesh, {MeshDim::cp})),
        on_node_(on_node(job, mesh)),
        of_leaf_(part_of_leaf(job.cluster, mesh)) {}

  // Seconds of a collective over every `apart`-th data-parallel rank and `cp` ranks of context parallelism,
  // while `stages` stages of a node communicate. With `tensors`, these go one by one (RunAct of
  // sim/framework_effects.h).
  double seconds(sbp::Collective collective, double bytes, int apart, int cp, int stages, double tensors) {
    if (bytes == 0) return 0;
    const sim::Span& span = span_of(apart, cp);
    if (span.ranks == 1) return 0;
    sim::CommTime time = sim::collective_time(job_.cluster, collective, static_cast<int64_t>(bytes), span);
    if (tensors > 0) time = one_by_one(time, tensors, span.ranks, job_.cluster.framework->piece_seconds);
    return sim::seconds_beside(job_.cluster, time, stages * on_node_, of_leaf_);
  }

  bool cp_stands_outside() const { return cp_stride_ > dp_stride_; }

 private:
  struct Group {
    int apart = 0, cp = 0;
    sim::Span span;
  };

  // Devices from a rank of a dimension to the next one.
  static int stride(const planner::Mesh& mesh, std::initializer_list<MeshDim> dims) {
    int innermost = -1;
    for (const MeshDim dim : dims) innermost = std::max(innermost, mesh.dim(dim));
    return innermost < 0 ? 0 : at(mesh.strides, innermost);
  }

  const sim::Span& span_of(int apart, int cp) {
    for (const Group& known : groups_)
      if (known.apart == apart && known.cp == cp) return known.span;
    std::vector<int> devices;
    for (int d = 0; d < job_.parallel.dp; d += apart)
      for (int c = 0; c < cp; ++c) devices.push_back(d * dp_stride_ + c * cp_stride_);
    groups_.push_back({apart, cp, sim::span_of(job_.cluster, devices)});
    return groups_.back().span;
  }

  const Job& job_;
  int dp_stride_ = 0, cp_stride_ = 0, on_node_ = 1;
  double of_leaf_ = 1;
  std::vector<Group> groups_;  // that were asked for
};

// Of a stage, while `stages` stages of a node communicate. `alike`: the layers are a transformer's, so that
// the size of buckets is known.
StateTimes times_of(const Job& job, StateGroups& groups, const StageCost& stage, double first, double table,
                    bool alike, int stages) {
  const Hints& h = job.parallel;
  const planner::Sharding sharding = planner::sharding_of(h);
  const double update = sharding.states ? stage.update.sharded(sharded_part(h, stage)) : stage.update.whole;
  if (h.dp == 1 && h.cp == 1) return {update};
  const double layers = std::max(1, stage.layers);
  // All elements of a kind go in buckets, and `tensors` of them one by one (RunAct of
  // sim/framework_effects.h).
  const auto among = [&](sbp::Collective collective, double bytes, int apart, int cp, const Buckets& in,
                         double tensors = 0) {
    const auto seconds = [&](double of) {
      return groups.seconds(collective, of, apart, cp, stages, tensors);
    };
    if (in.bytes == 0 || tensors > 0) return seconds(bytes);
    const double rest = std::max(0.0, bytes - in.table), buckets = std::max(1.0, rest / in.bytes);
    return buckets * seconds(rest / buckets) + seconds(bytes - rest);
  };
  const int ep = planner::ep_in_dp(h);
  const double dense = stage.elements - stage.expert_elements, made = stage.cp_made_elements;
  const auto gather_seconds = [&](double size, const Buckets& in, double tensors) {
    const auto all_gather = sbp::Collective::all_gather;
    const Buckets plain{in.bytes};
    return among(all_gather, dense * size, 1, h.cp, in, tensors) +
           among(all_gather, (stage.expert_elements - made) * size, ep, h.cp, plain) +
           (groups.cp_stands_outside() ? among(all_gather, made * size / h.dp * ep, h.dp, h.cp, plain) +
                                             among(all_gather, made * size, ep, 1, plain)
                                       : among(all_gather, made * size / h.cp, ep, 1, plain) +
                                             among(all_gather, made * size, h.dp, h.cp, plain));
  };
  // Gradients that are made in parts are reduced only over data parallelism; then whole ones are gathered.
  const auto reduce_seconds = [&](sbp::Collective collective, double size, const Buckets& in,
                                  double tensors) {
    const bool whole = collective == sbp::Collective::all_reduce;
    const Buckets plain{in.bytes};
    return among(collective, dense * size, 1, h.cp, in, tensors) +
           among(collective, (stage.expert_elements - made) * size, ep, h.cp, plain) +
           among(collective, made * size / h.cp, ep, 1, plain) +
           (whole ? among(sbp::Collective::all_gather, made * size, h.dp, h.cp, plain) : 0);
  };
  const bool apart = job.cluster.framework->apart_elements > 0;
  const auto tensors_of = [&](double share) {
    return apart ? std::max(1.0, share * stage.apart_tensors) : 0;
  };
  // If backward passes are split, gradients are made in the second parts.
  const double behind = stage.weight > 0 ? stage.weight : stage.backward;
  const double behind_once = behind * passes_behind(job);
  const GradientBytes gradient = gradient_bytes(job);
  const double parameter = gradient.made;
  // Gradients of the embeddings and of the first layer come last, and their parameters are needed first.
  const double open = stage.elements > 0 ? std::min(1.0, first / stage.elements) : 0;
  const double tables = alike ? std::min(table, stage.elements) : 0;
  const auto buckets = [&](double size) {
    return buckets_of(h, (stage.elements - tables) * size, tables * size, layers);
  };
  const Buckets of_gradients = buckets(gradient.reduced), of_parameters = buckets(parameter);
  const auto part = [&](double of, double all) { return alike && all > 0 ? std::min(1.0, of / all) : open; };
  const double one_layer = std::min(open, h.virtual_stages / layers);
  // Kernels that accumulate a gradient as it is made, scaled by the bytes that they move over the usual ones;
  // the same for others, which cast gradients or accumulate them in float32.
  const auto kernels = [&](double bytes) {
    return stage.accumulate.sharded(bytes / (gradient.made + 2 * gradient.summed));
  };
  const auto others = [&](double bytes) {
    return time_of_others(job.cluster.device, gradient) * kernels(bytes);
  };
  const double cast_once = !sharding.reduces_each_micro_batch() && gradient.is_cast(false)
                               ? others(gradient.summed + gradient.reduced)
                               : 0;
  // The last bucket of gradients is reduced after the last backward pass. Forward passes wait for the first
  // two of parameters: a table's and the first layer's.
  const auto reduce_once = [&](sbp::Collective collective, double tensors) {
    const Buckets& in = of_gradients;
    const double all = reduce_seconds(collective, gradient.reduced, in, tensors) + cast_once;
    if (!h.overlap_grad) return all;
    const double last = part(among(collective, in.table > 0 ? in.table : in.bytes, 1, h.cp, {}), all);
    return added(job, all, behind_once, last, std::min(last, part(in.bytes, dense * gradient.reduced)));
  };
  const auto gather_once = [&] {
    const Buckets& in = of_parameters;
    const auto one = [&](double bytes) { return among(sbp::Collective::all_gather, bytes, 1, h.cp, {}); };
    const double all = gather_seconds(parameter, in, 0), next = part(one(in.table) + one(in.bytes), all);
    return added(job, all, h.overlap_param ? stage.forward : 0, next, next);
  };
  if (!sharding.states) return {update + reduce_once(sbp::Collective::all_reduce, 0)};
  if (!sharding.reduces_each_micro_batch())
    return {update + gather_once() + reduce_once(sbp::Collective::reduce_scatter, tensors_of(1))};
  const double reduce = layers * reduce_seconds(sbp::Collective::reduce_scatter, gradient.reduced / layers,
                                                {}, tensors_of(1 / layers));
  const double summed = sharded_part(h, stage) * (gradient.reduced + 2 * gradient.summed);
  const double sums = gradient.reduced == gradient.made ? kernels(summed) : others(summed);
  const double casts = gradient.is_cast(true) ? others(gradient.made + gradient.reduced) : 0;
  const double launches = gradient.is_cast(true) ? stage.accumulate_launches : 0;
  const double kernels_more = sums + casts - stage.accumulate.whole;
  StateTimes times;
  if (!sharding.gathers_in_each_pass()) {
    times.once = update + gather_once();
    times.behind_gradient = h.overlap_grad ? open * reduce : reduce;
    const double more = longer(stage, kernels_more, launches);
    times.backward = more + (h.overlap_grad ? added(job, reduce, behind + more, open, one_layer) : reduce);
    return times;
  }
  // In the backward pass a layer's gradients are reduced before the next layer's parameters are gathered, for
  // which its kernels wait. Only the accumulation of gradients can hide them, and what reads no parameters.
  // If the pass is in two parts, the first one gathers and the second one reduces, beside its kernels.
  const double gather = layers * gather_seconds(parameter / layers, {}, tensors_of(1 / layers));
  const double waits = stage.weight > 0
                           ? added(job, gather, stage.backward - stage.weight, open, one_layer) +
                                 added(job, reduce, stage.weight + sums, open, one_layer)
                           : added(job, gather + reduce, sums + stage.before_parameters, open, open);
  times.once = update;
  times.forward = h.overlap_param ? added(job, gather, stage.forward, open, one_layer) : gather;
  times.backward = longer(stage, waits + kernels_more, launches);
  times.before_input = times.before_gradient = open * gather;
  times.behind_gradient = open * reduce;
  return times;
}

// Of all stages, each on a node where `together` stages communicate.
std::vector<StateTimes> times_of(const Job& job, const planner::Mesh& mesh, const ModelCost& cost,
                                 const std::vector<StageCost>& stages, int together) {
  StateGroups groups(job, mesh);
  std::vector<StateTimes> times;
  for (size_t s = 0; s < stages.size(); ++s)
    times.push_back(times_of(job, groups, stages[s], first_elements(cost, job.parallel, static_cast<int>(s)),
                             s == 0 && cost.layers.empty() ? cost.first.elements : 0, cost.layers.empty(),
                             together));
  return times;
}

}  // namespace

std::vector<StateTimes> state_times(const Job& job, const planner::Mesh& mesh, const ModelCost& cost,
                                    const std::vector<StageCost>& stages) {
  return times_of(job, mesh, cost, stages, 1);
}

double step_end(const Job& job, const planner::Mesh& mesh, const ModelCost& cost,
                const std::vector<StageCost>& stages, const std::vector<StateTimes>& times,
                const std::vector<double>& ends, bool in_passes) {
  const int node = job.cluster.node.gpus;
  const int together = planner::stages_on_node(mesh, job.parallel.pp, node);
  const int m = job.train.micro_batches;
  std::vector<double> on_nic(stages.size(), 0);  // s, by stage: time that others wait for it
  if (together > 1) {
    const std::vector<StateTimes> all = times_of(job, mesh, cost, stages, together);
    for (size_t s = 0; s < stages.size(); ++s)
      on_nic[s] = (all[s].of_step(m) - times[s].of_step(m)) / (together - 1);
  }
  const auto node_of = [&](size_t s) { return mesh.device(0, static_cast<int>(s)) / node; };
  double last = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    double end = ends[s] + (in_passes ? times[s].once : times[s].of_step(m));
    for (size_t t = 0; together > 1 && t < stages.size(); ++t)
      if (t != s && node_of(t) == node_of(s) && ends[t] >= ends[s]) end += on_nic[t];
    last = std::max(last, end);
  }
  return last;
}

double tied_seconds(const Job& job, const planner::Mesh& mesh, const ModelCost& cost) {
  const Hints& h = job.parallel;
  std::set<int> devices;
  for (const TiedUse& use : cost.tied) devices.insert(mesh.device(0, stage_of(h, use.layer)));
  if (devices.size() < 2) return 0;
  const GradientBytes gradient = gradient_bytes(job);
  const planner::Sharding sharding = planner::sharding_of(h);
  const double size = sharding.gradients ? gradient.summed : gradient.reduced;
  const double bytes =
      size * cost.tied.back().states.elements / (sharding.states ? planner::shards_of(h) : 1);
  const sim::Span span = sim::span_of(job.cluster, {devices.begin(), devices.end()});
  return sim::seconds_beside(
      job.cluster,
      sim::collective_time(job.cluster, sbp::Collective::all_reduce, static_cast<int64_t>(bytes), span),
      on_node(job, mesh), part_of_leaf(job.cluster, mesh));
}

}  // namespace boxcar::search
