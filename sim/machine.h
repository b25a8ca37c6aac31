// Runs a wiring in virtual time: the actor state machine of actors/ under SimGrid's clock.
//
// At every instant, first the acts that end send their messages, in the order of (class, actor). Then every
// queue that may continue starts its next act, in the order of queues; acts that take no time end in the same
// instant. An ordered queue waits for the item whose turn it is; an open one takes the item that became ready
// first. A joint act (a collective, a pull with a turn on its source's queue) begins when all its members'
// queues have come to it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "actors/actor.h"
#include "sbp/at.h"
#include "sim/meter.h"
#include "sim/simulate.h"
#include "sim/virtual_time.h"
#include "sim/wiring.h"

namespace boxcar::sim {

class Machine {
 public:
  // `slowdown`: share of the compute queue's speed lost while a collective of the unit runs.
  // `periodic`: a period of micro-batches inside a step that is proved to repeat is repeated by arithmetic. A
  // step that has come to a state of the step before ends as that one did, unless the timeline is kept.
  // `timeline`: by unit, whether its acts are kept.
  Machine(const Wiring& wiring, double slowdown, std::vector<char> timeline, bool periodic);

  // Runs until `steps` steps are over; 0: until the state at a step's end recurs. If nothing can continue
  // before, throws Error (cannot run) naming who waits for whom. `look`: see Options.
  void run(int steps, const std::function<void()>& look = {});

  // After run(): the number of steps between the last two equal states at the end of a step; 0: none seen.
  int period() const { return period_; }
  const std::vector<Ticks>& step_ends() const { return step_ends_; }
  Meter& meter() { return meter_; }
  // Length of the timeline when `step` ended.
  size_t timeline_mark(int step) const { return at(marks_, step); }
  // cls and actor by the wiring's plan; acts of an actor in order.
  std::vector<Act> take_timeline() { return std::move(timeline_); }
  int64_t events() const { return time_.events(); }

 private:
  struct QueueState {
    bool busy = false;      // an act runs, or waits with its turn
    int item = -1;          // the item that acts; the last of a group
    int group = -1;         // the group that runs as one
    int step = 0, run = 0;  // of the unit's schedule
    int next = 0;           // in the items of this phase
    Ticks idle_since = 0;
    int last = -1;          // the act that ended last
    std::deque<int> ready;  // open queues: items by the order in which they became ready
  };
  struct ActState {
    int64_t index = 0;  // which act it is, from 0
    Ticks start = 0;
    Ticks due = -1;        // when the event in flight ends; others are stale
    Ticks since = 0;       // communications: start of the unbroken chain of them that led here
    int cause = -1;        // the actor whose message made it ready last
    Ticks caused = -1;     // when
    bool flowing = false;  // the flow has started
    int arrived = 0;       // lead of a joint act: members that have come to it
  };
  // A unit's compute act, or a group member by member, while communication beside it may slow it. Both are
  // rounded to ticks in the same way.
  struct Elastic {
    int communications = 0;      // in flight on the unit
    int actor = -1;              // whose event is the end
    std::vector<Ticks> lengths;  // of the members at full speed
    std::vector<Ticks> ends;     // of the members, if communication goes on as now
    size_t member = 0;           // the one in flight at `updated`
    Ticks updated = 0;           // when the speed changed last
    Ticks left = 0;              // of its length, then
  };

  // 128 bits of the state that determines the future, relative to now.
  struct Fingerprint {
    uint64_t high = 0, low = 0;
    friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  };
  // A state, and the past counts to which a repeated period adds.
  struct Sample {
    Fingerprint state;
    Fingerprint exact;  // as `state`, with the place in each schedule and the rates
    Ticks now = 0;
    std::vector<int> step, run;      // by queue
    std::vector<int64_t> turns;      // by turn
    std::vector<int64_t> left;       // by step
    std::vector<int64_t> open_acts;  // by actor on an open queue
    std::vector<int64_t> levels;     // bytes held, by unit
    std::vector<Ticks> totals;       // of the meter
    std::vector<Ticks> measured;     // what decides later measurements; empty unless may_end_early_
    size_t timeline = 0;
  };

