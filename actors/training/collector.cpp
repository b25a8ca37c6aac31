#include "actors/training/collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "backends/host/parts.h"
#include "sbp/at.h"

namespace boxcar::training {
namespace {

using backends::host::GlobalTensors;
using planner::Place;

constexpr std::chrono::milliseconds patience{50};

struct Head {
  ResultKind kind = ResultKind::part;
  int64_t collection = 0, place = 0, device = 0;
};

}  // namespace

Collector::Collector(const planner::Places& places, backends::Backend& backend)
    : places_(places), backend_(backend) {
  for (size_t p = 0; p < places.places.size(); ++p)
    for (int device = 0; is_state(places.places[p]) && device < backend.devices(); ++device)
      if (at(places.places[p].first, device)) expected_.emplace(p, device);
}

void Collector::add(int64_t collection, int device, const std::string& reg, Bytes bytes) {
  const Place* place = places_.find(reg);
  if (!place || !is_state(*place) || !at(place->first, device)) return;
  const PlaceAndDevice at{place - places_.places.data(), device};
  if (backend_.transport() && backend_.transport()->process() > 0)
    send(collection, at, bytes);
  else
    keep(collection, at, std::move(bytes));
}

void Collector::add(int64_t collection, const actors::Runtime& runtime) {
  for (const auto& [p, device] : expected_) {
    const std::string& reg = at(places_.places, p).reg;
    if (backend_.is_local(static_cast<int>(device)))
      add(collection, static_cast<int>(device), reg, runtime.read(static_cast<int>(device), reg));
  }
}

GlobalTensors Collector::take(int64_t collection, const Check& check) {
  GlobalTensors whole;
  for (const auto& [key, bytes] : wait_for(collection, check)) {
    const Place& place = at(places_.places, key.first);
    auto [tensor, is_new] = whole.try_emplace(place.tensor);
    if (is_new)
      tensor->second = {place.type, std::vector<std::byte>(static_cast<size_t>(place.type.bytes()))};
    backends::host::put_part(tensor->second, at(place.ranges, key.second), bytes);
  }
  return whole;
}

void Collector::keep(int64_t collection, const PlaceAndDevice& at, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  arrivals_[collection][at] = std::move(bytes);
  arrived_.notify_all();
}

void Collector::send(int64_t collection, const PlaceAndDevice& at, const Bytes& bytes) {
  const Head head{ResultKind::part, collection, at.first, at.second};
  std::vector<std::byte> message(sizeof head + bytes.size());
  std::memcpy(message.data(), &head, sizeof head);
  std::copy(bytes.begin(), bytes.end(), message.begin() + sizeof head);
  backend_.transport()->send(0, backends::Channel::results, message);
}

std::map<Collector::PlaceAndDevice, Collector::Bytes> Collector::wait_for(int64_t collection,
                                                                          const Check& check) {
  std::unique_lock lock(mutex_);
  const auto all_there = [&] { return arrivals_[collection].size() == expected_.size(); };
  while (!all_there()) {
    const auto missing = std::find_if(expected_.begin(), expected_.end(), [&](const PlaceAndDevice& at) {
      return !arrivals_[collection].contains(at);
    });
    const std::string whom =
        fmt::format("process {}", backend_.process_of(static_cast<int>(missing->second)));
    std::optional<backends::Waiting::Entry> entry;
    if (backend_.transport()) entry.emplace(backend_.transport()->waiting(), whom);
    check(whom);
    arrived_.wait_for(lock, patience, all_there);
  }
  return std::move(arrivals_.extract(collection).mapped());
}

void Collector::receive(std::span<const std::byte> message) {
  Head head;
  std::memcpy(&head, message.data(), sizeof head);
  const auto bytes = message.subspan(sizeof head);
  keep(head.collection, {head.place, head.device}, {bytes.begin(), bytes.end()});
}

}  // namespace boxcar::training
