// Files that torch_dump writes for the Python scripts beside it.
#pragma once

#include <cstdint>
#include <string>

namespace boxcar::tests {

// Every op of the registry on random inputs, by the reference kernels, in float64: a safetensors file with
// tensors "<case>.x<i>" (inputs), ".y<i>" (outputs), ".dy<i>" (gradients of the first outputs, if the op has
// a gradient), ".dx<i>" (gradients of the inputs that have one by autodiff), ".mask" (for ops with dropout:
// the factor of each element that may be dropped). Metadata: "registry", the ops' names; "used", the ops that
// ran in cases of other ops, for their gradients; "cases", a JSON list of {"op", "attrs"}.
void dump_ops(const std::string& path, uint64_t seed);

// Folders NAME in `folder`, for GPT-2 and Llama models with several options and optimizers: a checkpoint of
// step 0 with random weights, tokens.bin, and training.json: {"flags": gpt.py's flags, "losses": before each
// of ten steps and after the last}. The reference kernels compute losses in float64 from weights in float32.
void dump_training(const std::string& folder);

// A small ResNet-50 that takes steps of sgd, then validates with its running averages, in float64: a
// safetensors file with "begin.<name>" and "end.<name>" (parameters and running averages), "images<i>" and
// "labels<i>" (of step i; the last are for validation). Metadata: "losses", "validated", "lr".
void dump_averages(const std::string& path);

}  // namespace boxcar::tests
