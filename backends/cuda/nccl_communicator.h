// One member's end of a group of devices that communicate by NCCL.
//
//   NcclGroups groups(api, waits, mailboxes, transport, 600);          // of a backend
//   groups.communicator("dp.0", {0, 4}, 4, stream, process_of)->all_reduce(in, out, 1024, float32, sum);
//
// The call discipline, checked by tests/backends/nccl_test.cpp:
// - A group has an NCCL communicator of its own, set up by its members' first call: rank 0 draws the id and
//   sends it to the others over the transport. So members make first calls in one order over all groups,
//   which keeps set-up from deadlock. A group whose first call is a send or a receive is for those alone,
//   which take few multiprocessors.
// - Communicators do not block: a call that NCCL has not taken yet is polled until it is, and every such wait
//   ends when the run fails or time is up.
// - Parts of one length are one call of NCCL; uneven ones, and all_to_all, are one group of calls: a
//   reduction or a broadcast for each rank, or sends and receives. Calls of no elements are left out.
// - One thread watches acts on streams: an error that NCCL finds later, and an act that has not ended
//   `seconds` after it was its stream's next, end the run with rank and act named. All communicators of the
//   process are then aborted, so that nothing on their streams waits for ever. In a recorded step, the stream
//   names that act and the recording says when time is up. Long acts are among the waits of the transport,
//   with the members that may be missing, for the last message of a process that mpirun ends.
// - Communicators are aborted all at once, each by a thread of its own, which nobody waits for before the
//   groups end: NCCL's abort may wait for other members' aborts. It does wait until graphs with its calls are
//   gone, and those may wait for the abort of another communicator.
//
// NCCL adds in the tensors' own type, in an order of its own: sums of 16-bit types are rounded more than
// once, and differ from the CPU backend's in the last places.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/communicator.h"
#include "backends/cpu/mailboxes.h"
#include "backends/cpu/waits.h"
#include "backends/cuda/nccl_api.h"
#include "backends/transport.h"
#include "backends/waiting.h"

namespace boxcar::backends::cuda {

// The stream that a communicator acts on.
class NcclStream {
 public:
  virtual ~NcclStream() = default;
  // cudaStream_t, with its device made the calling thread's.
  virtual void* handle() = 0;
  // Tells, from any thread, whether all that has been put on the stream so far is done.
  virtual std::function<bool()> probe() = 0;
  // 8 bytes of the device's memory that nobody reads.
  virtual void* token() = 0;
  // Whether calls are recorded instead of done; they are then made under the turn, and noted instead of
  // watched.
  virtual bool records() const { return false; }
  virtual void note(const std::string& /*act*/) {}
  // The first noted act that is not over and whose text ends with `end`; empty: none.
  virtual std::string under_way(const std::string& /*end*/) const { return {}; }
  virtual std::unique_lock<std::mutex> turn() { return {}; }
};

class NcclCommunicator;

// State that all communicators of a process share, and the thread that watches them.
class NcclGroups {
 public:
  // `transport` may be null; its listener of Channel::control puts messages into `mailboxes`. An act may take
  // `seconds`.
  NcclGroups(const NcclApi& api, cpu::Waits& waits, cpu::Mailboxes& mailboxes, Transport* transport,
             double seconds);
  // After the last communicator, and the last recording of its calls. Waits for aborts, not for ever.
  ~NcclGroups();

  std::unique_ptr<Communicator> communicator(const std::string& name, std::span<const int> devices,
                                             int device, std::unique_ptr<NcclStream> stream,
                                             const std::function<int(int)>& process_of);
  // Throws Error (fault) where an act has failed. Called after waiting for a stream: failed acts on it count
  // as done.
  void check();

 private:
  friend class NcclCommunicator;
  using Clock = std::chrono::steady_clock;

  void watch();
  void look();
  void remove(NcclCommunicator* communicator);
  void abort(ncclComm* comm);

  // Aborts of communicators; outlives the groups where one never ends.
  struct Aborts {
    std::mutex mutex;
    std::condition_variable changed;
    int under_way = 0;
  };

  const NcclApi api_;
  cpu::Waits& waits_;
  cpu::Mailboxes& mailboxes_;
  Transport* const transport_;
  const std::chrono::duration<double> patience_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<NcclCommunicator*> communicators_;
  bool ending_ = false;
  const std::shared_ptr<Aborts> aborts_ = std::make_shared<Aborts>();
  std::thread thread_;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(NcclGroups& groups, std::string name, std::span<const int> devices, int rank,
                   std::unique_ptr<NcclStream> stream, const std::function<int(int)>& process_of);
  ~NcclCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(devices_.size()); }
  double patience() const override { return groups_.patience_.count(); }
  void all_reduce(const void* in, void* out, int64_t count, ir::DType dtype,
                  sbp::Reduction reduction) override;
  void reduce_scatter(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype,
                      sbp::Reduction reduction) override;
  void all_gather(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype) override;
  void all_to_all(const void* in, std::span<const int64_t> send_counts, void* out,
                  std::span<const int64_t> receive_counts, ir::DType dtype) override;
  void broadcast(const void* in, void* out, int64_t count, ir::DType dtype) override;
  void barrier() override;
  void connect(bool pairs) override;
  void send_to(const void* in, int64_t bytes, int to) override;
  void receive_from(void* out, int64_t bytes, int from) override;

 private:
  friend class NcclGroups;
  struct Launched {
    std::string act;
    NcclGroups::Clock::time_point at;
    std::function<bool()> done;
  };
  using Body = std::function<void(void* stream)>;

  // One collective: `calls` calls of NCCL in `body`. Where there are none the member takes part in the set-up
  // alone.
  void act(const char* what, int64_t calls, const Body& body, int most_blocks = NcclConfig::undefined);
  void set_up(int most_blocks);
  NcclId draw_id();
  void until_taken(const std::string& act);
  void call(NcclResult result) const;
  Error broken(const std::string& act, NcclResult result) const;
  Error late(const std::string& act) const;
  void check_counts(std::span<const int64_t> counts) const;
  // For the watching thread: throws an error that has occurred.
  void check();
  void say(const std::string& act);
  void abort();
  void forget_done();

  NcclGroups& groups_;
  const std::string name_;
  const std::vector<int> devices_;
  const int rank_;
  const std::string me_;        // "dp.0: rank 0 of 2, device 0"
  std::vector<int> processes_;  // by rank
  std::string others_;          // "device 1 of process 1"
  const std::unique_ptr<NcclStream> stream_;

  std::mutex mutex_;  // of what follows; held over a call of NCCL, never over a wait
  ncclComm* comm_ = nullptr;
  bool aborted_ = false;
  std::deque<Launched> launched_;        // and not known to be done
  std::string last_;                     // act that was launched
  std::string lasting_;                  // act that was in flight when it was looked at last
  std::optional<Waiting::Entry> waits_;  // for it
};

}  // namespace boxcar::backends::cuda
