// A collective over several tensors as one call of a communicator: parts are packed member by member, tensor
// by tensor, and unpacked on the other side. Nothing is copied if the parts of a single tensor are already
// contiguous.
//
//   reduce_scatter of [4, 6] along 1 and [5] along 0 over 2: the buffer holds
//     member 0: [4, 0:3], [0:3]; member 1: [4, 3:6], [3:5]
//
// The members' types give the parts of a tensor, so parts may be uneven in any way.
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

// The collective in the members' programs. Types are by member; empty if a member has no such operands (only
// the root of a reduction has results). An op with attribute in_place writes its results over its inputs:
// `outputs` are then the inputs' types.
struct JointSpec {
  std::string name;  // for messages
  sbp::Collective collective = sbp::Collective::none;
  sbp::Reduction reduction = sbp::Reduction::sum;
  std::vector<int64_t> axes, axes2;  // by tensor; empty if the collective needs none
  std::vector<std::vector<ir::TensorType>> inputs, outputs;
  int rank = 0;
};

class Joint {
 public:
  // Throws Error (bad input) if the members' tensors do not fit each other.
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
    bool direct = false;  // one tensor with the same layout as the buffer
  };
  Side whole(const std::vector<ir::TensorType>& tensors) const;
  Side parts(const std::vector<ir::TensorType>& tensors, const std::vector<int64_t>& axes,
             const std::vector<std::vector<ir::TensorType>>& others) const;
  [[noreturn]] void misfit(size_t tensor, const std::string& why) const;

  JointSpec spec_;
  Side in_, out_;
  int64_t in_bytes_ = 0, out_bytes_ = 0;  // of scratch
  std::vector<int64_t> own_counts_;       // elements that each member gives or gets
  ir::DType dtype_ = ir::DType::float32;
};

}  // namespace boxcar::actors
