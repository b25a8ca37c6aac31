// Events per second of the simulator, compared with bare SimGrid on the same pattern of queues: a pipeline of
// GPT-like stages on 1,024 devices, every rank simulated, every act a separate activity.
//
// The bare program has one SimGrid actor for each queue. It goes through the queue's acts in order, one at a
// time: waits for its inputs from other queues (a semaphore each), meets the other ranks of a collective (a
// barrier), sleeps as long as the act takes, and signals its readers. No credits, no memory, no shared links.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <simgrid/s4u.hpp>
#include <tuple>
#include <vector>
// clang-format off
#include <simgrid/version.h>  // behind those: in 3.32 it needs them
// clang-format on

#include "sbp/at.h"
#include "sim/durations.h"
#include "sim/fold.h"
#include "sim/plans.h"
#include "sim/simulate.h"

namespace {

using namespace boxcar;
namespace s4u = simgrid::s4u;

struct Rate {
  int64_t events = 0;
  double seconds = 0;
  double per_second() const { return static_cast<double>(events) / seconds; }
};

template <typename Work>
Rate measure(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  const int64_t events = work();
  return {events, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

// A semaphore that the producer of a register raises for one reader elsewhere.
struct Arrival {
  s4u::SemaphorePtr semaphore;
  int rate = 1;  // once per `rate` acts
};

struct BareAct {
  std::vector<Arrival> waits, tells;
  s4u::BarrierPtr meet, over;  // of a collective
  bool lead = true;            // sleeps for all its ranks
  double seconds = 0;
};

class Bare {
 public:
  // `plan` is unfolded: class c is device c.
  Bare(const ir::Plan& plan, const backends::Cluster& cluster) : plan_(plan) {
    sim::ActCosts act_costs(plan, cluster);
    for (const ir::RankClass& cls : plan.classes) {
      const int device = cls.devices.front();
      std::vector<sim::ActCost> costs = act_costs.of(cls.program, device);
      acts_.emplace_back(costs.size());
      for (size_t a = 0; a < costs.size(); ++a) acts_.back()[a].seconds = costs[a].total();
    }
    for (size_t device = 0; device < acts_.size(); ++device) connect(device);
  }

  int64_t run(s4u::Engine& engine) {
#if SIMGRID_VERSION >= 40000
    s4u::Host* host = engine.get_netzone_root()->add_netzone_star("zone")->add_host("host", 1.0)->seal();
#if SIMGRID_VERSION >= 40100
    const auto start = [&](const std::function<void()>& code) { host->add_actor("queue", code); };
#else
    const auto start = [&](const std::function<void()>& code) { engine.add_actor("queue", host, code); };
#endif
#else
    s4u::Host* host = s4u::create_star_zone("zone")->create_host("host", 1.0)->seal();
    const auto start = [&](const std::function<void()>& code) { s4u::Actor::create("queue", host, code); };
#endif
    for (size_t device = 0; device < acts_.size(); ++device) {
      for (int queue = 0; queue < static_cast<int>(program(device).queues.size()); ++queue)
        start([this, device, queue] { walk(device, queue); });
    }
    engine.run();
    return events_;
  }

 private:
  const ir::Program& program(size_t device) const {
    return at(plan_.programs, plan_.classes[device].program);
  }

  void connect(size_t device) {
    const ir::Program& p = program(device);
    for (size_t a = 0; a < p.actors.size(); ++a) {
      const ir::Actor& actor = p.actors[a];
      if (actor.kind == ir::ActorKind::collective) join(device, a);
      for (const ir::Input& input : actor.inputs) {
        const bool pulled = input.peers >= 0;
        const size_t from =
            pulled ? static_cast<size_t>(at(plan_.peers, input.peers).source[device]) : device;
        const ir::Register& reg = at(program(from).registers, input.reg);
        const auto producer = static_cast<size_t>(reg.producer);
        if (!pulled && p.actors[producer].queue == actor.queue) continue;  // already ordered by the queue
        s4u::SemaphorePtr semaphore = s4u::Semaphore::create(static_cast<unsigned>(reg.initial));
        acts_[device][a].waits.push_back({semaphore, input.repeat});
        acts_[from][producer].tells.push_back({semaphore, reg.every});
      }
    }
  }

  void join(size_t device, size_t a) {
    const ir::Actor& actor = program(device).actors[a];
    const std::vector<int> group = sim::group_of(at(plan_.comms, actor.comm), static_cast<int>(device));
    auto& [meet, over] = barriers_[{actor.comm, group.front(), actor.name}];
    if (!meet) {
      meet = s4u::Barrier::create(static_cast<unsigned>(group.size()));
      over = s4u::Barrier::create(static_cast<unsigned>(group.size()));
    }
    BareAct& act = acts_[device][a];
    act.meet = meet, act.over = over;
    act.lead = group.front() == static_cast<int>(device);
  }

  void walk(size_t device, int queue) {
    const ir::Program& p = program(device);
    std::vector<int> done(p.actors.size());
    for (const ir::PhaseRun& run : p.schedule) {
      for (size_t a = 0; a < p.actors.size(); ++a) {
        if (p.actors[a].queue == queue && p.actors[a].phase == run.phase) act(acts_[device][a], done[a]++);
      }
    }
  }

  void act(const BareAct& act, int index) {
    for (const Arrival& arrival : act.waits)
      if (index % arrival.rate == 0) arrival.semaphore->acquire();
    if (act.meet) act.meet->wait();
    if (act.lead) {
      s4u::this_actor::sleep_for(act.seconds);
      ++events_;
    }
    if (act.over) act.over->wait();
    for (const Arrival& arrival : act.tells)
      if ((index + 1) % arrival.rate == 0) arrival.semaphore->release();
  }

  const ir::Plan& plan_;
  std::vector<std::vector<BareAct>> acts_;  // by device and actor
  std::map<std::tuple<int, int, std::string>, std::pair<s4u::BarrierPtr, s4u::BarrierPtr>> barriers_;
  int64_t events_ = 0;
};

// In a separate process: SimGrid allows one engine in each, and the simulator has its own.
Rate measure_bare(const ir::Plan& plan, const backends::Cluster& cluster) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    std::vector<std::string> words{"bare", "--log=root.thres:critical", "--cfg=contexts/factory:raw",
                                   "--cfg=contexts/stack-size:64", "--cfg=debug/clean-atexit:0"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    auto argc = static_cast<int>(argv.size());
    argv.push_back(nullptr);
    s4u::Engine engine(&argc, argv.data());
    ir::Plan unfolded = plan;
    unfolded.classes = sim::unfold(plan);
    Bare bare(unfolded, cluster);
    const Rate rate = measure([&] { return bare.run(engine); });
    _exit(write(ends[1], &rate, sizeof rate) == sizeof rate ? 0 : 1);
  }
  Rate rate;
  close(ends[1]);
  const bool whole = read(ends[0], &rate, sizeof rate) == sizeof rate;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return whole ? rate : Rate{};
}

}  // namespace

int main() {
  const ir::Plan plan =
      sim::test::gpt_like({.stages = 8, .dp = 16, .tp = 8, .layers = 4, .kernels = 12, .micro_batches = 12});
  const backends::Cluster cluster = sim::test::make_cluster(128, 8, 8);
  const Rate bare = measure_bare(plan, cluster);
  const auto simulated = [&](bool merge) {
    return measure([&] {
      return sim::simulate(plan, cluster, {.fold = false, .merge = merge, .periodic = false, .steps = 1})
          .events;
    });
  };
  const Rate ours = simulated(false), merged = simulated(true);
  const auto print = [&](const char* what, const Rate& rate) {
    fmt::print("{:<34} {:>10} events {:>8.2f} s {:>10.0f} events/s {:>6.2f} of bare\n", what, rate.events,
               rate.seconds, rate.per_second(), rate.per_second() / bare.per_second());
  };
  fmt::print("a step of a GPT-like pipeline on 1,024 devices, every rank (target: 0.5 of bare)\n");
  print("bare SimGrid", bare);
  print("simulator, an event for every act", ours);
  fmt::print("{:<34} {:>10} events {:>8.2f} s {:>10.1f} times faster than bare SimGrid\n",
             "simulator, acts merged", merged.events, merged.seconds, bare.seconds / merged.seconds);
}
