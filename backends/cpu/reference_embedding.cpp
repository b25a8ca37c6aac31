#include "backends/cpu/reference_groups.h"

namespace boxcar::backends::cpu {
namespace {

// visit(position of the row of the table, position of the row of y) for every index that falls into the
// table.
template <class Visit>
void each_hit(const HostTensor& indices, int64_t rows, int64_t width, int64_t offset, Visit visit) {
  for (size_t i = 0; i < indices.data.size(); ++i) {
    const int64_t row = static_cast<int64_t>(indices.data[i]) - offset;
    if (row >= 0 && row < rows) visit(static_cast<size_t>(row * width), i * static_cast<size_t>(width));
  }
}

void embedding(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const int64_t rows = in[0].type.shape[0], width = in[0].type.shape[1];
  each_hit(in[1], rows, width, ir::attr_int(attrs, "offset"), [&](size_t from, size_t to) {
    for (size_t i = 0; i < static_cast<size_t>(width); ++i) out[0].data[to + i] = in[0].data[from + i];
  });
}

void embedding_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const int64_t rows = out[0].type.shape[0], width = out[0].type.shape[1];
  each_hit(in[1], rows, width, ir::attr_int(attrs, "offset"), [&](size_t to, size_t from) {
    for (size_t i = 0; i < static_cast<size_t>(width); ++i) out[0].data[to + i] += in[0].data[from + i];
  });
}

}  // namespace

void add_embedding_kernels(KernelTable& table) {
  table.insert({{"embedding", embedding}, {"embedding_grad", embedding_grad}});
}

}  // namespace boxcar::backends::cpu
