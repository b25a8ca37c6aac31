// A stage's work in a step, which the passes of lowering hand to one another: tasks in program order over
// values, before any of them has a register or a name.
//
// A *value* is a tensor in one layout. A tensor may have several: as it is made, as it is kept, as a reader
// wants it. A *task* reads values and makes values. It becomes an actor of the program; or several, as a box
// of two steps does; or none, as an alias does.
//
//   fc1 of a layer on tp 2 with sequence parallelism, as insert_boxing leaves it:
//     values  0: ln2 S(1)   1: fc1.weight S(1)   2: ln2 B, of phase F0 alone   3: fc1 S(2)
//     tasks   box F0 {ln2: 0 -> 2}
//             kernel F0 fc1, reads 2 1, writes 3
//
// Before insert_boxing, tasks name ops and the tensors of their buckets alone; they read and write nothing.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "sbp/sbp.h"

namespace boxcar::planner {

using ValueId = int;
using TaskId = int;

struct Value {
  ir::TensorId t = -1;
  sbp::NdSbp layout;
  int scope = -1;           // the phase that may read it, -1: all
  ValueId over = -1;        // has the register of this one: written over it, or another view of it
  std::string suffix = {};  // of the name of a register of its own
};

// A tensor that changes its layout.
struct Boxed {
  ir::TensorId t = -1;
  sbp::NdSbp from, to;
  ValueId source = -1, result = -1;  // source -1: its op's output; result -1: a new value
};
// Tensors that go in one collective: all take the same steps and have one type.
using Bucket = std::vector<Boxed>;

struct Label {  // of collectives: their names begin with `name`
  std::string name;
  int layer = -1;          // ir::Actor::layer
  std::string moves = {};  // ir::Actor::moves
};

enum class TaskKind : uint8_t {
  kernel,      // an op
  alias,       // an op whose result is its operand in another shape: no kernel
  ahead,       // asks for a forward value that a later op reads again; gone after insert_boxing
  box,         // buckets to other layouts
  gather,      // a box of all parameters of a layer, for one pass
  load,        // an input or a constant
  pull,        // of another stage
  tied,        // the sum of a tied parameter's gradients between stages
  joint,       // a sum over all stages
  update_all,  // updates of one rule in one kernel, with the casts of what they update
  keep,        // carries state that nothing updates to the next step
};

// How much of a box waits for the kernel in front of it.
enum class Hold : uint8_t { none, first_step, every_collective };

struct Task {
  TaskKind kind = TaskKind::kernel;
  int phase = -1;
  // One op; for update_all, all of its updates; for ahead, the reader and the op in front of which it asks.
  std::vector<ir::OpId> ops = {};
  std::vector<ir::OpId> casts = {};  // for update_all: casts that it writes too
  std::vector<ValueId> copies = {};  // or copies of weights in their own type, which later tasks read
  ir::Shape cast_at = {};            // by cast, or copy: which of `ops` it belongs to
  ir::TensorId t = -1;               // of load, pull, tied and keep
  std::vector<Bucket> buckets = {};
  Label label = {};
  std::vector<ValueId> reads = {}, writes = {};
  TaskId id = -1;                  // set where others wait for it
  std::vector<TaskId> after = {};  // tasks that it waits for besides its operands
  Hold hold = Hold::none;
};

// Tensors that live from step to step, found by the pass shard_states.
struct States {
  std::vector<ir::TensorId> becomes;                     // by tensor: the state whose next value it is, -1
  std::vector<bool> alone;                               // by tensor: a state, or made of states alone
  std::map<ir::TensorId, std::vector<ir::OpId>> copies;  // ops on states alone, by first input
  Bucket gathers;                                        // once a step, after the update
  // In each pass: those that are gathered together, by phase and layer of their readers.
  std::map<std::pair<int, int>, std::vector<ir::TensorId>> groups;
};

struct StageTasks {
  States states;
  std::vector<Value> values;
  int declared = 0;  // this many, the first ones, are there before the first step
  // Tasks of each micro-batch; then once a step: after the passes, and after gradients are reduced.
  std::vector<Task> passes, reductions, updates;
  std::vector<ValueId> sent;  // by tensor: the value that other stages pull, -1: none

  std::vector<std::vector<Task>*> parts() { return {&passes, &reductions, &updates}; }
  std::vector<const std::vector<Task>*> parts() const { return {&passes, &reductions, &updates}; }
};

}  // namespace boxcar::planner
