// Convolutions as one loop over all products x * weight -> y, which the gradients walk too.
#include "backends/cpu/reference_groups.h"

namespace boxcar::backends::cpu {
namespace {

struct Geometry {
  Image x;
  ir::Shape weight;
  Image y;
  int64_t stride, padding, groups;
};

Geometry geometry(const HostTensor& x, const HostTensor& weight, const HostTensor& y,
                  const ir::Attrs& attrs) {
  return {Image(x.type.shape, attrs),     weight.type.shape,
          Image(y.type.shape, attrs),     ir::attr_int(attrs, "stride"),
          ir::attr_int(attrs, "padding"), ir::attr_int(attrs, "groups")};
}

size_t flat(const ir::Shape& shape, int64_t a, int64_t b, int64_t c, int64_t d) {
  return static_cast<size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d);
}

// visit(x, weight, y): positions of every product that y sums; products with padding are left out.
template <class Visit>
void each_product(const Geometry& g, Visit visit) {
  const int64_t out_width = g.groups == 0 ? 0 : g.y.extent[1] / g.groups;  // output channels of a group
  for_each(g.y.extent, [&](const std::vector<int64_t>& at, int64_t) {
    const int64_t group = at[1] / out_width;
    for_each({g.weight[1], g.weight[2], g.weight[3]}, [&](const std::vector<int64_t>& in, int64_t) {
      const int64_t row = at[2] * g.stride + in[1] - g.padding, column = at[3] * g.stride + in[2] - g.padding;
      if (!g.x.has(row, column)) return;
      visit(g.x.at(at[0], group * g.weight[1] + in[0], row, column),
            flat(g.weight, at[1], in[0], in[1], in[2]), g.y.at(at[0], at[1], at[2], at[3]));
    });
  });
}

void conv2d(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  each_product(geometry(in[0], in[1], out[0], attrs),
               [&](size_t x, size_t w, size_t y) { out[0].data[y] += in[0].data[x] * in[1].data[w]; });
}

void conv2d_input_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  each_product(geometry(out[0], in[1], in[0], attrs),
               [&](size_t x, size_t w, size_t y) { out[0].data[x] += in[0].data[y] * in[1].data[w]; });
}

void conv2d_weight_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  each_product(geometry(in[1], out[0], in[0], attrs),
               [&](size_t x, size_t w, size_t y) { out[0].data[w] += in[0].data[y] * in[1].data[x]; });
}

}  // namespace

void add_conv_kernels(KernelTable& table) {
  table.insert({{"conv2d", conv2d},
                {"conv2d_input_grad", conv2d_input_grad},
                {"conv2d_weight_grad", conv2d_weight_grad}});
  add_pool_kernels(table);
}

}  // namespace boxcar::backends::cpu
