// Running averages of batch norm, by the names of their ops and tensors. An op batch_norm called "h0.norm1"
// keeps "h0.norm1.running_mean" and "h0.norm1.running_var", as PyTorch calls them.
#pragma once

#include <string_view>

#include "ir/types.h"

namespace boxcar::ir {

// Endings of the names of these states.
inline constexpr std::string_view running_mean = ".running_mean", running_variance = ".running_var";
inline bool is_running_average(std::string_view tensor) {
  return tensor.ends_with(running_mean) || tensor.ends_with(running_variance);
}

// The op that moves such an average towards a step's statistics, and the op that adds up their shares.
inline constexpr const char *running_average_op = "running_average",
                            *accumulate_statistics_op = "accumulate_statistics";

// Results of batch_norm_grad that are no gradients: a share of the mean and of the variance, if its attribute
// `share` is above 0.
inline constexpr size_t share_of_mean = 3, share_of_variance = 4;
inline bool gives_shares(const Attrs& attrs) { return attr_float(attrs, "share") > 0; }

}  // namespace boxcar::ir
