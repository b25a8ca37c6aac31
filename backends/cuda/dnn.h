// Convolutions by cuDNN's graph interface, found in its library when the first one is prepared.
//
//   Dnn dnn;
//   auto conv = dnn.convolution({.kind = ConvolutionKind::forward, .x = {n, c, h, w}, .weight = {o, c /
//   groups, kh, kw},
//                                .y = {n, o, oh, ow}, .stride = 2, .padding = 3, .type = bfloat16});
//   conv->run(x, weight, y, workspace, stream);        // `workspace`: conv->workspace() bytes
//
// Of cuDNN's engines in the order of its heuristics the first is taken that gives the same bits in every run,
// computes in float32 what is float32 (no TF32), and needs at most `most_workspace`.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "backends/cuda/kernels/launch.h"

namespace boxcar::backends::cuda {

enum class ConvolutionKind { forward, input_grad, weight_grad };

struct ConvolutionShape {
  ConvolutionKind kind = ConvolutionKind::forward;
  std::array<int64_t, 4> x{}, weight{}, y{};  // gradients have the shapes of what they are of
  int64_t stride = 1, padding = 0;
  Type type = Type::float32;  // of all three; sums of 16-bit floats are in float32
};

class Convolution {
 public:
  virtual ~Convolution() = default;
  // Reads two of the three and writes the third, which the kind says.
  virtual void run(const void* x, const void* weight, const void* y, void* workspace, Stream stream) = 0;
  virtual int64_t workspace() const = 0;
};

// From any thread; on one GPU.
class Dnn {
 public:
  static constexpr int64_t most_workspace = int64_t{256} << 20;

  Dnn();  // throws Error (cannot run) where there is no cuDNN, or this was built without its headers
  ~Dnn();
  Dnn(const Dnn&) = delete;
  Dnn& operator=(const Dnn&) = delete;
  // Of floats, extents above 0. Throws Error (fault) where cuDNN has no engine.
  std::unique_ptr<Convolution> convolution(const ConvolutionShape& shape);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace boxcar::backends::cuda
