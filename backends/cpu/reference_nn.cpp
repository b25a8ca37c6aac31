// Dropout and gated activations; the other neural-network kernels are in the files of reference_groups.h.
#include "backends/cpu/reference_groups.h"
#include "backends/cpu/reference_math.h"
#include "backends/cpu/reference_random.h"

namespace boxcar::backends::cpu {
namespace {

void dropout(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const Dropout drop(attrs, in[0].type.shape);
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] = in[0].data[i] * drop.factor(static_cast<int64_t>(i));
  }
}

void bias_dropout_add(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const Dropout drop(attrs, in[0].type.shape);
  const size_t width = in[1].data.size();
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] =
        (in[0].data[i] + in[1].data[i % width]) * drop.factor(static_cast<int64_t>(i)) + in[2].data[i];
  }
}

void bias_gelu(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const auto of = ir::attr_bool(attrs, "tanh") ? gelu_tanh : gelu;
  const size_t width = in[1].data.size();
  for (size_t i = 0; i < in[0].data.size(); ++i) out[0].data[i] = of(in[0].data[i] + in[1].data[i % width]);
}

void bias_gelu_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const auto slope = ir::attr_bool(attrs, "tanh") ? gelu_tanh_slope : gelu_slope;
  const size_t width = in[2].data.size();
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] = in[0].data[i] * slope(in[1].data[i] + in[2].data[i % width]);
  }
}

void swiglu(const Tensors& in, Tensors& out, const ir::Attrs&) {
  for (size_t i = 0; i < in[0].data.size(); ++i) out[0].data[i] = silu(in[0].data[i]) * in[1].data[i];
}

void swiglu_grad(const Tensors& in, Tensors& out, const ir::Attrs&) {
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    const double dy = in[0].data[i], gate = in[1].data[i], up = in[2].data[i];
    out[0].data[i] = dy * up * silu_slope(gate);
    out[1].data[i] = dy * silu(gate);
  }
}

}  // namespace

void add_nn_kernels(KernelTable& table) {
  table.insert({{"dropout", dropout},
                {"dropout_grad", dropout},
                {"bias_dropout_add", bias_dropout_add},
                {"bias_gelu", bias_gelu},
                {"bias_gelu_grad", bias_gelu_grad},
                {"swiglu", swiglu},
                {"swiglu_grad", swiglu_grad}});
  add_norm_kernels(table);
  add_softmax_kernels(table);
  add_embedding_kernels(table);
  add_sampling_kernels(table);
  add_moe_kernels(table);
}

}  // namespace boxcar::backends::cpu
