// One queue of a device: its actors, their work, and the thread that fires them. On an ordered queue the
// thread waits for the actor whose turn it is. On an open queue the actor that became ready first acts.
//
// Messages to actors of the same thread are taken immediately, because local messages go before shared ones.
// Those to other threads of the process go into their mailboxes, those to other processes over the transport.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "actors/actor.h"
#include "actors/bus.h"
#include "actors/joint.h"
#include "actors/layout.h"
#include "actors/links.h"
#include "actors/mailbox.h"
#include "actors/pulls.h"
#include "actors/run_state.h"
#include "backends/backend.h"
#include "sbp/error.h"

namespace boxcar::actors {

// A message to an actor of another process.
struct Packet {
  uint64_t address = 0, word = 0;
};

class QueueThread {
 public:
  // Learns its actors' work; no memory is needed yet. Throws Error (bad input) if the plan cannot be run.
  QueueThread(RunState& state, Pulls& pulls, Links& links, Turns& turns, Layout::Thread thread, int spins);

  int device() const { return thread_.device; }
  int64_t scratch_bytes() const { return scratch_bytes_; }
  // With options.graphs. Throws Error (bad input) if a step cannot be recorded: see Runtime.
  void check_recording() const;
  // Makes kernels and communicators when there is memory; `scratch` belongs to this thread. With
  // options.graphs it also takes host memory for `recordings` recordings.
  void prepare(std::byte* scratch, int recordings);
  // Runs each of its kernels once, on zeros, and waits for them. clear() then writes zeros to the first
  // `bytes` bytes of the device's arena. Both come before fill_initial().
  void rehearse();
  void clear(int64_t bytes);
  // Adds the connections of its communicators.
  void add_connections(std::vector<Connection>& all) const;
  // Finds the receivers of messages, once all threads of the process and the state's marks exist.
  void connect(const std::vector<std::unique_ptr<QueueThread>>& threads);
  // Fills initial slots and registers updated in place. send_initial() then sends the slots readable at the
  // start.
  void fill_initial();
  void send_initial();

  // Runs until every actor has acted for `count` more steps, on this queue's own thread. An error stops the
  // run.
  void run(int64_t count, int64_t first_step);

  // --- recordings, between runs
  // While state.recorded is 0 or more, run() puts a step's acts on queues that record: loads come from that
  // recording's memory, and watched bytes go there.

  // Takes the messages left by the last run, of one step. Registers that no other step reads begin at their
  // first slot again.
  void take_messages_left();
  // Advances by a step that a recording makes.
  void advance();
  // stage() fills a recording's loads for a step; report() tells the hooks its watched bytes.
  void stage(int recording, int64_t step);
  void report(int recording, int64_t step) const;

  Mailbox& mailbox() { return *mailbox_; }
  const std::vector<RunAct>& timeline() const { return timeline_; }
  int64_t acts(int actor) const { return table_.acts(actor); }  // by place in the thread
  // Tells the probe that an ack from another process has arrived.
  void acknowledged(int actor, const Message& message) const;

 private:
  enum class Does : uint8_t {
    kernel,
    collective,
    pull,
    receive,
    load,
    copy,
    constant,
    prepare,
    save,
    write,
    nothing
  };
  struct Operand {
    int reg = -1, port = -1;    // port -1: updated in place
    int every = 1;              // of an output's register
    int64_t bytes = 0;          // of its type
    int64_t scratch = 0;        // offset of an act's result before it is added
    std::byte* base = nullptr;  // of slot 0; null if it is empty or on another device
    int64_t stride = 0;         // from slot to slot
    std::unique_ptr<backends::Kernel> add;
  };
  struct Target {
    Address to;
    int port = 0;
    Route route = Route::local;
    Mailbox* mailbox = nullptr;
    Links::Sender* sender = nullptr;  // gets offers of slots in place of a req
  };
  struct Work {
    const ir::Actor* actor = nullptr;
    std::string name;  // "device 3: h0.attn.qkv"
    int index = 0;     // in the program
    int acts_per_step = 0;
    Does does = Does::nothing;
    int64_t behind = 0;                    // of a save: steps between its moment and the state that it reads
    bool keeps = false;                    // one slot that exists from the start: its acts write nothing
    std::vector<int> micro_batches;        // by act of a step
    std::vector<Operand> inputs, outputs;  // without control registers
    std::vector<int> in_regs, out_regs;    // by port
    std::vector<std::vector<Target>> readers;
    std::vector<Target> producers;
    std::vector<int> sources;  // by in port: the device whose register it is
    // By in and out port: marks of slots that other queues of this process wait for; null if none does.
    // `reader`: index of this reader of an input.
    struct Marked {
      std::vector<SlotMarks>* slots = nullptr;
      size_t reader = 0;
    };
    std::vector<Marked> in_marks, out_marks;
    bool finishes = false;  // its acts hand over when they are done, not when they are launched
    bool on_host = false;   // ... and this thread itself touches the memory
    std::unique_ptr<backends::Kernel> kernel;
    std::unique_ptr<Joint> joint;   // null: only control registers
    bool in_place_results = false;  // results are written over the inputs
    int64_t joint_scratch = 0;
    backends::Communicator* communicator = nullptr;
    std::vector<std::byte> value;  // of a constant
    // Loads alternate between two slots of host memory. A mark passes when a slot has been read.
    int64_t loads = 0;  // their offset
    std::array<std::shared_ptr<const backends::Mark>, 2> loaded;
    int watched = -1;  // output
    // Watched outputs of its acts that hooks are still to be told of, copied to a ring in host memory.
    struct Seen {
      backends::Moment moment;
      const std::byte* at = nullptr;
      std::shared_ptr<const backends::Mark> mark;
    };
    std::deque<Seen> seen;
    int64_t ring = 0;     // offset of that ring
    int64_t staged = -1;  // offset of its acts' part of a recording's memory; -1: none
  };

