#include "actors/queue_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::actors {

void QueueThread::send_initial() {
  for (int a = 0; a < table_.size(); ++a) {
    effects_.clear();
    table_.start(a, effects_);
    send(a);
  }
}

void QueueThread::run(int64_t count, int64_t first_step) {
  first_step_ = first_step;
  base_.clear();
  target_.clear();
  for (int a = 0; a < table_.size(); ++a) {
    base_.push_back(table_.acts(a));
    target_.push_back(table_.acts(a) + count * at(works_, a).acts_per_step);
  }
  try {
    ordered_ ? run_ordered(count) : run_open(count);
    if (!recording()) {
      queue_->finish();
      for (Work& work : works_) tell(work, true);
      time_acts();
    }
  } catch (const Stopped&) {  // another thread reports why
  } catch (const std::exception& error) {
    const Error what = named(current_, error);
    state_.fail(std::make_exception_ptr(what), what.what());
  }
}

Error QueueThread::named(int actor, const std::exception& error) const {
  const auto* known = dynamic_cast<const Error*>(&error);
  return Error(known ? known->code() : Exit::fault, at(works_, actor).name, error.what());
}

void QueueThread::run_ordered(int64_t count) {
  for (int64_t step = 0; step < count; ++step)
    for (const int a : thread_.order) {
      current_ = a;
      if (state_.options.chaos >= 0) take();
      while (!table_.ready(a)) wait();
      act(a);
    }
}

void QueueThread::run_open(int64_t count) {
  int64_t left = count * static_cast<int64_t>(thread_.order.size());
  ready_.clear();
  for (int a = 0; a < table_.size(); ++a)
    if (table_.ready(a)) became_ready(a);
  for (; left > 0; --left) {
    take();
    while (ready_.empty()) {
      for (int a = 0; a < table_.size(); ++a) {
        if (table_.acts(a) >= at(target_, a)) continue;
        current_ = a;
        if (awaited_process(a) >= 0) break;
      }
      wait();
    }
    if (state_.options.chaos >= 0) std::swap(ready_[0], ready_[random_() % ready_.size()]);
    current_ = ready_.front();
    ready_.pop_front();
    act(current_);
  }
}

void QueueThread::became_ready(int actor) {
  if (!ordered_ && table_.acts(actor) < at(target_, actor)) ready_.push_back(actor);
}

// Waits until a message has arrived. A wait for another process checks that the process is alive, and reports
// if it is not. A wait for a thread of this process relies on that thread's check.
void QueueThread::wait() {
  if (take()) return;
  mailbox_->wait(wake_interval);
  if (take()) return;
  const int process = awaited_process(current_);
  const std::string whom = fmt::format("process {}", process);
  const backends::Waiting::Act name(at(works_, current_).name);
  std::optional<backends::Waiting::Entry> entry;
  if (process >= 0) entry.emplace(state_.backend.transport()->waiting(), whom);
  for (; !take(); mailbox_->wait(wake_interval)) {
    if (process >= 0)
      state_.check(whom);
    else if (state_.stopped())
      throw Stopped{};
  }
}

// Another process whose message an actor needs before it can act; -1 if there is none.
int QueueThread::awaited_process(int actor) const {
  const Work& work = at(works_, actor);
  for (size_t i = 0; i < work.producers.size(); ++i)
    if (work.producers[i].route == Route::network && table_.in_counter(actor, static_cast<int>(i)) == 0)
      return work.producers[i].to.node();
  for (size_t o = 0; o < work.readers.size(); ++o)
    if (table_.out_counter(actor, static_cast<int>(o)) == 0)
      for (const Target& reader : work.readers[o])
        if (reader.route == Route::network) return reader.to.node();
  return -1;
}

// Takes all present messages; false if there are none.
bool QueueThread::take() {
  if (state_.options.chaos >= 0) return take_shuffled();
  uint64_t word = 0;
  bool any = false;
  for (; mailbox_->pop(word); any = true) receive(word);
  return any;
}

// Takes messages in a random order that keeps the order of each port's messages, and not always all of them.
bool QueueThread::take_shuffled() {
  for (uint64_t word = 0; mailbox_->pop(word);) held_back_.push_back(word);
  const auto port = [](uint64_t word) {
    const Message m = message_in(word);
    return std::tuple{actor_in(word), m.kind, m.port};
  };
  bool any = false;
  while (!held_back_.empty() && !(any && random_() % 4 == 0)) {
    const uint64_t drawn = held_back_[random_() % held_back_.size()];
    const auto first = std::find_if(held_back_.begin(), held_back_.end(),
                                    [&](uint64_t word) { return port(word) == port(drawn); });
    const uint64_t word = *first;
    held_back_.erase(first);
    receive(word);
    any = true;
  }
  return any;
}

