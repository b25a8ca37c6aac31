// Attention by cuDNN on tensor cores if it can, otherwise by own kernels without them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "backends/cuda/kernel_table.h"

namespace boxcar::backends::cuda {
namespace {

// The optional operand `seen` is the last: behind q, k and v, and in the gradient also out and lse.
size_t seen_operand(size_t first) { return first == 0 ? 3 : 6; }

// Attention of a call, without its operands; q, k and v are the call's from operand `first`.
Attention attention_of(const Call& call, size_t first) {
  const ir::Shape &q = call.inputs[first].shape, &k = call.inputs[first + 1].shape,
                  &v = call.inputs[first + 2].shape;
  Attention a;
  a.batch = q[0], a.heads = q[1], a.queries = q[2], a.width = q[3];
  a.key_heads = k[1], a.keys = k[2], a.value_width = v[3];
  const double scale = ir::attr_float(call.attrs, "scale");
  a.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(a.width));
  a.causal = ir::attr_bool(call.attrs, "causal");
  a.window = ir::attr_int(call.attrs, "window");
  a.offset = ir::attr_int(call.attrs, "offset");
  a.head_offset = ir::attr_int(call.attrs, "head_offset");
  a.group = ir::attr_int(call.attrs, "group");
  if (a.group == 0) a.group = a.key_heads > 0 ? std::max<int64_t>(a.heads / a.key_heads, 1) : 1;
  return a;
}

// --- on tensor cores, by cuDNN

// Why a call cannot run on tensor cores; empty: it can. They take one 16-bit type but for lse, whole groups
// of heads, no window, no documents, nothing dropped, nothing empty.
std::string slow_since(const Call& call, const Attention& a, size_t first) {
  const ir::DType type = call.inputs[first].dtype;
  if (type != ir::DType::bfloat16 && type != ir::DType::float16)
    return fmt::format("its operands are {} (--precision bf16)", ir::to_text(type));
  if (ir::attr_float(call.attrs, "p") != 0)
    return "it drops probabilities (--dropout 0, or --attention unfused)";
  if (a.window > 0) return "queries see a window of keys (--attention-window 0)";
  if (call.inputs.size() > seen_operand(first)) return "sequences have documents (--document-length 0)";
  if (a.head_offset != 0 || a.heads != a.key_heads * a.group)
    return "tensor parallelism cuts a group of query heads (a --tp that divides the key heads)";
  for (const ir::Types* types : {&call.inputs, &call.outputs})
    for (const ir::TensorType& t : *types)
      if (t.elements() == 0 || (t.dtype != type && t.shape.size() == 4))
        return "its operands are empty or of several types";
  const ir::TensorType& lse = first == 0 ? call.outputs[1] : call.inputs[5];
  return lse.dtype == ir::DType::float32 ? "" : "its sums are not float32";
}

// Why cuDNN does not take a shape that it could take.
std::string without_engine(const Dnn& dnn, const AttentionShape& s, bool gradient) {
  const int64_t version = dnn.version();
  const auto text = [](int64_t number) { return fmt::format("{}.{}", number / 10000, number / 100 % 100); };
  if (version < Dnn::least_attention_version)
    return fmt::format("cuDNN is {} (install {} or later)", text(version),
                       text(Dnn::least_attention_version));
  if (gradient && version < Dnn::any_keys_version && s.keys % 128 != 0)
    return fmt::format("cuDNN is {}, and 128 does not divide {} keys (install {} or later)", text(version),
                       s.keys, text(Dnn::any_keys_version));
  return fmt::format("cuDNN {} has no engine for heads of width {} (a width in eights)", text(version),
                     s.width);
}

// The shape, if nothing keeps it from tensor cores. Heads of a group follow each other, so that each key head
// is a batch of its own.
AttentionShape for_tensor_cores(const Call& call, const Attention& a, size_t first) {
  AttentionShape shape;
  shape.batch = a.batch * a.key_heads, shape.heads = a.group, shape.key_heads = 1;
  shape.queries = a.queries, shape.keys = a.keys, shape.width = a.width, shape.value_width = a.value_width;
  shape.causal = a.causal && a.offset < a.keys - 1;
  shape.offset = a.offset;
  shape.scale = a.scale;
  shape.type = static_cast<Type>(call.inputs[first].dtype);
  return shape;
}

std::unique_ptr<Kernel> forward_on_tensor_cores(const Call& call, const Place& place,
                                                const AttentionShape& shape) {
  const std::shared_ptr<DnnPlan> plan = place.libraries.dnn().attention(shape);
  if (!plan) return nullptr;
  return kernel(call, place, plan->workspace(), [plan](const Act& act) {
    plan->run({{act.inputs[0], act.inputs[1], act.inputs[2], act.outputs[0], act.outputs[1]}}, act.scratch,
              act.stream);
  });
}

// A gradient whose bits repeat keeps its scores in memory. It is therefore made of slices of the batch that
// need at most `most_scores` bytes, unless one key head needs more; cuDNN's tensors begin at multiples of 16
// bytes.
int64_t slice_of(const AttentionShape& s, int64_t most_scores) {
  int64_t slice = s.batch;
  for (int64_t n = s.batch; n >= 1; --n) {
    if (s.batch % n != 0 || n * s.heads * s.queries % 4 != 0) continue;
    slice = n;
    if (2 * n * s.heads * s.queries * s.keys <= most_scores) break;
  }
  return slice;
}

std::unique_ptr<Kernel> gradient_on_tensor_cores(const Call& call, const Place& place,
                                                 const AttentionShape& shape) {
  const bool repeats = !place.libraries.fast();
  AttentionShape part = shape;
  if (repeats) part.batch = slice_of(shape, place.libraries.most_scores);
  const std::shared_ptr<DnnPlan> plan = place.libraries.dnn().attention_grad(part, repeats);
  if (!plan) return nullptr;
  return kernel(call, place, plan->workspace(), [plan, slices = shape.batch / part.batch](const Act& act) {
    for (int64_t i = 0; i < slices; ++i) {
      std::vector<const void*> tensors;
      const auto add = [&](const void* data, const ir::TensorType& type) {
        tensors.push_back(static_cast<const std::byte*>(data) + type.bytes() / slices * i);
      };
      for (size_t t = 0; t < 6; ++t) add(act.inputs[t], act.call.inputs[t]);
      for (size_t t = 0; t < 3; ++t) add(act.outputs[t], act.call.outputs[t]);
      plan->run(tensors, act.scratch, act.stream);
    }
  });
}

// --- or by own kernels

std::unique_ptr<Kernel> attention(const Call& call, const Place& place, size_t first, bool gradient) {
  const Attention a = attention_of(call, first);
  std::string why = slow_since(call, a, first);
  if (why.empty() && !place.libraries.has_dnn()) why = place.libraries.why_no_dnn();
  if (why.empty()) {
    const AttentionShape shape = for_tensor_cores(call, a, first);
    place.libraries.takes("cuDNN");
    std::unique_ptr<Kernel> made =
        gradient ? gradient_on_tensor_cores(call, place, shape) : forward_on_tensor_cores(call, place, shape);
    if (made) return made;
    why = without_engine(place.libraries.dnn(), shape, gradient);
  }
  place.libraries.takes("own kernels without tensor cores", why);
  if (a.value_width > Attention::widest) return nullptr;
  const bool wide = any_float64(call);
  return kernel(call, place, 0, [=, scores = ir::Shape{a.batch, a.heads, a.queries, a.keys}](const Act& act) {
    Attention x = a;
    x.drop = drop_at(act, act.call.attrs, scores);
    x.q = act.in(first), x.k = act.in(first + 1), x.v = act.in(first + 2);
    if (const size_t seen = seen_operand(first); seen < act.inputs.size())
      x.seen = static_cast<const int64_t*>(act.inputs[seen]);
    if (!gradient) {
      x.out = act.out(0), x.lse = act.out(1);
      return launch_attention(x, wide, act.stream);
    }
    x.dy = act.in(0), x.out = act.in(4), x.lse = act.in(5);
    x.dq = act.out(0), x.dk = act.out(1), x.dv = act.out(2);
    launch_attention_grad(x, wide, act.stream);
  });
}

std::unique_ptr<Kernel> make_attention(const Call& call, const Place& place) {
  return attention(call, place, 0, false);
}
std::unique_ptr<Kernel> make_attention_grad(const Call& call, const Place& place) {
  return attention(call, place, 1, true);
}

}  // namespace

void add_attention_kernels(Factories& table) {
  table["scaled_dot_product_attention"] = make_attention;
  table["scaled_dot_product_attention_grad"] = make_attention_grad;
}

}  // namespace boxcar::backends::cuda
