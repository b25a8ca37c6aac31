// Convolutions as products: for each image and group, the windows of x are laid out as columns,
//
//   columns[channels kh kw, oh ow],   y = weight[out channels, channels kh kw] columns
//
// with zeros for padding. 16-bit types become float on the way and are rounded once.
#include "backends/cpu/typed_product.h"

namespace boxcar::backends::cpu {
namespace {

struct Convolution {
  Convolution(const ir::Shape& x, const ir::Shape& weight, const ir::Shape& y, const ir::Attrs& attrs)
      : images(x[0]),
        height(x[2]),
        width(x[3]),
        groups(ir::attr_int(attrs, "groups")),
        channels(weight[1]),
        kernel_height(weight[2]),
        kernel_width(weight[3]),
        out_channels(groups == 0 ? 0 : weight[0] / groups),
        out_height(y[2]),
        out_width(y[3]),
        stride(ir::attr_int(attrs, "stride")),
        padding(ir::attr_int(attrs, "padding")) {}

  int64_t rows() const { return channels * kernel_height * kernel_width; }  // of columns
  int64_t windows() const { return out_height * out_width; }
  int64_t x_size() const { return channels * height * width; }  // of one image and group
  int64_t y_size() const { return out_channels * windows(); }
  int64_t weight_size() const { return out_channels * rows(); }  // of one group

  // visit(position in x, position in columns) for what is not padding; of one image and group.
  template <class Visit>
  void each_element(Visit visit) const {
    int64_t at = 0;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < kernel_height; ++i)
        for (int64_t j = 0; j < kernel_width; ++j)
          for (int64_t row = i - padding; row < i - padding + out_height * stride; row += stride) {
            const bool inside = row >= 0 && row < height;
            int64_t column = j - padding;
            for (int64_t o = 0; o < out_width; ++o, ++at, column += stride) {
              if (inside && column >= 0 && column < width) visit((c * height + row) * width + column, at);
            }
          }
  }

  int64_t images, height, width, groups, channels, kernel_height, kernel_width, out_channels, out_height,
      out_width, stride, padding;
};

// What every kernel needs of an image and a group.
template <class T>
struct Workspace {
  using A = Acc<T>;
  std::vector<A> columns, weight, y, sum;

  Matrix<const A> lay_out(const Convolution& c, const T* x) {
    columns.assign(static_cast<size_t>(c.rows() * c.windows()), A(0));
    c.each_element(
        [&](int64_t from, int64_t to) { columns[static_cast<size_t>(to)] = static_cast<A>(x[from]); });
    return matrix<const A>(columns.data(), c.rows(), c.windows());
  }
  // `count` elements in the type of products.
  static const A* in_acc(const T* from, int64_t count, std::vector<A>& copy) {
    if constexpr (std::is_same_v<T, A>) return from;
    copy.assign(from, from + count);
    return copy.data();
  }
  static void round(const std::vector<A>& from, T* to) {
    std::transform(from.begin(), from.end(), to, [](A x) { return static_cast<T>(x); });
  }
};

// visit(image, group, position of x, of y, of weight)
template <class Visit>
void each_group(const Convolution& c, Visit visit) {
  for (int64_t image = 0; image < c.images; ++image)
    for (int64_t group = 0; group < c.groups; ++group) {
      const int64_t at = image * c.groups + group;
      visit(at * c.x_size(), at * c.y_size(), group * c.weight_size());
    }
}

template <class T>
struct Conv {
  using A = Acc<T>;
  Convolution c;
  Workspace<T> work = {};

  void operator()(const Operands& at) {
    each_group(c, [&](int64_t x, int64_t y, int64_t weight) {
      const A* factors = work.in_acc(at.in<T>(1) + weight, c.weight_size(), work.weight);
      work.sum.resize(static_cast<size_t>(c.y_size()));
      product<A>(matrix(factors, c.out_channels, c.rows()), work.lay_out(c, at.in<T>(0) + x),
                 matrix(work.sum.data(), c.out_channels, c.windows()));
      work.round(work.sum, at.out<T>(0) + y);
    });
  }
};

template <class T>
struct InputGrad {
  using A = Acc<T>;
  Convolution c;
  Workspace<T> work = {};

  void operator()(const Operands& at) {
    each_group(c, [&](int64_t x, int64_t y, int64_t weight) {
      const A* factors = work.in_acc(at.in<T>(1) + weight, c.weight_size(), work.weight);
      const A* dy = work.in_acc(at.in<T>(0) + y, c.y_size(), work.y);
      work.columns.resize(static_cast<size_t>(c.rows() * c.windows()));
      product<A>(matrix(factors, c.rows(), c.out_channels, true), matrix(dy, c.out_channels, c.windows()),
                 matrix(work.columns.data(), c.rows(), c.windows()));
      work.sum.assign(static_cast<size_t>(c.x_size()), A(0));
      c.each_element([&](int64_t to, int64_t from) {
        work.sum[static_cast<size_t>(to)] += work.columns[static_cast<size_t>(from)];
      });
      work.round(work.sum, at.out<T>(0) + x);
    });
  }
};

template <class T>
struct WeightGrad {
  using A = Acc<T>;
  Convolution c;
  Workspace<T> work = {};

  void operator()(const Operands& at) {
    work.sum.assign(static_cast<size_t>(c.groups * c.weight_size()), A(0));
    each_group(c, [&](int64_t x, int64_t y, int64_t weight) {
      const A* dy = work.in_acc(at.in<T>(0) + y, c.y_size(), work.y);
      const Matrix<const A> columns = work.lay_out(c, at.in<T>(1) + x);
      product<A>(matrix(dy, c.out_channels, c.windows()), matrix(columns.data, c.windows(), c.rows(), true),
                 matrix(work.sum.data() + weight, c.out_channels, c.rows()), true);
    });
    work.round(work.sum, at.out<T>(0));
  }
};

// Of the shapes of x, weight and y, and all operands of one type.
template <template <class> class Body>
std::unique_ptr<Kernel> make(const Call& call, const ir::TensorType& x, const ir::TensorType& weight,
                             const ir::TensorType& y) {
  if (x.dtype != weight.dtype || x.dtype != y.dtype) return nullptr;
  const Convolution convolution(x.shape, weight.shape, y.shape, call.attrs);
  return for_float(x.dtype, [&]<class T>() { return kernel(Body<T>{convolution}); });
}

std::unique_ptr<Kernel> make_conv(const Call& call) {
  return make<Conv>(call, call.inputs[0], call.inputs[1], call.outputs[0]);
}
std::unique_ptr<Kernel> make_input_grad(const Call& call) {
  return make<InputGrad>(call, call.outputs[0], call.inputs[1], call.inputs[0]);
}
std::unique_ptr<Kernel> make_weight_grad(const Call& call) {
  return make<WeightGrad>(call, call.inputs[1], call.outputs[0], call.inputs[0]);
}

}  // namespace

void add_conv_kernels(Factories& table) {
  table["conv2d"] = [](const Call& call) { return on_images(call, make_conv, {0}); };
  table["conv2d_input_grad"] = [](const Call& call) { return on_images(call, make_input_grad, {0}); };
  table["conv2d_weight_grad"] = [](const Call& call) {
    return on_images(call, make_weight_grad, {0, 1}, false);
  };
}

}  // namespace boxcar::backends::cpu
