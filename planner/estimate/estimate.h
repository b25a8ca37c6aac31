// Costs of a transformer's stages, from the plan of a small model with the same degrees, with backward passes
// whole or in two parts.
//
//   the probe: four stages of 1, 1, 2 and 1 layers, dp 1, two micro-batches
//   layer = third minus second; joint = second minus layer: transfers, and costs once per stage;
//   first, last = first minus second, last minus second: embeddings; norm, head and loss, without the
//   transfers there. A stage of l layers costs l x layer + joint, and its ends of the model
//
// If kinds of layers alternate (experts in every n-th, windows in all but every n-th), the stages have n
// times as many layers, and a layer is their mean. With a decoder, or if the first layers have no experts,
// there are four such stages of each kind. If all layers differ (convolutional networks), the probe is the
// model itself, with a stage for each layer.
//
// Times come from the plans' own acts by the simulator's time models. Each phase runs alone, with its queues
// in order. The times rank candidates; the chosen ones are simulated.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "ir/plan.h"
#include "planner/estimate/graphs.h"
#include "planner/planner.h"
#include "sbp/at.h"
#include "sim/models/collective_time.h"

namespace boxcar::search {

// The time of every act of a class's program on a cluster beside other traffic, in s: sim::act_seconds.
using ActSeconds = std::function<std::vector<double>(const ir::Plan& plan, const backends::Cluster& cluster,
                                                     int cls, const sim::Beside& others)>;

// Time of kernels over states, which sharding reduces: with whole tensors, and with empty ones.
struct StateTime {
  double whole = 0, least = 0;  // s
  double sharded(double part) const { return least + (whole - least) * part; }
};

struct StageCost {
  double forward = 0, backward = 0;  // s, of a micro-batch, with the collectives inside the stage
  // The second part of `backward` if backward passes are split: only gradients of parameters.
  double weight = 0;
  // Growth of these per added multiple of the stage's kernel time; 0 if no device is slow.
  double forward_kernels = 0, backward_kernels = 0, weight_kernels = 0;
  StateTime update;    // of a step
  StateTime updating;  // the same if its kernels are launched in time
  // In the backward pass: the kernels that accumulate gradients, if launched in time, and their launches, in
  // s of the host.
  StateTime accumulate;
  double accumulate_launches = 0;
  double before_parameters = 0;  // s of kernels with which layers begin it and that read no parameters
  // How far the device is behind the host in the backward pass of a layer: the device's time, if kernels are
  // launched in time, minus the host's time for their launches. Below 0, kernels wait for launches. 0 for a
  // joint and for the ends of a model.
  double lead = 0;
  // Only the kernels of a micro-batch, launched in time, without those that accumulate gradients, in s.
  double computing = 0;
  double forward_computing = 0;  // only of its forward pass
  // In its passes, from the first kernel of each to the last: how long the compute queue waits for
  // collectives between two kernels, in s. Nothing else is on the queue between these kernels.
  double waiting = 0, forward_waiting = 0;
  double elements = 0;         // of parameters, on one device
  double expert_elements = 0;  // those of experts among them
  // The part of expert_elements whose gradients ranks of context parallelism share out by expert: each rank
  // makes those of some experts, and makes them whole.
  double cp_made_elements = 0;
  double apart_tensors = 0;  // parameters, not of experts, that the framework gathers and reduces one by one
  int layers = 0;            // of a stage
  // Bytes on a device with nothing sharded, by ir::MemoryKind. Activations: bytes that each micro-batch in
  // flight keeps; workspace: other bytes that stay, mainly slots of transfers.
  std::array<double, ir::memory_kinds> bytes{};
  // If backward passes are split, activations are those that the second part reads. Micro-batches also keep
  // bytes only from their forward pass to the first part, and only from the first part to the second.
  double to_backward = 0, to_weight = 0;
  double transient = 0;  // the most bytes that acts need temporarily
  // Of a stage that uses a tied table in two of its parts: whole sums of its gradients beside the one
  // reduced.
  double added_sums = 0;

