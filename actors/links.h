// Pulls between processes that their devices carry out themselves, on backends that can (Backend::sends):
// the one sends, the other receives, nothing goes by way of a host's memory, and the processes exchange no
// message.
//
// A *link* has the pulls that one queue of a device makes from one device of another process. It is a group
// of two, the owner (rank 0) and the puller (rank 1); at the owner it has a queue of its own. Two stages in
// 1F1B order, device 0 of process 0 and device 1 of process 1, where x is what F makes of the first stage
// and dx what B makes of the second:
//
//   net.pp.forward of 1 from 0:   device 0 sends x[0] x[1] x[2] ..., device 1 receives them on net.pp.forward
//   net.pp.backward of 0 from 1:  device 1 sends dx[0] dx[1] ..., device 0 receives them on net.pp.backward
//
//   device 0   compute             F[0]   F[1]   B[0]   F[2] ...
//              link to 1              x[0]   x[1]          x[2] ...     each behind the mark of its F
//              net.pp.backward     dx[0]         dx[1] ...              B[0] waits for the mark of dx[0]
//   device 1   net.pp.forward      x[0]   x[1]   x[2] ...
//              compute                 F[0]   B[0]   F[1]   B[1] ...
//              link to 0                         dx[0]         dx[1] ...
//
// Order. A link sends in the order in which the puller's queue takes its pulls: what an act has filled is
// offered, and sent as soon as it is next, by the thread that offers it. So both ends call in one order, and
// a send and its receive wait, on the host as on the devices, for the act that filled the slot, for a free
// slot at the puller, and for the acts before the pull on the puller's queue: for what the pull itself waits
// for in the plan, and nothing else as far as the device's streams run independently of one another. (A turn
// on the owner's queue is not taken; it could only add to that.) Orders of different links have nothing to do
// with each other. What planner::verify has proved of the plan, that it ends, therefore holds for them, both
// ways between two stages, and with several chunks of the model on each.
//
// Credits. The owner hears that a slot has been read when its send is launched, and behind the send's mark it
// is written again. The puller's input always is readable: its receive waits on the device.
//
// Steps. What is pulled has no initial slots, so what a step receives is sent in the same step; recorded
// steps need no message on the way, and each end's recording has its part of the link.
//
// Set-up. connect() sends a byte over each link, in one order of all links of the plan, which each process
// walks: calls in a step find their connection and do not wait for the other end on the host.
//
// Other pulls are Pulls': between devices of a process, of registers with initial slots, of plans with open
// queues (where a receive that is launched early could hold up what its send waits for).
//
//   Links links(state, pulls);
//   links.prepare(0, scratch);  links.receiver(1, pull, queue, byte);     // by each its own devices
//   links.connect();
//   links.sender(1, pull)->heard_by(mailbox, actor, port);
//   links.sender(1, pull)->offer(slot);       // by the thread that has launched the act that filled it
//   links.receiver(1, pull)->receive_from(to, bytes, 0);                     // by that of the puller's queue
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/mailbox.h"
#include "actors/pulls.h"
#include "actors/run_state.h"

namespace boxcar::actors {

class Links {
  struct Link;

 public:
  // The owner's end of a pull.
  class Sender {
   public:
    // Who gets the acks: an actor of a thread of this process, at an output port.
    void heard_by(Mailbox& mailbox, int actor, int port) {
      mailbox_ = &mailbox, actor_ = actor, port_ = port;
    }
    // The slot is full, and its mark is set.
    void offer(int slot);

   private:
    friend class Links;
    struct Full {
      int slot = 0;
      SlotMarks::Mark written;
    };
    void send();

    RunState* state_ = nullptr;
    Link* link_ = nullptr;
    const Pulls::Pull* pull_ = nullptr;
    std::string name_;   // "h1.in.pull for device 1"
    size_t reader_ = 0;  // of the register's
    int repeat_ = 1, sent_ = 0;
    Mailbox* mailbox_ = nullptr;
    int actor_ = 0, port_ = 0;
    std::deque<Full> full_;
  };

  Links(RunState& state, const Pulls& pulls);
  ~Links();

  // Whether a pull goes over a link; the same in all processes.
  static bool has(const RunState& state, int device, int actor);

  // --- of owners here
  // Memory that the sends of a device need.
  int64_t scratch_bytes(int device) const;
  void prepare(int device, std::byte* scratch);
  Sender* sender(int device, int actor) { return senders_.at({device, actor}).get(); }

  // --- of pullers here
  // The communicator that a pull receives by; `queue` outlives it, and into `byte` connect() may write.
  backends::Communicator* receiver(int device, int actor, backends::Queue& queue, std::byte* byte);

  // Once the transport has started. Waits for the other ends.
  void connect();
  // Waits until all that was offered has been sent.
  void finish();

 private:
  using Key = std::tuple<int, int, int>;  // owner, puller, the puller's queue
  Key key(int device, int actor) const;

  RunState& state_;
  std::map<Key, std::unique_ptr<Link>> links_;                      // that have an end here
  std::map<std::pair<int, int>, std::unique_ptr<Sender>> senders_;  // by puller's device and actor
};

}  // namespace boxcar::actors
