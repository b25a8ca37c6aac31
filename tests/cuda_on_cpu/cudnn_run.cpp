#include "cudnn_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "elements.h"
#include "tally.h"

namespace cudnn_on_cpu {
namespace {

[[noreturn]] void die(const char* why) {
  std::fprintf(stderr, "cuDNN's graph: %s\n", why);
  std::abort();
}

using Index = std::array<int64_t, 4>;

// A tensor of a running graph: in memory, by value or intermediate.
struct Tensor {
  Tensor(const Descriptor& d, void* data) : type(type_of(d)), data(data) {
    const auto whole = static_cast<cudnnDataType_t>(d.at(CUDNN_ATTR_TENSOR_DATA_TYPE)[0]);
    exact = whole == CUDNN_DATA_INT32 || whole == CUDNN_DATA_BOOLEAN;
    extent = d.at(CUDNN_ATTR_TENSOR_DIMENSIONS);
    stride = d.at(CUDNN_ATTR_TENSOR_STRIDES);
    if (data) return;
    int64_t last = 0;
    for (size_t i = 0; i < 4; ++i) last += (extent[i] - 1) * stride[i];
    between.assign(static_cast<size_t>(last) + 1, NAN);
  }
  int64_t place(const Index& i) const {
    return i[0] * stride[0] + i[1] * stride[1] + i[2] * stride[2] + i[3] * stride[3];
  }
  int64_t count() const { return extent[0] * extent[1] * extent[2] * extent[3]; }
  // Smaller extents stand for whole blocks: 1 for all, heads for the groups that share them.
  Index part(const Index& i, const Tensor& whole) const {
    Index at{};
    for (size_t d = 0; d < 4; ++d) at[d] = i[d] / (whole.extent[d] / extent[d]);
    return at;
  }
  bool divides(const Tensor& whole) const {
    for (size_t d = 0; d < 4; ++d)
      if (extent[d] > whole.extent[d] || whole.extent[d] % extent[d] != 0) return false;
    return true;
  }
  double read(int64_t place) const {
    if (!data) return between[static_cast<size_t>(place)];
    return exact ? *static_cast<const int32_t*>(data) : cuda_on_cpu::read(data, type, place);
  }
  void write(int64_t place, double x) {
    if (data) return cuda_on_cpu::write(data, type, place, x);
    double& to = between[static_cast<size_t>(place)];
    to = x;
    if (exact) return;
    std::array<std::byte, 8> rounded;
    cuda_on_cpu::write(rounded.data(), type, 0, x);
    to = cuda_on_cpu::read(rounded.data(), type, 0);
  }
  template <class Body>
  void each(Body body) const {
    for (Index i{}; i[0] < extent[0]; ++i[0])
      for (i[1] = 0; i[1] < extent[1]; ++i[1])
        for (i[2] = 0; i[2] < extent[2]; ++i[2])
          for (i[3] = 0; i[3] < extent[3]; ++i[3]) body(i);
  }

