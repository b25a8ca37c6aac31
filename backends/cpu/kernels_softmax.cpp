// Softmax along the last axis, plain and as attention scores need it. A row's exponentials stay in the cache
// until their sum is known.
#include "backends/cpu/chunks.h"
#include "backends/cpu/fast_math.h"
#include "backends/cpu/reference.h"

namespace boxcar::backends::cpu {
namespace {

// y = softmax(scale x) over the first `visible` elements of each row, zero beyond.
template <class A, class Visible>
std::unique_ptr<Kernel> softmax_rows(const Call& call, double scale, Visible visible) {
  const Around rows = around(call.inputs[0].shape, -1);
  const auto padded = static_cast<size_t>((rows.extent + kChunk - 1) / kChunk);
  return kernel([=, by = static_cast<A>(scale), x = In<A>(call, 0), y = Out<A>(call, 0),
                 exponentials = std::vector<Chunk<A>>(padded)](const Operands& operands) mutable {
    Chunk<A> from, to;
    for (int64_t row = 0; row < rows.outer; ++row) {
      const int64_t start = row * rows.extent, shown = visible(row);
      const auto scaled = [by](A v) { return by * v; };
      A most = -std::numeric_limits<A>::infinity();
      for_chunks(shown, [&](int64_t at, int64_t n) {
        most = std::max(most, max_of(n, scaled, x.load(operands, start + at, n, from)));
      });
      double sum = 0;
      for_chunks(shown, [&](int64_t at, int64_t n) {
        A* e = exponentials[static_cast<size_t>(at / kChunk)].at;
        each(
            n, [by, most](A v) { return fast_exp(by * v - most); }, e, x.load(operands, start + at, n, from));
        sum += sum_of(
            n, [](A v) { return v; }, e);
      });
      const A inverse = static_cast<A>(1 / sum);
      for_chunks(rows.extent, [&](int64_t at, int64_t n) {
        const A* e = exponentials[static_cast<size_t>(at / kChunk)].at;
        const int64_t here = std::clamp<int64_t>(shown - at, 0, n);
        each(
            here, [inverse](A v) { return v * inverse; }, to.at, e);
        std::fill(to.at + here, to.at + n, A(0));
        y.store(to.at, operands, start + at, n);
      });
    }
  });
}

std::unique_ptr<Kernel> make_softmax(const Call& call) {
  const int64_t extent = call.inputs[0].shape.back();
  return for_acc(call,
                 [&]<class A>() { return softmax_rows<A>(call, 1, [extent](int64_t) { return extent; }); });
}

std::unique_ptr<Kernel> make_scale_mask_softmax(const Call& call) {
  const ir::Shape& shape = call.inputs[0].shape;
  const int64_t extent = shape.back(), queries = shape[shape.size() - 2];
  const int64_t ahead = ir::attr_bool(call.attrs, "causal") ? ir::attr_int(call.attrs, "offset") : extent;
  const auto visible = [=](int64_t row) { return std::min(row % queries + ahead + 1, extent); };
  return for_acc(
      call, [&]<class A>() { return softmax_rows<A>(call, ir::attr_float(call.attrs, "scale"), visible); });
}

// dx = scale y (dy - sum(dy y))
std::unique_ptr<Kernel> softmax_grad(const Call& call, double scale) {
  const Around rows = around(call.inputs[1].shape, -1);
  return for_acc(call, [&]<class A>() {
    return kernel([=, by = static_cast<A>(scale), dy = In<A>(call, 0), y = In<A>(call, 1),
                   dx = Out<A>(call, 0)](const Operands& operands) {
      Chunk<A> from_dy, from_y, to;
      for (int64_t row = 0; row < rows.outer; ++row) {
        const int64_t start = row * rows.extent;
        double sum = 0;
        for_chunks(rows.extent, [&](int64_t at, int64_t n) {
          sum += sum_of(
              n, [](A d, A v) { return d * v; }, dy.load(operands, start + at, n, from_dy),
              y.load(operands, start + at, n, from_y));
        });
        const A dot = static_cast<A>(sum);
        for_chunks(rows.extent, [&](int64_t at, int64_t n) {
          each(
              n, [by, dot](A d, A v) { return by * v * (d - dot); }, to.at,
              dy.load(operands, start + at, n, from_dy), y.load(operands, start + at, n, from_y));
          dx.store(to.at, operands, start + at, n);
        });
      }
    });
  });
}

std::unique_ptr<Kernel> make_softmax_grad(const Call& call) { return softmax_grad(call, 1); }
std::unique_ptr<Kernel> make_scale_mask_softmax_grad(const Call& call) {
  return softmax_grad(call, ir::attr_float(call.attrs, "scale"));
}

}  // namespace

void add_softmax_kernels(Factories& table) {
  table.insert({{"softmax", make_softmax},
                {"softmax_grad", make_softmax_grad},
                {"scale_mask_softmax", make_scale_mask_softmax},
                {"scale_mask_softmax_grad", make_scale_mask_softmax_grad}});
}

}  // namespace boxcar::backends::cpu