void QueueThread::receive(uint64_t word) {
  const int actor = actor_in(word);
  if (table_.receive(actor, message_in(word))) became_ready(actor);
}

void QueueThread::act(int a) {
  Work& work = at(works_, a);
  const int64_t index = table_.acts(a);
  if (state_.options.chaos >= 0) delay();
  in_slots_.clear();
  out_slots_.clear();
  for (size_t i = 0; i < work.in_regs.size(); ++i)
    in_slots_.push_back(table_.in_slot(a, static_cast<int>(i)));
  for (size_t o = 0; o < work.out_regs.size(); ++o)
    out_slots_.push_back(table_.out_slot(a, static_cast<int>(o)));
  table_.begin(a);
  const int64_t since = index - at(base_, a);
  backends::Moment moment =
      this->moment(work, first_step_ + since / work.acts_per_step, since % work.acts_per_step);
  moment.learning_rate = learning_rate(moment.step);
  begin_writing(work, a);
  const bool kept = state_.options.timeline && moment.step >= state_.options.timeline_from;
  const double start = kept ? state_.seconds() : 0;
  Timed timed;
  {
    const backends::Waiting::Act name(work.name);
    wait_for_marks(work);
    if (kept) timed.begin = queue_->timed_mark();
    execute(work, moment);
    if (timed.begin) timed.end = queue_->timed_mark();
    if (recording() && work.watched >= 0) {
      const int64_t bytes = reg(at(work.out_regs, work.watched)).type.bytes();
      queue_->copy(staged(work, state_.recorded, index % work.acts_per_step),
                   state_.slot(thread_.device, at(work.out_regs, work.watched), at(out_slots_, work.watched)),
                   {1, bytes, bytes, bytes});
    }
    if (work.watched >= 0 && !recording()) watch(work, moment, since);
    if ((work.finishes || (kept && !timed.begin)) && !recording()) queue_->finish();
    set_marks(work);
  }
  if (kept) timeline_.push_back({thread_.device, work.index, index, start, state_.seconds()});
  if (timed.begin) timed_.push_back(std::move(timed));
  if (!recording()) tell(work, !launches_);
  end_writing(work, index);
  effects_.clear();
  table_.end(a, effects_);
  if (table_.ready(a)) became_ready(a);
  send(a);
}

backends::Moment QueueThread::moment(const Work& work, int64_t step, int64_t act) const {
  backends::Moment moment;
  moment.step = step;
  moment.micro_batch = at(work.micro_batches, act);
  moment.micro_batches = state_.layout.plan().micro_batches;
  moment.seed = state_.options.seed;
  return moment;
}

double QueueThread::learning_rate(int64_t step) {
  if (state_.hooks.learning_rate && step != rate_step_) {
    rate_ = state_.hooks.learning_rate(step);
    rate_step_ = step;
  }
  return rate_;
}

void QueueThread::execute(Work& work, const backends::Moment& moment) {
  const int device = thread_.device;
  const int64_t index = table_.acts(static_cast<int>(&work - works_.data()));
  in_addresses_.clear();
  out_addresses_.clear();
  for (const Operand& in : work.inputs)
    in_addresses_.push_back(in.base ? in.base + in.stride * (in.port < 0 ? 0 : at(in_slots_, in.port))
                                    : nullptr);
  // A result that is added to those of earlier acts is first written to scratch.
  const auto adds = [&](const Operand& out) { return out.every > 1 && index % out.every > 0; };
  for (const Operand& out : work.outputs) {
    std::byte* slot = out.base ? out.base + out.stride * at(out_slots_, out.port) : nullptr;
    out_addresses_.push_back(slot && adds(out) ? scratch_ + out.scratch : slot);
  }
  switch (work.does) {
    case Does::kernel:
      work.kernel->run(in_addresses_, out_addresses_, moment);
      break;
    case Does::collective: {
      const Turns::Turn turn(turns_, device, work.index);
      if (!work.joint) {
        work.communicator->barrier();
        break;
      }
      if (work.in_place_results)
        for (const void* in : in_addresses_) out_addresses_.push_back(const_cast<void*>(in));
      work.joint->run(*work.communicator, *queue_, in_addresses_, out_addresses_,
                      scratch_ + work.joint_scratch);
      break;
    }
    case Does::pull:
      pulls_.fetch(device, work.index, in_slots_[0], static_cast<std::byte*>(out_addresses_[0]), *queue_);
      break;
    case Does::receive: {
      const int64_t bytes = work.outputs.empty() ? 0 : work.outputs[0].bytes;
      links_.receive(device, work.index,
                     bytes > 0 ? static_cast<std::byte*>(out_addresses_[0]) : scratch_ + work.joint_scratch,
                     bytes);
      break;
    }
    case Does::copy:
      for (size_t i = 0; i < work.inputs.size(); ++i) {
        const int64_t bytes = work.inputs[i].bytes;
        if (bytes > 0) queue_->copy(out_addresses_[i], in_addresses_[i], {1, bytes, bytes, bytes});
      }
      break;
    case Does::load:
    case Does::constant:
      load_from_host(work, moment, index);
      break;
    case Does::prepare:
      if (!recording()) state_.hooks.prepare(device, *work.actor, moment);
      break;
    case Does::save:
      if (!recording()) save(work, moment.step + work.behind);
      break;
    case Does::write:
      if (!recording()) write(moment.step);
      break;
    case Does::nothing:
      break;
  }
  for (const Operand& out : work.outputs) {
    if (!adds(out) || !out.base) continue;
    void* sum = out.base + out.stride * at(out_slots_, out.port);
    const void* terms[] = {sum, scratch_ + out.scratch};
    out.add->run(terms, {&sum, 1}, moment);
  }
}

