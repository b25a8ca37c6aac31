#include "actors/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <system_error>
#include <thread>

#include "actors/groups.h"
#include "actors/links.h"
#include "actors/queue_thread.h"
#include "actors/turns.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::actors {
namespace {

constexpr int64_t most_recordings = 16;

// The least number of steps after which every register with memory is at the same slot again. For registers
// without initial slots this holds after each step.
int64_t steps_to_repeat(const ir::Program& program) {
  std::vector<int64_t> runs(program.phases.size());
  for (const ir::PhaseRun& run : program.schedule) ++at(runs, run.phase);
  int64_t steps = 1;
  for (const ir::Register& reg : program.registers) {
    const ir::Actor& producer = at(program.actors, reg.producer);
    const int64_t turns = at(runs, producer.phase) / reg.every;  // from slot to slot
    if (!is_control(reg) && reg.initial > 0 && turns > 0)
      steps = std::lcm(steps, reg.count / std::gcd(int64_t{reg.count}, turns));
  }
  return steps;
}

// Between two processors a message arrives sooner than a thread falls asleep and wakes. Threads that share a
// processor should sleep.
int spins_for(size_t threads) { return threads <= std::thread::hardware_concurrency() ? 4000 : 0; }

using Threads = std::vector<std::unique_ptr<QueueThread>>;

Threads threads_of(RunState& state, Pulls& pulls, Links& links, Turns& turns) {
  const backends::Transport* const transport = state.backend.transport();
  const std::vector<Layout::Thread> list = state.layout.threads(transport ? transport->process() : 0);
  Threads threads;
  for (const Layout::Thread& thread : list)
    threads.push_back(
        std::make_unique<QueueThread>(state, pulls, links, turns, thread, spins_for(list.size())));
  return threads;
}

int64_t scratch_of(const Threads& threads, const Links& links, int device) {
  int64_t bytes = links.scratch_bytes(device);
  for (const auto& thread : threads)
    if (thread->device() == device) bytes += aligned(thread->scratch_bytes());
  return bytes;
}

}  // namespace

std::vector<backends::Beside> beside_arenas(const ir::Plan& plan, backends::Backend& backend) {
  const Layout layout(plan, [&backend](int device) { return backend.process_of(device); });
  const Hooks hooks;
  const RunOptions options;
  RunState state(layout, backend, hooks, options);
  Pulls pulls(state);
  Turns turns(state);
  Links links(state, pulls, turns);
  const Threads threads = threads_of(state, pulls, links, turns);
  const std::vector<DeviceGroups> groups = groups_of(state);
  std::vector<backends::Beside> beside;
  for (int d = 0; d < plan.devices; ++d)
    beside.push_back({backend.is_local(d) ? scratch_of(threads, links, d) : 0, at(groups, d).groups});
  return beside;
}

struct Runtime::Impl {
  Impl(const ir::Plan& plan, backends::Backend& backend, Hooks given, RunOptions options)
      : hooks(std::move(given)),
        options(options),
        layout(plan, [&backend](int device) { return backend.process_of(device); }),
        state(layout, backend, hooks, this->options),
        transport(backend.transport()),
        memory(static_cast<size_t>(plan.devices)) {
    if (plan.devices != backend.devices()) {
      throw Error::input(
          fmt::format("plan {}", plan.name),
          fmt::format("is for {} devices, the backend has {}", plan.devices, backend.devices()));
    }
    if (!hooks.fill)
      hooks.fill = [](int, const ir::Register&, const backends::Moment&, std::span<std::byte>) {};
    if (!hooks.prepare) hooks.prepare = [](int, const ir::Actor&, const backends::Moment&) {};
    try {
      make_threads();
      make_probes();
      if (transport) {
        transport->listen(backends::Channel::bus,
                          [this](int, std::span<const std::byte> bytes) { deliver(bytes); });
        pulls->listen();
        links->listen();
        transport->start();
      }
      connect();
      for (const auto& thread : threads) thread->send_initial();
    } catch (const std::exception& error) {
      backend.abort(error.what());
      finish();
      throw;
    }
  }
  ~Impl() { finish(); }

  void finish() {
    if (!transport) return;
    try {
      transport->finish();
    } catch (const std::exception&) {  // the run has failed, and steps() has reported why
    }
  }

