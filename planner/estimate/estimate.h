// Costs of a transformer's stages, from the plan of a small model under the same degrees, with backward
// passes whole or in two parts.
//
//   the probe: four stages of 1, 1, 2 and 1 layers, dp 1, two micro-batches
//   layer = the third less the second; joint = the second less a layer: transfers, and what is once a stage;
//   first, last = the first, the last less the second: embeddings; norm, head and loss, without what comes in
//   or goes out there. A stage of l layers is l x layer + joint, and the ends that it has
//
// Where kinds of layers take turns (experts in every n-th, windows in all but every n-th), the stages have n
// times as many layers, and a layer is their mean. With a decoder, or where the first layers have no experts,
// there are four such stages of each kind. Where all layers differ (convolutional networks), the probe is the
// model itself, with a stage for each layer.
//
// Times come from the plans' own acts on the time models that the simulator asks, each phase laid out with
// its queues in order and everything else at rest. They rank candidates; the chosen ones are simulated.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "ir/plan.h"
#include "planner/estimate/graphs.h"
#include "planner/planner.h"
#include "sbp/at.h"

namespace boxcar::search {

// The time of every act of a class's program on a cluster when nothing contends, in s: sim::act_seconds.
using ActSeconds =
    std::function<std::vector<double>(const ir::Plan& plan, const backends::Cluster& cluster, int cls)>;

// Time of kernels over states, which sharding makes smaller: with whole tensors, and with empty ones.
struct StateTime {
  double whole = 0, least = 0;  // s
  double sharded(double part) const { return least + (whole - least) * part; }
};

struct StageCost {
  double forward = 0, backward = 0;  // s, of a micro-batch, with the collectives inside the stage
  // The second part of `backward` where backward passes are split: gradients of parameters alone.
  double weight = 0;
  // Growth of these per added multiple of the stage's kernel time; 0 where no device is slow.
  double forward_kernels = 0, backward_kernels = 0, weight_kernels = 0;
  StateTime update;    // of a step
  StateTime updating;  // of it, its kernels launched in time
  // In the backward pass: the kernels that add up gradients, launched in time, and their launches, in s of
  // the host.
  StateTime accumulate;
  double accumulate_launches = 0;
  // Device time of the backward pass less the host's time for its launches; below 0, kernels wait for
  // launches.
  double lead = 0;
  // Kernels of a micro-batch alone, launched in time, without those that add up gradients, in s.
  double computing = 0;
  double forward_computing = 0;  // of its forward pass alone
  // In its passes, from the first kernel of each to the last: how long the compute queue waits for
  // collectives that need one kernel and that another needs, in s. Nothing else is on the queue between them.
  double waiting = 0, forward_waiting = 0;
  double elements = 0;         // of parameters, on one device
  double expert_elements = 0;  // of them, of experts
  // Of these, of experts whose gradients are made in parts: each rank of context parallelism makes some
  // whole.
  double cp_made_elements = 0;
  int layers = 0;  // of a stage
  // Bytes on a device with nothing sharded, by ir::MemoryKind. Activations: bytes that each micro-batch in
  // flight keeps; workspace: other bytes that stay, mainly slots of transfers.
  std::array<double, ir::memory_kinds> bytes{};
  // Where backward passes are split, activations are those that the second part reads. Beside them
  // micro-batches keep bytes from their forward pass to the first part alone, and from the first part to the
  // second.
  double to_backward = 0, to_weight = 0;
  double transient = 0;  // the most bytes that acts need for a moment

  // The cost where kernels take `times` as long.
  StageCost slowed(double times) const;
};

// A use of a table that the model reads several times. A stage has the table once, however many ops read it.
struct TiedUse {
  int layer = 0;  // as of ops: -1 before the first, `layers` after the last
  // Additions to its layer's cost: elements, update, accumulate, bytes of states; and the stage's transient.
  StageCost states;
};

struct ModelCost {
  StageCost layer, first, last, joint;
  // Used where layers differ, with the model's ends included; then the above are 0. Joints are by the first
  // layer of a stage.
  std::vector<StageCost> layers, joints;
  std::vector<TiedUse> tied = {};
  // Bytes that a stage gives the next one for a micro-batch, on one device; by the stage's last layer where
  // layers differ.
  double boundary_bytes = 0;
  std::vector<double> boundaries = {};
  // The most time, in s, of kernels of a stage's backward pass after the gradient that the stage before waits
  // for; known where layers are equal.
  double behind_boundary = 0;
  double waiting_behind_boundary = 0;  // of the compute queue, between these
  // The time, in s, of a backward pass of a stage before it needs the gradient from the next one: its last
  // layer's recomputation. Known where layers are equal.
  double before_gradient = 0;

  StageCost joint_of(int begin) const {
    return layers.empty() ? joint : joints.empty() ? StageCost() : at(joints, begin);
  }
};

// Costs for a job where only some layers recompute (recompute_layers): of layers that recompute as the job
// says, and of the others. Both have to outlive it.
struct KindCosts {
  const ModelCost& recomputed;
  const ModelCost& others;
  KindCosts(const ModelCost& all) : KindCosts(all, all) {}
  KindCosts(const ModelCost& recomputed_cost, const ModelCost& others_cost)
      : recomputed(recomputed_cost), others(others_cost) {}
};

// The stages that share a node's NICs, and the part of a step in which all of them are at work: less than 1,
// as a pipeline fills and drains.
struct Neighbours {
  int stages = 1;
  double steady = 1;
  friend auto operator<=>(const Neighbours&, const Neighbours&) = default;
};

// Inputs to a ModelCost in which points of one search differ.
struct CostKey {
  planner::Hints hints;  // of a layer: those that place stages and replicas, or shard states, are at defaults
  ir::Recompute recompute = ir::Recompute::none;
  // For tp, cp and ep: devices from one rank of a group to the next, at most a node's; 0 where there is one
  // rank.
  std::array<int, 3> strides{};
  Neighbours neighbours{};  // where groups inside a stage reach other nodes
  friend auto operator<=>(const CostKey&, const CostKey&) = default;
};
CostKey cost_key(const planner::Job& job);

// Measures the costs of a search's points. They depend on a point's key alone. Training graphs are made once
// for all points that share them. A plan is made once for consecutive keys that differ only in
// strides and neighbours.
class Measuring {
 public:
  // `job` holds what all points have in common. Its fields that are in a key, its sharding and its stages are
  // not read. Costs are for devices that are not slow. If the cluster has slow devices, forward_kernels and
  // backward_kernels say how the costs grow with the time of kernels.
  Measuring(planner::Job job, ActSeconds seconds,
            std::shared_ptr<Graphs> graphs = std::make_shared<Graphs>(64));
  ~Measuring();

  // All layers recompute as the key says. Throws Error (bad input) where no plan of such stages can be made.
  ModelCost of(const CostKey& key);

 private:
  struct Probe;
  const Probe& probe_of(CostKey key);

  planner::Job job_;
  ActSeconds seconds_;
  std::shared_ptr<Graphs> graphs_;  // threads may share them
  std::unique_ptr<Probe> last_;
};

ModelCost measure(const planner::Job& job, const ActSeconds& seconds);  // alone

}  // namespace boxcar::search
