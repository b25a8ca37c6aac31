// One step of a plan, prepared for analysis: which acts wait for which, over all ranks. The proof that a plan
// ends (dry_run.h) and the plan's marked graph (marked_graph.h) both use this view.
//
// An *instance* is a class (all its devices are alike) or one device. A *node* is an actor of an instance. A
// *unit* acts as one: it is a single node, or all members of a collective. A *station* serialises units: it
// is an ordered queue (its actors and the turns of pulls, in order), one actor of an unordered queue, or the
// order in which an instance issues its collectives.
//
//   first: a -> %x (2 slots) -> b, both on compute.  Nodes a, b; needs of a act j: on b, (j / 1 - 1) * 1 acts
//   ended; needs of b act j: on a, (j / 1 + 1) * 1 acts ended; one station: a b in every run of their phase.
//
// In a view of classes an instance stands for several devices: every edge between acts of devices is an edge
// between acts of their classes, so a view of classes without a cycle proves that the devices have none. The
// reverse holds if `exact`: then each edge between classes is an edge of every device of the class that it
// leaves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "sbp/at.h"

namespace boxcar::planner {

// Before its act j, the node waits until node `on` has ended (j / div + shift) * mul acts of the step. A need
// for data waits for the act that makes a version readable; any other need waits for the last reader of the
// slot that is overwritten.
struct Need {
  int on = 0;
  int div = 1, shift = 0, mul = 1;
  int reg = -1;  // in the program of the producer
  bool data = true;
  int64_t acts(int64_t j) const { return (j / div + shift) * mul; }
};

struct StepNode {
  int instance = 0, actor = 0;
  int acts = 0;  // in a step
  int unit = 0;
  int needs_begin = 0, needs_end = 0;
};

// One entry in a station's order. `turn_every` > 0: the turn of a pull, which comes only with every
// turn_every-th run.
struct StationEntry {
  int unit = 0;
  int turn_every = 0;
};

enum class StationKind : uint8_t { queue, actor, issue };

struct Station {
  StationKind kind = StationKind::queue;
  int instance = 0;
  int queue = -1;                                 // for queue
  std::vector<std::vector<StationEntry>> phases;  // by phase of the instance's program
};

struct Unit {
  std::vector<int> nodes;
  std::vector<int> stations;
  int acts = 0;
};

struct StepView {
  const ir::Plan* plan = nullptr;
  bool classes = true;  // instances are classes, else devices
  bool exact = true;
  std::vector<int> program;     // by instance
  std::vector<int> first_node;  // by instance, and one past the end
  std::vector<StepNode> nodes;
  std::vector<Need> needs;  // by node
  std::vector<Unit> units;
  std::vector<Station> stations;

  int instances() const { return static_cast<int>(program.size()); }
  const ir::Program& program_of(int instance) const { return at(plan->programs, at(program, instance)); }
  const ir::Actor& actor_of(int node) const;
  // "stage0 (devices 0-7)"
  std::string instance_text(int instance) const;
  // "stage0 (devices 0-7): h3.qkv F[2]": act 2 of the node in this step; the number is the micro-batch.
  std::string act_text(int node, int act) const;
};

// REQUIRES: `plan` has passed ir::check and outlives the view. `issue_order`: with stations for the order of
// collectives.
StepView view_of_classes(const ir::Plan& plan, bool issue_order = true);
StepView view_of_devices(const ir::Plan& plan, bool issue_order = true);

}  // namespace boxcar::planner
