#include "sim/models/kernel_time.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/machines/device_profile.h"
#include "ir/op_kind.h"
#include "ir/ops/attention_work.h"
#include "sim/models/convolution_time.h"
#include "sim/models/float8_casts.h"
#include "sim/models/matmul_time.h"

namespace boxcar::sim {
namespace {

using backends::DeviceProfile;

double share_in(const std::map<std::string, double, std::less<>>& shares, std::string_view name) {
  if (shares.empty()) return 1;
  auto found = shares.find(name);
  return found == shares.end() ? 1 : found->second;
}

double op_share(const DeviceProfile& device, std::string_view name) {
  return share_in(device.op_share, name);
}

// "add_relu" of a fused op whose program is "add(0, 1); relu(2)".
std::string steps_of(const ir::Attrs& attrs) {
  const auto found = attrs.find("program");
  if (found == attrs.end()) return {};
  const auto& program = std::get<std::string>(found->second);
  std::string names;
  bool inside = false;
  for (const char c : program) {
    if (c == '(') inside = true;
    if (c == ';') names += '_', inside = false;
    if (!inside && c != ';' && c != ' ') names += c;
  }
  return names;
}

double half_share(const DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                  const ir::Attrs& attrs) {
  if (device.half_op_share.empty() || inputs.empty() || !is_half(inputs[0].dtype)) return 1;
  return share_in(device.half_op_share,
                  ir::kind_of(def.name) == ir::OpKind::fused ? steps_of(attrs) : def.name);
}

// A product with an epilogue runs like one without unless the device says otherwise.
double product_share(const DeviceProfile& device, const ir::OpDef& def, const ir::Attrs& attrs) {
  const ir::OpKind kind = ir::kind_of(def.name);
  const bool more = kind == ir::OpKind::product_with_epilogue || kind == ir::OpKind::weight_grad_with_bias;
  const bool by_role = kind == ir::OpKind::product || (more && !device.op_share.contains(def.name));
  return op_share(device, by_role ? role_name(def, attrs) : def.name);
}

double memory_seconds(const DeviceProfile& device, const ir::OpDef& def, double bytes) {
  return bytes / (device.memory_bandwidth * device.memory_efficiency.at(bytes) * op_share(device, def.name));
}

// [..., m, n] from a with k to sum over. The op decides which of the output's leading dimensions are m.
MatmulShape shape_of(const ir::OpDef& def, const ir::TensorType& a, const ir::TensorType& out) {
  MatmulShape shape;
  size_t rank = out.shape.size();
  shape.n = rank == 0 ? 1 : out.shape[rank - 1];
  shape.m = out.elements() / shape.n;
  if (rank > 2 && ir::kind_of(def.name) == ir::OpKind::batched_product) {
    shape.m = out.shape[rank - 2];
    shape.batch = out.elements() / (shape.m * shape.n);
  }
  shape.k = a.elements() / (shape.batch * shape.m);
  return shape;
}

// Frameworks do without the fast sums of 8-bit products in the backward pass.
bool sums_in_full(const DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                  const ir::Attrs& attrs) {
  if (inputs[0].dtype != ir::DType::float8 || !device.float8) return false;
  return device.float8->full_forward_sums || ir::role_of(def, attrs) != ProductRole::forward;
}

// Power bounds the rate of products that run for long; slower ones are unaffected.
double sustained_seconds(const DeviceProfile& device, ir::DType type, double flops) {
  return device.sustained_flops > 0 && is_half(type) ? flops / device.sustained_flops : 0;
}

double product_seconds(const DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                       const ir::Types& outputs, const ir::Attrs& attrs, const ir::Work& work) {
  MatmulShape shape = shape_of(def, inputs[0], outputs[0]);
  if (shape.k < 1) return memory_seconds(device, def, work.bytes) + device.kernel_floor;
  double share = product_share(device, def, attrs);
  double rate = 1;
  if (has_odd_rows(inputs, outputs)) {
    share *= device.matmul.odd_share;
    rate = op_share(device, fmt::format("odd_{}", role_name(def, attrs)));
  }
  if (sums_in_full(device, def, inputs, attrs)) share *= device.matmul.full_sum_share;
  return std::max(matmul_seconds(device, shape, inputs[0].dtype, work.bytes, rate) / share,
                  sustained_seconds(device, inputs[0].dtype, work.flops));
}

// With a window, a tile of queries goes through all keys that one of them sees, and reaches the rate of a
// full kernel over that many keys, or the causal kernel's if that is less. Tiles are FlashAttention-2's, of
// 128 queries (kBlockM of csrc/flash_attn/src/flash_fwd_launch_template.h,
// github.com/Dao-AILab/flash-attention). Profiles.AttentionOfCudnn compares it with cuDNN's rows: some on a
// GB200 are more than a third off.
constexpr int64_t tile_queries = 128;

// How many times the pairs of a document those of its whole tiles are.
double tiles_over_pairs(int64_t document) {
  const int64_t tiles = (document + tile_queries - 1) / tile_queries;
  const double side = static_cast<double>(tiles * tile_queries) / static_cast<double>(document);
  return side * side;
}

// A causal kernel has short rows and reaches the rate of a full one at a quarter of the sequence
// (fit_attention.py), if the device has no curve for it. One with a window runs like a causal one without if
// that is quicker. One with documents runs like one on shorter sequences of a larger batch, each of whole
// tiles.
double attention_seconds(const DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                         const ir::Work& work, const ir::Attrs& attrs) {
  const bool backward = ir::kind_of(def.name) == ir::OpKind::attention_grad;
  const auto& keys = inputs[backward ? 2 : 1].shape;  // [batch, heads, sequence, head size]
  const int64_t document = ir::document_of(attrs);
  double sequence =
      keys.size() >= 2 ? static_cast<double>(ir::tokens_together(document, keys[keys.size() - 2])) : 1;
  double head = keys.empty() ? 1 : static_cast<double>(keys.back());
  auto found = attrs.find("causal");
  const bool causal = found != attrs.end() && std::get<bool>(found->second);
  const backends::AttentionKernel& kernel = device.attention;
  const backends::Curve& full = backward ? kernel.backward : kernel.forward;
  const backends::Curve& own = backward ? kernel.causal_backward : kernel.causal_forward;
  const double whole = sequence;
  if (causal) sequence /= 4;
  const auto rate_by = [&](double share) {
    return peak_flops(device, inputs[0].dtype) * share * kernel.head_share.at(head);
  };
  const auto rate = [&](double keys_of_a_row) { return rate_by(full.at(keys_of_a_row)); };
  double computing = work.flops / (causal && !own.x.empty() ? rate_by(own.at(whole)) : rate(sequence));
  if (document > 0 && !device.attention_kernel.empty())
    computing *= tiles_over_pairs(static_cast<int64_t>(whole));
  if (const int64_t window = ir::window_of(attrs); window > 0) {
    const auto& queries = inputs[backward ? 1 : 0].shape;
    const int64_t tokens =
        ir::tokens_together(document, std::max(queries[queries.size() - 2], keys[keys.size() - 2]));
    computing *= ir::causal_share(0, tokens) / ir::causal_share(window, tokens);
    const double keys_of_a_tile = static_cast<double>(window + tile_queries);
    const double work_of_tiles = work.flops * keys_of_a_tile / static_cast<double>(window);
    computing = std::min(computing, work_of_tiles / rate(std::min(keys_of_a_tile, sequence)));
  }
  return device.kernel_floor + std::max(computing, memory_seconds(device, def, work.bytes));
}

double modelled_convolution(const DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                            const ir::Types& outputs, const ir::Attrs& attrs) {
  ConvolutionShape shape = convolution_shape(pass_of(def), inputs, outputs, attrs);
  ir::DType type = inputs[0].dtype;
  if (is_half(type) && !fills_tensor_cores(shape)) {
    if (device.pads_channels) {
      shape.from = ceil_div(shape.from, channel_step) * channel_step;
      shape.to = ceil_div(shape.to, channel_step) * channel_step;
    } else if (device.convolution.contains(ir::DType::float32)) {
      type = ir::DType::float32;
    }
  }
  return convolution_seconds(device, device.convolution.at(type), shape, pass_of(def), type);
}

double convolution_seconds(const DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                           const ir::Types& outputs, const ir::Attrs& attrs, const ir::Work& work) {
  if (device.convolution.contains(inputs[0].dtype))
    return modelled_convolution(device, def, inputs, outputs, attrs);
  double share = device.convolution_efficiency.at(work.flops) * op_share(device, def.name);
  double compute = work.flops / (peak_flops(device, inputs[0].dtype) * share);
  double memory = work.bytes / (device.memory_bandwidth * device.memory_efficiency.at(work.bytes));
  return device.kernel_floor + std::max(compute, memory);
}

bool empty(const ir::Types& types) {
  return std::all_of(types.begin(), types.end(),
                     [](const ir::TensorType& type) { return type.elements() == 0; });
}

}  // namespace

bool has_odd_rows(const ir::Types& inputs, const ir::Types& outputs) {
  const auto odd = [](const ir::TensorType& type) {
    return !type.shape.empty() && type.shape.back() % 2 == 1 && type.elements() > type.shape.back();
  };
  return is_half(inputs[0].dtype) && (odd(inputs[0]) || odd(inputs[1]) || odd(outputs[0]));
}

const char* role_name(const ir::OpDef& def, const ir::Attrs& attrs) {
  const ProductRole role = ir::role_of(def, attrs);
  if (role == ProductRole::forward) return "matmul";
  return role == ProductRole::input_grad ? "matmul_input_grad" : "matmul_weight_grad";
}

double kernel_seconds(const DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                      const ir::Types& outputs, const ir::Attrs& attrs) {
  const bool view = def.family == ir::Family::none && !device.op_share.contains(def.name);
  if (view || empty(outputs)) return 0;
  ir::Work work = ir::work(def, inputs, outputs, attrs);
  ir::Family family = inputs.empty() ? ir::Family::memory : def.family;
  double seconds = 0;
  switch (family) {
    case ir::Family::matmul:
      seconds = product_seconds(device, def, inputs, outputs, attrs, work);
      break;
    case ir::Family::attention:
      seconds = attention_seconds(device, def, inputs, work, attrs);
      break;
    case ir::Family::convolution:
      seconds = convolution_seconds(device, def, inputs, outputs, attrs, work);
      break;
    default:
      seconds = device.kernel_floor +
                memory_seconds(device, def, work.bytes) / half_share(device, def, inputs, attrs);
      if (auto more = device.op_seconds.find(def.name); more != device.op_seconds.end())
        seconds += more->second;
  }
  return device.launch_latency + seconds;
}

double float8_product_seconds(const DeviceProfile& device, const ir::OpDef& def, const ir::Types& inputs,
                              const ir::Types& outputs, const ir::Attrs& attrs) {
  ir::Types operands = inputs;
  for (size_t i = 0; i < 2; ++i) operands[i].dtype = ir::DType::float8;
  return kernel_seconds(device, def, operands, outputs, attrs);
}

}  // namespace boxcar::sim
