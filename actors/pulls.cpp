#include "actors/pulls.h"

#include <fmt/format.h>

#include <cstring>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::actors {
namespace {

using backends::Channel;

std::vector<Move> moves_of(const ir::TensorType& type, const ir::Attrs& attrs) {
  std::vector<sbp::Range> block;
  for (const int64_t extent : type.shape) block.push_back({0, extent});
  if (attrs.contains("starts")) {
    const auto &starts = ir::attr_ints(attrs, "starts"), &ends = ir::attr_ints(attrs, "ends");
    for (size_t a = 0; a < block.size(); ++a) block[a] = {starts[a], ends[a]};
  }
  return block_of(type.shape, ir::size_of(type.dtype), block);
}

}  // namespace

Pulls::Pulls(RunState& state) : state_(state) {
  const Layout& layout = state.layout;
  for (int d = 0; d < layout.plan().devices; ++d) {
    const ir::Program& program = layout.program(d);
    for (size_t a = 0; a < program.actors.size(); ++a) {
      const ir::Actor& actor = program.actors[a];
      if (actor.kind != ir::ActorKind::pull) continue;
      const int source = layout.source(d, actor.inputs[0]);
      if (!state.backend.is_local(d) && !state.backend.is_local(source)) continue;
      Pull pull{source, actor.inputs[0].reg, {}, 0};
      const ir::Register& from = at(layout.program(source).registers, pull.reg);
      const ir::TensorType read{actor.inputs[0].view.value_or(from.type.shape), from.type.dtype};
      if (!is_control(from)) pull.moves = moves_of(read, layout.attrs(d, actor));
      for (const Move& move : pull.moves) pull.bytes += move.rows * move.bytes;
      int64_t room = 0;
      for (const int out : actor.outputs) {
        const ir::Register& to = at(program.registers, out);
        if (!is_control(to)) room += to.type.bytes();
      }
      if (room != pull.bytes) {
        throw Error::input(fmt::format("{}: {}", program.name, actor.name),
                           fmt::format("pulls {} bytes into {}", pull.bytes, room));
      }
      pulls_[{d, static_cast<int>(a)}] = std::move(pull);
    }
  }
}

void Pulls::listen() {
  if (backends::Transport* transport = state_.backend.transport()) {
    transport->listen(Channel::request,
                      [this](int from, std::span<const std::byte> bytes) { answer(from, bytes); });
    transport->listen(Channel::data, [this](int, std::span<const std::byte> bytes) { arrive(bytes); });
  }
}

void Pulls::fetch(int device, int actor, int slot, std::byte* to, backends::Queue& queue) {
  const Pull& p = pull(device, actor);
  if (p.bytes == 0) return;
  if (!state_.backend.is_local(p.source)) return ask(device, actor, slot, to);
  const std::byte* from = state_.slot(p.source, p.reg, slot);
  for (const Move& move : p.moves) pack(queue, move, to, from);
}

void Pulls::ask(int device, int actor, int slot, std::byte* to) {
  const std::pair key{device, actor};
  {
    const std::lock_guard lock(mutex_);
    waits_[key] = {to, false};
  }
  const Request request{device, actor, slot, 0};
  const int owner = state_.backend.process_of(pull(device, actor).source);
  backends::Transport& transport = *state_.backend.transport();
  transport.send(owner, Channel::request, std::as_bytes(std::span(&request, 1)));
  std::unique_lock lock(mutex_);
  const auto arrived = [&] { return waits_[key].done; };
  if (!arrived_.wait_for(lock, wake_interval, arrived)) {
    const std::string whom = fmt::format("process {}", owner);
    const backends::Waiting::Entry entry(transport.waiting(), whom);
    do state_.check(whom);
    while (!arrived_.wait_for(lock, wake_interval, arrived));
  }
  waits_.erase(key);
}

// Runs on the progress thread of the owner.
void Pulls::answer(int process, std::span<const std::byte> bytes) {
  Request request;
  std::memcpy(&request, bytes.data(), sizeof request);
  const Pull& p = pull(request.device, request.actor);
  const ir::Register& reg = at(state_.layout.program(p.source).registers, p.reg);
  std::vector<std::byte> whole(static_cast<size_t>(reg.type.bytes()));
  state_.backend.device(p.source).to_host(whole.data(), state_.slot(p.source, p.reg, request.slot),
                                          reg.type.bytes());
  std::vector<std::byte> reply(sizeof request + static_cast<size_t>(p.bytes));
  std::memcpy(reply.data(), &request, sizeof request);
  std::byte* to = reply.data() + sizeof request;
  for (const Move& move : p.moves)
    for (int64_t row = 0; row < move.rows; ++row)
      std::memcpy(to + move.buffer + row * move.bytes, whole.data() + move.tensor + row * move.stride,
                  static_cast<size_t>(move.bytes));
  state_.backend.transport()->send(process, Channel::data, reply);
}

// Runs on the progress thread of the puller.
void Pulls::arrive(std::span<const std::byte> bytes) {
  Request request;
  std::memcpy(&request, bytes.data(), sizeof request);
  const std::span<const std::byte> value = bytes.subspan(sizeof request);
  const std::lock_guard lock(mutex_);
  const auto wait = waits_.find({request.device, request.actor});
  if (wait == waits_.end()) throw Error::fault("pull", fmt::format("device {} did not ask", request.device));
  state_.backend.device(request.device)
      .from_host(wait->second.to, value.data(), static_cast<int64_t>(value.size()));
  wait->second.done = true;
  arrived_.notify_all();
}

}  // namespace boxcar::actors
