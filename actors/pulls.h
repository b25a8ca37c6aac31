// Pulls: copies of another device's slot, or of a block of it. Within a process a pull copies directly from
// that device's memory. From another process it requests the bytes, and the transport's progress thread there
// answers. The slot is not written until the pull has sent its ack.
//
//   Pulls pulls(state);  pulls.listen();
//   pulls.fetch(device, actor, slot, to, queue);
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/moves.h"
#include "actors/run_state.h"

namespace boxcar::actors {

class Pulls {
 public:
  explicit Pulls(RunState& state);

  // Listens for requests and answers. Called before the transport starts.
  void listen();

  struct Pull {
    int source = 0, reg = 0;
    std::vector<Move> moves;  // from the slot into a buffer; none for a control register
    int64_t bytes = 0;
  };
  // A pull whose device or source is in this process.
  const Pull& pull(int device, int actor) const { return pulls_.find({device, actor})->second; }

  // Copies the slot that the actor's peer named to `to` on `device`; called from the thread of `queue`.
  void fetch(int device, int actor, int slot, std::byte* to, backends::Queue& queue);

 private:
  struct Request {
    int32_t device = 0, actor = 0, slot = 0, unused = 0;
  };
  struct Wait {
    std::byte* to = nullptr;
    bool done = false;
  };
  void answer(int process, std::span<const std::byte> bytes);
  void arrive(std::span<const std::byte> bytes);
  void ask(int device, int actor, int slot, std::byte* to);

  RunState& state_;
  std::map<std::pair<int, int>, Pull> pulls_;  // by device and actor, if either side is in this process
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, Wait> waits_;  // by device and actor
};

}  // namespace boxcar::actors
