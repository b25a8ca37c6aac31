// The limit of an index that the graph computes. Data are checked when they are read, computed indices when a
// kernel reads them. An index into another part of a split axis is within the limit. The last operand of
// whole numbers holds an op's indices.
//
//   embedding(%table, %i) {below=5}     an index of 7 ends the run
#pragma once

#include <fmt/format.h>

#include <string>

#include "backends/device.h"
#include "sbp/error.h"

namespace boxcar::backends {

class IndexLimit {
 public:
  explicit IndexLimit(const Call& call) : op_(call.op) {
    if (const auto below = call.attrs.find("below"); below != call.attrs.end())
      below_ = std::get<int64_t>(below->second);
  }

  int64_t below() const { return below_; }  // 0: no limit
  // Throws Error (fault) naming op and index if it is outside the limit.
  void check(double index) const {
    if (below_ > 0 && !(index >= 0 && index < static_cast<double>(below_)))
      throw Error::fault(op_, fmt::format("has the index {:.0f}, expected 0 to {}", index, below_ - 1));
  }

 private:
  std::string op_;
  int64_t below_ = 0;
};

}  // namespace boxcar::backends
