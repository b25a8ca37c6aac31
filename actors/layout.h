// The places where the actors of a plan run, and their connections. Every process of a run computes the same
// from the plan.
//
// A process has one thread per queue of its devices that any actor is bound to, numbered by device, then
// queue. An actor's address is (process, thread, queue, place among the actors of its queue). Its input ports
// are its inputs that it does not update in place.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/address.h"
#include "ir/plan.h"
#include "sbp/at.h"

namespace boxcar::actors {

using ir::is_control;

class Layout {
 public:
  // REQUIRES: `plan` outlives this and has passed ir::check.
  Layout(const ir::Plan& plan, const std::function<int(int device)>& process_of);

  struct Thread {
    int device = 0, queue = 0;
    std::vector<int> actors;  // of the program, in its order
    std::vector<int> order;   // over one step, as places in `actors`
  };
  struct Place {  // an actor's port
    int device = 0, actor = 0, port = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };

  const ir::Plan& plan() const { return plan_; }
  int program_index(int device) const { return at(program_, device); }
  const ir::Program& program(int device) const { return at(plan_.programs, program_index(device)); }
  std::vector<Thread> threads(int process) const;
  Address address(int device, int actor) const;
  // The port of an input; -1: updated in place.
  int in_port(int device, int actor, size_t input) const;
  bool in_place(int device, int reg) const;
  // readers(): the ports that get a req for a register's slots. producer(): the port that gets the ack of an
  // input.
  std::vector<Place> readers(int device, int reg) const;
  // The index of the reader at `place`.
  size_t reader(int device, int reg, const Place& place) const;
  Place producer(int device, int actor, size_t input) const;
  // The device whose register an input reads.
  int source(int device, const ir::Input& input) const;
  // The attributes on this rank; complete if the registry has the op.
  ir::Attrs attrs(int device, const ir::Actor& actor) const;
  // The members of a collective in rank order: device and actor. communicator() is the name shared by these
  // members' acts on the same queues.
  std::vector<std::pair<int, int>> members(int device, const ir::Actor& actor) const;
  std::string communicator(int device, const ir::Actor& actor) const;

 private:
  int64_t coordinate(const std::string& dim, int device) const;
  const std::vector<int>& group(int device, const ir::Actor& actor) const;

  const ir::Plan& plan_;
  std::function<int(int)> process_of_;
  std::vector<int> program_, first_, rank_;                        // by device; rank in its class
  std::vector<std::vector<int>> thread_;                           // by device and queue; -1: no actors
  std::vector<std::vector<int>> number_;                           // by program and actor
  std::vector<std::vector<std::vector<Place>>> local_readers_;     // by program and register
  std::map<std::pair<int, int>, std::vector<Place>> pulls_;        // by device and register
  std::vector<std::map<std::pair<int, std::string>, int>> joint_;  // by program: comm, joint name -> actor
};

}  // namespace boxcar::actors
