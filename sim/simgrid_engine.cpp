#include "sim/simgrid_engine.h"

#include <csignal>

namespace boxcar::sim {
namespace {

constexpr int links_per_zone = 256;

#if SIMGRID_VERSION >= 33500
constexpr const char* timing_precision = "--cfg=precision/timing:1e-12";
#else
constexpr const char* timing_precision = "--cfg=surf/precision:1e-12";
#endif

// The network model without corrections (design, section 5), and no output.
constexpr const char* arguments[] = {"boxcar",
                                     "--log=root.thres:critical",
                                     "--cfg=network/model:CM02",
                                     "--cfg=network/latency-factor:1",
                                     "--cfg=network/bandwidth-factor:1",
                                     "--cfg=network/TCP-gamma:0",
                                     "--cfg=network/weight-S:0",
                                     "--cfg=network/crosstraffic:0",
                                     timing_precision,
                                     "--cfg=contexts/factory:raw",
                                     "--cfg=debug/clean-atexit:0"};

}  // namespace

Engine::Engine() {
  create();
  zone = new AnyRouteZone("boxcar");  // owned by the engine
  join_tree(engine, zone);
  from = add_host(zone->get_iface(), "from")->seal();
  to = add_host(zone->get_iface(), "to")->seal();
  zone->get_iface()->seal();
  engine->seal_platform();
  Flow::on_completion_cb([this](const Flow& flow) {
    if (listener != nullptr) listener->flow_ended(flow);
  });
}

// Returns SIGINT and SIGSEGV, which SimGrid takes for itself.
void Engine::create() {
  std::vector<std::string> args(std::begin(arguments), std::end(arguments));
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  auto argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  struct sigaction on_interrupt, on_fault, on_bus;
  sigaction(SIGINT, nullptr, &on_interrupt);
  sigaction(SIGSEGV, nullptr, &on_fault);
  sigaction(SIGBUS, nullptr, &on_bus);
  engine = new s4u::Engine(&argc, argv.data());  // lives as long as the process
  sigaction(SIGINT, &on_interrupt, nullptr);
  sigaction(SIGSEGV, &on_fault, nullptr);
  sigaction(SIGBUS, &on_bus, nullptr);
}

s4u::Link* Engine::link(size_t index) {
  while (links_.size() <= index) add_links();
  return links_[index];
}

AnyRouteZone* Engine::free_zone(const std::string& name) const {
  auto* made = new AnyRouteZone(name);  // as long as the process
  made->set_network_model(zone->get_network_model());
  made->set_cpu_pm_model(zone->get_cpu_pm_model());
  made->set_cpu_vm_model(zone->get_cpu_vm_model());
  made->set_disk_model(zone->get_disk_model());
  made->set_host_model(zone->get_host_model());
  return made;
}

// A sealed zone takes no more links, so each batch has its own; routes ignore the zone.
void Engine::add_links() {
  AnyRouteZone* batch = free_zone("links" + std::to_string(batches_++));
  for (int i = 0; i < links_per_zone; ++i) {
    links_.push_back(add_link(batch->get_iface(), "link" + std::to_string(links_.size()))->seal());
  }
}

Engine& engine() {
  static auto* const one = new Engine;
  return *one;
}

}  // namespace boxcar::sim
