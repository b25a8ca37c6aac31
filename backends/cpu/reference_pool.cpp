#include <cmath>

#include "backends/cpu/reference_groups.h"

namespace boxcar::backends::cpu {
namespace {

struct PoolGeometry {
  Image x, y;
  int64_t kernel, stride, padding;
};

PoolGeometry pool_geometry(const HostTensor& x, const HostTensor& y, const ir::Attrs& attrs) {
  const int64_t kernel = ir::attr_int(attrs, "kernel"), stride = ir::attr_int(attrs, "stride");
  return {Image(x.type.shape, attrs), Image(y.type.shape, attrs), kernel, stride == 0 ? kernel : stride,
          ir::attr_int(attrs, "padding")};
}

// visit(x, y): positions of every element of every window.
template <class Visit>
void each_element(const PoolGeometry& g, Visit visit) {
  for_each(g.y.extent, [&](const std::vector<int64_t>& at, int64_t) {
    for_each({g.kernel, g.kernel}, [&](const std::vector<int64_t>& in, int64_t) {
      const int64_t row = at[2] * g.stride + in[0] - g.padding, column = at[3] * g.stride + in[1] - g.padding;
      if (g.x.has(row, column)) visit(g.x.at(at[0], at[1], row, column), g.y.at(at[0], at[1], at[2], at[3]));
    });
  });
}

// The position in x of each window's first maximum.
std::vector<size_t> maxima(const HostTensor& x, const PoolGeometry& g, size_t windows) {
  constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> best(windows, kNone);
  each_element(g, [&](size_t at, size_t y) {
    if (best[y] == kNone || x.data[at] > x.data[best[y]]) best[y] = at;
  });
  return best;
}

void max_pool(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const auto best = maxima(in[0], pool_geometry(in[0], out[0], attrs), out[0].data.size());
  for (size_t y = 0; y < best.size(); ++y)
    out[0].data[y] = best[y] == SIZE_MAX ? -INFINITY : in[0].data[best[y]];
}

void max_pool_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const auto best = maxima(in[1], pool_geometry(in[1], in[0], attrs), in[0].data.size());
  for (size_t y = 0; y < best.size(); ++y) {
    if (best[y] != SIZE_MAX) out[0].data[best[y]] += in[0].data[y];
  }
}

void avg_pool(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const PoolGeometry g = pool_geometry(in[0], out[0], attrs);
  const auto area = static_cast<double>(g.kernel * g.kernel);
  each_element(g, [&](size_t x, size_t y) { out[0].data[y] += in[0].data[x] / area; });
}

void avg_pool_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const PoolGeometry g = pool_geometry(out[0], in[0], attrs);
  const auto area = static_cast<double>(g.kernel * g.kernel);
  each_element(g, [&](size_t x, size_t y) { out[0].data[x] += in[0].data[y] / area; });
}

}  // namespace

void add_pool_kernels(KernelTable& table) {
  table.insert({{"max_pool2d", max_pool},
                {"max_pool2d_grad", max_pool_grad},
                {"avg_pool2d", avg_pool},
                {"avg_pool2d_grad", avg_pool_grad}});
}

}  // namespace boxcar::backends::cpu
