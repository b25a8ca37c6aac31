#include "actors/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <set>
#include <span>

#include "actors/layout.h"
#include "backends/waiting.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::actors {
namespace {

using backends::Channel;

const ir::Actor& actor_of(const Layout& layout, int device, int actor) {
  return at(layout.program(device).actors, actor);
}

// Whether the buffer is a contiguous part of the tensor.
bool is_dense(const std::vector<Move>& moves) {
  return moves.size() == 1 && (moves[0].rows == 1 || moves[0].stride == moves[0].bytes);
}

}  // namespace

struct Links::Link {
  std::string name;
  int owner = 0, puller = 0, queue_of_puller = 0;
  std::unique_ptr<backends::Queue> queue;  // the owner's; destroyed after the communicator
  std::unique_ptr<backends::Communicator> communicator;
  std::byte* scratch = nullptr;
  int64_t scratch_bytes = aligned(1);
  std::vector<Sender*> order;  // over one step
  std::mutex mutex;            // guards the members below, and the senders' full slots
  std::condition_variable changed;
  int64_t words = 0;  // from the other end, not yet waited for

  std::array<int, 2> group() const { return {owner, puller}; }
};

Links::Links(RunState& state, const Pulls& pulls, Turns& turns) : state_(state), turns_(turns) {
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
        link->owner = owner, link->puller = d, link->queue_of_puller = std::get<2>(key);
        const auto queue = static_cast<size_t>(link->queue_of_puller);
        link->name = fmt::format("{} of {} from {}", layout.program(d).queues[queue].name, d, owner);
      }
      if (!sends) continue;
      const ir::Input& input = at(actors, a).inputs[0];
      auto sender = std::make_unique<Sender>();
      sender->state_ = &state;
      sender->link_ = link.get();
      sender->pull_ = &pulls.pull(d, a);
      sender->name_ = fmt::format("device {}: {} for device {}", owner, at(actors, a).name, d);
      sender->puller_ = d, sender->pull_actor_ = a;
      sender->repeat_ = input.repeat;
      sender->reader_ = layout.reader(owner, input.reg, {d, a, 0});
      if (!is_dense(sender->pull_->moves))
        link->scratch_bytes = std::max(link->scratch_bytes, aligned(sender->pull_->bytes));
      senders_[{d, a}] = std::move(sender);
    }
  }
  for (const auto& [key, link] : links_) {
    if (!state.backend.is_local(link->owner)) continue;
    sending_.push_back(link.get());
    const int process = state.backend.process_of(link->puller);
    if (!threads.contains(process)) threads[process] = layout.threads(process);
    for (const Layout::Thread& thread : threads[process])
      for (const int place : thread.order) {
        if (thread.device != link->puller || thread.queue != std::get<2>(key)) break;
        const auto sender = senders_.find({link->puller, at(thread.actors, place)});
        if (sender != senders_.end() && sender->second->link_ == link.get())
          link->order.push_back(sender->second.get());
      }
  }
}

Links::~Links() = default;

void Links::listen() {
  if (!state_.backend.transport()) return;
  state_.backend.transport()->listen(Channel::links, [this](int, std::span<const std::byte> bytes) {
    Word word;
    std::memcpy(&word, bytes.data(), sizeof word);
    Link& link = *links_.at({word.owner, word.puller, word.queue});
    const std::lock_guard lock(link.mutex);
    ++link.words;
    link.changed.notify_all();
  });
}

bool Links::has(const RunState& state, int device, int actor) {
  const Layout& layout = state.layout;
  const ir::Actor& a = actor_of(layout, device, actor);
  if (!state.ordered || a.kind != ir::ActorKind::pull || !state.backend.sends()) return false;
  const int owner = layout.source(device, a.inputs[0]);
  return state.backend.process_of(owner) != state.backend.process_of(device) &&
         at(layout.program(owner).registers, a.inputs[0].reg).initial == 0;
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
    int64_t marks = 1;  // of each slot's last send, and one for which the slot's writer still waits
    for (const Sender* sender : std::set<const Sender*>(link->order.begin(), link->order.end()))
      marks += at(state_.layout.program(device).registers, sender->pull_->reg).count + 1;
    link->queue->expect_marks(marks);
  }
}

void Links::prepare(int device, int actor, backends::Queue& queue, std::byte* byte) {
  Link& link = *links_.at(key(device, actor));
  if (!link.communicator)
    link.communicator = state_.backend.communicator(link.name, link.group(), device, queue);
  link.scratch = byte;
}

