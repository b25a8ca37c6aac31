// What a stage of a transformer costs, from the plan of a small model under the same degrees.
//
//   the probe: four stages of 1, 1, 2 and 1 layers, dp 1, two micro-batches
//   layer = the third less the second; joint = the second less a layer: transfers, and what is once a stage;
//   first, last = the first, the last less the second: embeddings; norm, head and loss, without what comes in
//   or goes out there. A stage of l layers is l x layer + joint, and the ends that it has
//
// Where only every n-th layer has experts, the stages have n times as many layers, and a layer is their mean.
// With a decoder there are four such stages of each kind. Where all layers differ (convolutional networks),
// the probe is the model itself, with a stage for each layer.
//
// Times come from the plans' own acts on the time models that the simulator asks, each phase laid out with
// its queues in order and everything else at rest. They rank candidates; whoever is chosen is simulated.
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

// How long every act of a class's program takes on a cluster when nothing contends, in s: sim::act_seconds.
using ActSeconds =
    std::function<std::vector<double>(const ir::Plan& plan, const backends::Cluster& cluster, int cls)>;

// Of kernels that go over states, which sharding makes smaller: as they are, and if the tensors were nothing.
struct StateTime {
  double whole = 0, least = 0;  // s
  double sharded(double part) const { return least + (whole - least) * part; }
};

struct StageCost {
  double forward = 0, backward = 0;  // s, of a micro-batch, the collectives inside of the stage included
  // By how much these grow for each time more that the stage's kernels take; 0 where no device is slow.
  double forward_kernels = 0, backward_kernels = 0;
  StateTime update;  // of a step
  // Of the backward pass: the kernels that add up gradients, launched in time, and their launches, in s of
  // the host.
  StateTime accumulate;
  double accumulate_launches = 0;
  // By how much the device takes longer for the backward pass than the host for its launches; below 0 kernels
  // wait for them.
  double lead = 0;
  // Of a micro-batch: kernels alone, launched in time, without what adds up gradients.
  double computing = 0;
  double elements = 0;         // of parameters, on one device
  double expert_elements = 0;  // of them, of experts
  int layers = 0;              // of a stage
  // Bytes on a device with nothing sharded, by ir::MemoryKind. Activations: what each micro-batch in flight
  // keeps; workspace: what stays beside that, slots of transfers above all.
  std::array<double, ir::memory_kinds> bytes{};
  double transient = 0;  // bytes that acts need for a moment at most

  // Where kernels take `times` as long.
  StageCost slowed(double times) const;
};

// A use of a table that the model reads several times: a stage has one, whatever reads it there.
struct TiedUse {
  int layer = 0;
  // What it adds to its layer: elements, update, accumulate, bytes of states; and the stage's transient.
  StageCost states;
};

struct ModelCost {
  StageCost layer, first, last, joint;
  // Where they differ, with the model's ends; then the above are 0, and joints are by the layer that a stage
  // begins with.
  std::vector<StageCost> layers, joints;
  std::vector<TiedUse> tied = {};
  // What a stage gives the next one, of a micro-batch, on one device; by the layer that it ends with where
  // layers differ.
  double boundary_bytes = 0;
  std::vector<double> boundaries = {};
  // Of a stage's backward pass: kernels after the gradient that the stage before waits for, in s, at most;
  // known where layers are equal.
  double behind_boundary = 0;

  StageCost joint_of(int begin) const {
    return layers.empty() ? joint : joints.empty() ? StageCost() : at(joints, begin);
  }
};

// Of a job whose layers do not all compute again (recompute_layers): what those cost that do as it says, and
// the others. Both have to outlive it.
struct KindCosts {
  const ModelCost& recomputed;
  const ModelCost& others;
  KindCosts(const ModelCost& all) : KindCosts(all, all) {}
  KindCosts(const ModelCost& recomputed_cost, const ModelCost& others_cost)
      : recomputed(recomputed_cost), others(others_cost) {}
};

// What a ModelCost depends on beside what all points of a search have alike.
struct CostKey {
  int tp = 1, cp = 1, ep = 1;
  bool sequence_parallel = false;
  int micro_batch = 1;
  ir::Recompute recompute = ir::Recompute::none;
  // Of tp, cp and ep, how far apart a group's ranks are: from one to the next so many devices, a node's at
  // most; 0 where there is one rank.
  std::array<int, 3> strides{};
  friend auto operator<=>(const CostKey&, const CostKey&) = default;
};
CostKey cost_key(const planner::Job& job);

// Measures the points of one search, each by its key, and by nothing else of it; what several of them share
// is made once: training graphs, and the plan of keys that differ in strides from the one before.
class Measuring {
 public:
  // `job`: what all points have alike; what of it is in a key, and its sharding and stages, do not matter. Of
  // devices that are not slow; where its cluster has slow ones, with what kernels take more of.
  Measuring(planner::Job job, ActSeconds seconds,
            std::shared_ptr<Graphs> graphs = std::make_shared<Graphs>(64));
  ~Measuring();

  // All layers compute again as the key says. Throws Error (bad input) where no plan of such stages can be
  // made.
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

// When the last act of a phase ends that begins with all that it needs from elsewhere, in s. Pulls take
// nothing: in a pipeline they run behind other work.
double phase_seconds(const ir::Program& program, int phase, const std::vector<double>& seconds);

}  // namespace boxcar::search
