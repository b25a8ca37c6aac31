// All devices of a run as this process sees them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/communicator.h"
#include "backends/device.h"
#include "backends/transport.h"
#include "sbp/error.h"

namespace boxcar::ir {
struct Plan;
}

namespace boxcar::backends {

// The acts of a step, recorded instead of run. They then run as one act.
//
//   backend.record(false);                  // queues are idle
//   ... threads put the acts of a step on their queues, and wait for none ...
//   auto step = backend.recorded();
//   step->prepare({.step = 7}), step->launch();
//   step->prepare({.step = 8}), step->launch();    // the same acts on the same memory at another step
class Recording {
 public:
  virtual ~Recording() = default;
  // Waits until its earlier launches are done, then writes the values that depend only on the step into the
  // memory from which acts read them.
  virtual void prepare(const Moment& moment) = 0;
  // Launches its acts behind all earlier launches of this backend's recordings. No other queue waits for
  // them.
  virtual void launch() = 0;
  // Waits until its launches are done.
  virtual void finish() = 0;
};

// The runtime's use of a device beyond a plan's arena.
struct Beside {
  int64_t bytes = 0;
  int groups = 0;  // that the device is a member of
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual int devices() const = 0;
  // Devices are dealt to processes in even blocks: device d of n lies on process d * processes / n.
  virtual int process_of(int device) const = 0;
  virtual bool is_local(int device) const = 0;
  virtual Device& device(int device) = 0;  // a local one
  // A member's end of a group. `group` lists the devices in rank order. `name` is the same for all members
  // and differs between groups in use at once. Members may call it in any order.
  virtual std::unique_ptr<Communicator> communicator(const std::string& name, std::span<const int> group,
                                                     int device, Queue& queue) = 0;
  // Whether devices of different processes send and receive on their queues, which then have marks. Pulls
  // between them are then groups of two (actors/links.h) instead of messages of the transport.
  virtual bool sends() const { return false; }
  virtual Transport* transport() = 0;  // null if this is the only process
  // How the kernels prepared here are carried out, each way once; empty if there is only one way.
  virtual std::vector<Made> made() const { return {}; }
  // Throws Error (cannot run) if the plan's arenas, the most that kernels and libraries take in addition, and
  // `beside`, by device, exceed free memory. Called before any arena is reserved.
  virtual void expect_room(const ir::Plan& /*plan*/, std::span<const Beside> /*beside*/) {}
  // Announces the most groups and queues that a device of the plan has: the same in all processes, before a
  // group begins. Throws Error (cannot run) if that many cannot be in flight at once.
  virtual void expect_groups(int /*groups*/, int /*queues*/) {}
  // Throws Error (bad input), with the reason, if steps cannot be recorded.
  virtual void check_recording() const { throw Error::input("graphs of steps", "this backend has none"); }
  // With `in_order`, acts of groups follow one another in the order in which they are put on queues.
  virtual void record(bool /*in_order*/) {}
  virtual std::unique_ptr<Recording> recorded() { return nullptr; }
  // Gives up: all present and later waits in communicators and in the transport throw Error (fault) with
  // `why`, and other processes are told. From any thread; the first call counts.
  virtual void abort(const std::string& why) = 0;
};

}  // namespace boxcar::backends