std::vector<Connection> Links::connections() {
  std::vector<Connection> result;
  for (const auto& [key, entry] : links_) {
    Link* const link = entry.get();
    if (state_.backend.is_local(link->owner))
      result.push_back(
          {link->owner, link->name, [link] { link->communicator->send_to(link->scratch, 1, 1); }});
    else
      result.push_back(
          {link->puller, link->name, [link] { link->communicator->receive_from(link->scratch, 1, 0); }});
  }
  return result;
}

// Sends a word to the other end's process.
void Links::say(const Link& link) {
  const int other = state_.backend.is_local(link.owner) ? link.puller : link.owner;
  const Word word{link.owner, link.puller, link.queue_of_puller};
  state_.backend.transport()->send(state_.backend.process_of(other), Channel::links,
                                   std::as_bytes(std::span(&word, 1)));
}

// Throws Error (fault) naming `act` if the other end has not reached it within the communicator's patience.
void Links::wait_for_word(Link& link, const std::string& act) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(link.mutex);
  const auto there = [&link] { return link.words > 0; };
  if (!link.changed.wait_for(lock, wake_interval, there)) {
    const int other = state_.backend.is_local(link.owner) ? link.puller : link.owner;
    const std::string whom = fmt::format("device {} of process {}", other, state_.backend.process_of(other));
    const backends::Waiting::Entry entry(state_.backend.transport()->waiting(), whom);
    do {
      lock.unlock();
      state_.check(whom);
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      if (const double patience = link.communicator->patience(); waited.count() > patience)
        throw Error::fault(act,
                           fmt::format("not done after {:g} s: {} has stopped, or was given another order "
                                       "of pulls",
                                       patience, whom));
      lock.lock();
    } while (!link.changed.wait_for(lock, wake_interval, there));
  }
  --link.words;
}

void Links::receive(int device, int actor, std::byte* to, int64_t bytes) {
  Link& link = *links_.at(key(device, actor));
  const Turns::Turn turn(turns_, device, actor);
  {
    const std::string here = "receive in " + link.name;
    const backends::Waiting::Act name(here);
    say(link);
    wait_for_word(link, here);
  }
  link.communicator->receive_from(to, std::max<int64_t>(bytes, 1), 0);
}

void Links::Sender::offer(int slot) {
  const std::lock_guard lock(link_->mutex);
  full_.push_back({slot, state_->marks_of(link_->owner, pull_->reg, slot).written});
  link_->changed.notify_all();
}

void Links::run(int link, int64_t count) {
  const Link& mine = *at(sending_, link);
  std::string where = fmt::format("device {}: {}", mine.owner, mine.name);
  try {
    for (int64_t step = 0; step < count; ++step)
      for (Sender* const sender : mine.order) {
        where = sender->name_;
        send(*sender);
      }
    if (state_.recorded < 0) mine.queue->finish();
  } catch (const Stopped&) {  // another thread reports why
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    const Error what(known ? known->code() : Exit::fault, where, error.what());
    state_.fail(std::make_exception_ptr(what), what.what());
  }
}

// Sends the oldest full slot, when there is one and the puller waits for it.
void Links::send(Sender& sender) {
  const backends::Waiting::Act name(sender.name_);
  Link& link = *sender.link_;
  Sender::Full full;
  {
    std::unique_lock lock(link.mutex);
    while (!link.changed.wait_for(lock, wake_interval, [&] { return !sender.full_.empty(); }))
      if (state_.stopped()) throw Stopped{};
    full = sender.full_.front();
  }
  const Turns::Turn turn(turns_, sender.puller_, sender.pull_actor_);
  {
    const std::string here = "send in " + link.name;
    const backends::Waiting::Act word(here);
    wait_for_word(link, here);
  }
  backends::Queue& queue = *link.queue;
  const Pulls::Pull& pull = *sender.pull_;
  if (full.written) queue.wait(*full.written);
  const std::byte* const tensor = state_.slot(link.owner, pull.reg, full.slot);
  const std::byte* from = link.scratch;
  if (is_dense(pull.moves))
    from = tensor + pull.moves[0].tensor;
  else
    for (const Move& move : pull.moves) pack(queue, move, link.scratch, tensor);
  link.communicator->send_to(from, std::max<int64_t>(pull.bytes, 1), 1);
  say(link);
  if (++sender.sent_ < sender.repeat_) return;
  sender.sent_ = 0;
  {
    const std::lock_guard lock(link.mutex);
    sender.full_.pop_front();
  }
  state_.marks_of(link.owner, pull.reg, full.slot).read[sender.reader_] = queue.mark();
  if (Probe* const probe = at(state_.probes, link.owner).get()) probe->release(pull.reg, full.slot);
  sender.mailbox_->push(to_word(sender.actor_, {MessageKind::ack, sender.port_, full.slot}));
}

}  // namespace boxcar::actors
