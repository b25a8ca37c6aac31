// The plan: the physical graph that every backend runs. It consists of actors, registers, queues and groups.
// There is one program per kind of rank, so the length of a plan for 1,024 devices depends only on its
// distinct programs.
//
// A *program* is what one rank does. A *class* is a set of devices that run one program. Programs name no
// devices: traffic between devices goes through `comms` (which devices form a communicator group) and `peers`
// (which device another one pulls from).
//
//   one step = for each program, its `schedule`: a list of (phase, micro-batch). An actor belongs to one
//   phase and acts once each time that phase runs. A queue's fixed order over a step is the schedule, and in
//   each phase the queue's actors in program order. That order repeats every step.
//
// Rates. `Register::every = m`: the producer writes into one slot over m acts and sends req after the m-th
// (accumulate m to 1). `Input::repeat = m`: the consumer reads one slot over m acts and sends ack after the
// m-th (repeat 1 to m).
//
// Tokens. `Register::initial` slots are readable before the first step (weights from before training).
// Version v of a register is its initial slot v for v < initial, else the result of the producer's act (v -
// initial) x every and the `every` - 1 acts after it. It lies in slot v mod count; act j of a consumer reads
// version j / repeat.
//
// In place. An actor that also writes a register it reads (adam: w, g, m, v -> w, m, v) updates it: that
// input takes no message and no credit, and act i reads what act i - 1 left there. Such a register has count
// 1 and every = 1, its value before training lies in its slot. `initial` is 1 if other readers run before the
// update in a step, 0 if they run after it (they then see the new value in the same step). A collective with
// the attribute in_place=true and no output but a control register writes its results over its inputs:
// readers of a result read the input's register and the control register.
//
// Turns. A pull with a `source_queue` also holds that queue of its source device while it acts. If the queue
// is ordered, the turn comes after the act that made the slot readable: in the same phase run, after the
// actors up to the producer in program order. Turns at the same place are ordered by (puller's program,
// actor, device). The pulled register then has no initial slots.
//
// Joint acts. A collective is one act of all members of its group. It begins when every member is ready and
// has reached it in its queue. A queue, ordered or not, runs one act at a time; it waits until the act whose
// turn it is can run. Collectives and pulls with a turn need ordered queues.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"
#include "ir/op_kind.h"
#include "ir/types.h"
#include "sbp/at.h"
#include "sbp/boxing.h"

namespace boxcar::ir {

enum class QueueKind : uint8_t { compute, copy_in, copy_out, network, disk, host };
enum class MemoryKind : uint8_t { parameters, gradients, optimizer, activations, workspace };
inline constexpr int memory_kinds = 5;
enum class ActorKind : uint8_t {
  kernel,      // a registry op on local tensors
  collective,  // a joint act of a communicator group
  pull,        // reads a register of a peer device into one of its own
  copy,        // between host and device memory
  host,        // data loading, checkpoint writing
};
const char* to_text(QueueKind kind);
const char* to_text(MemoryKind kind);
const char* to_text(ActorKind kind);

// A credit-counted container for one local tensor.
struct Register {
  std::string name;
  TensorType type;    // one slot
  int64_t bytes = 0;  // one slot, rounded up to the arena's alignment; 0 for pure control (a control edge)
  int64_t host_bytes = 0;  // one slot, if slots lie in memory of the host; then `bytes` is 0
  int count = 1;           // slots: the credit
  int initial = 0;         // slots readable before the first step
  int every = 1;           // req after every `every`-th act of the producer
  int producer = -1;       // actor index in this program
  MemoryKind memory = MemoryKind::activations;
  // Of slot 0 in the device's arena, or in the host's memory for it; slots lie one after the other.
  int64_t offset = -1;
  // Smaller than its type: written over an operand, or kept in fewer bits, as in some frameworks. Such a plan
  // can be simulated but not run.
  bool over = false;
};

// A control edge: no data, whatever its type says.
inline bool is_control(const Register& reg) {
  return reg.bytes == 0 && reg.host_bytes == 0 && reg.type.elements() > 0;
}
// Of one slot, wherever it lies.
inline int64_t slot_bytes(const Register& reg) { return reg.bytes + reg.host_bytes; }

struct Input {
  int reg = -1;      // register index, in this program or in `program`
  int repeat = 1;    // acts of the consumer that one slot serves
  int program = -1;  // for a pull: the producer's program
  int peers = -1;    // for a pull: index into Plan::peers
  std::optional<sbp::Shape>
      view;  // shape in which the op reads the slot if a reshape was dropped; same number of elements
};

struct Actor {
  std::string name;  // "h3.attn.qkv", "h3.attn.proj.all_reduce"
  ActorKind kind = ActorKind::kernel;
  std::string op;  // registry name for kernels; "all_reduce", "pull", "load" otherwise
  Attrs attrs;     // local ones
  std::vector<Input> inputs;
  std::vector<int> outputs;  // register indices
  int queue = 0;
  int phase = 0;
  int layer = -1;     // block of the model that it works for, -1: none or several
  std::string moves;  // for collectives and pulls of one tensor: its name within the layer, "ln2.grad"
  // For collectives: the kind and the members. Actors of different programs with the same comm and the same
  // `joint` name act together; within one program, the members of a group act together.
  sbp::Collective collective = sbp::Collective::none;
  int comm = -1;
  std::string joint;       // empty: the actor's name
  int64_t comm_bytes = 0;  // the larger of one rank's input and output, in bytes (of a pull: the bytes moved)
  int64_t workspace = 0;   // scratch bytes while it acts
  int source_queue = -1;   // for a pull: queue of the producer's program that also takes a turn, -1: none
  // A double attribute "seconds" fixes how long an act takes; tests use it with op "test".

