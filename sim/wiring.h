// A plan laid out for simulation: one *unit* (simulated device) per class, with the actors of all units
// numbered consecutively and all data that a run does not change in flat arrays.
//
//   plan of 2 classes, 3 and 2 actors:  unit 0 has actors 0 1 2, unit 1 has 3 4; queues likewise
//
// The plan's classes must be equitable (fold.h): the first device of a class stands for all of the class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/machines/forward.h"
#include "ir/plan.h"
#include "sbp/at.h"
#include "sim/durations.h"
#include "sim/merge.h"
#include "sim/platform.h"
#include "sim/ring_flows.h"
#include "sim/ticks.h"

namespace boxcar::sim {

// A port of an actor: an input to send a req to, or an output to send an ack to.
struct Port {
  int actor = 0;
  int port = 0;
};

// Links that a flow crosses, repeated by multiplicity. `bandwidth`: of one flow alone, bytes/s.
struct Path {
  std::vector<int> links;  // of Wiring::link_capacity
  double bandwidth = 0;
  bool shared = false;  // other flows may run on its links at the same time
};

// The load of one act after its wait.
struct Load {
  int path = 0;
  double bytes = 0;
  int ring = -1;  // index into Wiring::rings: run as every flow
};

struct WiredActor {
  int unit = 0;
  int local = 0;     // actor of the unit's program
  int queue = 0;     // queue of the wiring
  int joint = -1;    // index into Wiring::joints
  int load = -1;     // index into Wiring::loads
  int per_step = 0;  // acts per step
  Ticks wait = 0;    // timed part: work, or a communication's latency
  Ticks alone = 0;   // whole duration when nothing contends
  bool communication = false;
  bool slows = false;  // slows compute beside it: collectives, whose channels take multiprocessors
};

// Bytes of an implied register, which no message takes or gives back: with `take`, taken when every
// `every`-th act from act 0 begins; otherwise given back when every `every`-th ends.
struct Hold {
  int64_t bytes = 0;
  int every = 1;
  bool take = true;
};

// Acts that run as one: items [first_item, first_item + size) of a queue's phase.
struct WiredGroup {
  int first_item = 0, size = 0;
  Ticks total = 0;
  std::vector<int> moduli;  // act n is run member by member if n + 1 is a multiple of one of these
  std::vector<int> ported;  // members that take part in messages
};

// A pull's turn on its source's queue.
struct Turn {
  int pull = 0;  // actor
  int queue = 0;
  int every = 1;  // of the register pulled: one turn after every `every`-th act
};

struct WiredQueue {
  int unit = 0;
  int local = 0;
  bool ordered = true;
  bool compute = false;
  int items = 0;  // first entry in Wiring::item_begin; one per phase of the program
};

struct Unit {
  int cls = 0;
  int program = 0;
  int first_actor = 0, actors = 0;
  int first_queue = 0, queues = 0;
  int compute_queue = -1;  // queue of the wiring: the first of kind compute
  int64_t held_bytes = 0;  // at the start: registers always held, initial slots of implied ones
};

struct Wiring {
  const ir::Plan* plan = nullptr;
  std::vector<Unit> units;
  std::vector<WiredActor> actors;
  std::vector<WiredQueue> queues;
  std::vector<Turn> turns;
  // Members that act together: actors, and turns as actors.size() + turn. The first is the lead, the lowest
  // actor.
  std::vector<std::vector<int>> joints;
  std::vector<Load> loads;
  std::vector<Path> paths;
  std::vector<Ring> rings;
  std::vector<double> link_capacity;  // bytes/s
  // Order of queues: items of (queue, phase) are items[item_begin[queue.items + phase] .. next). An item is
  // an actor or actors.size() + turn.
  std::vector<int> item_begin, items;
  std::vector<int> group_at;  // by item: the group that begins with it, -1: none
  std::vector<WiredGroup> groups;
  std::vector<std::vector<int>> occurrence;  // by program and run of its schedule: earlier runs of its phase
  // Ports of actors that take part in messages: inputs and outputs that are neither implied nor updated in
  // place.
  std::vector<int> in_begin, out_begin;  // by actor, then one past the end
  std::vector<Port> producers;           // by input port
  std::vector<int> reader_begin;         // by output port, then one past the end
  std::vector<Port> readers;
  std::vector<int> in_register, out_register;  // by port: register of the (producer's) program
  std::vector<int> in_repeat;                  // by input port
  std::vector<int> hold_begin;                 // by actor, then one past the end
  std::vector<Hold> holds;
  std::vector<int64_t> out_bytes;  // by output port: of one slot; 0 if it is updated in place
  std::vector<int> out_every;      // by output port

  int lead_of(int actor) const {
    int joint = at(actors, actor).joint;
    return joint < 0 ? actor : at(joints, joint).front();
  }
  const ir::Program& program(const Unit& unit) const { return at(plan->programs, unit.program); }
  const ir::Actor& actor(int index) const;
  std::string name_of(int actor) const;  // "stage0[3].h3.attn.qkv": program, class, actor
};

// Throws Error (bad input) if a group's member lacks the joint act or a pull has no source. `costs` by class,
// `mergings` by program. `gradients_stay`: gradients read by phases that run once a step are always held.
Wiring wire(const ir::Plan& plan, const Platform& platform, const std::vector<std::vector<ActCost>>& costs,
            const std::vector<Merging>& mergings, bool every_flow, bool gradients_stay = false);

// True if actor reads register `reg` that it writes itself: an update in place, without messages.
bool in_place(const ir::Program& program, int actor, const ir::Input& input);

}  // namespace boxcar::sim
