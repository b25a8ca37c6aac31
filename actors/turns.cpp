#include "actors/turns.h"

#include "actors/layout.h"
#include "actors/links.h"
#include "sbp/at.h"

namespace boxcar::actors {

Turns::Turns(const RunState& state) : state_(state) {
  const Layout& layout = state.layout;
  for (const auto& [device, actor] : state.options.order) {
    const ir::Actor& a = at(layout.program(device).actors, actor);
    const bool links = Links::has(state, device, actor);
    const bool here = state.backend.is_local(device) ||
                      (links && state.backend.is_local(layout.source(device, a.inputs[0])));
    if (here && (links || a.kind == ir::ActorKind::collective)) order_.emplace_back(device, actor);
  }
}

Turns::Turn::Turn(Turns& turns, int device, int actor)
    : turns_(turns.order_.empty() || turns.state_.recorded < 0 ? nullptr : &turns) {
  if (!turns_) return;
  std::unique_lock lock(turns.mutex_);
  const std::pair key{device, actor};
  while (!turns.changed_.wait_for(lock, wake_interval, [&] { return turns.order_[turns.next_] == key; }))
    if (turns.state_.stopped()) throw Stopped{};
}

Turns::Turn::~Turn() {
  if (!turns_) return;
  const std::lock_guard lock(turns_->mutex_);
  turns_->next_ = (turns_->next_ + 1) % turns_->order_.size();
  turns_->changed_.notify_all();
}

}  // namespace boxcar::actors
