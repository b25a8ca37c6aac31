// Pulls between processes that the devices carry out themselves, on backends that can (Backend::sends): one
// device sends, the other receives, and nothing goes through a host's memory.
//
// A *link* has the pulls that one queue of a device makes from one device of another process. It is a group
// of two, the owner (rank 0) and the puller (rank 1). At the owner it has its own queue. Two stages in 1F1B
// order, device 0 of process 0 and device 1 of process 1, where x is the output of F on the first stage and
// dx that of B on the second:
//
//   net.pp.forward of 1 from 0:   device 0 sends x[0] x[1] x[2] ..., device 1 receives them on net.pp.forward
//   net.pp.backward of 0 from 1:  device 1 sends dx[0] dx[1] ..., device 0 receives them on net.pp.backward
//
//   device 0   compute             F[0]   F[1]   B[0]   F[2] ...
//              link to 1              x[0]   x[1]          x[2] ...     each after the mark of its F
//              net.pp.backward     dx[0]         dx[1] ...              B[0] waits for the mark of dx[0]
//   device 1   net.pp.forward      x[0]   x[1]   x[2] ...
//              compute                 F[0]   B[0]   F[1]   B[1] ...
//              link to 0                         dx[0]         dx[1] ...
//
// Order. A link sends in the order in which the puller's queue takes its pulls, on its own thread, so both
// ends call in one order. A send and its receive wait for the act that filled the slot, for a free slot at
// the puller, and for the acts before the pull on the puller's queue, as the pull does in the plan. (A turn
// on the owner's queue is not taken; it could only add to that.) Orders of different links are independent.
// The proof by planner::verify that the plan ends therefore holds for them, both ways between two stages, and
// with several chunks of the model on each. In recorded steps, links and collectives of all queues may also
// keep one order (turns.h).
//
// Words. When a receive's turn has come and everything that it waits for has been launched, its thread sends
// a word to the owner's process, as a message of the transport, and waits only for the answer. The owner's
// thread launches the send when the slot is full and the word has come, and then answers; the puller's
// launches the receive at once:
//
//   owner's thread    slot full ...... send launched, answer .........
//   puller's thread   turn, word ......................... receive launched
//
// So a GPU is in a send or a receive only while both and everything that they wait for are launched. Their
// end never requires the launch of a further act of the plan. By induction over launches in the order of the
// hosts' calls, each of them ends, regardless of other launches: an act on a stream waits for acts that were
// launched before; a receive waits for its send, which was launched before; a send waits for its receive,
// which is launched next by a thread that waits for nothing else. For this, a launch must not wait for the
// GPU. A kernel's first launch may load it, which waits until the GPU is idle and keeps the other threads
// from launching. So the runtime runs every kernel once before the first group begins. Recordings are
// launched whole: they load nothing, and all processes launch the same ones in one order. (This does not
// cover collectives: a collective waits for calls of other members that their hosts may not have reached.)
//
// Credits. The owner is told that a slot has been read when the slot's send is launched; the slot is written
// again after the send's mark. So no process is ahead of another by more acts than the slots between them
// allow, even if its GPU is far behind, and a process that loads its acts' inputs waits for its GPU.
//
// Steps. Pulled registers have no initial slots, so every receive of a step is sent in the same step, and no
// word is in flight between steps. Recorded steps need no words; recording them does, as acts do.
//
// Set-up. connections() send a byte over each link, so that the connections exist before the first step.
//
// Pulls (pulls.h) carries out the other pulls: between devices of a process, of registers with initial slots,
// of plans with open queues.
//
//   Links links(state, pulls);                // listens; before the transport starts
//   links.prepare(0, scratch);  links.prepare(1, pull, queue, byte);         // each process: its own devices
//   ... connections() ...
//   links.sender(1, pull)->heard_by(mailbox, actor, port);
//   links.run(0, steps);                      // on a thread of each link that sends
//   links.sender(1, pull)->offer(slot);       // by the thread that launched the act that filled it
//   links.receive(1, pull, to, bytes);        // by the thread of the puller's queue
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/mailbox.h"
#include "actors/pulls.h"
#include "actors/run_state.h"
#include "actors/turns.h"

namespace boxcar::actors {

class Links {
  struct Link;

 public:
  // The owner's end of a pull.
  class Sender {
   public:
    // Sets the receiver of acks: an actor of a thread of this process, at an output port.
    void heard_by(Mailbox& mailbox, int actor, int port) {
      mailbox_ = &mailbox, actor_ = actor, port_ = port;
    }
    // Called when the slot is full and its mark is set.
    void offer(int slot);

   private:
    friend class Links;
    struct Full {
      int slot = 0;
      SlotMarks::Mark written;
    };

    RunState* state_ = nullptr;
    Link* link_ = nullptr;
    const Pulls::Pull* pull_ = nullptr;
    std::string name_;   // "device 0: h1.in.pull for device 1"
    size_t reader_ = 0;  // its index among the register's readers
    int puller_ = 0, pull_actor_ = 0;
    int repeat_ = 1, sent_ = 0;
    Mailbox* mailbox_ = nullptr;
    int actor_ = 0, port_ = 0;
    std::deque<Full> full_;  // guarded by the link's lock
  };

  Links(RunState& state, const Pulls& pulls, Turns& turns);
  ~Links();

  // True if a pull goes over a link; the same in all processes.
  static bool has(const RunState& state, int device, int actor);

  // Listens for words of the other ends. Called before the transport starts.
  void listen();

  // --- of owners in this process
  // The memory that the sends of a device need.
  int64_t scratch_bytes(int device) const;
  void prepare(int device, std::byte* scratch);
  Sender* sender(int device, int actor) { return senders_.at({device, actor}).get(); }

  // size() is the number of links that send from this process. run() does `count` steps of one, on the link's
  // own thread. An error stops the run.
  int size() const { return static_cast<int>(sending_.size()); }
  void run(int link, int64_t count);

  // --- of pullers in this process
  // Makes the communicator with which a pull receives. `queue` outlives it. The set-up may write to `byte`.
  void prepare(int device, int actor, backends::Queue& queue, std::byte* byte);
  // Receives the pull's bytes, on the queue.
  void receive(int device, int actor, std::byte* to, int64_t bytes);

  // --- of both
  std::vector<Connection> connections();

 private:
  using Key = std::tuple<int, int, int>;  // owner, puller, the puller's queue
  // A message from one end to the other.
  struct Word {
    int32_t owner = 0, puller = 0, queue = 0;
  };
  Key key(int device, int actor) const;
  void say(const Link& link);
  void wait_for_word(Link& link, const std::string& act);
  void send(Sender& sender);

  RunState& state_;
  Turns& turns_;
  std::map<Key, std::unique_ptr<Link>> links_;                      // links with an end here
  std::map<std::pair<int, int>, std::unique_ptr<Sender>> senders_;  // by puller's device and actor
  std::vector<Link*> sending_;
};

}  // namespace boxcar::actors
