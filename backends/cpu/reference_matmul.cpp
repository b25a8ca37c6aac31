#include "backends/cpu/reference.h"
#include "backends/cpu/reference_math.h"

namespace boxcar::backends::cpu {
namespace {

// A matrix in the last two dimensions, or its transpose, seen by rows and columns.
struct View {
  const double* data;
  int64_t rows, columns, row_step, column_step;
  double at(int64_t row, int64_t column) const { return data[row * row_step + column * column_step]; }
};

View view(const double* data, int64_t rows, int64_t columns, bool transposed) {
  if (transposed) return {data, columns, rows, 1, columns};
  return {data, rows, columns, columns, 1};
}

// out += a b
void multiply_add(View a, View b, double* out) {
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t k = 0; k < a.columns; ++k) {
      for (int64_t j = 0; j < b.columns; ++j) out[i * b.columns + j] += a.at(i, k) * b.at(k, j);
    }
  }
}

int64_t extent(const HostTensor& tensor, size_t from_end) {
  return tensor.type.shape[tensor.type.shape.size() - from_end];
}

int64_t leading(const HostTensor& tensor, size_t without) {
  int64_t count = 1;
  for (size_t i = 0; i + without < tensor.type.shape.size(); ++i) count *= tensor.type.shape[i];
  return count;
}

void matmul(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  View b = view(in[1].data.data(), extent(in[1], 2), extent(in[1], 1), ir::attr_bool(attrs, "transpose_b"));
  bool transpose_a = ir::attr_bool(attrs, "transpose_a");
  int64_t rows = transpose_a ? extent(in[0], 2) : leading(in[0], 1);
  multiply_add(view(in[0].data.data(), rows, extent(in[0], 1), transpose_a), b, out[0].data.data());
}

void matmul_weight_grad(const Tensors& in, Tensors& out, const ir::Attrs&) {
  View x = view(in[0].data.data(), leading(in[0], 1), extent(in[0], 1), true);
  View dy = view(in[1].data.data(), leading(in[1], 1), extent(in[1], 1), false);
  multiply_add(x, dy, out[0].data.data());
}

void matmul_bias(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  matmul(in, out, attrs);
  std::vector<double>& y = out[0].data;
  const std::vector<double>& bias = in[2].data;
  for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i % bias.size()];
}

void matmul_add(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  matmul(in, out, attrs);
  std::vector<double>& y = out[0].data;
  for (size_t i = 0; i < y.size(); ++i)
    y[i] += in[2].data[i] + (in.size() > 3 ? in[3].data[i % in[3].data.size()] : 0);
}

void matmul_bias_gelu(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  matmul_bias(in, out, attrs);
  out[1].data = out[0].data;
  for (double& y : out[0].data) y = gelu_tanh(y);
}

void matmul_dgelu(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  matmul(in, out, attrs);
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    out[0].data[i] *= gelu_tanh_slope(in[2].data[i]);
    out[1].data[i % out[1].data.size()] += out[0].data[i];
  }
}

// Sums the columns of dy, too.
void matmul_bias_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  matmul_weight_grad(in, out, attrs);
  for (size_t i = 0; i < in[1].data.size(); ++i) out[1].data[i % out[1].data.size()] += in[1].data[i];
}

void batch_matmul(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  int64_t a_size = extent(in[0], 2) * extent(in[0], 1), b_size = extent(in[1], 2) * extent(in[1], 1);
  int64_t out_size = extent(out[0], 2) * extent(out[0], 1);
  for (int64_t i = 0; i < leading(in[0], 2); ++i) {
    View a = view(in[0].data.data() + i * a_size, extent(in[0], 2), extent(in[0], 1),
                  ir::attr_bool(attrs, "transpose_a"));
    View b = view(in[1].data.data() + i * b_size, extent(in[1], 2), extent(in[1], 1),
                  ir::attr_bool(attrs, "transpose_b"));
    multiply_add(a, b, out[0].data.data() + i * out_size);
  }
}

}  // namespace

void add_matmul_kernels(KernelTable& table) {
  table["matmul"] = matmul;
  table["matmul_weight_grad"] = matmul_weight_grad;
  table["matmul_bias"] = matmul_bias;
  table["matmul_bias_grad"] = matmul_bias_grad;
  table["matmul_add"] = matmul_add;
  table["matmul_bias_gelu"] = matmul_bias_gelu;
  table["matmul_dgelu"] = matmul_dgelu;
  table["batch_matmul"] = batch_matmul;
}

}  // namespace boxcar::backends::cpu
