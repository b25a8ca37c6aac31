// Softmax and cross entropy along the last axis.
#include <algorithm>
#include <cmath>

#include "backends/cpu/reference_groups.h"
#include "ir/ops/classes.h"

namespace boxcar::backends::cpu {
namespace {

// y = softmax(scale x) over the elements from `begin` to `end` of `extent`, zero elsewhere.
void softmax_row(const double* x, double* y, int64_t extent, int64_t begin, int64_t end, double scale) {
  double maximum = -INFINITY, sum = 0;
  for (int64_t i = begin; i < end; ++i) maximum = std::max(maximum, scale * x[i]);
  for (int64_t i = begin; i < end; ++i) sum += std::exp(scale * x[i] - maximum);
  for (int64_t i = 0; i < extent; ++i)
    y[i] = i >= begin && i < end ? std::exp(scale * x[i] - maximum) / sum : 0;
}

void softmax(const Tensors& in, Tensors& out, const ir::Attrs&) {
  const Around rows = around(in[0].type.shape, -1);
  for (int64_t row = 0; row < rows.outer; ++row) {
    const int64_t at = row * rows.extent;
    softmax_row(in[0].data.data() + at, out[0].data.data() + at, rows.extent, 0, rows.extent, 1);
  }
}

void scale_mask_softmax(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const Around rows = around(in[0].type.shape, -1);
  const int64_t queries = in[0].type.shape[in[0].type.shape.size() - 2];
  for (int64_t row = 0; row < rows.outer; ++row) {
    const int64_t at = row * rows.extent, last = row % queries + ir::attr_int(attrs, "offset");
    const int64_t visible = ir::attr_bool(attrs, "causal") ? std::min(last + 1, rows.extent) : rows.extent;
    const int64_t window = ir::attr_int(attrs, "window");
    const int64_t first = window > 0 ? std::max<int64_t>(last + 1 - window, 0) : 0;
    softmax_row(in[0].data.data() + at, out[0].data.data() + at, rows.extent, first, visible,
                ir::attr_float(attrs, "scale"));
  }
}

void softmax_grad_scaled(const Tensors& in, Tensors& out, double scale) {
  const Around rows = around(in[0].type.shape, -1);
  for (int64_t row = 0; row < rows.outer; ++row) {
    const auto at = static_cast<size_t>(row * rows.extent), end = at + static_cast<size_t>(rows.extent);
    double dot = 0;
    for (size_t i = at; i < end; ++i) dot += in[0].data[i] * in[1].data[i];
    for (size_t i = at; i < end; ++i) out[0].data[i] = scale * in[1].data[i] * (in[0].data[i] - dot);
  }
}

void softmax_grad(const Tensors& in, Tensors& out, const ir::Attrs&) { softmax_grad_scaled(in, out, 1); }

void scale_mask_softmax_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  softmax_grad_scaled(in, out, ir::attr_float(attrs, "scale"));
}

// visit(row, position of its first class) for every row of logits
template <class Visit>
void each_row(const HostTensor& logits, Visit visit) {
  const Around rows = around(logits.type.shape, -1);
  for (int64_t row = 0; row < rows.outer; ++row)
    visit(static_cast<size_t>(row), static_cast<size_t>(row * rows.extent));
}

size_t classes_of(const HostTensor& logits) { return static_cast<size_t>(logits.type.shape.back()); }

// The class of `label` here; -1 if it is in another part of the classes.
int64_t class_here(double label, int64_t offset, size_t classes) {
  const auto at = static_cast<int64_t>(label) - offset;
  return at >= 0 && at < static_cast<int64_t>(classes) ? at : -1;
}

double picked(const HostTensor& logits, size_t start, double label, int64_t offset) {
  const int64_t at = class_here(label, offset, classes_of(logits));
  return at < 0 ? 0 : logits.data[start + static_cast<size_t>(at)];
}

size_t real_classes(const HostTensor& logits, const ir::Attrs& attrs) {
  return static_cast<size_t>(ir::classes_here(attrs, logits.type.shape.back()));
}

double exp_sum(const HostTensor& logits, size_t start, size_t classes, double maximum) {
  double sum = 0;
  for (size_t i = 0; i < classes; ++i) sum += std::exp(logits.data[start + i] - maximum);
  return sum;
}

double maximum_of(const HostTensor& logits, size_t start, size_t classes) {
  double maximum = -INFINITY;
  for (size_t i = 0; i < classes; ++i) maximum = std::max(maximum, logits.data[start + i]);
  return maximum;
}

void cross_entropy_parts(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const size_t classes = real_classes(in[0], attrs);
  each_row(in[0], [&](size_t row, size_t start) {
    const double maximum = maximum_of(in[0], start, classes), sum = exp_sum(in[0], start, classes, maximum);
    out[0].data[row] = std::log(sum) + maximum - picked(in[0], start, in[1].data[row], 0);
    if (out.size() > 1) out[1].data[row] = maximum, out[2].data[row] = sum;
  });
}

void sum_exp(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const size_t classes = real_classes(in[0], attrs);
  each_row(in[0], [&](size_t row, size_t start) {
    out[0].data[row] = exp_sum(in[0], start, classes, in[1].data[row]);
  });
}

void pick(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  each_row(in[0], [&](size_t row, size_t start) {
    out[0].data[row] = picked(in[0], start, in[1].data[row], ir::attr_int(attrs, "offset"));
  });
}

void sum_exp_pick(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  sum_exp(in, out, attrs);
  each_row(in[0], [&](size_t row, size_t start) {
    out[1].data[row] = picked(in[0], start, in[2].data[row], ir::attr_int(attrs, "offset"));
  });
}

void nll(const Tensors& in, Tensors& out, const ir::Attrs&) {
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    out[0].data[i] = std::log(in[1].data[i]) + in[0].data[i] - in[2].data[i];
  }
}

void cross_entropy_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const HostTensor& logits = in[1];
  const size_t classes = real_classes(logits, attrs);
  each_row(logits, [&](size_t row, size_t start) {
    const double dloss = in[0].data[row], m = in[2].data[row], z = in[3].data[row];
    const int64_t label = class_here(in[4].data[row], ir::attr_int(attrs, "offset"), classes_of(logits));
    for (size_t i = 0; i < classes_of(logits); ++i) {
      const double hit = static_cast<int64_t>(i) == label ? 1 : 0;
      const double share = i < classes ? std::exp(logits.data[start + i] - m) / z : 0;
      out[0].data[start + i] = dloss * (share - hit);
    }
  });
}

}  // namespace

void add_softmax_kernels(KernelTable& table) {
  table.insert({{"softmax", softmax},
                {"softmax_grad", softmax_grad},
                {"scale_mask_softmax", scale_mask_softmax},
                {"scale_mask_softmax_grad", scale_mask_softmax_grad},
                {"cross_entropy", cross_entropy_parts},
                {"cross_entropy_parts", cross_entropy_parts},
                {"sum_exp", sum_exp},
                {"sum_exp_pick", sum_exp_pick},
                {"pick", pick},
                {"nll", nll},
                {"cross_entropy_grad", cross_entropy_grad}});
}

}  // namespace boxcar::backends::cpu
