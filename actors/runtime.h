// Runs a plan for real: one thread per hardware queue, the actor state machine of actor.h on each, messages
// between threads and processes by the bus, memory as the plan laid it out.
//
//   Runtime run(plan, backend, hooks);        // reserves memory, fills initial slots
//   run.steps(10, first_step);                // returns when every act of the steps has ended
//   run.read(device, "h0.ln1.weight", bytes)  // between calls of steps(): what a register holds
//
// How a plan is carried out here:
// - A thread takes the acts of an ordered queue in their fixed order and waits for the one whose turn it is.
//   On an open queue whichever became ready first acts. No thread waits for the end of a step.
// - A collective is one blocking call of its communicator: members meet in it. The plan's orders, proved by
//   planner::verify, are what makes that safe.
// - A pull copies from the slot that its peer's req named, which nobody writes until the ack. In other
//   processes it asks the owner's progress thread for the bytes. No turn is taken on the producer's queue:
//   transfers here are one-sided; or, where devices of different processes can, a send and a receive of
//   theirs: links.h.
// - Acts on a register with `every` above 1 add to its slot, the first of them writes it.
// - A parameter or constant with one slot that is there from the start is written once, before all steps.
// - On a backend whose queues have marks an act hands over when it is launched: whoever acts next on a slot,
//   on another queue of the process, waits behind its mark on the device, and the thread goes on. What
//   another process asks this one for hands over when it is done. What acts load, and what is watched, goes
//   by way of memory of the host that the device copies from and to: it is filled while the copies before are
//   in flight, and read when a mark has passed. All acts of a plan with open queues hand over when they are
//   done: a pull that was launched before its device's part of a collective, only because its input had been
//   launched, could wait for that very collective.
// - Acts of the timeline are between two marks that know the device's time, where a queue has such; else they
//   hand over when they are done.
// - With `graphs` the first step is run like that. The next ones are then recorded, each as one act of the
//   backend, as many as there are until every register is at the same slot once more, two or more (what has
//   no initial slots, and is read in the step that writes it, begins each at its first slot), and
//   launched in turn from there on. What acts load, and what is watched, goes by way of the recording's own
//   memory: the host fills it before a launch, and reads it when the step after it has been launched. Steps
//   that write checkpoints are run as the first one.
// - A collective, a pull or a wait that ends in an error ends the run: steps() throws the first one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "ir/plan.h"

namespace boxcar::actors {

// What acts of op "save" and "write" do. `steps`: how many steps had been made when a register held this.
struct Checkpoints {
  std::function<bool(int64_t steps)> due;  // nothing else is called where it says no; empty: never
  // A register's bytes, for "save".
  std::function<void(int device, const ir::Register& reg, int64_t steps, std::vector<std::byte> bytes)> save;
  // For "write". Whoever waits in it calls `check`, which throws where the run has ended.
  std::function<void(int device, int64_t steps, const std::function<void(const std::string& whom)>& check)>
      write;
};

// What a plan leaves to its driver. Called from queue threads, at most one call per device and actor at a
// time.
struct Hooks {
  // Fills a register's slot in host memory: when the runtime is made for initial and in-place registers (the
  // moment is step 0), and for each act of op "load" or "parameter". Where it is empty, they hold zeros.
  std::function<void(int device, const ir::Register& reg, const backends::Moment& moment,
                     std::span<std::byte> bytes)>
      fill;
  // After each act that wrote a register with this name, with its bytes in host memory: losses. In their
  // order; where acts are only launched, later than they are done, and not after steps() has returned.
  std::string watch;
  std::function<void(int device, const backends::Moment& moment, std::span<const std::byte> bytes)> watched;
  // The learning rate of a step.
  std::function<double(int64_t step)> learning_rate;
  Checkpoints checkpoints;
};

// One act as it happened; in queue order per device and queue.
struct RunAct {
  int device = 0, actor = 0;
  int64_t index = 0;          // which act of this actor since the runtime began
  double start = 0, end = 0;  // seconds since steps() was called first
};

struct RunOptions {
  int64_t seed = 0;
  bool timeline = false;
  int64_t timeline_from = 0;  // the first step whose acts are kept
  int64_t chaos = -1;         // 0 and up: a seed that permutes the delivery of messages and delays acts
  bool graphs = false;        // record steps and launch them as one act each, on backends that can
  bool probe = false;         // count held bytes at each act and refuse to exceed the plan's (Error, fault)
};

// Bytes that a runtime takes beside the arenas of a plan, by device (0 for other processes'): what sums,
// collectives and sends need. Throws Error (bad input) where the plan cannot be run.
std::vector<int64_t> scratch_bytes(const ir::Plan& plan, backends::Backend& backend);

class Runtime {
 public:
  // `plan` has passed ir::check and stays where it is, and so does `backend`, which serves this runtime
  // alone. Takes arena_bytes on every local device, and beside it what packing of collectives and sums need.
  // Throws Error (bad input) where the plan cannot be run, or not as options.graphs wants it.
  Runtime(const ir::Plan& plan, backends::Backend& backend, Hooks hooks, RunOptions options = {});
  ~Runtime();

  // Runs `count` more steps, the first of them step `first_step`, and blocks until their last act here has
  // ended. Throws the first error of any thread, naming device and actor (of its own kind where it is an
  // Error, else a fault); the runtime is then of no further use.
  void steps(int64_t count, int64_t first_step);

  // Between calls of steps(), on local devices: the newest slot of a register. Throws Error (bad input) for a
  // name that the device's program has not.
  std::vector<std::byte> read(int device, const std::string& reg) const;
  void write(int device, const std::string& reg, std::span<const std::byte> bytes);

  // Of the steps from options.timeline_from on; with options.timeline.
  const std::vector<RunAct>& timeline() const;
  // What registers came to, by local device (0 for others); with options.probe. Held: the most bytes at once,
  // which hangs on how queues happened to overlap. Peak: the end of the highest one in the arena, which does
  // not, and is all of it where no byte was planned for nothing.
  struct Memory {
    int64_t held = 0, peak = 0;
  };
  const std::vector<Memory>& memory() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace boxcar::actors
