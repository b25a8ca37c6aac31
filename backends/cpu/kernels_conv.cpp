// Convolutions as products, of a strip of windows at a time, for each group of channels:
//
//   columns[channels kh kw, windows],   y = weight[out channels, channels kh kw] columns
//
// with zeros for padding. A strip is some rows of windows of one image or, if images are small, several
// images. A convolution of 1 x 1 on large images needs no columns: they are x. 16-bit types become float on
// the way and are rounded once.
#include "backends/cpu/typed_product.h"
#include "backends/cpu/vectors.h"

namespace boxcar::backends::cpu {
namespace {

constexpr int64_t kWindows =
    512;  // of a strip, about: enough for fast products, and columns stay in the cache
constexpr int64_t kDirect = 128;  // windows of an image from which on x is read in place

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

  // Whether columns are x, read in place.
  bool is_direct() const {
    return kernel_height == 1 && kernel_width == 1 && stride == 1 && padding == 0 && windows() >= kDirect;
  }

  int64_t images, height, width, groups, channels, kernel_height, kernel_width, out_channels, out_height,
      out_width, stride, padding;
};

// Rows first to first + rows of windows, of `images` images from `image` on, and of one group.
struct Strip {
  int64_t image, images, group, first, rows;

  int64_t windows(const Convolution& c) const { return images * rows * c.out_width; }
};

// visit(strip) in order. Strips of several images have all rows.
template <class Visit>
void each_strip(const Convolution& c, Visit visit) {
  const auto at_once = [](int64_t windows, int64_t most) {
    return std::clamp<int64_t>(kWindows / std::max<int64_t>(windows, 1), 1, std::max<int64_t>(most, 1));
  };
  const int64_t images = c.is_direct() ? 1 : at_once(c.windows(), c.images);
  const int64_t rows = c.is_direct() ? c.out_height : at_once(c.out_width, c.out_height);
  for (int64_t group = 0; group < c.groups; ++group)
    for (int64_t image = 0; image < c.images; image += images)
      for (int64_t first = 0; first < c.out_height; first += rows)
        visit(Strip{image, std::min(images, c.images - image), group, first,
                    std::min(rows, c.out_height - first)});
}

// Overlap of one row of columns with a plane of x: element (row, column) of the windows of a strip is element
// (row * stride + down, column * stride + right) of the plane, or padding.
struct Overlap {
  Overlap(const Convolution& c, const Strip& strip, int64_t i, int64_t j)
      : stride(c.stride), width(c.width), out_width(c.out_width), down(i - c.padding), right(j - c.padding) {
    begin_row = std::max(strip.first, first_at(down)),
    end_row = std::min(strip.first + strip.rows, end_at(down, c.height));
    begin = std::min(first_at(right), out_width),
    end = std::max(begin, std::min(out_width, end_at(right, c.width)));
    if (end_row < begin_row) end_row = begin_row = strip.first;
    before = (begin_row - strip.first) * out_width;
  }

  bool is_empty() const { return begin_row == end_row || begin == end; }
  // Whether neighbours in a plane are neighbours in the row too, across the ends of rows; then their number,
  // including padding that is another element in the plane.
  bool is_shift() const { return stride == 1 && out_width == width; }
  int64_t shifted() const { return seen() - begin - (out_width - end); }

  int64_t seen() const { return (end_row - begin_row) * out_width; }
  int64_t place(int64_t row) const { return (row * stride + down) * width + right; }

  int64_t first_at(int64_t ahead) const { return ahead >= 0 ? 0 : (-ahead + stride - 1) / stride; }
  int64_t end_at(int64_t ahead, int64_t extent) const {
    return extent - ahead <= 0 ? 0 : (extent - ahead - 1) / stride + 1;
  }

