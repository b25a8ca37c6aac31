// A collective over several tensors as one call of a communicator: parts are packed member by member, tensor
// by tensor, and unpacked on the other side. Nothing is copied where a single tensor's parts lie one after
// the other anyway.
//
//   reduce_scatter of [4, 6] along 1 and [5] along 0 over 2: the buffer holds
//     member 0: [4, 0:3], [0:3]; member 1: [4, 3:6], [3:5]
//
// How a tensor is parted is read off what the members hold, so that parts may be uneven in any way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "actors/moves.h"
#include "backends/communicator.h"
#include "ir/types.h"
#include "sbp/boxing.h"

namespace boxcar::actors {

// What it is, as the members' programs say. Types by member; empty where a member has no such operands (only
// the root of a reduction has results). `in_place`: results are written over the inputs, which are `outputs`
// too.
struct JointSpec {
  std::string name;  // for messages
  sbp::Collective collective = sbp::Collective::none;
  sbp::Reduction reduction = sbp::Reduction::sum;
  std::vector<int64_t> axes, axes2;  // by tensor; none for those that need none
  std::vector<std::vector<ir::TensorType>> inputs, outputs;
  int rank = 0;
};

class Joint {
 public:
  // Throws Error (bad input) where the members' tensors do not fit each other.
  explicit Joint(const JointSpec& spec);

  int64_t scratch_bytes() const { return in_bytes_ + out_bytes_; }
  // Operands without control registers; scratch_bytes() of memory at `scratch`.
  void run(backends::Communicator& communicator, backends::Queue& queue, std::span<const void* const> inputs,
           std::span<void* const> outputs, std::byte* scratch) const;

 private:
  struct Side {
    std::vector<Move> moves;
    std::vector<int64_t> counts;  // elements, by member
    int64_t bytes = 0;
    bool direct = false;  // one tensor, as the buffer would be
  };
  Side whole(const std::vector<ir::TensorType>& tensors) const;
  Side parts(const std::vector<ir::TensorType>& tensors, const std::vector<int64_t>& axes,
             const std::vector<std::vector<ir::TensorType>>& others) const;
  [[noreturn]] void misfit(size_t tensor, const std::string& why) const;

  JointSpec spec_;
  Side in_, out_;
  int64_t in_bytes_ = 0, out_bytes_ = 0;  // of scratch
  std::vector<int64_t> own_counts_;       // by member, of what each of them gives or gets
  ir::DType dtype_ = ir::DType::float32;
};

}  // namespace boxcar::actors
