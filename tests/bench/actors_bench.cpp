// A message to an actor on the same thread, compared with a bare queue of functions. Both pass items around
// one ring; each actor has two slots and acts as fast as its credits allow.
#include <benchmark/benchmark.h>

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "actors/actor.h"

namespace boxcar::actors {
namespace {

template <typename Item>
class Ring {
 public:
  void push(const Item& item) { items_[tail_++ & mask] = item; }
  bool pop(Item& item) {
    if (head_ == tail_) return false;
    item = items_[head_++ & mask];
    return true;
  }

 private:
  static constexpr size_t mask = 4095;
  std::vector<Item> items_ = std::vector<Item>(mask + 1);
  size_t head_ = 0, tail_ = 0;
};

struct Call {
  void (*function)(void*, int) = nullptr;
  void* object = nullptr;
  int value = 0;
};

struct Work {
  Ring<Call> ring;
  int64_t done = 0;
};
void next(void* object, int value) {
  Work& work = *static_cast<Work*>(object);
  ++work.done;
  work.ring.push({next, object, value + 1});
}

void std_function_queue(benchmark::State& state) {
  std::deque<std::function<void()>> queue;
  int64_t done = 0;
  std::function<void()> again = [&queue, &done, &again] {
    ++done;
    queue.push_back([&again] { again(); });
  };
  again();
  for (auto _ : state) {
    std::function<void()> call = std::move(queue.front());
    queue.pop_front();
    call();
  }
  state.SetItemsProcessed(done);
}

void function_queue(benchmark::State& state) {
  Work work;
  next(&work, 0);
  for (auto _ : state) {
    Call call;
    work.ring.pop(call);
    call.function(call.object, call.value);
  }
  state.SetItemsProcessed(work.done);
}

constexpr int ring_size = 16;

// Actor a reads a - 1's register; the last one's register starts with one slot readable.
ActorTable make_ring() {
  ActorTable table;
  for (int a = 0; a < ring_size; ++a) {
    std::vector<InSpec> ins{{.repeat = 1, .count = 2}};
    std::vector<OutSpec> outs{{.count = 2, .initial = a + 1 == ring_size ? 1 : 0, .consumers = 1}};
    table.add(ins, outs);
  }
  return table;
}

struct Delivery {
  int actor = 0;
  Message message;
};

void local_actor(benchmark::State& state) {
  ActorTable table = make_ring();
  Ring<Delivery> ring;
  std::vector<Effect> effects;
  auto send = [&](int from) {
    for (const Effect& e : effects) {
      int to = e.kind == MessageKind::req ? (from + 1) % ring_size : (from + ring_size - 1) % ring_size;
      ring.push({to, {e.kind, 0, e.slot}});
    }
    effects.clear();
  };
  table.start(ring_size - 1, effects);
  send(ring_size - 1);
  int64_t messages = 0;
  for (auto _ : state) {
    Delivery delivery;
    ring.pop(delivery);
    ++messages;
    table.receive(delivery.actor, delivery.message);
    if (!table.ready(delivery.actor)) continue;
    table.begin(delivery.actor);
    table.end(delivery.actor, effects);
    send(delivery.actor);
  }
  state.SetItemsProcessed(messages);
}

BENCHMARK(std_function_queue);
BENCHMARK(function_queue);
BENCHMARK(local_actor);

}  // namespace
}  // namespace boxcar::actors

BENCHMARK_MAIN();