  void add_actors();
  void send_initial();
  void step(Ticks now, std::span<const int> tags);
  void event(int lead);
  void finish(int lead);
  void finish_member(int item);
  void finish_group(int queue);
  void account_begin(int actor, int64_t act, Ticks when);
  void account_end(int actor, int64_t act, Ticks when);
  void end_act(int actor, int64_t act, Ticks start, Ticks end);
  void member_times(int queue);
  void account_unfinished();
  void account_unfinished(int queue);
  void deliver(int actor);
  void receive(int actor, int cause, const actors::Message& message);
  bool take_ack(int actor, const actors::Message& message);
  void offer(int actor);
  bool too_far(int64_t step) const;
  void wake(int queue);
  void start_ready();
  void go_on(int queue);
  int head(int queue);
  bool runs_as_one(const WiredGroup& group, int64_t act) const;
  void begin_group(int queue, int group, int64_t act);
  bool skip_turn(int item);
  void arrive(int queue, int item);
  void begin(int lead);
  void begin_member(int item);
  void begin_wait(int lead);
  bool is_elastic(const WiredActor& actor) const;
  void start_elastic(int lead);
  void note_wait(int actor);
  Ticks chain_start(int item) const;
  bool flows(const WiredActor& actor) const;
  void slow(int unit, int change);
  Ticks stretched(const Elastic& elastic, Ticks length) const;
  void plan_ends(Elastic& elastic);
  void count_step(int64_t step, int acts);
  void step_over();
  bool enough();
  int ahead() const;
  void choose_reference();
  Fingerprint fingerprint(bool with_rates) const;
  Sample sample() const;
  std::vector<Ticks> measured() const;
  void look_for_period();
  bool ends_like(const Sample& before, const Sample& now) const;
  void end_step_like(const Sample& before, const Sample& now);
  int64_t repeats(const Sample& before, const Sample& now) const;
  int64_t repeats_of_queue(int queue, int before, int now) const;
  int occurrences(int queue, int phase, int run) const;
  std::vector<int64_t> acts_between(const Sample& before, const Sample& now) const;
  void repeat(const Sample& before, const Sample& now, int64_t times);
  void repeat_timeline(const Sample& before, const Sample& now, const std::vector<int64_t>& acts,
                       int64_t times);
  [[noreturn]] void deadlock() const;
  std::string waits_for(int item) const;
  std::string waits_jointly(int queue) const;
  std::string queue_name(int queue) const;

  bool is_turn(int item) const { return item >= static_cast<int>(wiring_.actors.size()); }
  int queue_of(int item) const;
  std::span<const int> members(const int& lead) const;

  const Wiring& wiring_;
  double slowdown_;
  std::vector<char> keep_timeline_;  // by unit
  VirtualTime time_;
  RingFlows rings_;
  actors::ActorTable table_;
  Meter meter_;
  std::vector<QueueState> queues_;
  std::vector<ActState> acts_;
  std::vector<Elastic> elastic_;
  std::vector<int> ahead_;  // ready actors of open queues that are too far ahead
  std::vector<int> woken_;
  std::vector<char> is_woken_;
  std::vector<actors::Effect> effects_;
  std::vector<int> slot_begin_;  // by output port: its first slot in acked_
  std::vector<Ticks> acked_;     // by slot: when the latest ack since its write was sent
  std::vector<int64_t> turns_;   // by turn: acts of the producer passed
  std::vector<Act> timeline_;
  std::vector<int64_t> left_;  // acts left, by step
  std::vector<Ticks> step_ends_;
  int64_t acts_per_step_ = 0;
  int steps_ = 0;
  bool step_ended_ = false;          // in this instant
  int settled_ = 0;                  // the step after which arithmetic may continue a regime
  int period_ = 0;                   // steps after which the state came back, 0: not seen
  std::vector<size_t> marks_;        // of the timeline, at the ends of steps
  std::vector<Fingerprint> states_;  // at the ends of steps
  bool periodic_ = false;
  bool may_end_early_ = false;  // a step, once it has come to a state of the step before
  int reference_ = -1;          // the queue whose progress triggers samples
  bool sample_due_ = false;
  int repeated_in_ = -1;                                // the step in which a period was repeated last
  std::vector<Sample> samples_, samples_of_last_step_;  // of this step, and of the step before
  std::vector<std::vector<std::vector<int>>> moduli_;   // by queue and phase: rates above 1 of its actors
  std::vector<Ticks> times_;  // of a group's members: each one's start, then the last one's end
  Ticks now_ = 0;
  Ticks stamp_ = 0;  // when the message being delivered was sent, for the meter
  bool done_ = false;
};

}  // namespace boxcar::sim