  // The cost if kernels take `times` as long.
  StageCost slowed(double times) const;
};

// A use of a table that the model reads several times. A stage has the table once, whatever the number of ops
// that read it.
struct TiedUse {
  int layer = 0;  // as for ops: -1 before the first, `layers` after the last
  // Additions to its layer's cost: elements, update, accumulate, bytes of states; and the stage's transient.
  StageCost states;
};

struct ModelCost {
  StageCost layer, first, last, joint;
  // Used if layers differ, including the model's ends; then the costs above are 0. Joints are by the first
  // layer of a stage.
  std::vector<StageCost> layers, joints;
  std::vector<TiedUse> tied = {};
  // Bytes that a stage gives the next one for a micro-batch, on one device. By the stage's last layer if
  // layers differ.
  double boundary_bytes = 0;
  std::vector<double> boundaries = {};
  // The most time, in s, of kernels of a stage's backward pass after the gradient for which the previous
  // stage waits. Known if layers are equal.
  double behind_boundary = 0;
  double waiting_behind_boundary = 0;  // of the compute queue, between these kernels
  // The time, in s, of a stage's backward pass before it needs the next stage's gradient: its last layer's
  // recomputation. Known if layers are equal.
  double before_gradient = 0;

  // A last stage without layers begins behind all of them.
  StageCost joint_of(int begin) const {
    if (layers.empty()) return joint;
    return joints.empty() ? StageCost() : at(joints, std::min(begin, static_cast<int>(joints.size()) - 1));
  }
};

// Costs for a job in which only some layers recompute (recompute_layers): costs of layers that recompute by
// the job, and of the others. Both have to outlive it.
struct KindCosts {
  const ModelCost& recomputed;
  const ModelCost& others;
  KindCosts(const ModelCost& all) : KindCosts(all, all) {}
  KindCosts(const ModelCost& recomputed_cost, const ModelCost& others_cost)
      : recomputed(recomputed_cost), others(others_cost) {}
};

// The stages that share a node's NICs, and the part of the others that work while one does. It is less than 1
// because a pipeline fills and drains. The part of a leaf switch's nodes that belongs to a stage.
struct Neighbours {
  int stages = 1;
  double steady = 1;
  double of_leaf = 1;
  friend auto operator<=>(const Neighbours&, const Neighbours&) = default;
};

// The inputs to a ModelCost that differ between points of one search.
struct CostKey {
  planner::Hints hints;  // of a layer: hints that place stages and replicas, or shard states, are at defaults
  ir::Recompute recompute = ir::Recompute::none;
  // For tp, cp and ep: devices from one rank of a group to the next, at most a node's; 0 for one rank.
  std::array<int, 3> strides{};
  Neighbours neighbours{};  // if groups inside a stage reach other nodes
  friend auto operator<=>(const CostKey&, const CostKey&) = default;
};
CostKey cost_key(const planner::Job& job);

// Measures the costs of a search's points. They depend only on a point's key. Training graphs are made once
// for all points that share them. A plan is made once for consecutive keys that differ only in strides and
// neighbours.
class Measuring {
 public:
  // `job` holds the fields that all points have in common. Its fields that are in a key, its sharding and its
  // stages are not read. Costs are for devices that are not slow. If the cluster has slow devices,
  // forward_kernels and backward_kernels give the growth of the costs with the time of kernels.
  Measuring(planner::Job job, ActSeconds seconds,
            std::shared_ptr<Graphs> graphs = std::make_shared<Graphs>(64));
  ~Measuring();

  // All layers recompute as given in the key. Throws Error (bad input) if no plan of such stages can be made.
  ModelCost of(const CostKey& key);

 private:
  struct Probe;
  const Probe& probe_of(CostKey key);

  planner::Job job_;
  ActSeconds seconds_;
  std::shared_ptr<Graphs> graphs_;  // may be shared by threads
  std::unique_ptr<Probe> last_;
};

ModelCost measure(const planner::Job& job, const ActSeconds& seconds);  // only this job

}  // namespace boxcar::search
