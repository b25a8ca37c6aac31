// One member's end of a group whose members are threads of this process and of others.
//
// Every collective is made of exchanges: each member gives every member a slice and takes one from each.
// Slices within the process are read in place; each distinct slice for another process is one message, which
// its members share. So with n members and b bytes per member's tensor:
//
//   all_reduce      each reduces part r of every member's tensor, then takes the other reduced parts: two
//                   exchanges, in which a member reads b and then b (n - 1) / n bytes
//   reduce_scatter  the first of them; all_gather: the second, with the members' own parts
//   all_to_all      one exchange; broadcast: slices from member 0 alone; barrier: a byte to everyone
//
// Empty slices are neither sent nor waited for. A call that ends in an error ends the run: all waits of this
// process and of the others end with it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/communicator.h"
#include "backends/cpu/mailboxes.h"
#include "backends/cpu/meeting.h"
#include "backends/cpu/waits.h"

namespace boxcar::backends::cpu {

class CpuCommunicator : public Communicator {
 public:
  // Objects shared by all members' ends in a process.
  struct Links {
    Waits& waits;
    Mailboxes& mailboxes;
    Transport* transport;             // null if all members are in this process
    std::function<int(int)> process;  // of a device
  };

  CpuCommunicator(std::string name, std::shared_ptr<Meeting> meeting, int rank, const Links& links);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }

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
  struct Member {
    int device = 0, process = 0;
    Seat* seat = nullptr;    // in this process
    Mailbox* box = nullptr;  // from another one
    int64_t given = 0;       // the last turn in which a slice was posted for it
  };
  struct Process {  // another one
    int id = 0;
    std::vector<int> ranks;
  };
  using Take = std::function<void(std::span<const Slice> from)>;  // by rank, in this member's memory or not

  // Runs a collective: its name, for messages, and its body.
  void act(const char* what, const std::function<void()>& body);
  // Gives give[r] to rank r and takes `expected[r]` bytes from it. Members of this process may still read
  // given slices until wait_until_read() returns. At most two exchanges between two wait_until_read().
  void exchange(std::span<const Slice> give, std::span<const int64_t> expected, const Take& take);
  void wait_until_read();
  void send(std::span<const Slice> give);
  Slice receive(size_t rank, int64_t turn, Bytes& keep);
  std::string whom(size_t rank) const;

  void scatter(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype,
               sbp::Reduction reduction);
  void gather(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype);
  void check_counts(std::span<const int64_t> counts) const;

  const std::string name_;
  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
  Waits& waits_;
  Transport* transport_;
  Seat& seat_;
  std::vector<Member> members_;
  std::vector<Process> processes_;
};

}  // namespace boxcar::backends::cpu
