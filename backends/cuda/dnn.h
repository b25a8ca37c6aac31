// Convolutions, batch norm and attention by the graph interface of cuDNN, whose library is loaded when the
// first one is prepared.
//
//   Dnn dnn;
//   auto conv = dnn.convolution({.kind = ConvolutionKind::forward, .x = {n, c, h, w},
//                                .weight = {o, c / groups, kh, kw}, .y = {n, o, oh, ow}, .stride = 2,
//                                .padding = 3, .type = Type::bfloat16});
//   conv->run({{x, weight, y}}, workspace, stream);        // `workspace`: conv->workspace() bytes
//
// The engine is cuDNN's first, in the order of its heuristics, that gives the same bits in every run,
// computes float32 in float32 (no TF32), and stays within its memory limit.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/cuda/kernels/launch.h"

namespace boxcar::backends::cuda {

enum class ConvolutionKind { forward, input_grad, weight_grad };

struct ConvolutionShape {
  ConvolutionKind kind = ConvolutionKind::forward;
  std::array<int64_t, 4> x{}, weight{}, y{};  // a gradient has the shape of its tensor
  int64_t stride = 1, padding = 0;
  Type type = Type::float32;   // of all three; sums of 16-bit floats are in float32
  bool channels_last = false;  // x and y are [n, h, w, c] in memory; weight is as above
};

// Images in memory as [images, height, width, channels].
struct BatchNormShape {
  int64_t images = 1, channels = 1, height = 1, width = 1;
  double eps = 0;                   // of the forward pass
  Type type = Type::float32;        // of x and y; 16 bits or 32
  Type scale_type = Type::float32;  // of gamma and beta; means and deviations are float32
};

// q [batch, heads, queries, width], k [batch, key_heads, keys, width], v [batch, key_heads, keys,
// value_width]; out [batch, heads, queries, value_width], lse [batch, heads, queries]. Query head h reads key
// head h / (heads / key_heads). Causal: query s sees the keys up to s + offset.
struct AttentionShape {
  int64_t batch = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, width = 1, value_width = 1;
  bool causal = false;
  int64_t offset = 0;
  double scale = 1;
  Type type = Type::bfloat16;  // 16 bits, of all but lse, which is float32
};

// Calls of cuDNN that are ready to run.
class DnnPlan {
 public:
  virtual ~DnnPlan() = default;
  // Takes tensors in the order that its maker documents. From any thread.
  virtual void run(std::span<const void* const> tensors, void* workspace, Stream stream) = 0;
  virtual int64_t workspace() const = 0;
};

struct DnnLibrary;

// From any thread; on one GPU.
class Dnn {
 public:
  static constexpr int64_t most_workspace = int64_t{256} << 20;          // of a convolution
  static constexpr int64_t most_attention_workspace = int64_t{4} << 30;  // scores of one head that repeat
  static constexpr int64_t least_attention_version = 91000;              // 9.10.0
  static constexpr int64_t any_keys_version = 91600;  // gradients over keys that 128 does not divide

  Dnn();  // throws Error (cannot run) if there is no cuDNN, or this was built without its headers
  // Plans for a GPU that need not be present, from cuDNN's own JSON description of it; they cannot run.
  // Throws Error (cannot run) for descriptions that cuDNN rejects, and before cuDNN 9.8.
  explicit Dnn(const std::string& gpu);
  ~Dnn();
  Dnn(const Dnn&) = delete;
  Dnn& operator=(const Dnn&) = delete;
  int64_t version() const;  // 91900: 9.19.0
  // x, weight, y: reads two of the three and writes the third, as the kind says. Floats, with extents above
  // 0. Throws Error (fault) if cuDNN has no engine.
  std::unique_ptr<DnnPlan> convolution(const ConvolutionShape& shape);
  // x, gamma, beta, y, mean, rstd: writes the last three. Extents above 0. Null if cuDNN has no engine, as
  // for channels that do not fill 16 bytes.
  std::unique_ptr<DnnPlan> batch_norm(const BatchNormShape& shape);
  // dy, x, gamma, mean, rstd, dx, dgamma, dbeta: writes the last three. Null if cuDNN has no engine.
  std::unique_ptr<DnnPlan> batch_norm_grad(const BatchNormShape& shape);
  // q, k, v, out, lse: writes the last two. Extents above 0. Null if cuDNN has no engine.
  std::unique_ptr<DnnPlan> attention(const AttentionShape& shape);
  // dy, q, k, v, out, lse, dq, dk, dv: writes the last three. With `repeats`, bits repeat in every run, which
  // takes 2 bytes of workspace for every query and key of each head. Null if cuDNN has no engine.
  std::unique_ptr<DnnPlan> attention_grad(const AttentionShape& shape, bool repeats);

 private:
  std::unique_ptr<DnnLibrary> library_;
};

}  // namespace boxcar::backends::cuda
