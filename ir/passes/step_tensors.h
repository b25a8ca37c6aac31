// Names of tensors of a training step that its driver looks for.
#pragma once

namespace boxcar::ir {

// With a loss scale: false where any gradient of the step is not finite, and the state stays as it was.
inline constexpr const char* finite_name = "grads_finite";

}  // namespace boxcar::ir
