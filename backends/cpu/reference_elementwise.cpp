#include <cmath>

#include "backends/cpu/reference.h"
#include "ir/ops/pointwise.h"

namespace boxcar::backends::cpu {
namespace {

// --- one operand, and gradients

template <class Op>
void pointwise(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const double parameter = ir::parameter_of(Op::row, attrs);
  for (size_t i = 0; i < in[0].data.size(); ++i) out[0].data[i] = Op::exact(in[0].data[i], parameter);
}

template <class Op>
void pointwise_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const double parameter = ir::parameter_of(Op::row, attrs);
  for (size_t i = 0; i < in[0].data.size(); ++i)
    out[0].data[i] = Op::exact_grad(in[0].data[i], in[1].data[i], parameter);
}

void identity(const Tensors& in, Tensors& out, const ir::Attrs&) { out[0].data = in[0].data; }

// --- broadcasting

// Steps of an operand by dimension of the result: 0 where it is stretched.
std::vector<int64_t> broadcast_steps(const ir::Shape& own, const ir::Shape& result) {
  std::vector<int64_t> own_steps = strides(own), steps(result.size(), 0);
  for (size_t i = 0; i < own.size(); ++i) {
    if (own[i] != 1) steps[result.size() - own.size() + i] = own_steps[i];
  }
  return steps;
}

// Calls visit(flat in the result, flat in each operand).
template <class Visit>
void broadcast(const Tensors& in, const ir::Shape& result, Visit visit) {
  std::vector<std::vector<int64_t>> steps;
  for (const HostTensor& operand : in) steps.push_back(broadcast_steps(operand.type.shape, result));
  std::vector<size_t> at(in.size());
  for_each(result, [&](const std::vector<int64_t>& index, int64_t flat) {
    for (size_t i = 0; i < in.size(); ++i) {
      int64_t offset = 0;
      for (size_t j = 0; j < index.size(); ++j) offset += index[j] * steps[i][j];
      at[i] = static_cast<size_t>(offset);
    }
    visit(static_cast<size_t>(flat), at);
  });
}

template <double (*function)(double, double)>
void binary(const Tensors& in, Tensors& out, const ir::Attrs&) {
  broadcast(in, out[0].type.shape, [&](size_t flat, const std::vector<size_t>& at) {
    out[0].data[flat] = function(in[0].data[at[0]], in[1].data[at[1]]);
  });
}

double add(double a, double b) { return a + b; }
double subtract(double a, double b) { return a - b; }
double multiply(double a, double b) { return a * b; }
double divide(double a, double b) { return a / b; }

void where(const Tensors& in, Tensors& out, const ir::Attrs&) {
  broadcast(in, out[0].type.shape, [&](size_t flat, const std::vector<size_t>& at) {
    out[0].data[flat] = in[0].data[at[0]] != 0 ? in[1].data[at[1]] : in[2].data[at[2]];
  });
}

void scale(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  double factor = ir::attr_float(attrs, "factor");
  for (size_t i = 0; i < in[0].data.size(); ++i) out[0].data[i] = factor * in[0].data[i];
}

void cast(const Tensors& in, Tensors& out, const ir::Attrs&) {
  ir::DType to = out[0].type.dtype;
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    double x = in[0].data[i];
    out[0].data[i] = ir::is_float(to) ? x : to == ir::DType::boolean ? (x != 0 ? 1 : 0) : std::trunc(x);
  }
}

}  // namespace

void add_elementwise_kernels(KernelTable& table) {
  ir::each_pointwise([&]<class Op>() {
    table[Op::row.name] = pointwise<Op>;
    if constexpr (Op::row.has_grad_op) table[ir::grad_op(Op::row)] = pointwise_grad<Op>;
  });
  table.insert(
      {{"add", binary<add>}, {"sub", binary<subtract>}, {"mul", binary<multiply>}, {"div", binary<divide>}});
  table.insert({{"where", where}, {"identity", identity}, {"scale", scale}, {"cast", cast}});
}

}  // namespace boxcar::backends::cpu
