// A member's end of a group whose devices share GPUs of one process: copies and kernels on the members'
// queues, in rank order, so that results are the CPU backend's. Members meet on the host when they launch,
// and their queues wait for each other's marks:
//
//   all_reduce      each reduces part r of every member's tensor, then copies the other reduced parts
//   reduce_scatter  the first of them; all_gather: the second, with the members' own parts
//   all_to_all, broadcast: copies; barrier: marks alone
//
// A call returns when all members have launched theirs.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/communicator.h"
#include "backends/cpu/waits.h"
#include "backends/cuda/cuda_device.h"

namespace boxcar::backends::cuda {

// Data that members show each other in one round.
struct Shown {
  const void* data = nullptr;
  std::vector<int64_t> counts;
  std::shared_ptr<const Mark> mark;
};

// A meeting place of members' threads: each brings its data, and all see everyone's. From any thread.
class Table {
 public:
  explicit Table(std::span<const int> devices)
      : devices(devices.begin(), devices.end()), seats_(devices.size()) {}
  // Returns each member's contribution to this round, by rank, when all have come.
  std::vector<Shown> meet(int rank, Shown mine, cpu::Waits& waits);

  const std::vector<int> devices;

 private:
  struct Round {
    std::vector<Shown> shown;
    size_t came = 0;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int64_t> seats_;                                      // rounds that each member has come to
  std::vector<std::pair<int64_t, std::shared_ptr<Round>>> rounds_;  // in flight, by number
};

class SharedCommunicator : public Communicator {
 public:
  SharedCommunicator(std::string name, std::shared_ptr<Table> table, int rank, CudaQueue& queue,
                     cpu::Waits& waits);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(table_->devices.size()); }
  void all_reduce(const void* in, void* out, int64_t count, ir::DType dtype,
                  sbp::Reduction reduction) override;
  void reduce_scatter(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype,
                      sbp::Reduction reduction) override;
  void all_gather(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype) override;
  void all_to_all(const void* in, std::span<const int64_t> send_counts, void* out,
                  std::span<const int64_t> receive_counts, ir::DType dtype) override;
  void broadcast(const void* in, void* out, int64_t count, ir::DType dtype) override;
  void barrier() override;

 private:
  // Meets with `data` and `counts`, and lets this member's queue wait for everybody's.
  std::vector<Shown> meet(const void* data, std::span<const int64_t> counts = {});
  void scatter(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype,
               sbp::Reduction reduction);
  void gather(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype);
  void copy(void* to, const void* from, int64_t bytes);
  void act(const char* what, const std::function<void()>& body);

  const std::string name_;
  const std::shared_ptr<Table> table_;
  const int rank_;
  CudaQueue& queue_;
  cpu::Waits& waits_;
};

}  // namespace boxcar::backends::cuda
