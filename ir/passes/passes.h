// Rewrite passes over the logical graph. Each pass changes a graph and is followed by a check. Any pass can
// be switched off by name.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/autodiff.h"
#include "ir/graph.h"
#include "ir/ops/optimizer_rows.h"

namespace boxcar::ir {

// fp8: like bf16 here; only kernels read 8 bits, in products of layers (backends/machines/device_profile.h,
// use_float8).
enum class Precision : uint8_t { fp32, tf32, fp16, bf16, fp64, fp8 };
inline std::vector<std::string> words_of(Precision) {
  return {"fp32", "tf32", "fp16", "bf16", "fp64", "fp8"};
}
// Products of layers; in tf32 their operands are float32.
inline DType type_of_products(Precision p) {
  constexpr DType types[] = {DType::float32,  DType::float32, DType::float16,
                             DType::bfloat16, DType::float64, DType::float8};
  return types[static_cast<size_t>(p)];
}
inline bool is_mixed(Precision p) {
  return p == Precision::fp16 || p == Precision::bf16 || p == Precision::fp8;
}

enum class Recompute : uint8_t { none, selective, full, ops };
inline std::vector<std::string> words_of(Recompute) { return {"none", "selective", "full", "ops"}; }
// With mixed precision, the type in which gradients are kept, summed over micro-batches and reduced. half:
// that of the products; half_but_tables: the same, but float32 for look-up tables (embeddings).
enum class Gradients : uint8_t { float32, half, half_but_tables };
inline std::vector<std::string> words_of(Gradients) { return {"float32", "half", "half-but-tables"}; }

// The type in which an optimizer keeps its moments. It computes in float32, from weights in float32.
enum class Moments : uint8_t { float32, bf16 };
inline std::vector<std::string> words_of(Moments) { return {"float32", "bf16"}; }

struct TrainOptions {
  Precision precision = Precision::fp16;
  Optimizer optimizer = Optimizer::adam;
  Recompute recompute = Recompute::none;
  // selective: the modules of a layer that are recomputed
  std::set<Module> recompute_modules = {Module::core_attn};
  // full: the recomputation of a layer stops at the last result that its backward pass reads
  bool recompute_stop = false;
  // Recompute only the first layers of each (virtual) stage, this many: a number for all stages or one for
  // each. Empty: all layers.
  std::vector<int> recompute_layers = {};
  Recompute recompute_others = Recompute::none;  // of the layers after those
  // First layer of each (virtual) stage, ascending, for recompute_layers; empty: {0}.
  std::vector<int> stage_starts;
  bool flash = false;          // attention as one op
  bool epilogues = false;      // biases, residuals, GELU and gradients in the kernels of products
  bool whole_products = true;  // for epilogues: no device has only a part of a product with a residual
  bool fused_loss = false;     // cross entropy in as few kernels as the layout of its classes allows
  bool whole_classes = true;   // for fused_loss: no device has only a part of the classes
  Gradients gradients = Gradients::float32;
  Moments moments = Moments::float32;  // in double precision all are float64
  bool half_logits = false;            // with mixed precision: the loss reads logits in 16 bits
  bool sparse_tables = false;          // only the rows that a step reads of a look-up table are updated
  double clip_norm = 1.0;              // 0: no clipping
  double learning_rate = 1e-4;
  double weight_decay = 0;  // only of matrices: biases and the weights of norms do not decay
  double momentum = 0.9;    // like those of the optimizer's row (set_optimizer)
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double trust_coefficient = 0.001;
  int micro_batches = 1;      // gradients are accumulated over this many
  double loss_scale = 65536;  // fp16 only; a step whose gradients overflow leaves the state as it was
  std::set<std::string> off;  // passes switched off, by name
  friend bool operator==(const TrainOptions&, const TrainOptions&) = default;
};

// Whether `moments` has an effect: the optimizer keeps some, and the step is not in double precision.
bool chooses_moments(const TrainOptions& options);

// Takes an optimizer with the numbers of its row, as far as options have fields of their names.
void set_optimizer(TrainOptions& options, Optimizer optimizer);

// Why sparse_tables cannot be, and what to do; empty if it can.
std::string why_not_sparse(const TrainOptions& options);
// Whether sparse_tables changes the step of this forward graph: one embedding alone reads a parameter.
bool has_sparse_table(const Graph& forward);

// Number of a (virtual) stage's layers that `recompute` applies to.
int recomputed_layers(const TrainOptions& options, size_t stage, int layers);

// Makes a forward graph with a loss into a whole training step, with these passes in order:
//   double_precision  fp64: every float tensor in float64, states, norms and scales too
//   fuse_patterns     bias+gelu, bias+dropout+add, scale+mask+softmax, or one attention op
//   fuse_elementwise  chains of elementwise ops
//   fuse_loss         with fused_loss: the pieces of a cross entropy
//   mixed_precision   16-bit compute, master weights, loss scale (fp16) and reductions in float32
//   differentiate     backward ops;  recompute: forward ops run again before the backward ops that need them
//   fuse_products     with epilogues: biases and their gradients into products
//   sparse_tables     with sparse_tables: gradients of look-up tables as the rows that were read
//   accumulate        "accumulate" ops: gradients over micro-batches, with mixed precision in the types
//                     of options.gradients
//   clip              global norm over all gradients, one scale; without it the loss is not scaled either
//   optimize          update ops: one per parameter; and the cast to 16 bits
//   running_averages  states of batch norm, and an update op for each. Any pass may be switched off by name
// (options.off). Each is followed by verify(), in release builds by verify_order().
//
// Result for a parameter w of layer l in fp16 or bf16 (fp32 has neither .half nor its cast):
//
//   %w = parameter() role=optimizer        %w.half = cast(%w) phase=update role=parameter, right after it
//   forward and backward ops               read %w.half; backward ends in %w.half.grad (half), role gradient
//   %w.grad.sum = accumulate(%w.half.grad) float32, phase backward, once per micro-batch; role gradient
//   %w.norm2 = square_sum(%w.grad.sum)     phase update, as all that follow; a scalar
//   %hL.grad_norm2 = sum(...)              one per layer, in that layer: the sum of its scalars
//   %grad_norm2 = sum(...)                 one in all, over all layers: a joint decision of all stages
//   %grad_scale = clip_scale(%grad_norm2)  the factor on every gradient: 1 / loss scale, and clipping; fp16
//   also %grads_finite = all_finite(%grad_norm2)    0 if any gradient is not finite: the step is skipped
//   %w.next, %w.m.next, %w.v.next = adam(%w, %w.grad.sum, %w.m, %w.v, %grad_scale, %grads_finite)
//   update %w = %w.next, ...               %w.m, %w.v = parameter() role=optimizer
//
// With a trust ratio (optimizer_rows.h), for all but vectors (parameter_kinds.h):
//
//   %w.norms = lamb_norms(%w, %w.grad.sum, %w.m, %w.v, %grad_scale)    of all matrices, before the updates
//   %w.next, %w.m.next, %w.v.next = lamb(%w, %w.grad.sum, %w.m, %w.v, %w.norms, %grad_scale, %grads_finite)
//
// With sparse_tables, for a table that one op looks up (%y = embedding(%w, %indices)):
//
//   %w.next, %w.m.next, %w.v.next = adam_rows(%w, %y.grad, %w.m, %w.v, %indices)    no %w.grad
//
// The gradients start from the constant "loss.grad" = loss_scale / micro_batches, so sums are of the mean
// loss. fp32 with one micro-batch has no accumulate. A parameter's layer is that of its first use.
Graph training_step(Graph forward, TensorId loss, const TrainOptions& options);

std::vector<std::string> pass_names();

}  // namespace boxcar::ir
