// All devices of a run as this process sees them.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "backends/communicator.h"
#include "backends/device.h"
#include "backends/transport.h"

namespace boxcar::backends {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual int devices() const = 0;
  // Devices are dealt to processes in even blocks: device d of n lies on process d * processes / n.
  virtual int process_of(int device) const = 0;
  virtual bool is_local(int device) const = 0;
  virtual Device& device(int device) = 0;  // a local one
  // A member's end of a group; `group` has the devices in rank order, `name` is the same for all members and
  // different for groups in use at once. Made on all members, in any order.
  virtual std::unique_ptr<Communicator> communicator(const std::string& name, std::span<const int> group,
                                                     int device, Queue& queue) = 0;
  virtual Transport* transport() = 0;  // null where this is the only process
  // Gives up: waits in communicators and in the transport, now and from here on, throw Error (fault) with
  // `why`, and other processes are told. From any thread; the first call counts.
  virtual void abort(const std::string& why) = 0;
};

}  // namespace boxcar::backends