  int64_t stride, width, out_width, down, right;
  int64_t begin_row, end_row, begin, end;  // windows that see the plane
  int64_t before;                          // elements of the strip before begin_row
};

// Zeros beside the windows that see the plane, in rows that do.
template <class A>
void clear_edges(const Overlap& o, A* row) {
  for (int64_t r = o.begin_row; r < o.end_row; ++r, row += o.out_width) {
    for (int64_t k = 0; k < o.begin; ++k) row[k] = 0;
    for (int64_t k = o.end; k < o.out_width; ++k) row[k] = 0;
  }
}

// A row of columns of one image from a plane of x.
template <class T, class A>
void take(const Overlap& o, const T* plane, A* row, int64_t count) {
  if (o.is_empty()) {
    std::fill_n(row, count, A(0));
    return;
  }
  const auto as_a = [](T v) { return static_cast<A>(v); };
  A* to = row + o.before;
  std::fill(row, to, A(0));
  std::fill(to + o.seen(), row + count, A(0));
  if (o.is_shift()) {
    const T* const first = plane + (o.place(o.begin_row) + o.begin);
    std::transform(first, first + o.shifted(), to + o.begin, as_a);
  } else {
    for (int64_t r = o.begin_row; r < o.end_row; ++r)
      for (int64_t k = o.begin; k < o.end; ++k)
        to[(r - o.begin_row) * o.out_width + k] = as_a(plane[o.place(r) + k * o.stride]);
  }
  clear_edges(o, to);
}

// Adds a row of columns to a plane.
template <class A>
void give(const Overlap& o, A* row, A* plane) {
  if (o.is_empty()) return;
  row += o.before;
  if (o.is_shift()) {
    clear_edges(o, row);
    return on_vectors(
        [](int64_t count, A* __restrict to, const A* __restrict from) {
          for (int64_t k = 0; k < count; ++k) to[k] += from[k];
        },
        o.shifted(), plane + (o.place(o.begin_row) + o.begin), static_cast<const A*>(row + o.begin));
  }
  for (int64_t r = o.begin_row; r < o.end_row; ++r, row += o.out_width)
    for (int64_t k = o.begin; k < o.end; ++k) plane[o.place(r) + k * o.stride] += row[k];
}

// visit(overlap, image of the strip, channel, row of columns) for every row of columns of every image.
template <class Visit>
void each_row(const Convolution& c, const Strip& strip, Visit visit) {
  int64_t row = 0;
  for (int64_t channel = 0; channel < c.channels; ++channel)
    for (int64_t i = 0; i < c.kernel_height; ++i)
      for (int64_t j = 0; j < c.kernel_width; ++j, ++row) {
        const Overlap overlap(c, strip, i, j);
        for (int64_t image = 0; image < strip.images; ++image) visit(overlap, image, channel, row);
      }
}

// Memory that every kernel needs.
template <class T>
struct Workspace {
  using A = Acc<T>;
  static constexpr bool kPlain = std::is_same_v<T, A>;
  std::vector<A> columns, weight, y, sum;

  // The first element of an image of a strip, of images of `size` elements for each group.
  template <class E>
  static E* part(const Convolution& c, const Strip& strip, E* data, int64_t size, int64_t image = 0) {
    return data + ((strip.image + image) * c.groups + strip.group) * size;
  }

  // Windows of x in columns; in place if x has that layout.
  Matrix<const A> lay_out(const Convolution& c, const Strip& strip, const T* x) {
    const int64_t windows = strip.windows(c), each = strip.rows * c.out_width;
    if constexpr (kPlain)
      if (c.is_direct()) return matrix(part(c, strip, x, c.x_size()), c.rows(), windows);
    columns.resize(static_cast<size_t>(c.rows() * windows));
    each_row(c, strip, [&](const Overlap& overlap, int64_t image, int64_t channel, int64_t row) {
      const T* const plane = part(c, strip, x, c.x_size(), image) + channel * c.height * c.width;
      take(overlap, plane, columns.data() + row * windows + image * each, each);
    });
    return matrix<const A>(columns.data(), c.rows(), windows);
  }

  // y of a strip, [out channels, windows]: in place, or a copy.
  Matrix<const A> read(const Convolution& c, const Strip& strip, const T* from) {
    const int64_t windows = strip.windows(c), each = strip.rows * c.out_width;
    if constexpr (kPlain)
      if (strip.images == 1) return of_one(c, strip, from);
    y.resize(static_cast<size_t>(c.out_channels * windows));
    each_part(c, strip, [&](int64_t image, int64_t channel, A* to) {
      const T* const row =
          part(c, strip, from, c.y_size(), image) + channel * c.windows() + strip.first * c.out_width;
      std::transform(row, row + each, to, [](T v) { return static_cast<A>(v); });
    });
    return matrix<const A>(y.data(), c.out_channels, windows);
  }

