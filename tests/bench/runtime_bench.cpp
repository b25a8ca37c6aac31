// The runtime on its threads, compared with the minimal code for the same work and with oneTBB's flow graph
// if available. Items are messages, so that rows of one pattern are comparable:
//
//   local    a ring of 16 actors on one thread, of which one can act; a ring of functions in a queue; a ring
//            of function nodes
//   message  the same for 2 actors with 16 registers between them: 17 messages for each act
//   thread   two actors on two threads in turn; two threads that pass a number to and fro through ring
//            buffers; two nodes of flow graphs in two arenas
//   act      an actor by itself: the cost of an act beside its kernel
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "actors/runtime.h"
#include "support/fake_backend.h"

#if BOXCAR_HAS_TBB
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#endif

namespace boxcar::actors {
namespace {

constexpr int64_t steps = 10000;

// Runs a plan of ops "nothing"; `messages` counts one step's.
void run_plan(benchmark::State& state, const std::string& text, int64_t messages) {
  const ir::Plan plan = ir::parse_plan(text);
  ir::check(plan);
  support::FakeCluster cluster(plan.devices, 1);
  Runtime run(plan, cluster.backend(0), {});
  run.steps(100, 0);
  for (auto _ : state) run.steps(steps, 0);
  state.SetItemsProcessed(state.iterations() * steps * messages);
}

// Actors 0 to n - 1 in a ring on `queues` queues, one token between them: each act sends a req and an ack.
std::string ring(int actors, int queues) {
  std::string text =
      "plan ring\ndevices 1\nmicro_batches 1\nclass 0: p\n\nprogram p\n  phases F\n  schedule F\n";
  for (int q = 0; q < queues; ++q) text += fmt::format("  queue q{}: host\n", q);
  for (int a = 0; a < actors; ++a)
    text += fmt::format("  %x{}: int8[] x1 workspace bytes 0{}\n", a, a + 1 == actors ? " initial 1" : "");
  for (int a = 0; a < actors; ++a)
    text +=
        fmt::format("  a{} nothing(%x{}) -> %x{} on q{} in F\n", a, (a + actors - 1) % actors, a, a % queues);
  return text;
}

// Two actors in turn on one thread, `registers` registers from the first to the second and one back: 2 acts
// per step.
std::string pair(int registers) {
  std::string text =
      "plan pair\ndevices 1\nmicro_batches 1\nclass 0: p\n\nprogram p\n  phases F\n  schedule F\n"
      "  queue q: host\n  %y: int8[] x1 workspace bytes 0 initial 1\n";
  std::string between;
  for (int r = 0; r < registers; ++r) {
    text += fmt::format("  %x{}: int8[] x1 workspace bytes 0\n", r);
    between += fmt::format("{}%x{}", r > 0 ? ", " : "", r);
  }
  return text + fmt::format("  a nothing(%y) -> {0} on q in F\n  b nothing({0}) -> %y on q in F\n", between);
}

void local_runtime(benchmark::State& state) { run_plan(state, ring(16, 1), 32); }
void message_runtime(benchmark::State& state) { run_plan(state, pair(16), 34); }
void thread_runtime(benchmark::State& state) { run_plan(state, ring(2, 2), 4); }
void act_runtime(benchmark::State& state) {
  run_plan(state,
           "plan one\ndevices 1\nmicro_batches 1\nclass 0: p\n\nprogram p\n  phases F\n  schedule F\n"
           "  queue q: host\n  a nothing() on q in F\n",
           1);
}

// --- the least
// -----------------------------------------------------------------------------------------------

struct Call {
  void (*function)(void* object, int64_t value) = nullptr;
  void* object = nullptr;
  int64_t value = 0;
};
class Functions {
 public:
  void push(const Call& call) { calls_[tail_++ & mask] = call; }
  Call pop() { return calls_[head_++ & mask]; }

 private:
  static constexpr size_t mask = 4095;
  std::vector<Call> calls_ = std::vector<Call>(mask + 1);
  size_t head_ = 0, tail_ = 0;
};
void again(void* object, int64_t value) { static_cast<Functions*>(object)->push({again, object, value + 1}); }

void local_functions(benchmark::State& state) {
  Functions queue;
  again(&queue, 0);
  for (auto _ : state) {
    const Call call = queue.pop();
    call.function(call.object, call.value);
  }
  state.SetItemsProcessed(state.iterations());
}

// One producer, one consumer.
class Ring {
 public:
  void push(uint64_t word) { cells_[tail_++ & mask].store(word, std::memory_order_release); }
  uint64_t pop() {
    std::atomic<uint64_t>& cell = cells_[head_++ & mask];
    uint64_t word = 0;
    while ((word = cell.load(std::memory_order_acquire)) == 0)
      if (++looks_ % 4096 == 0) std::this_thread::yield();
    cell.store(0, std::memory_order_relaxed);
    return word;
  }

