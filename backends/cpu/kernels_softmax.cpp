// Softmax along the last axis, plain and as attention scores need it. A row's exponentials stay in the cache
// until their sum is known.
#include "backends/cpu/chunks.h"
#include "backends/cpu/fast_math.h"
#include "backends/cpu/reference.h"

namespace boxcar::backends::cpu {
namespace {

// Which elements of a row count: from begin to end.
struct Seen {
  int64_t begin, end;
};

// `loaded` (elements at to at + n of a row) with -infinity before `begin`: in place, or in `buffer`.
template <class A>
const A* hidden_before(int64_t begin, const A* loaded, int64_t at, int64_t n, Chunk<A>& buffer) {
  if (begin <= at) return loaded;
  if (loaded != buffer.at) std::copy_n(loaded, n, buffer.at);
  std::fill_n(buffer.at, std::min(begin - at, n), -std::numeric_limits<A>::infinity());
  return buffer.at;
}

// y = softmax(scale x) over the elements of each row that seen(row) names, zero elsewhere.
template <class A, class SeenOf>
std::unique_ptr<Kernel> softmax_rows(const Call& call, double scale, SeenOf seen) {
  const Around rows = around(call.inputs[0].shape, -1);
  const auto padded = static_cast<size_t>((rows.extent + kChunk - 1) / kChunk);
  return kernel([=, by = static_cast<A>(scale), x = In<A>(call, 0), y = Out<A>(call, 0),
                 exponentials = std::vector<Chunk<A>>(padded)](const Operands& operands) mutable {
    Chunk<A> from, to;
    for (int64_t row = 0; row < rows.outer; ++row) {
      const int64_t start = row * rows.extent;
      const Seen row_sees = seen(row);
      const int64_t shown = row_sees.end;
      const auto read = [&](int64_t at, int64_t n) {
        return hidden_before(row_sees.begin, x.load(operands, start + at, n, from), at, n, from);
      };
      const auto scaled = [by](A v) { return by * v; };
      A most = -std::numeric_limits<A>::infinity();
      for_chunks(shown,
                 [&](int64_t at, int64_t n) { most = std::max(most, max_of(n, scaled, read(at, n))); });
      double sum = 0;
      for_chunks(shown, [&](int64_t at, int64_t n) {
        A* e = exponentials[static_cast<size_t>(at / kChunk)].at;
        each(
            n, [by, most](A v) { return fast_exp(by * v - most); }, e, read(at, n));
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
  return for_acc(call, [&]<class A>() {
    return softmax_rows<A>(call, 1, [extent](int64_t) { return Seen{0, extent}; });
  });
}

std::unique_ptr<Kernel> make_scale_mask_softmax(const Call& call) {
  const ir::Shape& shape = call.inputs[0].shape;
  const int64_t extent = shape.back(), queries = shape[shape.size() - 2];
  const int64_t ahead = ir::attr_bool(call.attrs, "causal") ? ir::attr_int(call.attrs, "offset") : extent;
  const int64_t window = ir::attr_int(call.attrs, "window");
  const auto seen = [=](int64_t row) {
    const int64_t last = row % queries + ahead + 1, end = std::min(last, extent);
    const int64_t begin = window > 0 ? std::max<int64_t>(last - window, 0) : 0;
    return begin < end ? Seen{begin, end} : Seen{0, 0};
  };
  return for_acc(call,
                 [&]<class A>() { return softmax_rows<A>(call, ir::attr_float(call.attrs, "scale"), seen); });
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