void QueueThread::watch(Work& work, const backends::Moment& moment, int64_t act) {
  if (std::ssize(work.seen) == 2 * work.acts_per_step) {
    queue_->finish_to(*work.seen.front().mark);
    tell(work, false);
  }
  const int64_t bytes = reg(at(work.out_regs, work.watched)).type.bytes();
  std::byte* const beside = host_.get() + work.ring + act % (2 * work.acts_per_step) * aligned(bytes);
  queue_->copy(beside,
               state_.slot(thread_.device, at(work.out_regs, work.watched), at(out_slots_, work.watched)),
               {1, bytes, bytes, bytes});
  work.seen.push_back({moment, beside, queue_->mark()});
}

void QueueThread::tell(Work& work, bool finished) {
  for (; !work.seen.empty() && (finished || work.seen.front().mark->passed()); work.seen.pop_front()) {
    current_ = static_cast<int>(&work - works_.data());  // whose error it would be
    const auto& [moment, from, mark] = work.seen.front();
    const ir::Register& watched = reg(at(work.out_regs, work.watched));
    state_.hooks.watched(thread_.device, watched, moment, {from, static_cast<size_t>(watched.type.bytes())});
  }
}

// Times acts by the device's clock, which is read from a mark that has just passed.
void QueueThread::time_acts() {
  if (timed_.empty()) return;
  const auto last = queue_->timed_mark();
  queue_->finish();
  const double now = state_.seconds();
  auto act = timeline_.end() - std::ssize(timed_);
  for (const Timed& timed : std::exchange(timed_, {})) {
    act->start = now - last->seconds_since(*timed.begin);
    act++->end = now - last->seconds_since(*timed.end);
  }
}

// Loads for an act: from the hooks, or from the place where a recording's step will have the bytes.
void QueueThread::load_from_host(Work& work, const backends::Moment& moment, int64_t index) {
  const int64_t bytes = work.outputs[0].bytes;
  if (work.keeps || bytes == 0) return;
  const backends::Block whole{1, bytes, bytes, bytes};
  if (recording())
    return queue_->copy(out_addresses_[0], staged(work, state_.recorded, index % work.acts_per_step), whole);
  auto& loaded = at(work.loaded, index % 2);
  if (loaded) queue_->finish_to(*loaded);
  std::byte* const from = host_.get() + work.loads + index % 2 * aligned(bytes);
  fill(work, moment, {from, static_cast<size_t>(bytes)});
  queue_->copy(out_addresses_[0], from, whole);
  loaded = queue_->mark();
}

// The bytes of a load or a constant.
void QueueThread::fill(const Work& work, const backends::Moment& moment, std::span<std::byte> bytes) const {
  if (work.does == Does::load)
    state_.hooks.fill(thread_.device, reg(work.outputs[0].reg), moment, bytes);
  else
    std::memcpy(bytes.data(), work.value.data(), bytes.size());
}