  Work learn(int index, std::vector<InSpec>& ins, std::vector<OutSpec>& outs);
  void learn_joint(Work& work);
  Does what_it_does(const ir::Actor& actor, const std::vector<Operand>& outputs) const;
  std::vector<ir::TensorType> types(int device, const ir::Actor& actor, bool outputs) const;
  void rewind();
  void make_constant(Work& work, std::byte* scratch);
  Target target(const Layout::Place& place, const std::vector<std::unique_ptr<QueueThread>>& threads) const;

  void run_ordered(int64_t count);
  void run_open(int64_t count);
  void wait();
  int awaited_process(int actor) const;
  bool take();
  bool take_shuffled();
  void receive(uint64_t word);
  void became_ready(int actor);
  void act(int actor);
  void execute(Work& work, const backends::Moment& moment);
  backends::Moment moment(const Work& work, int64_t step, int64_t act) const;
  static bool loads_from_host(const Work& work);
  int64_t most_marks() const;
  int64_t staged_size(const Work& work) const;
  // Host memory of act `act` of a recording's step.
  std::byte* staged(const Work& work, int recording, int64_t act) const;
  bool recording() const { return state_.recorded >= 0; }
  // Calls visit(place, moment, act) for the loading or watched acts of a step; errors name the actor.
  template <typename Visit>
  void for_staged(bool watched, int64_t step, Visit visit) const;
  // watch() copies an act's watched output to host memory. tell() gives it to the hooks when its mark has
  // passed, or immediately if the queue has finished.
  void watch(Work& work, const backends::Moment& moment, int64_t act);
  void tell(Work& work, bool finished);
  void load_from_host(Work& work, const backends::Moment& moment, int64_t index);
  void fill(const Work& work, const backends::Moment& moment, std::span<std::byte> bytes) const;
  void wait_for_marks(const Work& work);
  void set_marks(const Work& work);
  void connect_marks(Work& work);
  void time_acts();
  void save(const Work& work, int64_t steps);
  void write(int64_t steps);
  void begin_writing(const Work& work, int actor) const;
  void end_writing(const Work& work, int64_t act) const;
  void send(int actor);
  void deliver(const Target& target, MessageKind kind, int slot);
  void delay();
  double learning_rate(int64_t step);
  Error named(int actor, const std::exception& error) const;
  const ir::Register& reg(int index) const;

  RunState& state_;
  Pulls& pulls_;
  Links& links_;
  Turns& turns_;
  Layout::Thread thread_;
  Address address_;
  bool ordered_ = true;
  bool launches_ = false;  // its queue has marks
  ActorTable table_;
  std::vector<Work> works_;
  std::shared_ptr<std::byte> host_;  // outlives the queue that copies from and to it
  std::unique_ptr<backends::Queue> queue_;
  std::vector<std::pair<std::string, std::unique_ptr<backends::Communicator>>> communicators_;  // by name
  std::unique_ptr<Mailbox> mailbox_;
  int64_t scratch_bytes_ = 0;
  std::byte* scratch_ = nullptr;
  int64_t ring_bytes_ = 0, staged_bytes_ = 0;  // of host memory: for acts, and for each recording

  int current_ = 0;              // the actor that acts or is awaited
  std::vector<int64_t> base_;    // acts when run() was called, by actor
  std::vector<int64_t> target_;  // acts when it returns
  int64_t first_step_ = 0;
  int64_t rate_step_ = -1;
  double rate_ = -1;                 // of that step
  std::deque<int> ready_;            // actors of an open queue, in the order in which they became ready
  std::vector<uint64_t> held_back_;  // messages with chaos
  std::mt19937_64 random_;
  std::vector<Effect> effects_;
  std::vector<int> in_slots_, out_slots_;
  std::vector<const void*> in_addresses_;
  std::vector<void*> out_addresses_;
  std::vector<RunAct> timeline_;
  // Marks of the timeline's last acts, on queues that keep the time; read when the queue has finished.
  struct Timed {
    std::shared_ptr<const backends::TimedMark> begin, end;
  };
  std::vector<Timed> timed_;
};

}  // namespace boxcar::actors
