// A stage's work in a step, which passes of lowering hand on: tasks in program order over values, before
// these have registers or names.
//
// A *value* is a tensor in one layout. A tensor may have several: as made, as stored, and as a reader needs
// it. A *task* reads values and makes values. It becomes one actor of the program, or several (a box of two
// steps), or none (an alias).
//
//   fc1 of a layer on tp 2 with sequence parallelism, as insert_boxing leaves it:
//     values  0: ln2 S(1)   1: fc1.weight S(1)   2: ln2 B, only in phase F0   3: fc1 S(2)
//     tasks   box F0 {ln2: 0 -> 2}
//             kernel F0 fc1, reads 2 1, writes 3
//
// Before insert_boxing, tasks only name ops and the tensors of their buckets; they read and write nothing.
#pragma once

#include <cstdint>
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
  ValueId over = -1;        // shares the register of this value: overwrites it, or is another view of it
  std::string suffix = {};  // of its register's name, if it has its own register
  bool on_host = false;     // lies in memory of the host
};

// A tensor that changes its layout.
struct Boxed {
  ir::TensorId t = -1;
  sbp::NdSbp from, to;
  ValueId source = -1, result = -1;  // source -1: its op's output; result -1: a new value
};
// Tensors in one collective: all take the same steps and have one type.
using Bucket = std::vector<Boxed>;

struct Label {  // of collectives: their names begin with `name`
  std::string name;
  int layer = -1;          // ir::Actor::layer
  std::string moves = {};  // ir::Actor::moves
};

enum class TaskKind : uint8_t {
  kernel,      // an op
  alias,       // an op whose result is its operand in another shape: no kernel
  ahead,       // requests a forward value that a later op reads again; gone after insert_boxing
  box,         // buckets to other layouts
  gather,      // a box of all parameters of a layer, for one pass
  copy,        // values to memory of the host, or back
  exchange,    // buckets between hosts: sums to the parameter servers, or their shares from them
  load,        // an input or a constant
  pull,        // of another stage
  tied,        // the sum of a tied parameter's gradients between stages
  joint,       // a sum over all stages
  update_all,  // updates of one rule in one kernel, with the casts of their results
  keep,        // carries state that nothing updates to the next step
};

// How much of a box waits for the kernel in front of it.
enum class Hold : uint8_t { none, first_step, every_collective };

struct Task {
  TaskKind kind = TaskKind::kernel;
  int phase = -1;
  // One op. For update_all, all of its updates; for ahead, the reader and the op before which it requests.
  std::vector<ir::OpId> ops = {};
  std::vector<ir::OpId> casts = {};          // for update_all: casts that it writes too
  std::vector<ValueId> copies = {};          // or copies of weights in their own type, which later tasks read
  std::vector<int64_t> update_of_copy = {};  // by cast or copy: the index in `ops` of its update
  ir::TensorId t = -1;                       // of load, pull, tied and keep
  std::vector<Bucket> buckets = {};
  Label label = {};
  std::vector<ValueId> reads = {}, writes = {};
  TaskId id = -1;                  // set if others wait for it
  std::vector<TaskId> after = {};  // tasks that it waits for besides its operands
  Hold hold = Hold::none;
};

// Tensors that live from step to step, found by the pass shard_states.
struct States {
  std::vector<ir::TensorId> updated_state;               // by tensor: the state whose next value it is, -1
  std::map<ir::TensorId, std::vector<ir::OpId>> copies;  // ops only on states, by first input
  Bucket gathers;                                        // once per step, after the update
  // In each pass: tensors that are gathered together, by phase and layer of their readers.
  std::map<std::pair<int, int>, std::vector<ir::TensorId>> groups;
};

struct StageTasks {
  States states;
  std::vector<Value> values;
  int declared = 0;  // this number of values, the first ones, exist before the first step
  // Tasks of each micro-batch; then those once per step: after the passes, and after gradients are reduced.
  std::vector<Task> passes, reductions, updates;
  std::vector<ValueId> sent;  // by tensor: the value that other stages pull, -1: none

  std::vector<std::vector<Task>*> parts() { return {&passes, &reductions, &updates}; }
  std::vector<const std::vector<Task>*> parts() const { return {&passes, &reductions, &updates}; }
};

}  // namespace boxcar::planner
