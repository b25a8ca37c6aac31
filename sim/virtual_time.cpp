#include "sim/virtual_time.h"

#include <algorithm>
#include <exception>
#include <queue>
#include <utility>

#include "sbp/at.h"
#include "sbp/error.h"
#include "sim/simgrid_engine.h"

namespace boxcar::sim {
namespace {

using simgrid::kernel::timer::Timer;

constexpr Ticks flow_grid = Ticks{1} << 11;  // 2^-32 s
constexpr double units_per_byte = 1024;      // SimGrid counts payloads in whole units

using Event = std::pair<Ticks, int>;  // when, tag

}  // namespace

struct VirtualTime::Impl : Listener {
  struct Flow {
    s4u::CommPtr comm;
    Ticks start = 0;
    double clock = 0;
    int tag = 0;
  };

  Engine& sg = engine();
  Ticks now = 0;
  Ticks anchor = 0;  // the tick at which the engine's clock stood at anchor_clock when the first flow began
  double anchor_clock = 0;
  Timer* timer = nullptr;  // while flows are in flight: set to the next wait's end
  Ticks armed = 0;         // the tick of the timer
  Ticks firing = 0;        // of the timer that goes off
  int flowing = 0;         // flows in flight
  bool stopped = false;
  int64_t events = 0;
  size_t links = 0;
  const Step* step = nullptr;
  std::exception_ptr error;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> agenda;
  std::vector<Flow> flows;
  std::vector<intptr_t> free_flows;
  std::vector<s4u::CommPtr> ended;  // kept until their own callbacks are over
  std::vector<int> tags;

  // Waits alone pass without SimGrid; while flows are in flight its clock advances too.
  void run_all() {
    while (!stopped || flowing > 0) {
      if (flowing > 0) {
        arm();
        sg.engine->run();
        ended.clear();
      } else if (agenda.empty()) {
        return;
      } else {
        instant();
      }
    }
  }

  void push(Ticks when, int tag) {
    agenda.emplace(std::max(when, now), tag);
    if (flowing > 0) arm();
  }

  void arm() {
    if (agenda.empty() || stopped || step == nullptr) return disarm();
    Ticks next = agenda.top().first;
    if (timer != nullptr && armed <= next) return;
    disarm();
    armed = next;
    double date = std::max(anchor_clock + to_seconds(next - anchor), s4u::Engine::get_clock());
    timer = Timer::set(date, [this] { fire(); });
  }

  void skip(Ticks ticks) {
    now += ticks;
    anchor += ticks;
    armed += ticks;
    firing += ticks;
    for (Flow& flow : flows) flow.start += ticks;
    std::vector<Event> events;
    for (; !agenda.empty(); agenda.pop())
      events.emplace_back(agenda.top().first + ticks, agenda.top().second);
    for (const Event& event : events) agenda.push(event);
  }

  double bytes_left(int tag) const {
    for (const Flow& flow : flows) {
      if (flow.comm && flow.tag == tag) return flow.comm->get_remaining() / units_per_byte;
    }
    return 0;
  }

  void disarm() {
    if (timer != nullptr) timer->remove();
    timer = nullptr;
  }

  // One instant: everything that ends at the timer's tick, including acts without time that start in it.
  void fire() {
    timer = nullptr;  // SimGrid deletes it
    ended.clear();
    firing = armed;
    while (!stopped && !agenda.empty() && agenda.top().first <= firing) instant();
    arm();
  }

  void instant() {
    now = agenda.top().first;
    tags.clear();
    while (!agenda.empty() && agenda.top().first == now) {
      tags.push_back(agenda.top().second);
      agenda.pop();
    }
    events += static_cast<int64_t>(tags.size());
    try {
      (*step)(now, tags);
    } catch (...) {
      error = std::current_exception();
      stopped = true;
    }
  }

  void start_flow(std::span<const int> route, double bytes, int tag) {
    if (flowing++ == 0) {
      anchor = now;
      anchor_clock = s4u::Engine::get_clock();
    }
    intptr_t index = 0;
    if (free_flows.empty()) {
      index = static_cast<intptr_t>(flows.size());
      flows.emplace_back();
    } else {
      index = free_flows.back();
      free_flows.pop_back();
    }
    sg.zone->next.clear();
    for (int link : route) sg.zone->next.push_back(sg.link(static_cast<size_t>(link))->get_impl());
    Flow& flow = at(flows, index);
    flow = {s4u::Comm::sendto_init(), now, s4u::Engine::get_clock(), tag};
    flow.comm->set_data(reinterpret_cast<void*>(index + 1));
    flow.comm->set_payload_size(static_cast<uint64_t>(bytes * units_per_byte + 0.5));
    flow.comm->set_source(sg.from);
    flow.comm->set_destination(sg.to);  // this starts it
  }

  void flow_ended(const s4u::Activity& activity) override {
    auto index = reinterpret_cast<intptr_t>(const_cast<s4u::Activity&>(activity).get_data<void>()) - 1;
    Flow& flow = at(flows, index);
    Ticks took = to_ticks(s4u::Engine::get_clock() - flow.clock);
    took = (took + flow_grid / 2) / flow_grid * flow_grid;
    Ticks when = flow.start + took;
    int tag = flow.tag;
    ended.push_back(std::move(flow.comm));
    flow.comm = nullptr;
    free_flows.push_back(index);
    --flowing;
    if (!stopped) push(when, tag);
    if (flowing == 0) disarm();
  }
};

VirtualTime::VirtualTime() {
  if (engine().listener != nullptr) throw Error::fault("sim", "two simulations at once in one process");
  impl_ = std::make_unique<Impl>();
  engine().listener = impl_.get();
}

VirtualTime::~VirtualTime() { engine().listener = nullptr; }

int VirtualTime::add_link(double bytes_per_second) {
  impl_->sg.link(impl_->links)->set_bandwidth(bytes_per_second * units_per_byte);
  return static_cast<int>(impl_->links++);
}

void VirtualTime::wait(Ticks until, int tag) { impl_->push(until, tag); }

void VirtualTime::flow(std::span<const int> links, double bytes, int tag) {
  if (links.empty() || bytes <= 0) {
    impl_->push(impl_->now, tag);
  } else {
    impl_->start_flow(links, bytes, tag);
  }
}

void VirtualTime::run(const Step& step) {
  impl_->step = &step;
  impl_->run_all();
  impl_->step = nullptr;
  if (impl_->error) std::rethrow_exception(std::exchange(impl_->error, nullptr));
}

void VirtualTime::stop() { impl_->stopped = true; }

void VirtualTime::skip(Ticks ticks) { impl_->skip(ticks); }
double VirtualTime::bytes_left(int tag) const { return impl_->bytes_left(tag); }

Ticks VirtualTime::now() const { return impl_->now; }
int64_t VirtualTime::events() const { return impl_->events; }

}  // namespace boxcar::sim
