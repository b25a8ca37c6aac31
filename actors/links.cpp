#include "actors/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "actors/layout.h"
#include "backends/waiting.h"
#include "sbp/error.h"

namespace boxcar::actors {
namespace {

constexpr int64_t byte_room = 512;  // of scratch memory, where one byte is meant

const ir::Actor& actor_of(const Layout& layout, int device, int actor) {
  return layout.program(device).actors[static_cast<size_t>(actor)];
}

// The buffer is a stretch of the tensor.
bool is_dense(const std::vector<Move>& moves) {
  return moves.size() == 1 && (moves[0].rows == 1 || moves[0].stride == moves[0].bytes);
}

}  // namespace

struct Links::Link {
  std::string name;
  int owner = 0, puller = 0;
  std::unique_ptr<backends::Queue> queue;  // the owner's; goes after the communicator
  std::unique_ptr<backends::Communicator> communicator;
  std::byte* scratch = nullptr;
  int64_t scratch_bytes = byte_room;
  std::mutex mutex;            // of what follows, and of the senders
  std::vector<Sender*> order;  // over one step
  size_t next = 0;
  bool failed = false;  // and the thread that knows why says so

  std::array<int, 2> group() const { return {owner, puller}; }
};

Links::Links(RunState& state, const Pulls& pulls) : state_(state) {
  const Layout& layout = state.layout;
  std::map<int, std::vector<Layout::Thread>> threads;  // by process
  for (int d = 0; d < layout.plan().devices; ++d) {
    const std::vector<ir::Actor>& actors = layout.program(d).actors;
    for (int a = 0; a < static_cast<int>(actors.size()); ++a) {
      if (!has(state, d, a)) continue;
      const Key key = this->key(d, a);
      const int owner = std::get<0>(key);
      const bool sends = state.backend.is_local(owner);
      if (!sends && !state.backend.is_local(d)) continue;
      std::unique_ptr<Link>& link = links_[key];
      if (!link) {
        link = std::make_unique<Link>();
        const int queue = std::get<2>(key);
        link->name = fmt::format("{} of {} from {}",
                                 layout.program(d).queues[static_cast<size_t>(queue)].name, d, owner);
        link->owner = owner;
        link->puller = d;
      }
      if (!sends) continue;
      const ir::Input& input = actors[static_cast<size_t>(a)].inputs[0];
      auto sender = std::make_unique<Sender>();
      sender->state_ = &state;
      sender->link_ = link.get();
      sender->pull_ = &pulls.pull(d, a);
      sender->name_ = fmt::format("{} for device {}", actors[static_cast<size_t>(a)].name, d);
      sender->repeat_ = input.repeat;
      const std::vector<Layout::Place> readers = layout.readers(owner, input.reg);
      const auto mine = std::find_if(readers.begin(), readers.end(), [d, a](const Layout::Place& place) {
        return place.device == d && place.actor == a;
      });
      sender->reader_ = static_cast<size_t>(mine - readers.begin());
      if (!is_dense(sender->pull_->moves))
        link->scratch_bytes = std::max(link->scratch_bytes, (sender->pull_->bytes + 511) / 512 * 512);
      senders_[{d, a}] = std::move(sender);
    }
  }
  for (const auto& [key, link] : links_) {
    if (!state.backend.is_local(link->owner)) continue;
    const int process = state.backend.process_of(link->puller);
    if (!threads.contains(process)) threads[process] = layout.threads(process);
    for (const Layout::Thread& thread : threads[process])
      for (const int place : thread.order) {
        if (thread.device != link->puller || thread.queue != std::get<2>(key)) break;
        const auto sender = senders_.find({link->puller, thread.actors[static_cast<size_t>(place)]});
        if (sender != senders_.end() && sender->second->link_ == link.get())
          link->order.push_back(sender->second.get());
      }
  }
}
Links::~Links() = default;

bool Links::has(const RunState& state, int device, int actor) {
  const Layout& layout = state.layout;
  const ir::Actor& a = actor_of(layout, device, actor);
  if (!state.ordered || a.kind != ir::ActorKind::pull || !state.backend.sends()) return false;
  const int owner = layout.source(device, a.inputs[0]);
  return state.backend.process_of(owner) != state.backend.process_of(device) &&
         layout.program(owner).registers[static_cast<size_t>(a.inputs[0].reg)].initial == 0;
}

Links::Key Links::key(int device, int actor) const {
  const ir::Actor& a = actor_of(state_.layout, device, actor);
  return {state_.layout.source(device, a.inputs[0]), device, a.queue};
}

int64_t Links::scratch_bytes(int device) const {
  int64_t bytes = 0;
  for (const auto& [key, link] : links_)
    if (link->owner == device) bytes += link->scratch_bytes;
  return bytes;
}

void Links::prepare(int device, std::byte* scratch) {
  for (const auto& [key, link] : links_) {
    if (link->owner != device) continue;
    link->scratch = scratch;
    scratch += link->scratch_bytes;
    link->queue = state_.backend.device(device).queue(ir::QueueKind::network);
    link->communicator = state_.backend.communicator(link->name, link->group(), device, *link->queue);
    int64_t marks = 1;
    for (const Sender* sender : link->order)
      marks += state_.layout.program(device).registers[static_cast<size_t>(sender->pull_->reg)].count;
    link->queue->expect_marks(marks);
  }
}

backends::Communicator* Links::receiver(int device, int actor, backends::Queue& queue, std::byte* byte) {
  Link& link = *links_.at(key(device, actor));
  if (!link.communicator)
    link.communicator = state_.backend.communicator(link.name, link.group(), device, queue);
  link.scratch = byte;
  return link.communicator.get();
}

void Links::connect() {
  for (const auto& [key, link] : links_) {
    const bool sends = state_.backend.is_local(link->owner);
    const std::string here = fmt::format("device {}: start", sends ? link->owner : link->puller);
    const backends::Waiting::Act name(here);
    sends ? link->communicator->send_to(link->scratch, 1, 1)
          : link->communicator->receive_from(link->scratch, 1, 0);
  }
}

void Links::finish() {
  for (const auto& [key, link] : links_)
    if (link->queue) link->queue->finish();
}

void Links::Sender::offer(int slot) {
  const std::lock_guard lock(link_->mutex);
  if (link_->failed) throw Stopped{};
  full_.push_back({slot, state_->marks_of(link_->owner, pull_->reg, slot).written});
  for (Sender* next = link_->order[link_->next]; !next->full_.empty(); next = link_->order[link_->next]) {
    next->send();
    link_->next = (link_->next + 1) % link_->order.size();
  }
}

// The oldest full slot; the link is locked.
void Links::Sender::send() {
  const std::string here = fmt::format("device {}: {}", link_->owner, name_);
  const backends::Waiting::Act name(here);
  backends::Queue& queue = *link_->queue;
  const Full full = full_.front();
  if (full.written) queue.wait(*full.written);
  const std::byte* const tensor = state_->slot(link_->owner, pull_->reg, full.slot);
  const std::byte* from = link_->scratch;
  if (is_dense(pull_->moves))
    from = tensor + pull_->moves[0].tensor;
  else
    for (const Move& move : pull_->moves) pack(queue, move, link_->scratch, tensor);
  try {
    link_->communicator->send_to(from, std::max<int64_t>(pull_->bytes, 1), 1);
  } catch (const Error& error) {  // the act that has filled the slot is named too
    link_->failed = true;
    throw Error(error.code(), name_, error.what());
  }
  if (++sent_ < repeat_) return;
  sent_ = 0;
  full_.pop_front();
  state_->marks_of(link_->owner, pull_->reg, full.slot).read[reader_] = queue.mark();
  if (Probe* const probe = state_->probes[static_cast<size_t>(link_->owner)].get())
    probe->release(pull_->reg, full.slot);
  mailbox_->push(to_word(actor_, {MessageKind::ack, port_, full.slot}));
}

}  // namespace boxcar::actors
