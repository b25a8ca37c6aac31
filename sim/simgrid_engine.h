// The process's one SimGrid engine. Our only header that includes SimGrid's, for virtual_time.cpp and
// fabric.cpp alone.
//
// SimGrid keeps its engine and its clock in globals and cannot make them anew, so this is a singleton,
// against our own rule. A run leaves behind a clock that has advanced and links for the next run.
#pragma once

#include <map>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>
// clang-format off
#include <simgrid/version.h>  // behind those: in 3.32 it needs them
// clang-format on

namespace boxcar::sim {

namespace s4u = simgrid::s4u;
namespace routing = simgrid::kernel::routing;

// Names differ between 3.32, 3.35 and 4.x. The rest of the difference is in fabric.cpp.
#if SIMGRID_VERSION >= 40000
inline s4u::Host* add_host(s4u::NetZone* zone, const std::string& name) { return zone->add_host(name, 1.0); }
inline s4u::Link* add_link(s4u::NetZone* zone, const std::string& name) { return zone->add_link(name, 1.0); }
// 4.x makes its own root, from which a zone takes its models.
inline void join_tree(s4u::Engine* engine, routing::NetZoneImpl* zone) {
  zone->set_parent(engine->get_netzone_root()->get_impl());
}
#else
inline s4u::Host* add_host(s4u::NetZone* zone, const std::string& name) {
  return zone->create_host(name, 1.0);
}
inline s4u::Link* add_link(s4u::NetZone* zone, const std::string& name) {
  return zone->create_link(name, 1.0);
}
inline void join_tree(s4u::Engine*, routing::NetZoneImpl*) {}  // the first zone is the root
#endif
#if SIMGRID_VERSION >= 33500
using Flow = s4u::Comm;  // whose end is signalled by the type of activity
#else
using Flow = s4u::Activity;
#endif

// Answers every route with the links of the flow being started.
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
  s4u::Link* link(size_t index);  // reused in the next run
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
