// Random networks of actors under random interleavings. Each state is compared with a model without counters:
// it keeps the history of acts and messages and recomputes every counter from it.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include "actors/actor.h"
#include "sbp/at.h"

namespace boxcar::actors {
namespace {

struct Wire {  // one reader of one register
  int producer, out, consumer, in;
};

struct Net {
  std::vector<std::vector<InSpec>> ins;
  std::vector<std::vector<OutSpec>> outs;
  std::vector<Wire> wires;
};

int pick(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

void connect(Net& net, int producer, int out, int consumer, int repeat) {
  OutSpec& spec = at(at(net.outs, producer), out);
  auto& ins = at(net.ins, consumer);
  net.wires.push_back({producer, out, consumer, static_cast<int>(ins.size())});
  ins.push_back({.repeat = repeat, .count = spec.count});
  ++spec.consumers;
}

// Actors read registers of earlier ones; now and then a later one feeds an earlier one through initial slots.
Net random_net(std::mt19937& random) {
  Net net;
  int size = pick(random, 1, 7);
  for (int a = 0; a < size; ++a) {
    net.ins.emplace_back();
    net.outs.emplace_back();
    for (int o = pick(random, 0, 2); o > 0; --o) {
      net.outs.back().push_back({.count = pick(random, 1, 4), .every = pick(random, 1, 3)});
    }
  }
  for (int a = 0; a < size; ++a) {
    for (int o = 0; o < static_cast<int>(at(net.outs, a).size()); ++o) {
      for (int c = a + 1; c < size; ++c) {
        if (pick(random, 0, 2) == 0) connect(net, a, o, c, pick(random, 1, 3));
      }
      if (a > 0 && pick(random, 0, 3) == 0) {
        OutSpec& spec = at(at(net.outs, a), o);
        spec.initial = pick(random, 1, spec.count);
        connect(net, a, o, pick(random, 0, a - 1), pick(random, 1, 3));
      }
    }
  }
  return net;
}

// The history: how many acts each actor has ended and which reqs and acks have arrived, by wire.
struct Model {
  const Net& net;
  std::vector<int> acts;
  std::vector<int> reqs, acks;  // arrived

  explicit Model(const Net& n) : net(n), acts(n.ins.size()), reqs(n.wires.size()), acks(n.wires.size()) {}

  int versions(int actor, int out) const {  // ever made readable
    const OutSpec& spec = at(at(net.outs, actor), out);
    return spec.initial + at(acts, actor) / spec.every;
  }
  int references(int actor, int out, int slot) const {
    const OutSpec& spec = at(at(net.outs, actor), out);
    int total = 0;
    for (int v = slot; v < versions(actor, out); v += spec.count) {
      for (size_t w = 0; w < net.wires.size(); ++w) {
        const Wire& wire = net.wires[w];
        total += wire.producer == actor && wire.out == out && acks[w] <= v;
      }
    }
    return total;
  }
  int free(int actor, int out) const {
    int slots = 0;
    for (int s = 0; s < at(at(net.outs, actor), out).count; ++s) {
      slots += references(actor, out, s) == 0;
    }
    return slots;
  }
  int readable(size_t wire) const {
    const Wire& w = net.wires[wire];
    int repeat = at(at(net.ins, w.consumer), w.in).repeat;
    return reqs[wire] - at(acts, w.consumer) / repeat;
  }
  bool ready(int actor) const {
    for (size_t w = 0; w < net.wires.size(); ++w) {
      if (net.wires[w].consumer == actor && readable(w) == 0) return false;
    }
    for (size_t o = 0; o < at(net.outs, actor).size(); ++o) {
      if (free(actor, static_cast<int>(o)) == 0) return false;
    }
    return true;
  }
};

class Driver {
 public:
  Driver(const Net& net, std::mt19937& random) : net_(net), random_(random), model_(net) {
    for (size_t a = 0; a < net.ins.size(); ++a) table_.add(net.ins[a], net.outs[a]);
    reqs_.resize(net.wires.size());
    acks_.resize(net.wires.size());
    std::vector<Effect> effects;
    for (int a = 0; a < table_.size(); ++a) {
      effects.clear();
      table_.start(a, effects);
      post(a, effects);
    }
  }

  // One random move out of all possible ones; false where there is none.
  bool step() {
    struct Move {
      int kind;
      size_t index;
    };
    std::vector<Move> moves;
    for (size_t w = 0; w < net_.wires.size(); ++w) {
      if (!reqs_[w].empty()) moves.push_back({0, w});
      if (!acks_[w].empty()) moves.push_back({1, w});
    }
    for (size_t a = 0; a < net_.ins.size(); ++a) {
      if (table_.ready(static_cast<int>(a))) moves.push_back({2, a});
      if (table_.acting(static_cast<int>(a))) moves.push_back({3, a});
    }
    if (moves.empty()) return false;
    Move move = at(moves, pick(random_, 0, static_cast<int>(moves.size()) - 1));
    if (move.kind == 0) deliver_req(move.index);
    if (move.kind == 1) deliver_ack(move.index);
    if (move.kind == 2) begin(static_cast<int>(move.index));
    if (move.kind == 3) end(static_cast<int>(move.index));
    return true;
  }

  void compare() const {
    for (int a = 0; a < table_.size(); ++a) {
      ASSERT_EQ(table_.acts(a), at(model_.acts, a));
      ASSERT_EQ(table_.ready(a), !table_.acting(a) && model_.ready(a));
      for (int o = 0; o < static_cast<int>(at(net_.outs, a).size()); ++o) {
        ASSERT_EQ(table_.out_counter(a, o), model_.free(a, o));
        for (int s = 0; s < at(at(net_.outs, a), o).count; ++s) {
          ASSERT_EQ(table_.reference_counter(a, o, s), model_.references(a, o, s));
        }
      }
    }
    for (size_t w = 0; w < net_.wires.size(); ++w) {
      ASSERT_EQ(table_.in_counter(net_.wires[w].consumer, net_.wires[w].in), model_.readable(w));
    }
  }

 private:
  void deliver_req(size_t w) {
    table_.receive(net_.wires[w].consumer, {MessageKind::req, net_.wires[w].in, reqs_[w].front()});
    reqs_[w].pop_front();
    ++model_.reqs[w];
  }
  void deliver_ack(size_t w) {
    table_.receive(net_.wires[w].producer, {MessageKind::ack, net_.wires[w].out, acks_[w].front()});
    acks_[w].pop_front();
    ++model_.acks[w];
  }
  // Nobody may read a slot that is being written. A reader must get the version whose turn it is.
  void begin(int a) {
    for (size_t o = 0; o < at(net_.outs, a).size(); ++o) {
      int out = static_cast<int>(o);
      int slot = table_.out_slot(a, out);
      ASSERT_EQ(slot, model_.versions(a, out) % at(net_.outs, a)[o].count);
      ASSERT_EQ(model_.references(a, out, slot), 0);
    }
    for (const Wire& w : net_.wires) {
      if (w.consumer != a) continue;
      const InSpec& in = at(at(net_.ins, a), w.in);
      ASSERT_EQ(table_.in_slot(a, w.in), at(model_.acts, a) / in.repeat % in.count);
    }
    table_.begin(a);
  }
  void end(int a) {
    std::vector<Effect> effects;
    table_.end(a, effects);
    ++at(model_.acts, a);
    post(a, effects);
  }
  void post(int a, const std::vector<Effect>& effects) {
    for (const Effect& e : effects) {
      for (size_t w = 0; w < net_.wires.size(); ++w) {
        const Wire& wire = net_.wires[w];
        if (e.kind == MessageKind::req && wire.producer == a && wire.out == e.port)
          reqs_[w].push_back(e.slot);
        if (e.kind == MessageKind::ack && wire.consumer == a && wire.in == e.port) acks_[w].push_back(e.slot);
      }
    }
  }

  const Net& net_;
  std::mt19937& random_;
  Model model_;
  ActorTable table_;
  std::vector<std::deque<int>> reqs_, acks_;  // on the way, by wire
};

TEST(ActorRandom, CountersAreThoseOfTheHistory) {
  const unsigned seed = 20201103;
  std::mt19937 random(seed);
  int64_t moves = 0;
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
    Net net = random_net(random);
    Driver driver(net, random);
    driver.compare();
    for (int i = 0; i < 120 && driver.step(); ++i) {
      driver.compare();
      ++moves;
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(moves, 10000);
}

}  // namespace
}  // namespace boxcar::actors
