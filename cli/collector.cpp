#include "cli/collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

#include "cli/parts.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

using backends::host::GlobalTensors;
using planner::Place;

constexpr std::chrono::milliseconds patience{50};

struct Head {
  ResultKind kind = ResultKind::part;
  int64_t collection = 0, place = 0, device = 0;
};

}  // namespace

bool is_state(const Place& place) {
  return place.reg != "tokens" && place.reg != "labels" && place.reg != "loss" && !place.derived;
}

Collector::Parts Collector::copy(const actors::Runtime& runtime) {
  Parts own{collections_++, {}};
  for (size_t p = 0; p < places_.places.size(); ++p) {
    const Place& place = places_.places[p];
    if (!is_state(place)) continue;
    for (int device = 0; device < backend_.devices(); ++device)
      if (place.first[static_cast<size_t>(device)] && backend_.is_local(device))
        own.bytes[{static_cast<int64_t>(p), device}] = runtime.read(device, place.reg);
  }
  return own;
}

GlobalTensors Collector::put_together(Parts own) {
  if (backend_.transport() && backend_.transport()->process() > 0) {
    send(own);
    return {};
  }
  own.bytes.merge(others(own.collection));
  GlobalTensors whole;
  for (const auto& [at, bytes] : own.bytes) {
    const Place& place = places_.places[static_cast<size_t>(at.first)];
    auto [tensor, is_new] = whole.try_emplace(place.tensor);
    if (is_new)
      tensor->second = {place.type, std::vector<std::byte>(static_cast<size_t>(place.type.bytes()))};
    put_part(tensor->second, place.ranges[static_cast<size_t>(at.second)], bytes);
  }
  return whole;
}

void Collector::send(const Parts& own) {
  const backends::Waiting::Act name("checkpoint");
  for (const auto& [at, bytes] : own.bytes) {
    const Head head{ResultKind::part, own.collection, at.first, at.second};
    std::vector<std::byte> message(sizeof head + bytes.size());
    std::memcpy(message.data(), &head, sizeof head);
    std::copy(bytes.begin(), bytes.end(), message.begin() + sizeof head);
    backend_.transport()->send(0, backends::Channel::results, message);
  }
}

// What the other processes have, once all of it is there.
std::map<Collector::PlaceAndDevice, Collector::Bytes> Collector::others(int64_t collection) {
  std::set<PlaceAndDevice> expected;
  for (size_t p = 0; p < places_.places.size(); ++p)
    for (int device = 0; is_state(places_.places[p]) && device < backend_.devices(); ++device)
      if (places_.places[p].first[static_cast<size_t>(device)] && !backend_.is_local(device))
        expected.emplace(p, device);
  std::unique_lock lock(mutex_);
  const auto all_there = [&] { return arrivals_[collection].size() == expected.size(); };
  const backends::Waiting::Act name("checkpoint");
  while (!all_there()) {
    const auto missing = std::find_if(expected.begin(), expected.end(), [&](const PlaceAndDevice& at) {
      return !arrivals_[collection].contains(at);
    });
    const std::string whom =
        fmt::format("process {}", backend_.process_of(static_cast<int>(missing->second)));
    const backends::Waiting::Entry entry(backend_.transport()->waiting(), whom);
    try {
      backend_.transport()->check();
    } catch (const Error& error) {
      throw Error::fault("checkpoint: waits for " + whom, error.what());
    }
    arrived_.wait_for(lock, patience, all_there);
  }
  return std::move(arrivals_.extract(collection).mapped());
}

void Collector::receive(std::span<const std::byte> message) {
  Head head;
  std::memcpy(&head, message.data(), sizeof head);
  const auto bytes = message.subspan(sizeof head);
  const std::lock_guard lock(mutex_);
  arrivals_[head.collection][{head.place, head.device}] = {bytes.begin(), bytes.end()};
  arrived_.notify_all();
}

}  // namespace boxcar::cli
