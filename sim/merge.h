// Neighbouring acts of a compute queue as one activity: the acts that may merge, and the messages that their
// queue's order makes superfluous.
//
//   compute: norm qkv attention proj | all_reduce on net.tp | residual norm2 up gelu down | all_reduce ...
//   two groups a layer and direction: [norm qkv attention proj] [residual ... down]; the registers between
//   members need no messages
//
// A register is *implied* if its producer and all its readers are on one ordered queue, and the order of that
// queue over the schedule alone puts every read after its write and every write after the reads of the value
// that it overwrites. It needs no messages, in any run.
//
// A *group* is a run of acts of one phase that, once all its members are ready, run back to back and tell
// other queues nothing before the last one ends:
// - only the last member sends a req at every act to a reader on another queue;
// - an ack from a member before the last to another queue may wait for the last member's end, because its
//   receiver cannot use the slot before: the receiver also reads what a later act of this queue writes;
// - if a member sends only at every m-th act (a gradient accumulated over m acts, a weight read m times),
//   every m-th act of the group runs member by member: `moduli` lists these m.
// If not all members are ready when the group's turn comes, that act runs member by member. So merging
// changes no time, whatever the durations.
#pragma once

#include <vector>

#include "ir/plan.h"

namespace boxcar::sim {

struct Group {
  std::vector<int> actors;  // two or more, in order
  std::vector<int> moduli;  // act n is run member by member if n + 1 is a multiple of one of these
};

struct Merging {                 // of one program
  std::vector<char> implied;     // by register
  std::vector<int> last_reader;  // by implied register: its act gives the slot back; -1: nobody reads it
  std::vector<Group> groups;
};

// By program. Without merging: nothing implied, no groups.
std::vector<Merging> merge(const ir::Plan& plan);
std::vector<Merging> no_merging(const ir::Plan& plan);

}  // namespace boxcar::sim