 private:
  static constexpr size_t mask = 63;
  std::vector<std::atomic<uint64_t>> cells_ = std::vector<std::atomic<uint64_t>>(mask + 1);
  alignas(64) size_t tail_ = 0;
  alignas(64) size_t head_ = 0;
  uint64_t looks_ = 0;
};

// Two words each way and round, like a req and an ack: the second is taken with the first.
void thread_rings(benchmark::State& state) {
  for (auto _ : state) {
    Ring to, fro;
    std::thread other([&] {
      for (int64_t i = 0; i < 2 * steps; i += 2) {
        const uint64_t first = to.pop(), second = to.pop();
        fro.push(first);
        fro.push(second);
      }
    });
    for (int64_t i = 0; i < 2 * steps; i += 2) {
      to.push(1);
      to.push(2);
      benchmark::DoNotOptimize(fro.pop() + fro.pop());
    }
    other.join();
  }
  state.SetItemsProcessed(state.iterations() * 4 * steps);
}

#if BOXCAR_HAS_TBB
// --- oneTBB
// --------------------------------------------------------------------------------------------------

namespace flow = oneapi::tbb::flow;

using Node = flow::multifunction_node<int64_t, std::tuple<int64_t>>;
constexpr int64_t hops = 100000;

std::unique_ptr<Node> hop_on(flow::graph& graph) {
  return std::make_unique<Node>(graph, flow::serial, [](const int64_t& left, Node::output_ports_type& to) {
    if (left > 0) std::get<0>(to).try_put(left - 1);
  });
}

// A token that circles through `nodes` nodes until the hops are used up, on one thread.
void local_tbb(benchmark::State& state) {
  oneapi::tbb::global_control control(oneapi::tbb::global_control::max_allowed_parallelism, 1);
  constexpr size_t nodes = 16;
  for (auto _ : state) {
    flow::graph graph;
    std::vector<std::unique_ptr<Node>> ring;
    for (size_t n = 0; n < nodes; ++n) ring.push_back(hop_on(graph));
    for (size_t n = 0; n < nodes; ++n)
      flow::make_edge(flow::output_port<0>(*ring[n]), *ring[(n + 1) % nodes]);
    ring[0]->try_put(hops);
    graph.wait_for_all();
  }
  state.SetItemsProcessed(state.iterations() * hops);
}

// Two graphs, each in its own arena with one thread that waits in it: within one graph, oneTBB passes a token
// from node to node on the same thread.
void thread_tbb(benchmark::State& state) {
  using Last = flow::function_node<int64_t>;
  for (auto _ : state) {
    oneapi::tbb::task_arena arenas[2] = {oneapi::tbb::task_arena{1, 1}, oneapi::tbb::task_arena{1, 1}};
    std::unique_ptr<flow::graph> graphs[2];
    std::unique_ptr<Last> nodes[2];
    std::thread::id seen[2];
    for (int n : {0, 1})
      arenas[n].execute([&] {
        graphs[n] = std::make_unique<flow::graph>();
        graphs[n]->reserve_wait();
        nodes[n] = std::make_unique<Last>(*graphs[n], flow::serial, [&, n](int64_t left) {
          seen[n] = std::this_thread::get_id();
          if (left > 0) nodes[1 - n]->try_put(left - 1);
          if (left <= 1) graphs[n]->release_wait();
        });
      });
    std::thread other([&] { arenas[1].execute([&] { graphs[1]->wait_for_all(); }); });
    arenas[0].execute([&] {
      nodes[0]->try_put(hops);
      graphs[0]->wait_for_all();
    });
    other.join();
    if (seen[0] == seen[1]) state.SkipWithError("both nodes ran on one thread");
  }
  state.SetItemsProcessed(state.iterations() * hops);
}
#endif

BENCHMARK(local_runtime)->UseRealTime();
BENCHMARK(message_runtime)->UseRealTime();
BENCHMARK(local_functions)->UseRealTime();
#if BOXCAR_HAS_TBB
BENCHMARK(local_tbb)->UseRealTime();
#endif
BENCHMARK(thread_runtime)->UseRealTime();
BENCHMARK(thread_rings)->UseRealTime();
#if BOXCAR_HAS_TBB
BENCHMARK(thread_tbb)->UseRealTime();
#endif
BENCHMARK(act_runtime)->UseRealTime();

}  // namespace
}  // namespace boxcar::actors

BENCHMARK_MAIN();
