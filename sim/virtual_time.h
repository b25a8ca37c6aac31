// The clock and the links of a simulation: SimGrid behind two verbs. A wait ends at a given tick; a flow
// carries bytes over links that it shares with other flows by max-min fairness.
//
//   VirtualTime time;
//   int link = time.add_link(1e9);                  // bytes/s
//   time.wait(to_ticks(1), 7);                      // tag 7 at 1 s
//   time.flow({{link}}, 1e9, 8);                 // two flows of 1 GB on one link of 1 GB/s:
//   time.flow({{link}}, 1e9, 9);                 // tags 8 and 9 at 2 s
//   time.run([](Ticks now, std::span<const int> tags) { ... });
//
// SimGrid allows one engine in a process, which cannot be made anew, so all runs of a process share one and
// each run counts from the engine's clock at its start. Links are SimGrid links without latency (shares
// depend on a route's latency even in the CM02 model); a route is any list of links, and naming a link k
// times makes a flow weigh k on it, as k flows at that rate would. SimGrid's own routing needs a table of all
// pairs of hosts; here our own zone answers with the route of the flow being started. No simulated process is
// created, so there are no context switches: waits are SimGrid timers and flows report their end.
//
// While no flow is in flight the engine's clock stands still and waits pass without it: an exact shortcut
// that also keeps the clock, a double, precise over many runs. Durations of flows are rounded to 2^-32 s
// (0.23 ns), as that clock is not exact to the tick. Not thread-safe, one at a time in a process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "sim/ticks.h"

namespace boxcar::sim {

class VirtualTime {
 public:
  VirtualTime();  // throws Error (fault) while another one lives
  ~VirtualTime();
  VirtualTime(const VirtualTime&) = delete;
  VirtualTime& operator=(const VirtualTime&) = delete;

  int add_link(double bytes_per_second);
  // Ends at tick `until`, not before now. Tags need not be unique.
  void wait(Ticks until, int tag);
  // Starts now; `links` may repeat. No bytes or no links: ends now. (SimGrid ignores a rate bound on such
  // flows; give a flow that has one a link of its own.)
  void flow(std::span<const int> links, double bytes, int tag);

  // Calls `step` at every instant at which something ends, with the tags that end then, ascending, until
  // nothing is left or stop(). An exception from `step` ends the run and is thrown from here.
  using Step = std::function<void(Ticks now, std::span<const int> tags)>;
  void run(const Step& step);
  // From within a step: no further step is taken; flows in flight are forgotten.
  void stop();

  // From within a step: moves everything in flight `ticks` into the future, and now() with it, as if that
  // time had passed without an event.
  void skip(Ticks ticks);
  // Bytes that a flow with this tag has left; 0 if there is none.
  double bytes_left(int tag) const;

  Ticks now() const;
  int64_t events() const;  // waits and flows ended

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace boxcar::sim