  // compute(y) of a strip, which is then stored.
  template <class Compute>
  void write(const Convolution& c, const Strip& strip, T* to, Compute compute) {
    const int64_t windows = strip.windows(c), each = strip.rows * c.out_width;
    if constexpr (kPlain)
      if (strip.images == 1) return compute(of_one(c, strip, to));
    y.resize(static_cast<size_t>(c.out_channels * windows));
    compute(matrix(y.data(), c.out_channels, windows));
    each_part(c, strip, [&](int64_t image, int64_t channel, const A* from) {
      T* const row =
          part(c, strip, to, c.y_size(), image) + channel * c.windows() + strip.first * c.out_width;
      std::transform(from, from + each, row, [](A v) { return static_cast<T>(v); });
    });
  }

  // `count` elements in the type of products.
  static const A* in_acc(const T* from, int64_t count, std::vector<A>& copy) {
    if constexpr (kPlain) return from;
    copy.assign(from, from + count);
    return copy.data();
  }

 private:
  template <class E>
  static Matrix<E> of_one(const Convolution& c, const Strip& strip, E* y) {
    return {part(c, strip, y, c.y_size()) + strip.first * c.out_width, c.out_channels,
            strip.rows * c.out_width, c.windows(), 1};
  }

  // visit(image, channel, its part of y) in the copy.
  template <class Visit>
  void each_part(const Convolution& c, const Strip& strip, Visit visit) {
    A* at = y.data();
    for (int64_t channel = 0; channel < c.out_channels; ++channel)
      for (int64_t image = 0; image < strip.images; ++image, at += strip.rows * c.out_width)
        visit(image, channel, at);
  }
};

template <class T>
struct Conv {
  using A = Acc<T>;
  Convolution c;
  Workspace<T> work = {};

  void operator()(const Operands& at) {
    each_strip(c, [&](const Strip& strip) {
      const A* factors =
          work.in_acc(at.in<T>(1) + strip.group * c.weight_size(), c.weight_size(), work.weight);
      const Matrix<const A> columns = work.lay_out(c, strip, at.in<T>(0));
      work.write(c, strip, at.out<T>(0), [&](const Matrix<A>& y) {
        product<A>(matrix(factors, c.out_channels, c.rows()), columns, y);
      });
    });
  }
};

template <class T>
struct InputGrad {
  using A = Acc<T>;
  Convolution c;
  Workspace<T> work = {};

  // Strips of an image follow each other: its sums are complete after the last one.
  void operator()(const Operands& at) {
    T* const dx = at.out<T>(0);
    if (c.windows() == 0) std::fill_n(dx, c.images * c.groups * c.x_size(), T(0));
    each_strip(c, [&](const Strip& strip) {
      const A* factors =
          work.in_acc(at.in<T>(1) + strip.group * c.weight_size(), c.weight_size(), work.weight);
      const auto weight = matrix(factors, c.rows(), c.out_channels, true);
      const Matrix<const A> dy = work.read(c, strip, at.in<T>(0));
      if constexpr (Workspace<T>::kPlain)
        if (c.is_direct())
          return product<A>(weight, dy, matrix(work.part(c, strip, dx, c.x_size()), c.rows(), dy.columns));
      work.columns.resize(static_cast<size_t>(c.rows() * dy.columns));
      product<A>(weight, dy, matrix(work.columns.data(), c.rows(), dy.columns));
      if (strip.first == 0) work.sum.assign(static_cast<size_t>(strip.images * c.x_size()), A(0));
      each_row(c, strip, [&](const Overlap& overlap, int64_t image, int64_t channel, int64_t row) {
        give(overlap, work.columns.data() + row * dy.columns + image * strip.rows * c.out_width,
             work.sum.data() + image * c.x_size() + channel * c.height * c.width);
      });
      if (strip.first + strip.rows < c.out_height) return;
      for (int64_t image = 0; image < strip.images; ++image)
        std::transform(work.sum.data() + image * c.x_size(), work.sum.data() + (image + 1) * c.x_size(),
                       work.part(c, strip, dx, c.x_size(), image), [](A v) { return static_cast<T>(v); });
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
    each_strip(c, [&](const Strip& strip) {
      const Matrix<const A> dy = work.read(c, strip, at.in<T>(0)),
                            columns = work.lay_out(c, strip, at.in<T>(1));
      const Matrix<const A> turned = {columns.data, columns.columns, columns.rows, 1, columns.row_step};
      product<A>(dy, turned,
                 matrix(work.sum.data() + strip.group * c.weight_size(), c.out_channels, c.rows()), true);
    });
    std::transform(work.sum.begin(), work.sum.end(), at.out<T>(0), [](A v) { return static_cast<T>(v); });
  }
};

// A kernel for these shapes of x, weight and y, if all operands have one type.
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
