// The process's one SimGrid engine. The only header of ours that includes SimGrid's, for virtual_time.cpp and
// fabric.cpp alone.
//
// SimGrid keeps its engine and its clock in globals and makes neither anew, so this is a singleton, against
// our own rule; a run leaves behind a clock that has moved on and links to be used again.
#pragma once

#include <map>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace boxcar::sim {

namespace s4u = simgrid::s4u;
namespace routing = simgrid::kernel::routing;

// Answers every route with the links of the flow that is being started.
class AnyRouteZone : public routing::NetZoneImpl {
 public:
  explicit AnyRouteZone(const std::string& name) : NetZoneImpl(name) {}
  std::vector<simgrid::kernel::resource::StandardLinkImpl*> next;

  void get_local_route(const routing::NetPoint*, const routing::NetPoint*, routing::Route* into,
                       double* latency) override {
    into->link_list_ = next;
    *latency = 0;
  }
};

struct Listener {
  virtual ~Listener() = default;
  virtual void flow_ended(const s4u::Activity& flow) = 0;
};

struct Engine {
  s4u::Engine* engine = nullptr;
  AnyRouteZone* zone = nullptr;  // of the two hosts between which all flows run
  s4u::Host *from = nullptr, *to = nullptr;
  Listener* listener = nullptr;                            // of the run in flight
  std::map<std::string, std::vector<s4u::Host*>> fabrics;  // hosts, one a node, of the fabrics built so far

  Engine();
  s4u::Link* link(size_t index);  // handed out again in the next run
  // A zone outside the tree, which can still be built after the tree is sealed.
  AnyRouteZone* free_zone(const std::string& name) const;

 private:
  void create();
  void add_links();

  std::vector<s4u::Link*> links_;
  int batches_ = 0;
};

Engine& engine();  // made at the first call

}  // namespace boxcar::sim