  void make_threads() {
    backends::Backend& backend = state.backend;
    pulls = std::make_unique<Pulls>(state);
    turns = std::make_unique<Turns>(state);
    links = std::make_unique<Links>(state, *pulls, *turns);
    std::vector<int64_t> scratch(memory.size());  // by device: the begin of the next thread's
    threads = threads_of(state, *pulls, *links, *turns);
    make_marks();
    for (const auto& thread : threads) thread->connect(threads);
    if (options.graphs) count_recordings();
    const bool waits = expect_groups();
    const auto slots = static_cast<int>(recordings.size());
    state.host_memory.resize(memory.size());
    for (size_t d = 0; d < memory.size(); ++d) {
      if (!backend.is_local(static_cast<int>(d))) continue;
      const int64_t arena = aligned(layout.program(static_cast<int>(d)).arena_bytes);
      backend.device(static_cast<int>(d)).reserve(arena + scratch_of(threads, *links, static_cast<int>(d)));
      if (const int64_t on_host = layout.program(static_cast<int>(d)).host_bytes; on_host > 0)
        state.host_memory[d] = backend.device(static_cast<int>(d)).host_memory(on_host);
      links->prepare(static_cast<int>(d), backend.device(static_cast<int>(d)).arena() + arena);
      scratch[d] = arena + links->scratch_bytes(static_cast<int>(d));
    }
    for (const auto& thread : threads) {
      int64_t& begin = at(scratch, thread->device());
      thread->prepare(backend.device(thread->device()).arena() + begin, slots);
      begin += aligned(thread->scratch_bytes());
    }
    if (waits) rehearse();
    for (const auto& thread : threads) thread->fill_initial();
    state.on_failure = [this] {
      for (const auto& thread : threads) thread->mailbox().wake();
    };
  }

  // Whether any device is in a group whose acts wait on the device itself.
  bool expect_groups() {
    int groups = 0, queues = 0;
    for (const DeviceGroups& device : groups_of(state)) {
      groups = std::max(groups, device.groups);
      queues = std::max(queues, device.queues);
    }
    state.backend.expect_groups(groups, queues);
    return groups > 0;
  }

  // Each kernel is run once, on zeros, while nothing else is on the devices. A device may load a kernel when
  // it is first launched, and for that wait until it is idle. In a step it may be in a collective that ends
  // only after the launch of this kernel.
  void rehearse() {
    for (const auto& thread : threads) thread->rehearse();
    std::set<int> cleared;
    for (const auto& thread : threads)
      if (const int d = thread->device(); cleared.insert(d).second)
        thread->clear(aligned(layout.program(d).arena_bytes));
  }

  // Groups are set up before the first step, when nothing else is in flight. Each device sets up its groups
  // in the order of their names, which is the same in all processes, so no two wait for each other in a
  // circle.
  void connect() {
    std::vector<Connection> all = links->connections();
    for (const auto& thread : threads) thread->add_connections(all);
    std::map<int, std::map<std::string, std::function<void()>>> by_device;
    for (Connection& one : all) by_device[one.device][one.name] = std::move(one.make);
    std::vector<std::function<void()>> bodies;
    for (const auto& entry : by_device)
      bodies.emplace_back([this, &entry] {
        const std::string here = fmt::format("device {}: start", entry.first);
        const backends::Waiting::Act name(here);
        try {
          for (const auto& [group, make] : entry.second) make();
        } catch (const std::exception& error) {
          const auto* known = dynamic_cast<const Error*>(&error);
          const Error named(known ? known->code() : Exit::fault, here, error.what());
          state.fail(std::make_exception_ptr(named), named.what());
        }
      });
    on_threads(bodies);
  }

  // Runs each on a thread; throws the run's first error when all have ended.
  void on_threads(const std::vector<std::function<void()>>& bodies) {
    std::vector<std::thread> running;
    running.reserve(bodies.size());
    try {
      for (const auto& body : bodies) running.emplace_back(body);
    } catch (const std::system_error& error) {
      const Error none = Error::cannot_run(
          "threads",
          fmt::format("{} of {} could be had: {} (use fewer devices in a process, or raise `ulimit -u`)",
                      running.size(), bodies.size(), error.code().message()));
      state.fail(std::make_exception_ptr(none), none.what());
    }
    for (std::thread& thread : running) thread.join();
    if (const std::exception_ptr error = state.error()) std::rethrow_exception(error);
  }

  void make_marks() {
    state.marks.resize(memory.size());
    for (size_t d = 0; d < memory.size(); ++d) {
      const auto device = static_cast<int>(d);
      if (!state.backend.is_local(device)) continue;
      const std::vector<ir::Register>& registers = layout.program(device).registers;
      for (size_t r = 0; r < registers.size(); ++r) {
        const SlotMarks slot{
            nullptr, std::vector<SlotMarks::Mark>(layout.readers(device, static_cast<int>(r)).size())};
        state.marks[d].emplace_back(static_cast<size_t>(registers[r].count), slot);
      }
    }
  }

