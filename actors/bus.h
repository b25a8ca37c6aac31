// The message bus as pure logic: the route of a message in Figure 7 of the paper, and the order in which each
// thread sees messages. It has no threads and no sockets. A driver polls it; threaded runtimes keep its
// rules.
//
//   same thread   -> the thread's local queue: the receiver takes it without polling       (Figure 7: 1)
//   same node     -> the bus puts it into the other thread's shared queue, which it polls  (2, 3)
//   other node    -> the bus hands it to the network
//                    and the other node's bus delivers it                                  (2, 5, 6, 7)
//
// The sender cannot tell the last two apart: it calls send(), which reads the receiver's address. Local
// messages are taken before shared ones. Messages between two actors arrive in the order in which they were
// sent.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "actors/actor.h"
#include "actors/address.h"

namespace boxcar::actors {

enum class Route : uint8_t { local, shared, network };
const char* to_text(Route route);
Route route(Address from, Address to);

struct Envelope {
  Address to;
  Message message;
  friend auto operator<=>(const Envelope&, const Envelope&) = default;
};

// The number of messages on each route.
struct Traffic {
  int64_t local = 0, shared = 0, network = 0;
  friend auto operator<=>(const Traffic&, const Traffic&) = default;
};

class Bus {
 public:
  // Routes a message and returns its route.
  Route send(Address from, const Envelope& envelope);
  // The network: takes the oldest message in flight from one node to the other and puts it into its thread's
  // shared queue. False if there is none.
  bool deliver(int from_node, int to_node);
  // The thread's next message, local ones first. False if there is none.
  bool next(int node, int thread, Envelope& envelope);
  // Messages sent and not yet taken by next().
  int64_t pending() const { return pending_; }
  const Traffic& traffic() const { return traffic_; }

 private:
  struct Queues {
    std::deque<Envelope> local, shared;
  };
  std::map<std::pair<int, int>, Queues> threads_;                // by node, thread
  std::map<std::pair<int, int>, std::deque<Envelope>> network_;  // by node from, node to
  Traffic traffic_;
  int64_t pending_ = 0;
};

}  // namespace boxcar::actors
