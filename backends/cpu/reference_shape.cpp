#include <algorithm>
#include <numeric>

#include "backends/cpu/reference.h"

namespace boxcar::backends::cpu {
namespace {

void copy(const Tensors& in, Tensors& out, const ir::Attrs&) { out[0].data = in[0].data; }

// out[index] = in[sum of index x steps]
void gather_steps(const HostTensor& in, HostTensor& out, const std::vector<int64_t>& steps,
                  int64_t start = 0) {
  for_each(out.type.shape, [&](const std::vector<int64_t>& index, int64_t flat) {
    int64_t at = std::inner_product(index.begin(), index.end(), steps.begin(), start);
    out.data[static_cast<size_t>(flat)] = in.data[static_cast<size_t>(at)];
  });
}

void transpose(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  std::vector<int64_t> own = strides(in[0].type.shape), steps;
  const std::vector<int64_t>& perm = ir::attr_ints(attrs, "perm");
  for (int64_t axis : perm) steps.push_back(own[static_cast<size_t>(axis)]);
  if (perm.empty()) steps.assign(own.rbegin(), own.rend());
  gather_steps(in[0], out[0], steps);
}

void broadcast_to(const Tensors& in, Tensors& out, const ir::Attrs&) {
  const ir::Shape &from = in[0].type.shape, &to = out[0].type.shape;
  std::vector<int64_t> own = strides(from), steps(to.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1) steps[to.size() - from.size() + i] = own[i];
  }
  gather_steps(in[0], out[0], steps);
}

void slice(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  std::vector<int64_t> own = strides(in[0].type.shape);
  const std::vector<int64_t>& starts = ir::attr_ints(attrs, "starts");
  gather_steps(in[0], out[0], own, std::inner_product(own.begin(), own.end(), starts.begin(), int64_t{0}));
}

void slice_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  std::vector<int64_t> own = strides(out[0].type.shape);
  const std::vector<int64_t>& starts = ir::attr_ints(attrs, "starts");
  for_each(in[0].type.shape, [&](const std::vector<int64_t>& index, int64_t flat) {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      int64_t place = index[i] + starts[i];
      if (place < 0 || place >= out[0].type.shape[i]) return;
      at += place * own[i];
    }
    out[0].data[static_cast<size_t>(at)] = in[0].data[static_cast<size_t>(flat)];
  });
}

void concat(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  int64_t axis = ir::attr_int(attrs, "axis");
  Around whole = around(out[0].type.shape, axis);
  int64_t start = 0;
  for (const HostTensor& input : in) {
    Around part = around(input.type.shape, axis);
    int64_t row = part.extent * part.inner;
    for (int64_t i = 0; i < part.outer; ++i) {
      std::copy_n(input.data.begin() + i * row, row,
                  out[0].data.begin() + (i * whole.extent + start) * whole.inner);
    }
    start += part.extent;
  }
}

}  // namespace

void add_shape_kernels(KernelTable& table) {
  table.insert({{"reshape", copy},
                {"transpose", transpose},
                {"broadcast_to", broadcast_to},
                {"slice", slice},
                {"slice_grad", slice_grad},
                {"concat", concat}});
}

}  // namespace boxcar::backends::cpu