  cudaDataType_t type;
  bool exact = false;
  std::vector<int64_t> extent, stride;
  void* data;
  std::vector<double> between;
  bool written = false;
};

class Run {
 public:
  Run(std::shared_ptr<Descriptor> graph, const Descriptor& pack) : graph_(std::move(graph)) {
    const auto& ids = pack.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto& pointers = pack.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (size_t i = 0; i < ids.size(); ++i) memory_[ids[i]] = reinterpret_cast<void*>(pointers[i]);
    workspace_ = reinterpret_cast<void*>(pack.at(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)[0]);
    // Reads constants when the graph is launched: the host's memory may be gone when it runs.
    for (const auto& operation : operations())
      for (const auto& [name, tensors] : operation->descriptors)
        if (tensors[0]->numbers.contains(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
          const int64_t id = tensors[0]->at(CUDNN_ATTR_TENSOR_UNIQUE_ID)[0];
          if (values_.contains(id)) continue;
          std::memcpy(&values_[id], memory_.at(id), 4);
          memory_[id] = &values_[id];
        }
  }
  // Repeatedly, if captured.
  void run() {
    tensors_.clear();
    std::memset(workspace_, 0xff, workspace_used);
    for (const auto& operation : operations()) {
      if (is_convolution(*operation))
        convolution(*operation);
      else if (operation->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
        pointwise(*operation);
      else if (operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
        product(*operation);
      else if (operation->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
        reduction(*operation);
      else if (operation->type == CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR)
        norm(*operation);
      else if (operation->type == CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR)
        norm_gradient(*operation);
      else
        view(*operation);
    }
    const auto is_product = [](const Descriptor::Pointer& operation) {
      return operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
    };
    const auto products = std::count_if(operations().begin(), operations().end(), is_product);
    cuda_on_cpu::spend(cuda_on_cpu::kernel_milliseconds);
    cuda_on_cpu::tally(is_norm(*operations()[0]) ? "batch norm"
                       : products == 0           ? "convolution"
                       : products == 2           ? "attention"
                                                 : "gradient of attention");
  }

 private:
  struct alignas(4) Value {
    std::byte bytes[4];
  };

  const std::vector<Descriptor::Pointer>& operations() const {
    return graph_->descriptors.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  }
  Tensor& tensor(const Descriptor& d) {
    const int64_t id = d.at(CUDNN_ATTR_TENSOR_UNIQUE_ID)[0];
    if (const auto found = tensors_.find(id); found != tensors_.end()) return found->second;
    const bool is_between = d.numbers.contains(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    if (is_between == memory_.contains(id))
      die(is_between ? "memory for a tensor in between" : "a tensor without memory");
    return tensors_.emplace(id, Tensor(d, is_between ? nullptr : memory_.at(id))).first->second;
  }
  const Tensor& input(const Descriptor& d) {
    const Tensor& found = tensor(d);
    if (!found.data && !found.written) die("an operation reads what was not written");
    return found;
  }
  Tensor& output(const Descriptor& d) {
    Tensor& found = tensor(d);
    if (std::exchange(found.written, true)) die("two operations write one tensor");
    return found;
  }

  void pointwise(const Descriptor& op) {
    const Descriptor& how = op.of(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = static_cast<cudnnPointwiseMode_t>(how.at(CUDNN_ATTR_POINTWISE_MODE)[0]);
    const Tensor& x = input(op.of(CUDNN_ATTR_OPERATION_POINTWISE_XDESC));
    const auto optional = [&](cudnnBackendAttributeName_t name) {
      return op.has(name) ? &input(op.of(name)) : nullptr;
    };
    const Tensor* const b = optional(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const Tensor* const t = optional(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    Tensor& y = output(op.of(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    for (const Tensor* operand : {&x, b, t})
      if (operand && !operand->divides(y)) die("an operand does not fit the result");
    const auto at = [&](const Tensor* operand, const Index& i) {
      return operand ? operand->read(operand->place(operand->part(i, y))) : 0;
    };
    const auto axis =
        mode == CUDNN_POINTWISE_GEN_INDEX ? static_cast<size_t>(how.at(CUDNN_ATTR_POINTWISE_AXIS)[0]) : 0;
    y.each([&](const Index& i) {
      const double value = mode == CUDNN_POINTWISE_GEN_INDEX ? static_cast<double>(i[axis])
                                                             : map(mode, at(&x, i), at(b, i), at(t, i));
      y.write(y.place(i), value);
    });
  }
  static double map(cudnnPointwiseMode_t mode, double x, double b, double t) {
    switch (mode) {
      case CUDNN_POINTWISE_ADD:
        return x + b;
      case CUDNN_POINTWISE_SUB:
        return x - b;
      case CUDNN_POINTWISE_MUL:
        return x * b;
      case CUDNN_POINTWISE_DIV:
        return x / b;
      case CUDNN_POINTWISE_EXP:
        return std::exp(x);
      case CUDNN_POINTWISE_LOG:
        return std::log(x);
      case CUDNN_POINTWISE_CMP_GE:
        return x >= b ? 1 : 0;
      case CUDNN_POINTWISE_BINARY_SELECT:
        return t != 0 ? x : b;
      default:
        return x;  // the identity
    }
  }

  // Heads of b are shared by groups of heads of a.
  void product(const Descriptor& op) {
    const Tensor &a = input(op.of(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
                 &b = input(op.of(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    Tensor& c = output(op.of(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    const bool fits = a.extent[0] == c.extent[0] && b.extent[0] == c.extent[0] &&
                      a.extent[1] == c.extent[1] && c.extent[1] % b.extent[1] == 0 &&
                      a.extent[2] == c.extent[2] && b.extent[3] == c.extent[3] && a.extent[3] == b.extent[2];
    if (!fits) die("operands of a product do not fit");
    c.each([&](const Index& i) {
      double sum = 0;
      for (int64_t k = 0; k < a.extent[3]; ++k)
        sum += a.read(a.place({i[0], i[1], i[2], k})) *
               b.read(b.place({i[0], i[1] / (c.extent[1] / b.extent[1]), k, i[3]}));
      c.write(c.place(i), sum);
    });
  }

  void reduction(const Descriptor& op) {
    const bool adds = op.of(CUDNN_ATTR_OPERATION_REDUCTION_DESC).at(CUDNN_ATTR_REDUCTION_OPERATOR)[0] ==
                      CUDNN_REDUCE_TENSOR_ADD;
    const Tensor& x = input(op.of(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    Tensor& y = output(op.of(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    if (!y.divides(x)) die("the result of a reduction does not fit");
    std::map<int64_t, double> sums;
    x.each([&](const Index& i) {
      const auto [sum, first] = sums.emplace(y.place(y.part(i, x)), x.read(x.place(i)));
      if (!first)
        sum->second = adds ? sum->second + x.read(x.place(i)) : std::max(sum->second, x.read(x.place(i)));
    });
    for (const auto& [place, sum] : sums) y.write(place, sum);
  }

  void view(const Descriptor& op) {
    const Tensor& x = input(op.of(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    Tensor& y = output(op.of(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    if (x.count() != y.count()) die("a view has other elements");
    y.each([&](const Index& i) { y.write(y.place(i), x.read(y.place(i))); });
  }

  // Calls body(element of the image, channel), and sums the results by channel.
  template <class Body>
  static std::vector<double> by_channel(const Tensor& image, Body body) {
    std::vector<double> sums(static_cast<size_t>(image.extent[1]));
    image.each([&](const Index& i) { sums[static_cast<size_t>(i[1])] += body(image.place(i), i[1]); });
    return sums;
  }

  void norm(const Descriptor& op) {
    const Tensor &x = input(op.of(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC)),
                 &gamma = input(op.of(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC)),
                 &beta = input(op.of(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC)),
                 &eps = input(op.of(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC));
    Tensor &y = output(op.of(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC)),
           &mean = output(op.of(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC)),
           &rstd = output(op.of(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC));
    const double count = static_cast<double>(x.count()) / static_cast<double>(x.extent[1]);
    const auto sums = by_channel(x, [&](int64_t at, int64_t) { return x.read(at); });
    const auto middle = [&](int64_t c) { return sums[static_cast<size_t>(c)] / count; };
    const auto squares =
        by_channel(x, [&](int64_t at, int64_t c) { return std::pow(x.read(at) - middle(c), 2); });
    for (int64_t c = 0; c < x.extent[1]; ++c) {
      mean.write(c, middle(c));
      rstd.write(c, 1 / std::sqrt(squares[static_cast<size_t>(c)] / count + eps.read(0)));
    }
    x.each([&](const Index& i) {
      const int64_t at = x.place(i), c = i[1];
      y.write(at, (x.read(at) - mean.read(c)) * rstd.read(c) * gamma.read(c) + beta.read(c));
    });
  }

  void norm_gradient(const Descriptor& op) {
    const Tensor &dy = input(op.of(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC)),
                 &x = input(op.of(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC)),
                 &gamma = input(op.of(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC)),
                 &mean = input(op.of(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC)),
                 &rstd = input(op.of(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC));
    Tensor &dx = output(op.of(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC)),
           &dgamma = output(op.of(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC)),
           &dbeta = output(op.of(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC));
    const double count = static_cast<double>(x.count()) / static_cast<double>(x.extent[1]);
    const auto normal = [&](int64_t at, int64_t c) { return (x.read(at) - mean.read(c)) * rstd.read(c); };
    const auto products = by_channel(x, [&](int64_t at, int64_t c) { return dy.read(at) * normal(at, c); });
    const auto plain = by_channel(x, [&](int64_t at, int64_t) { return dy.read(at); });
    x.each([&](const Index& i) {
      const int64_t at = x.place(i), c = i[1];
      const auto of = [&](const std::vector<double>& sums) { return sums[static_cast<size_t>(c)] / count; };
      dx.write(at, gamma.read(c) * rstd.read(c) * (dy.read(at) - of(plain) - normal(at, c) * of(products)));
    });
    for (int64_t c = 0; c < x.extent[1]; ++c) {
      dgamma.write(c, products[static_cast<size_t>(c)]);
      dbeta.write(c, plain[static_cast<size_t>(c)]);
    }
  }

  // y[n, k, p, q] = sum of x[n, c, p stride + r - padding, q stride + s - padding] w[k, c, r, s], or the
  // gradients. The tensors are dense.
  void convolution(const Descriptor& op) {
    const bool forward = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    const bool to_x = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    Tensor &x = tensor(part(op, 1)), &w = tensor(part(op, 2)), &y = tensor(part(op, 3));
    Tensor& result = forward ? y : to_x ? x : w;
    const auto& stride = part(op, 0).at(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
    const auto& padding = part(op, 0).at(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
    const int64_t groups = x.extent[1] / w.extent[1], group = w.extent[0] / groups;
    std::vector<double> sums(static_cast<size_t>(result.count()));
    y.each([&](const Index& i) {
      const auto [n, k, p, q] = i;
      for (int64_t c = 0; c < w.extent[1]; ++c)
        for (int64_t r = 0; r < w.extent[2]; ++r)
          for (int64_t s = 0; s < w.extent[3]; ++s) {
            const int64_t row = p * stride[0] + r - padding[0], column = q * stride[1] + s - padding[1];
            if (row < 0 || row >= x.extent[2] || column < 0 || column >= x.extent[3]) continue;
            const int64_t at_x = x.place({n, k / group * w.extent[1] + c, row, column}),
                          at_w = w.place({k, c, r, s}), at_y = y.place(i);
            if (forward)
              sums[static_cast<size_t>(at_y)] += x.read(at_x) * w.read(at_w);
            else if (to_x)
              sums[static_cast<size_t>(at_x)] += y.read(at_y) * w.read(at_w);
            else
              sums[static_cast<size_t>(at_w)] += y.read(at_y) * x.read(at_x);
          }
    });
    for (size_t i = 0; i < sums.size(); ++i) result.write(static_cast<int64_t>(i), sums[i]);
  }

  const std::shared_ptr<Descriptor> graph_;
  std::map<int64_t, void*> memory_;
  std::map<int64_t, Value> values_;
  std::map<int64_t, Tensor> tensors_;
  void* workspace_;
};

}  // namespace

std::function<void()> run_of(std::shared_ptr<Descriptor> graph, const Descriptor& pack) {
  return [run = std::make_shared<Run>(std::move(graph), pack)] { run->run(); };
}

}  // namespace cudnn_on_cpu