  void make_probes() {
    state.probes.resize(memory.size());
    if (!options.probe) return;
    for (size_t d = 0; d < memory.size(); ++d) {
      const auto device = static_cast<int>(d);
      if (!state.backend.is_local(device)) continue;
      const ir::Program& program = layout.program(device);
      std::vector<Probe::Use> uses;
      for (size_t r = 0; r < program.registers.size(); ++r)
        uses.push_back({static_cast<int>(layout.readers(device, static_cast<int>(r)).size()),
                        layout.in_place(device, static_cast<int>(r))});
      state.probes[d] = std::make_unique<Probe>(program, std::move(uses));
    }
  }

  // Delivers a message from another process, on the progress thread.
  void deliver(std::span<const std::byte> bytes) {
    Packet packet;
    std::memcpy(&packet, bytes.data(), sizeof packet);
    QueueThread& thread = *threads.at(static_cast<size_t>(Address{packet.address}.thread()));
    const Message message = message_in(packet.word);
    if (message.kind == MessageKind::ack) thread.acknowledged(actor_in(packet.word), message);
    thread.mailbox().push(packet.word);
  }

  // At least two, so that the host writes for one while the other runs. Each process has the same number,
  // because graphs that are launched together must have been captured together.
  void count_recordings() {
    state.backend.check_recording();
    for (const ir::Program& program : layout.plan().programs)
      for (const ir::Actor& actor : program.actors)
        if (actor.is(ir::OpKind::save) || actor.is(ir::OpKind::write))
          behind.insert(actor.is(ir::OpKind::save) ? ir::attr_int(actor.attrs, "behind") : 0);
    if (options.timeline || options.probe)
      throw Error::input("graphs of steps", "acts are neither watched nor timed one by one in them");
    for (const auto& thread : threads) thread->check_recording();
    int64_t steps = 2;
    for (const ir::Program& program : layout.plan().programs)
      steps = std::lcm(steps, steps_to_repeat(program));
    if (steps > most_recordings)
      throw Error::input("graphs of steps",
                         fmt::format("registers are at the same slots again after {} steps only, and {} are "
                                     "recorded at most",
                                     steps, most_recordings));
    recordings.resize(static_cast<size_t>(steps));
  }

  // Runs the acts of `count` steps on threads.
  void run(int64_t count, int64_t first_step) {
    std::vector<std::function<void()>> bodies;
    for (const auto& thread : threads)
      bodies.emplace_back([&thread, count, first_step] { thread->run(count, first_step); });
    for (int l = 0; l < links->size(); ++l) bodies.emplace_back([this, l, count] { links->run(l, count); });
    on_threads(bodies);
  }

  // Whether any device of the plan, in any process, writes a checkpoint at this step, because a collective is
  // recorded by all of its members or by none.
  bool saves(int64_t step) const {
    const auto& due = hooks.checkpoints.due;
    return due && std::any_of(behind.begin(), behind.end(), [&](int64_t steps) { return due(step + steps); });
  }

  void run_by_graph(int64_t step) {
    const bool saves = this->saves(step);
    const auto number = static_cast<size_t>(steps_made++ % static_cast<int64_t>(recordings.size()));
    const bool first = steps_made == 1;  // the first step sets up libraries and groups
    if (first || saves) {
      drain(0);
      run(1, step);
      between_steps();
      if (first) record(step);
      return;
    }
    drain(1);  // the last step of this recording is among those waited for
    for (const auto& thread : threads) thread->advance();
    const auto& recording = recordings[number];
    backends::Moment moment{.step = step, .micro_batches = layout.plan().micro_batches, .seed = options.seed};
    if (hooks.learning_rate) moment.learning_rate = hooks.learning_rate(step);
    recording->prepare(moment);
    for (const auto& thread : threads) thread->stage(static_cast<int>(number), step);
    recording->launch();
    launched.emplace_back(number, step);
  }

  // Makes all recordings in turn, beginning with that of the next step. Then registers are at the same slots
  // again.
  void record(int64_t step) {
    for (size_t next = 1; next <= recordings.size(); ++next) {
      const size_t number = next % recordings.size();
      state.recorded = static_cast<int>(number);
      state.backend.record(!this->options.order.empty());
      run(1, step);
      recordings[number] = state.backend.recorded();
      between_steps();
    }
    state.recorded = -1;
  }

