// Names of tensors of a training step that its driver looks for.
#pragma once

namespace boxcar::ir {

// With a loss scale: false if any gradient of the step is not finite, so that the state does not change.
inline constexpr const char* finite_name = "grads_finite";

}  // namespace boxcar::ir
