// One member's end of a group of devices that communicate by NCCL.
//
//   NcclGroups groups(api, waits, mailboxes, transport, 600);          // of a backend
//   groups.communicator("dp.0", {0, 4}, 4, stream, process_of)->all_reduce(in, out, 1024, float32, sum);
//
// The call discipline, checked by tests/backends/nccl_test.cpp:
// - A group has an NCCL communicator of its own, set up by its members' first call: rank 0 draws the id and
//   sends it to the others over the transport. So members make first calls in one order over all groups,
//   which prevents deadlock in set-up.
// - A collective, send or receive that waits for others keeps its multiprocessors. All communicators of a
//   device together may take `most_blocks` of them, in equal shares. So each launched call can begin,
//   whatever the others wait for, and members need not agree on an order over groups. share_of() is a
//   power of two, since NCCL rounds the channels of sends and receives up to one (src/graph/paths.cc of
//   NCCL 2.28, ncclTopoComputeP2pChannels).
// - Communicators do not block: a call that NCCL has not taken yet is polled until it is, and every such wait
//   ends when the run fails or time is up.
// - Parts of one length are one call of NCCL; uneven ones, and all_to_all, are one group of calls: a
//   reduction or a broadcast for each rank, or sends and receives. Calls of no elements are left out.
// - One thread asks NCCL and the streams about the progress of acts: an error that NCCL finds later ends the
//   run with rank and act named. In a recorded step, the stream names that act and the recording says when
//   time is up. Long acts are among the waits of the transport, with the members that may be missing, for
//   the last message of a process that mpirun ends.
// - Another thread watches the time. It calls neither NCCL nor CUDA, since a call may be stuck for ever, and
//   takes no lock that is held over one. An act that has not ended `seconds` after its turn on the stream
//   came, or a call that has not returned for as long, ends the run with rank and act named. All
//   communicators of the process are then aborted, so that nothing on their streams waits for ever. If a
//   call has still not returned `leaving` seconds later, the process ends with the message.
// - Each thread that calls NCCL or CUDA for a device first makes that device its own: otherwise CUDA makes a
//   context on the first one, which takes half a GB there.
// - Communicators are aborted all at once, each by its own thread, which nobody waits for before the groups
//   end: NCCL's abort may wait for other members' aborts. It does wait until graphs with its calls are gone,
//   and those may wait for the abort of another communicator.
//
// NCCL adds in the tensors' own type, in an order of its own: sums of 16-bit types are rounded more than
// once, and differ from the CPU backend's in the last digits.
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
  // Puts the next work behind the last noted act, if acts are recorded in one order.
  virtual void follow() {}
  virtual void note(const std::string& /*act*/) {}
  // The first noted act that is not over and whose text ends with `end`; empty: none. Calls no CUDA.
  virtual std::string act_in_flight(const std::string& /*end*/) const { return {}; }
  virtual std::unique_lock<std::mutex> turn() { return {}; }
  // Makes its device the calling thread's; may be called when the stream is gone.
  virtual std::function<void()> chooser() const {
    return [] {};
  }
};

// Multiprocessors that all communicators of a device may take together.
constexpr int most_blocks = 64;
// The share of each of this many communicators of a device: a power of two, at most 32. Throws Error (cannot
// run) for more than `most_blocks`.
int share_of(int communicators);
// Device memory that NCCL's buffers take for this many communicators: 40 MB for each multiprocessor.
// NVIDIA/nccl issue 1685 reports 1.06 GB for a communicator of 32 on H100s.
int64_t buffer_bytes(int communicators);

class NcclCommunicator;

// State that all communicators of a process share, and the thread that watches them.
class NcclGroups {
 public:
  // `transport` may be null; its listener of Channel::control puts messages into `mailboxes`. An act may take
  // `seconds`, and a failed run `leaving` more in a call.
  NcclGroups(const NcclApi& api, cpu::Waits& waits, cpu::Mailboxes& mailboxes, Transport* transport,
             double seconds, double leaving = 15);
  // After the last communicator and the last recording of its calls. Waits for aborts, but not for ever.
  ~NcclGroups();

