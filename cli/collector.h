// Weights and moments of a run, out of its devices' registers and whole on process 0.
//
//   Collector collector(places, backend);
//   Collector::Parts parts = collector.copy(runtime);              // between steps: copies in memory, no
//   more GlobalTensors whole = collector.put_together(std::move(parts));  // from any thread, beside the next
//   steps
//
// All processes make the same calls; several collections may be on their way at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "actors/runtime.h"
#include "backends/backend.h"
#include "backends/host/checkpoint.h"
#include "planner/places.h"

namespace boxcar::cli {

// Weights and moments: what checkpoints hold and training begins with.
bool is_state(const planner::Place& place);

// What a message on Channel::results begins with.
enum class ResultKind : int64_t { loss, part };

class Collector {
 public:
  using Bytes = std::vector<std::byte>;
  // By place and device, what this process has of them.
  struct Parts {
    int64_t collection = 0;
    std::map<std::pair<int64_t, int64_t>, Bytes> bytes;
  };

  Collector(const planner::Places& places, backends::Backend& backend) : places_(places), backend_(backend) {}

  Parts copy(const actors::Runtime& runtime);
  // Whole tensors on process 0, none on others. Throws Error (fault) where a process is gone.
  backends::host::GlobalTensors put_together(Parts own);
  // A message of kind part, on process 0.
  void receive(std::span<const std::byte> message);

 private:
  using PlaceAndDevice = std::pair<int64_t, int64_t>;

  void send(const Parts& own);
  std::map<PlaceAndDevice, Bytes> others(int64_t collection);

  const planner::Places& places_;
  backends::Backend& backend_;
  int64_t collections_ = 0;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<int64_t, std::map<PlaceAndDevice, Bytes>> arrivals_;  // by collection
};

}  // namespace boxcar::cli
