#include "backends/cpu/reference.h"

#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

constexpr auto kReferenceGroups = {add_matmul_kernels, add_elementwise_kernels, add_reduce_kernels,
                                   add_shape_kernels,  add_index_kernels,       add_update_kernels,
                                   add_nn_kernels,     add_attention_kernels,   add_conv_kernels,
                                   add_packed_kernels, add_fused_kernels};

KernelTable build_table() {
  KernelTable table;
  for (auto add : kReferenceGroups) add(table);
  return table;
}

ir::Shape extents(std::span<const sbp::Range> ranges) {
  ir::Shape shape;
  for (const sbp::Range& range : ranges) shape.push_back(range.size());
  return shape;
}

// Calls visit(flat in the whole, flat in the part).
template <class Visit>
void walk(const ir::Shape& whole, std::span<const sbp::Range> ranges, Visit visit) {
  std::vector<int64_t> step = strides(whole);
  for_each(extents(ranges), [&](const std::vector<int64_t>& index, int64_t flat) {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i) at += (ranges[i].begin + index[i]) * step[i];
    visit(static_cast<size_t>(at), static_cast<size_t>(flat));
  });
}

}  // namespace

const KernelTable& reference_kernels() {
  static const KernelTable table = build_table();
  return table;
}

Tensors run_reference(std::string_view op, const Tensors& inputs, const ir::Attrs& attrs) {
  ir::Types types;
  for (const HostTensor& input : inputs) types.push_back(input.type);
  Tensors outputs;
  for (ir::TensorType& type : ir::op(op).infer(types, attrs)) outputs.push_back(zeros(std::move(type)));
  auto kernel = reference_kernels().find(op);
  if (kernel == reference_kernels().end()) throw Error::fault(std::string(op), "has no reference kernel");
  kernel->second(inputs, outputs, attrs);
  return outputs;
}

HostTensor zeros(ir::TensorType type) {
  auto count = static_cast<size_t>(type.elements());
  return {std::move(type), std::vector<double>(count, 0.0)};
}

HostTensor take(const HostTensor& whole, std::span<const sbp::Range> ranges) {
  HostTensor part = zeros({extents(ranges), whole.type.dtype});
  walk(whole.type.shape, ranges, [&](size_t at, size_t flat) { part.data[flat] = whole.data[at]; });
  return part;
}

void put(HostTensor& whole, std::span<const sbp::Range> ranges, const HostTensor& part) {
  walk(whole.type.shape, ranges, [&](size_t at, size_t flat) { whole.data[at] = part.data[flat]; });
}

std::vector<int64_t> strides(const ir::Shape& shape) {
  std::vector<int64_t> step(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) step[i - 1] = step[i] * shape[i];
  return step;
}

Around around(const ir::Shape& shape, int64_t axis) {
  auto at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis);
  Around result;
  for (size_t i = 0; i < shape.size(); ++i) {
    (i < at ? result.outer : i == at ? result.extent : result.inner) *= shape[i];
  }
  return result;
}

void for_each(const ir::Shape& shape,
              const std::function<void(const std::vector<int64_t>& index, int64_t flat)>& visit) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t flat = 0; flat < count; ++flat) {
    visit(index, flat);
    for (size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
}

}  // namespace boxcar::backends::cpu
