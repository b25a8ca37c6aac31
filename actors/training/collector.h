// Collects weights and moments of a run from its devices' registers, as whole tensors on process 0.
//
//   Collector collector(places, backend);
//   collector.add(collection, device, reg, bytes);              // from any thread of any process
//   GlobalTensors whole = collector.take(collection, check);    // on process 0: waits until all have arrived
//
// A collection is the content of all registers after a number of steps. Several may be in flight at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/runtime.h"
#include "backends/backend.h"
#include "backends/host/checkpoint.h"
#include "planner/places.h"

namespace boxcar::training {

// The first field of a message on Channel::results.
enum class ResultKind : int64_t { loss, part, timeline, validated };

class Collector {
 public:
  using Bytes = std::vector<std::byte>;
  using Check = std::function<void(const std::string& whom)>;

  Collector(const planner::Places& places, backends::Backend& backend);

  // Adds a local device's register; ignored if another device's copy is used.
  void add(int64_t collection, int device, const std::string& reg, Bytes bytes);
  // Adds the registers of all local devices, between steps.
  void add(int64_t collection, const actors::Runtime& runtime);
  // Whole tensors, on process 0. While parts are missing it calls `check` regularly, with the process that
  // has a missing one. An exception from it ends the wait.
  backends::host::GlobalTensors take(int64_t collection, const Check& check);
  // A message of kind part, on process 0.
  void receive(std::span<const std::byte> message);

 private:
  using PlaceAndDevice = std::pair<int64_t, int64_t>;

  void keep(int64_t collection, const PlaceAndDevice& at, Bytes bytes);
  void send(int64_t collection, const PlaceAndDevice& at, const Bytes& bytes);
  std::map<PlaceAndDevice, Bytes> wait_for(int64_t collection, const Check& check);

  const planner::Places& places_;
  backends::Backend& backend_;
  std::set<PlaceAndDevice> expected_;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<int64_t, std::map<PlaceAndDevice, Bytes>> arrivals_;  // by collection
};

}  // namespace boxcar::training
