// A group of devices that act together, as in gloo and NCCL. Every member calls the same functions in the
// same order, each from the thread of its own queue. A call returns when the member's part is done or, on
// backends whose queues have marks, when it is on its queue. Counts are elements; buffers are contiguous;
// parts may be uneven and empty. A sum does not depend on timing: host backends add in rank order in float32
// or wider, NCCL in its own order and the tensors' type.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "ir/types.h"
#include "sbp/error.h"
#include "sbp/sbp.h"

namespace boxcar::backends {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // An act that has not ended after this many seconds ends the run.
  virtual double patience() const { return std::numeric_limits<double>::infinity(); }

  // `out` may be `in`. All members get the same bits.
  virtual void all_reduce(const void* in, void* out, int64_t count, ir::DType dtype,
                          sbp::Reduction reduction) = 0;
  // `in` holds the members' parts one after the other, `counts` elements each; `out` gets this member's,
  // reduced.
  virtual void reduce_scatter(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype,
                              sbp::Reduction reduction) = 0;
  // `in` is this member's part; `out` all parts one after the other.
  virtual void all_gather(const void* in, void* out, std::span<const int64_t> counts, ir::DType dtype) = 0;
  // in: a part for each member, one after the other; out: a part from each.
  virtual void all_to_all(const void* in, std::span<const int64_t> send_counts, void* out,
                          std::span<const int64_t> receive_counts, ir::DType dtype) = 0;
  // From member 0. `out` may be `in`; others' `in` is not read.
  virtual void broadcast(const void* in, void* out, int64_t count, ir::DType dtype) = 0;
  virtual void barrier() = 0;

  // Sets up connections to other members in advance; all members call it before anything else. `pairs`:
  // all_to_all follows. Sends and receives set up their own.
  virtual void connect(bool /*pairs*/) {}

  // Sends to one other member, which receives. Two members make several such calls in the same order. Only on
  // backends whose groups span processes without the host's help: Backend::sends().
  virtual void send_to(const void* in, int64_t bytes, int to);
  virtual void receive_from(void* out, int64_t bytes, int from);
};

inline void Communicator::send_to(const void*, int64_t, int) {
  throw Error::fault("communicator", "has no sends");
}
inline void Communicator::receive_from(void*, int64_t, int) {
  throw Error::fault("communicator", "has no receives");
}

}  // namespace boxcar::backends
