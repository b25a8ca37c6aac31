// The actor state machine as a pure transition: (state, message) -> (state, effects). No clock, no thread, no input
// or output; the simulator and the threaded runtimes both drive it.
//
// Counters are the paper's (section 4.2): an in counter per input (readable slots not yet consumed), an out counter
// per out register (free slots), a reference counter per slot (readers that still hold it). An act needs every in
// counter at its expected value and every out counter above zero.
//
// Figure 6: a1 has 3 slots, a2 and a3 have 2. At time 0 a1 acts; at time 1 a1 and a2; at time 2 all three.
#pragma once

#include <cstdint>
#include <vector>

namespace boxcar::actors {

// What the machine needs of an actor's connections; fixed while it runs.
struct InSpec {
  int repeat = 1;      // acts served by one slot
};
struct OutSpec {
  int count = 1;       // slots
  int initial = 0;     // slots readable at the start
  int every = 1;       // req after every `every`-th act
  int consumers = 0;   // how many readers each slot gets
};

enum class MessageKind : uint8_t { req, ack };

// A message to one actor. `port` is the receiver's input for req, its output for ack; `slot` which slot.
struct Message {
  MessageKind kind = MessageKind::req;
  int port = 0;
  int slot = 0;
};

// What finishing an act asks the driver to send: req to all consumers of output `port`, ack to the producer of
// input `port`.
struct Effect {
  MessageKind kind = MessageKind::req;
  int port = 0;
  int slot = 0;
};

class Actor {
 public:
  Actor(std::vector<InSpec> ins, std::vector<OutSpec> outs);

  // The reqs for `initial` slots, to be sent before anything runs.
  std::vector<Effect> start();
  // Takes a message. Throws Error (fault) on one that the protocol forbids (an ack for a free slot, ...).
  void receive(const Message& message);
  // Every in counter at its expected value, every out counter above zero, not acting.
  bool ready() const;
  // Begins an act: takes slots. Requires ready().
  void begin();
  // Ends it: appends reqs, then acks, to `effects`.
  void end(std::vector<Effect>& effects);

  bool acting() const;
  int64_t acts() const;              // acts ended
  int in_counter(int port) const;
  int out_counter(int port) const;
  int reference_counter(int port, int slot) const;
  int in_slot(int port) const;       // the slot that the current or next act reads; -1 if none
  int out_slot(int port) const;      // the slot that the current or next act writes; -1 if none
};

}  // namespace boxcar::actors
