// The actor state machine as a pure transition: (state, message) -> (state, effects). No clock, no thread, no
// input or output; the simulator and the threaded runtimes both drive it.
//
// Counters are the paper's (section 4.2): an in counter per input (readable slots not yet consumed), an out
// counter per out register (free slots), a reference counter per slot (readers that still hold it). An act
// needs every in counter at its expected value and every out counter above zero. Sending req raises a slot's
// reference counter from zero to its number of readers and decrements the out counter; the last ack
// increments it again.
//
// Figure 6: a1 has 3 slots, a2 and a3 have 2. At time 0 a1 acts; at time 1 a1 and a2; at time 2 all three.
//
//   Actor a1({}, {{.count = 3, .consumers = 1}});
//   a1.ready();                    // true: out counter 3
//   a1.begin(); a1.end(effects);   // effects: req output 0, slot 0; out counter 2, reference counter 1
//   a1.receive({MessageKind::ack, 0, 0});  // out counter 3
//
// Messages between one producer and one consumer must arrive in the order in which they were sent (threads'
// queues and MPI keep it). Between different pairs, any order is allowed. An input that an actor updates in
// place (ir/plan.h) is not in its InSpecs and not in `consumers`.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "sbp/at.h"

namespace boxcar::actors {

// Connections of an actor for the state machine; fixed during a run.
struct InSpec {
  int repeat = 1;  // acts served by one slot
  int count = 1;   // slots of the register that is read
};
struct OutSpec {
  int count = 1;      // slots
  int initial = 0;    // slots readable at the start
  int every = 1;      // req after every `every`-th act
  int consumers = 0;  // readers of each slot
};

enum class MessageKind : uint8_t { req, ack };

// A message to one actor. `port` is the receiver's input for req, its output for ack. `slot` is the slot's
// number.
struct Message {
  MessageKind kind = MessageKind::req;
  int port = 0;
  int slot = 0;
  friend auto operator<=>(const Message&, const Message&) = default;
};

// A message that the driver sends when an act has ended: req to all consumers of output `port`, ack to the
// producer of input `port`.
struct Effect {
  MessageKind kind = MessageKind::req;
  int port = 0;
  int slot = 0;
  friend auto operator<=>(const Effect&, const Effect&) = default;
};

// Many actors in flat arrays, by number from 0, for a driver of a whole plan. After the last add() nothing
// allocates except the caller's `effects`. Not thread-safe; actors of different tables are independent.
class ActorTable {
 public:
  // Returns the new actor's number. Throws Error (bad input) on an impossible spec (a count below 1, ...).
  int add(std::span<const InSpec> ins, std::span<const OutSpec> outs);
  int size() const { return static_cast<int>(actors_.size()); }

  // The functions of Actor below, by number.
  void start(int actor, std::vector<Effect>& effects) const;
  // True if the message made the actor ready.
  bool receive(int actor, const Message& message);
  bool ready(int actor) const { return state(actor).waits_for == 0; }
  void begin(int actor);
  void end(int actor, std::vector<Effect>& effects);
  // Counts `acts` more acts of an actor whose counters are the same after them, for a driver that repeats a
  // periodic regime by arithmetic. Throws Error (fault) if a slot would meanwhile be sent or given back at a
  // rate (every, repeat above 1).
  void skip(int actor, int64_t acts);
  // Acts as if an actor had made `acts` more acts, and all messages of these acts and to it had been taken.
  // Counters do not change; only slots advance. Throws Error (fault) if a slot would then be partly written
  // or read.
  void advance(int actor, int64_t acts);
  // Makes the first slot of a register the next one, on the reader's and on the writer's side. Throws Error
  // (fault) unless all its slots have been written, read and given back.
  void rewind_in(int actor, int port);
  void rewind_out(int actor, int port);
  bool acting(int actor) const { return state(actor).acting; }
  int64_t acts(int actor) const { return state(actor).acts; }
  int in_counter(int actor, int port) const { return in(actor, port).readable; }
  int out_counter(int actor, int port) const { return out(actor, port).free; }
  int reference_counter(int actor, int port, int slot) const;
  int in_slot(int actor, int port) const;
  int out_slot(int actor, int port) const;

 private:
  // `waits_for` counts the inputs and outputs whose counter is zero, and 1 more while the actor acts.
  struct State {
    int32_t in_begin = 0, in_end = 0, out_begin = 0, out_end = 0;
    int32_t waits_for = 0;
    bool acting = false;
    int64_t acts = 0;
  };
  struct In {
    int32_t repeat = 1, count = 1;
    int32_t readable = 0;  // the in counter
    int32_t used = 0;      // acts that the current slot has served
    int32_t slot = 0;      // the slot to read
    int32_t next = 0;      // the slot that the next req must bring
  };
  struct Out {
    int32_t count = 1, every = 1, consumers = 0, initial = 0;
    int32_t free = 0;        // the out counter
    int32_t written = 0;     // acts that wrote into the current slot
    int32_t slot = 0;        // the slot to write
    int32_t references = 0;  // index of this output's first reference counter
  };

  const State& state(int actor) const { return at(actors_, actor); }
  const In& in(int actor, int port) const { return at(ins_, state(actor).in_begin + port); }
  const Out& out(int actor, int port) const { return at(outs_, state(actor).out_begin + port); }
  void take_req(int actor, const Message& message);
  void take_ack(int actor, const Message& message);
  [[noreturn]] void not_ready(int actor) const;

  std::vector<State> actors_;
  std::vector<In> ins_;
  std::vector<Out> outs_;
  std::vector<int32_t> references_;
};

// One actor by itself.
class Actor {
 public:
  Actor(std::vector<InSpec> ins, std::vector<OutSpec> outs) { table_.add(ins, outs); }

  // The reqs for `initial` slots, to be sent before anything runs.
  std::vector<Effect> start() const;
  // Takes a message. Throws Error (fault) on one that the protocol forbids (an ack for a free slot, ...).
  void receive(const Message& message) { table_.receive(0, message); }
  // Whether every in counter is at its expected value, every out counter is above zero, and it is not acting.
  bool ready() const { return table_.ready(0); }
  // Begins an act: from here to its end it reads in_slot() and writes out_slot(). Throws Error (fault),
  // naming the counter that is zero, unless ready().
  void begin() { table_.begin(0); }
  // Ends it: appends reqs, then acks, to `effects`. Throws Error (fault) unless acting().
  void end(std::vector<Effect>& effects) { table_.end(0, effects); }

  bool acting() const { return table_.acting(0); }
  int64_t acts() const { return table_.acts(0); }  // acts ended
  int in_counter(int port) const { return table_.in_counter(0, port); }
  int out_counter(int port) const { return table_.out_counter(0, port); }
  int reference_counter(int port, int slot) const { return table_.reference_counter(0, port, slot); }
  // The slot that the current or next act reads; -1 if none is readable.
  int in_slot(int port) const { return table_.in_slot(0, port); }
  // The slot that the current or next act writes; -1 if none is free.
  int out_slot(int port) const { return table_.out_slot(0, port); }

 private:
  ActorTable table_;
};

}  // namespace boxcar::actors