  // Marks of one step do not matter to acts of another, because whole steps are in order.
  void between_steps() {
    for (const auto& thread : threads) thread->take_messages_left();
    for (auto& device : state.marks)
      for (auto& slots : device)
        for (SlotMarks& slot : slots) {
          slot.written = nullptr;
          std::fill(slot.read.begin(), slot.read.end(), nullptr);
        }
  }

  // Waits until at most `left` launched steps are in flight.
  void drain(size_t left) {
    for (; launched.size() > left; launched.pop_front()) {
      const auto [number, step] = launched.front();
      recordings[number]->finish();
      for (const auto& thread : threads) thread->report(static_cast<int>(number), step);
    }
  }

  void steps(int64_t count, int64_t first_step) {
    if (state.began == std::chrono::steady_clock::time_point{})
      state.began = std::chrono::steady_clock::now();
    if (recordings.empty()) {
      run(count, first_step);
    } else {
      try {
        for (int64_t step = first_step; step < first_step + count; ++step) run_by_graph(step);
        drain(0);
      } catch (const std::exception& error) {
        state.fail(std::current_exception(), error.what());
        throw;
      }
    }
    timeline.clear();
    for (const auto& thread : threads)
      timeline.insert(timeline.end(), thread->timeline().begin(), thread->timeline().end());
    for (size_t d = 0; d < memory.size(); ++d)
      if (state.probes[d]) memory[d] = {state.probes[d]->peak(), state.probes[d]->reach()};
  }

  // The address of a register's newest slot, and the bytes of its type.
  std::pair<std::byte*, int64_t> newest(int device, const std::string& name) const {
    const std::string where = fmt::format("device {}: %{}", device, name);
    if (device < 0 || device >= layout.plan().devices || !state.backend.is_local(device))
      throw Error::input(where, "not a device of this process");
    const ir::Program& program = layout.program(device);
    const auto reg = std::find_if(program.registers.begin(), program.registers.end(),
                                  [&](const ir::Register& r) { return r.name == name; });
    if (reg == program.registers.end() || is_control(*reg)) throw Error::input(where, "no such register");
    const Address producer = layout.address(device, reg->producer);
    int64_t acts = at(threads, producer.thread())->acts(producer.actor());
    if (!recordings.empty() && reg->initial == 0)  // that of the last step
      acts = std::min<int64_t>(acts, program.acts_per_step(reg->producer));
    const int64_t version = std::max<int64_t>(0, reg->initial + acts / reg->every - 1);
    const auto index = static_cast<int>(reg - program.registers.begin());
    return {state.slot(device, index, static_cast<int>(version % reg->count)), reg->type.bytes()};
  }

  Hooks hooks;
  RunOptions options;
  Layout layout;
  RunState state;
  backends::Transport* transport;
  std::vector<Memory> memory;
  Threads threads;
  std::unique_ptr<Turns> turns;
  std::unique_ptr<Pulls> pulls;
  std::unique_ptr<Links> links;
  std::vector<RunAct> timeline;
  std::vector<std::unique_ptr<backends::Recording>> recordings;  // with options.graphs: by step, in turn
  std::deque<std::pair<size_t, int64_t>> launched;               // recording and step of those in flight
  std::set<int64_t> behind;  // of acts that save and write: steps from the saved state to their step
  int64_t steps_made = 0;
};

Runtime::Runtime(const ir::Plan& plan, backends::Backend& backend, Hooks hooks, RunOptions options)
    : impl_(std::make_unique<Impl>(plan, backend, std::move(hooks), options)) {}
Runtime::~Runtime() = default;

void Runtime::steps(int64_t count, int64_t first_step) { impl_->steps(count, first_step); }

std::vector<std::byte> Runtime::read(int device, const std::string& reg) const {
  const auto [from, bytes] = impl_->newest(device, reg);
  std::vector<std::byte> result(static_cast<size_t>(bytes));
  impl_->state.backend.device(device).to_host(result.data(), from, bytes);
  return result;
}

void Runtime::write(int device, const std::string& reg, std::span<const std::byte> bytes) {
  const auto [to, size] = impl_->newest(device, reg);
  if (static_cast<int64_t>(bytes.size()) != size)
    throw Error::input(fmt::format("device {}: %{}", device, reg),
                       fmt::format("{} bytes for a register of {}", bytes.size(), size));
  impl_->state.backend.device(device).from_host(to, bytes.data(), size);
}

const std::vector<RunAct>& Runtime::timeline() const { return impl_->timeline; }
const std::vector<Runtime::Memory>& Runtime::memory() const { return impl_->memory; }

}  // namespace boxcar::actors
