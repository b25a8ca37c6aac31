// Pools: windows of one image and channel after the other.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/kernels.h"

namespace boxcar::backends::cpu {
namespace {

struct Pool {
  Pool(const ir::Shape& x, const ir::Shape& y, const ir::Attrs& attrs)
      : planes(x[0] * x[1]),
        height(x[2]),
        width(x[3]),
        out_height(y[2]),
        out_width(y[3]),
        kernel(ir::attr_int(attrs, "kernel")),
        stride(ir::attr_int(attrs, "stride")),
        padding(ir::attr_int(attrs, "padding")) {
    if (stride == 0) stride = kernel;
  }

  int64_t x_size() const { return height * width; }
  int64_t y_size() const { return out_height * out_width; }

  // visit(position in x) for the elements of the window with position `y` in its plane.
  template <class Visit>
  void each_element(int64_t y, Visit visit) const {
    const int64_t top = y / out_width * stride - padding, left = y % out_width * stride - padding;
    for (int64_t row = std::max<int64_t>(top, 0); row < std::min(top + kernel, height); ++row)
      for (int64_t column = std::max<int64_t>(left, 0); column < std::min(left + kernel, width); ++column)
        visit(row * width + column);
  }

  // The position in x of a window's first maximum; -1 if all of it is padding.
  template <class T>
  int64_t maximum(const T* x, int64_t y) const {
    int64_t best = -1;
    each_element(y, [&](int64_t at) {
      if (best < 0 || x[at] > x[best]) best = at;
    });
    return best;
  }

  int64_t planes, height, width, out_height, out_width, kernel, stride, padding;
};

template <class T>
void max_pool(const Pool& pool, const Operands& at) {
  const T* x = at.in<T>(0);
  T* y = at.out<T>(0);
  for (int64_t plane = 0; plane < pool.planes; ++plane, x += pool.x_size()) {
    for (int64_t window = 0; window < pool.y_size(); ++window) {
      const int64_t best = pool.maximum(x, window);
      *y++ = best < 0 ? static_cast<T>(-INFINITY) : x[best];
    }
  }
}

template <class T>
void avg_pool(const Pool& pool, const Operands& at) {
  const T* x = at.in<T>(0);
  T* y = at.out<T>(0);
  const auto area = static_cast<Acc<T>>(pool.kernel * pool.kernel);
  for (int64_t plane = 0; plane < pool.planes; ++plane, x += pool.x_size()) {
    for (int64_t window = 0; window < pool.y_size(); ++window) {
      Acc<T> sum = 0;
      pool.each_element(window, [&](int64_t i) { sum += static_cast<Acc<T>>(x[i]); });
      *y++ = static_cast<T>(sum / area);
    }
  }
}

// dx of each plane is summed by add(window, dy of it, sums), then rounded.
template <class T, class Add>
void sum_planes(const Pool& pool, const T* dy, T* dx, Add add) {
  std::vector<Acc<T>> sums(static_cast<size_t>(pool.x_size()));
  for (int64_t plane = 0; plane < pool.planes; ++plane) {
    std::fill(sums.begin(), sums.end(), Acc<T>(0));
    for (int64_t window = 0; window < pool.y_size(); ++window)
      add(plane, window, static_cast<Acc<T>>(*dy++), sums.data());
    for (const Acc<T> sum : sums) *dx++ = static_cast<T>(sum);
  }
}

template <class T>
void max_pool_grad(const Pool& pool, const Operands& at) {
  sum_planes(pool, at.in<T>(0), at.out<T>(0), [&](int64_t plane, int64_t window, Acc<T> dy, Acc<T>* sums) {
    const int64_t best = pool.maximum(at.in<T>(1) + plane * pool.x_size(), window);
    if (best >= 0) sums[best] += dy;
  });
}

template <class T>
void avg_pool_grad(const Pool& pool, const Operands& at) {
  const auto area = static_cast<Acc<T>>(pool.kernel * pool.kernel);
  sum_planes(pool, at.in<T>(0), at.out<T>(0), [&](int64_t, int64_t window, Acc<T> dy, Acc<T>* sums) {
    pool.each_element(window, [&](int64_t i) { sums[i] += dy / area; });
  });
}

bool one_type(const Call& call) {
  return std::ranges::all_of(call.inputs, [&](const auto& x) { return x.dtype == call.outputs[0].dtype; });
}

std::unique_ptr<Kernel> make_max_pool(const Call& call) {
  const Pool pool(call.inputs[0].shape, call.outputs[0].shape, call.attrs);
  return for_float(call.outputs[0].dtype,
                   [&]<class T>() { return kernel([pool](const Operands& at) { max_pool<T>(pool, at); }); });
}

std::unique_ptr<Kernel> make_avg_pool(const Call& call) {
  const Pool pool(call.inputs[0].shape, call.outputs[0].shape, call.attrs);
  return for_float(call.outputs[0].dtype,
                   [&]<class T>() { return kernel([pool](const Operands& at) { avg_pool<T>(pool, at); }); });
}

std::unique_ptr<Kernel> make_max_pool_grad(const Call& call) {
  if (!one_type(call)) return nullptr;
  const Pool pool(call.inputs[1].shape, call.inputs[0].shape, call.attrs);
  return for_float(call.outputs[0].dtype, [&]<class T>() {
    return kernel([pool](const Operands& at) { max_pool_grad<T>(pool, at); });
  });
}

std::unique_ptr<Kernel> make_avg_pool_grad(const Call& call) {
  if (!one_type(call)) return nullptr;
  const Pool pool(call.outputs[0].shape, call.inputs[0].shape, call.attrs);
  return for_float(call.outputs[0].dtype, [&]<class T>() {
    return kernel([pool](const Operands& at) { avg_pool_grad<T>(pool, at); });
  });
}

}  // namespace

void add_pool_kernels(Factories& table) {
  table["max_pool2d"] = [](const Call& call) { return on_images(call, make_max_pool, {0}); };
  table["max_pool2d_grad"] = [](const Call& call) { return on_images(call, make_max_pool_grad, {0, 1}); };
  table["avg_pool2d"] = [](const Call& call) { return on_images(call, make_avg_pool, {0}); };
  table["avg_pool2d_grad"] = [](const Call& call) { return on_images(call, make_avg_pool_grad, {0}); };
}

}  // namespace boxcar::backends::cpu