  bool is(OpKind its_kind) const { return kind_of(op) == its_kind; }
};

struct Queue {
  std::string name;  // "compute", "net.tp", "net.pp.forward"
  QueueKind kind = QueueKind::compute;
  bool ordered = true;  // false: the first ready actor acts (the order is open)
};

// Work of a phase: a pass runs for each micro-batch, the others once in a step. `weight` is the second part
// of a split backward pass, the gradients of parameters; `reduce` sums gradients over devices.
enum class PhaseKind : uint8_t { forward, backward, weight, reduce, update, other };

// Its text is its name, which gives the kind and, for a pass, the chunk of the model: F0, B1, W1, G, U. A
// plan without chunks may omit their numbers (F, B). Any other name has kind other.
struct PlanPhase {
  std::string name;
  PhaseKind kind = PhaseKind::other;
  int chunk = 0;

  PlanPhase(std::string text);  // NOLINT: a phase reads as its name
  PlanPhase(const char* text) : PlanPhase(std::string(text)) {}
  PlanPhase(PhaseKind its_kind, int its_chunk);  // not other
  bool is_pass() const { return kind <= PhaseKind::weight; }
};

struct PhaseRun {
  int phase = 0;
  int micro_batch = 0;
  friend auto operator<=>(const PhaseRun&, const PhaseRun&) = default;
};

struct Program {
  std::string name;                // "stage0"; "stage0.1" if ranks of a stage run several programs
  std::vector<PlanPhase> phases;   // F0, B0, U
  std::vector<PhaseRun> schedule;  // of one step; text run-length encodes it
  std::vector<Queue> queues;
  std::vector<Register> registers;
  std::vector<Actor> actors;      // in program order, which a queue follows inside a phase
  int64_t arena_bytes = 0;        // device memory of all registers and workspaces
  int64_t workspace_offset = -1;  // the workspace shared by all actors of the compute queue
  int64_t workspace_bytes = 0;
  int64_t host_bytes = 0;              // memory of the host for all registers that lie there
  int stage = -1;                      // of the pipeline; -1: the program belongs to no stage
  int acts_per_step(int actor) const;  // runs of its phase in the schedule; O(schedule)
  const PlanPhase& phase_of(const Actor& actor) const { return at(phases, actor.phase); }
};

struct RankClass {
  int program = 0;
  std::vector<int> devices;  // global ids, ascending
  friend bool operator==(const RankClass&, const RankClass&) = default;
};

// Disjoint groups of devices that form communicators, in rank order.
struct Comm {
  std::string name;  // "tp", "dp"
  std::vector<std::vector<int>> groups;
};

// source[d]: the device that device d pulls from; -1: none.
struct Peers {
  std::string name;
  std::vector<int> source;
};

struct Plan {
  std::string name;
  int devices = 0;
  int micro_batches = 1;
  std::vector<Program> programs;
  std::vector<RankClass> classes;  // every device in exactly one class
  std::vector<Comm> comms;
  std::vector<Peers> peers;
  // Facts of one step, for reporting: samples, tokens, model_flops, hardware_flops, ...
  std::map<std::string, double> facts;
  // The resolved configuration it was compiled from, by key: "cluster.preset" -> "dgx-a100-80g". Values have
  // no newline.
  std::map<std::string, std::string> labels;
};

// Text has one form and reads back: parse_plan(to_text(p)) gives the same text. For its short notations see
// ir/plan_notation.h.
//
//   plan pair
//   devices 4
//   micro_batches 8
//   fact samples = 8
//   label cluster.preset = dgx-a100-40g
//   comm dp: groups 2 by 2, ranks 2 by 1
//   peers forward: 2-3 from 0-1
//   class 0-1: first
//   class 2-3: second
//
//   program first stage 0
//     arena 12288
//     workspace 4096 @8192
//     phases F, U
//     schedule F[0-7] U
//     queue compute: compute
//     queue net: network
//     %w: float32[16, 16] x1 parameters initial 1 @0
//     %y: float32[4, 16] x2 activations bytes 512 @1024
//     mm matmul(%x, %w repeat 8) {transpose_b=true} -> %y on compute in F workspace 4096
//     ar all_reduce(%g as [256]) -> %s on net in U over dp joint grads bytes 1024
//   ...
//     p pull(%y of first via forward) -> %x on net in F bytes 256 turn net
//
// A register's `bytes` is written if it differs from its type's, then `over` if it is written over an operand
// (%y: float32[4, 16] x1 activations bytes 512 over @1024). A register in host memory has `host` and its
// bytes there instead (%y.host: float32[4, 16] x3 activations host 512 @0), and its program has a line
// `host_memory`. An actor's kind stands before its op unless the
// op implies it: op pull is a pull, a collective's name a collective, any other op a kernel.
std::string to_text(const Plan& plan);
Plan parse_plan(std::string_view text);  // throws Error with line and column

// The type that an actor reads `input` as: that of the register, with the input's view if it has one.
inline TensorType input_type(const Register& reg, const Input& input) {
  return {input.view ? *input.view : reg.type.shape, reg.type.dtype};
}

// Whether an act is a kernel of the host, over registers in its memory.
inline bool runs_on_host(const Program& program, const Actor& actor) {
  return actor.kind == ActorKind::kernel && at(program.queues, actor.queue).kind == QueueKind::host;
}

// Limits that check() puts on a plan.
constexpr int64_t most_bytes = int64_t{1} << 60;  // of anything in a program
constexpr int most_devices = 1 << 20;
constexpr int64_t most_actors = int64_t{1} << 24;  // of all classes, each counted as one device
constexpr int64_t most_acts = int64_t{1} << 30;    // of these in a step
// Bytes of all registers of a program, on the device and in host memory; a double, since the sum may overflow
// 64 bits.
double register_bytes(const Program& program);

// Local consistency: indices in range, one producer per register, every device in one class, comm groups
// disjoint; a phase runs once in a step, for micro-batch 0, or once for each micro-batch. Runs of two phases
// that hand over data without initial slots do so within one micro-batch. Sizes fit in 64 bits, and the
// unfolded plan stays within the limits above. Throws Error (bad input) naming program and actor.
// (planner::verify checks deadlock and memory.)
void check(const Plan& plan);

// Checks the types of a plan that has passed check(): a slot holds its type, or is `over` an operand; a
// kernel's operands and attributes on every rank give its results, by the registry; a collective's members
// give and get the right parts, in one element type, along the axes in its attributes; a pull writes what it
// reads, or the block in its attributes. Ops outside the registry that give their own "seconds" are not
// checked. Throws Error (bad input) naming program and actor.
void check_types(const Plan& plan);

// Unfolded counts over all devices.
struct PlanSize {
  int64_t actors = 0, registers = 0, queues = 0, groups = 0, acts_per_step = 0;
};
PlanSize size_of(const Plan& plan);

}  // namespace boxcar::ir