// Work that this act puts on its queue begins after its inputs have been written and its outputs have been
// read.
void QueueThread::wait_for_marks(const Work& work) {
  const auto wait = [this](const SlotMarks::Mark& mark) {
    if (mark) queue_->wait(*mark);
  };
  for (size_t i = 0; i < work.in_marks.size(); ++i)
    if (work.in_marks[i].slots) wait(at(*work.in_marks[i].slots, in_slots_[i]).written);
  for (size_t o = 0; o < work.out_marks.size(); ++o)
    if (work.out_marks[o].slots)
      for (const SlotMarks::Mark& mark : at(*work.out_marks[o].slots, out_slots_[o]).read) wait(mark);
  if (work.on_host && !recording()) queue_->finish();
}

void QueueThread::set_marks(const Work& work) {
  const auto marked = [](const Work::Marked& port) { return port.slots != nullptr; };
  if (std::none_of(work.in_marks.begin(), work.in_marks.end(), marked) &&
      std::none_of(work.out_marks.begin(), work.out_marks.end(), marked))
    return;
  const SlotMarks::Mark mark = queue_->mark();
  if (!mark) return;
  for (size_t i = 0; i < work.in_marks.size(); ++i)
    if (work.in_marks[i].slots)
      at((*work.in_marks[i].slots), in_slots_[i]).read[work.in_marks[i].reader] = mark;
  for (size_t o = 0; o < work.out_marks.size(); ++o)
    if (work.out_marks[o].slots) at((*work.out_marks[o].slots), out_slots_[o]).written = mark;
}

void QueueThread::save(const Work& work, int64_t steps) {
  const Checkpoints& checkpoints = state_.hooks.checkpoints;
  if (!checkpoints.due || !checkpoints.due(steps)) return;
  std::vector<std::byte> bytes(static_cast<size_t>(work.inputs[0].bytes));
  state_.backend.device(thread_.device).to_host(bytes.data(), in_addresses_[0], work.inputs[0].bytes);
  checkpoints.save(thread_.device, reg(work.inputs[0].reg), steps, std::move(bytes));
}

void QueueThread::write(int64_t steps) {
  const Checkpoints& checkpoints = state_.hooks.checkpoints;
  if (checkpoints.due && checkpoints.due(steps))
    checkpoints.write(thread_.device, steps, [this](const std::string& whom) { state_.check(whom); });
}

void QueueThread::begin_writing(const Work& work, int actor) const {
  Probe* probe = at(state_.probes, thread_.device).get();
  if (!probe) return;
  for (size_t o = 0; o < work.out_regs.size(); ++o)
    if (table_.acts(actor) % reg(work.out_regs[o]).every == 0) probe->write(work.out_regs[o], out_slots_[o]);
}

void QueueThread::end_writing(const Work& work, int64_t act) const {
  Probe* probe = at(state_.probes, thread_.device).get();
  if (!probe) return;
  for (size_t o = 0; o < work.out_regs.size(); ++o)
    if ((act + 1) % reg(work.out_regs[o]).every == 0) probe->written(work.out_regs[o], out_slots_[o]);
}

// Sends an act's effects to their receivers. Its inputs' slots are free before its outputs are announced.
void QueueThread::send(int actor) {
  const Work& work = at(works_, actor);
  for (const Effect& effect : effects_) {
    if (effect.kind == MessageKind::req) continue;
    Probe* probe = at(state_.probes, at(work.sources, effect.port)).get();
    if (probe) probe->release(at(work.in_regs, effect.port), effect.slot);
  }
  for (const Effect& effect : effects_) {
    if (effect.kind == MessageKind::req)
      for (const Target& reader : at(work.readers, effect.port)) deliver(reader, effect.kind, effect.slot);
    else
      deliver(at(work.producers, effect.port), effect.kind, effect.slot);
  }
}

void QueueThread::deliver(const Target& target, MessageKind kind, int slot) {
  if (target.sender) return target.sender->offer(slot);
  const Message message{kind, target.port, slot};
  const int actor = target.to.actor();
  if (target.route == Route::local) {
    if (table_.receive(actor, message)) became_ready(actor);
  } else if (target.route == Route::shared) {
    target.mailbox->push(to_word(actor, message));
  } else {
    const Packet packet{target.to.bits, to_word(actor, message)};
    state_.backend.transport()->send(target.to.node(), backends::Channel::bus,
                                     std::as_bytes(std::span(&packet, 1)));
  }
}

void QueueThread::acknowledged(int actor, const Message& message) const {
  Probe* probe = at(state_.probes, thread_.device).get();
  if (probe) probe->release(at(at(works_, actor).out_regs, message.port), message.slot);
}

void QueueThread::delay() {
  if (random_() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 50));
}

}  // namespace boxcar::actors