  std::unique_ptr<Communicator> communicator(const std::string& name, std::span<const int> devices,
                                             int device, std::unique_ptr<NcclStream> stream,
                                             const std::function<int(int)>& process_of);
  // Later communicators are set up for devices that have this many of them. The same in all processes.
  void expect(int communicators) { blocks_ = share_of(communicators); }
  // Throws Error (fault) if an act has failed. Called after waiting for a stream: failed acts on it count as
  // done.
  void check();

 private:
  friend class NcclCommunicator;
  using Clock = std::chrono::steady_clock;

  // A communicator as the threads below see it. It outlives the communicator's own object.
  struct Watched {
    struct Launched {
      std::string act;
      Clock::time_point at;
      std::function<bool()> done;
      int64_t number = 0;
    };
    std::string me, others;              // "dp.0: rank 0 of 2, device 0"; "device 1 of process 1"
    std::function<void()> choose;        // makes its device the calling thread's
    std::timed_mutex calls;              // held over a call of NCCL, never over a wait
    std::mutex mutex;                    // of what follows; never held over a call of NCCL or CUDA
    const NcclStream* stream = nullptr;  // while the communicator is there
    ncclComm* comm = nullptr;
    bool aborted = false;
    std::deque<Launched> launched;        // and not known to be done
    std::string last;                     // act that was launched
    int64_t acts = 0;                     // that were
    std::string call;                     // that has not returned; empty: none
    Clock::time_point called;             // when it began
    std::string lasting;                  // act that was in flight when it was looked at last
    std::optional<Waiting::Entry> waits;  // for it
  };
  using Member = std::shared_ptr<Watched>;

  std::vector<Member> members();
  void ask();    // a thread
  void watch();  // a thread
  void look(Watched& member);
  void look_at_time(Watched& member) const;
  // Ends the run, for this reason or an earlier one.
  void fail(const Error& error);
  void abort(const Member& member);
  void leave_if_stuck();
  void check(Watched& member);
  void call(const Watched& member, NcclResult result) const;
  Error broken(const std::string& act, NcclResult result) const;
  Error late(const std::string& act) const;
  void say(Watched& member, const std::string& act) const;
  static void forget_done(Watched& member);

  // Aborts of communicators; outlives the groups if one never ends.
  struct Aborts {
    std::mutex mutex;
    std::condition_variable changed;
    int in_flight = 0;
  };

  const NcclApi api_;
  cpu::Waits& waits_;
  cpu::Mailboxes& mailboxes_;
  Transport* const transport_;
  const std::chrono::duration<double> patience_, leaving_;
  int blocks_ = share_of(1);

  std::mutex mutex_;  // never held over a call of NCCL or CUDA
  std::condition_variable changed_;
  std::vector<Member> members_;
  bool ending_ = false;
  std::string why_;  // of a run that has failed
  Clock::time_point failed_;
  const std::shared_ptr<Aborts> aborts_ = std::make_shared<Aborts>();
  std::thread asks_, watches_;
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
  using Body = std::function<void(ncclComm* comm, void* stream)>;

  // One collective: `calls` calls of NCCL in `body`. If there are none, the member only takes part in the
  // set-up.
  void act(const char* what, int64_t calls, const Body& body);
  void set_up();
  NcclId draw_id();
  // Makes calls of NCCL and CUDA for `act`, by the communicator's thread.
  void calling(const std::string& act, const std::function<void()>& calls);
  void until_taken(const std::string& act, const std::string& all);
  void launched(const std::string& act);
  void call(NcclResult result) const { groups_.call(*watched_, result); }
  void check_counts(std::span<const int64_t> counts) const;
  ncclComm* comm() const;

  NcclGroups& groups_;
  const std::string name_;
  const std::vector<int> devices_;
  const int rank_;
  std::vector<int> processes_;  // by rank
  const std::unique_ptr<NcclStream> stream_;
  const NcclGroups::Member watched_;
};

}  // namespace boxcar::backends::cuda
