// Runs a plan for real: one thread per hardware queue, the actor state machine of actor.h on each, messages
// between threads and processes by the bus, memory as the plan laid it out.
//
//   Runtime run(plan, backend, hooks);        // reserves memory, fills initial slots
//   run.steps(10, first_step);                // returns when every act of the steps has ended
//   run.read(device, "h0.ln1.weight", bytes)  // between calls of steps(): the content of a register
//
// How a plan is carried out:
// - A thread takes the acts of an ordered queue in their fixed order and waits for the next. On an open queue
//   the actor that became ready first acts. No thread waits for the end of a step.
// - A collective is one blocking call of its communicator, in which members meet. The plan's orders, proved
//   by planner::verify, make that safe.
// - A pull copies from the slot named by its peer's req, which is not written until the ack. If the slot is
//   in another process, the pull requests the bytes from that process's progress thread. These transfers are
//   one-sided: no turn is taken on the producer's queue. If devices of different processes can, they send and
//   receive instead (links.h).
// - Acts on a register with `every` above 1 add to its slot; the first of them writes it.
// - A parameter or constant with one slot that exists from the start is written once, before all steps.
// - On a backend whose queues have marks, an act hands over when it is launched. The next act on its slot, on
//   another queue of the process, waits for its mark on the device, and the thread continues. An act whose
//   output another process requests hands over when it is done. Loads and watched bytes go through host
//   memory that the device copies from and to. It is filled while earlier copies are in flight, and read when
//   a mark has passed. All acts of a plan with open queues hand over when they are done. Otherwise a pull
//   that was launched before its device's part of a collective, only because its input had been launched,
//   could wait for that same collective.
// - Acts of the timeline are between two marks with the device's time, if the queue has such marks; else they
//   hand over when they are done.
// - With `graphs` the first step runs this way. The next ones are recorded, each as one act of the backend,
//   and from then on launched in turn. Two or more steps are recorded, until every register is at the same
//   slot again. (A register without initial slots, read in the step that writes it, begins each step at its
//   first slot.) Loads and watched bytes go through the recording's own memory: the host fills it before a
//   launch, and reads it after the launch of the next step. Steps that write checkpoints run like the first
//   one.
// - A collective, a pull or a wait that ends in an error ends the run: steps() throws the first one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "ir/plan.h"

namespace boxcar::actors {

// Actions of ops "save" and "write". `steps`: number of steps made when a register held its bytes.
struct Checkpoints {
  std::function<bool(int64_t steps)> due;  // if false, nothing else is called; empty: never due
  // A register's bytes, for "save".
  std::function<void(int device, const ir::Register& reg, int64_t steps, std::vector<std::byte> bytes)> save;
  // For "write". A wait in it must call `check`, which throws if the run has ended.
  std::function<void(int device, int64_t steps, const std::function<void(const std::string& whom)>& check)>
      write;
};

// Work that a plan leaves to its driver. Called from queue threads, at most one call per device and actor at
// a time.
struct Hooks {
  // Fills a register's slot in host memory: for initial and in-place registers when the runtime is made (the
  // moment is step 0), and for each act of op "load" or "parameter". If `fill` is empty, the slots hold
  // zeros.
  std::function<void(int device, const ir::Register& reg, const backends::Moment& moment,
                     std::span<std::byte> bytes)>
      fill;
  // Acts of ops "read" and "decode", which prepare data for a load in host memory. Not called in recorded
  // steps.
  std::function<void(int device, const ir::Actor& actor, const backends::Moment& moment)> prepare;
  // `watched` is called after each act that wrote a register with a name in `watch`, such as a loss, with its
  // bytes in host memory. Calls are in the acts' order. If acts are only launched, a call may come later than
  // its act's end, but not after steps() has returned. If one act writes several such registers, it is called
  // for the last.
  std::set<std::string> watch;
  std::function<void(int device, const ir::Register& reg, const backends::Moment& moment,
                     std::span<const std::byte> bytes)>
      watched;
  // The learning rate of a step.
  std::function<double(int64_t step)> learning_rate;
  Checkpoints checkpoints;
};

// One act as it happened; in queue order per device and queue.
struct RunAct {
  int device = 0, actor = 0;
  int64_t index = 0;          // number of this actor's act since the runtime began
  double start = 0, end = 0;  // seconds since the first call of steps()
};

struct RunOptions {
  int64_t seed = 0;
  bool timeline = false;
  int64_t timeline_from = 0;  // the first step whose acts are kept
  int64_t chaos = -1;         // 0 or more: a seed for random delivery of messages and delays of acts
  bool graphs = false;        // record steps and launch them as one act each, on backends that can
  bool probe = false;         // count held bytes at each act; more than the plan's are an Error (fault)
  // With graphs: an order of a step's communication (planner/communication_order.h), the same in all
  // processes. Acts that wait for other devices then follow one another in it, on all queues. So a step ends
  // even on a device that runs only one of a graph's branches at a time. Empty: only queues order them.
  std::vector<std::pair<int, int>> order = {};
};

// Memory that a runtime takes besides the arenas of a plan, by device (0 bytes for other processes'): scratch
// for sums, collectives and sends. Throws Error (bad input) if the plan cannot be run.
std::vector<backends::Beside> beside_arenas(const ir::Plan& plan, backends::Backend& backend);

class Runtime {
 public:
  // REQUIRES: `plan` has passed ir::check; `plan` and `backend` outlive this; `backend` serves only this
  // runtime. Takes arena_bytes and scratch_bytes on every local device. Throws Error (bad input) if the plan
  // cannot be run, or not with options.graphs.
  Runtime(const ir::Plan& plan, backends::Backend& backend, Hooks hooks, RunOptions options = {});
  ~Runtime();

  // Runs `count` more steps, the first of them step `first_step`, and blocks until their last act here has
  // ended. Throws the first error of any thread, naming device and actor (of the same kind if it is an Error,
  // else a fault). The runtime is then unusable.
  void steps(int64_t count, int64_t first_step);

  // Between calls of steps(), on local devices: the newest slot of a register. Throws Error (bad input) for a
  // name that the device's program does not have.
  std::vector<std::byte> read(int device, const std::string& reg) const;
  void write(int device, const std::string& reg, std::span<const std::byte> bytes);

  // Acts of the steps from options.timeline_from on. Needs options.timeline.
  const std::vector<RunAct>& timeline() const;
  // Memory of registers, by local device (0 for others). Needs options.probe. `held` is the most bytes at
  // once; it depends on how queues happened to overlap. `peak` is the end of the highest slot held in the
  // arena. It does not depend on overlap, and equals the arena's size if no planned byte was unused.
  struct Memory {
    int64_t held = 0, peak = 0;
  };
  const std::vector<Memory>& memory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace boxcar::actors
