// Reductions over axes: result by result if the innermost axis is reduced, a chunk of results at a time if it
// is kept. Sums run in double over chunks and rows.
#include <limits>
#include <optional>

#include "backends/cpu/broadcast_rows.h"
#include "backends/cpu/chunks.h"
#include "backends/cpu/reference.h"
#include "ir/ops/classes.h"

namespace boxcar::backends::cpu {
namespace {

// x[4, 6, 8] over axis 1: kept 4 and 8, 48 and 1 apart; reduced 6, 8 apart. The innermost axis is removed
// from the list that it belongs to: its elements are neighbours.
struct Split {
  Axes kept{{}, {{}}}, reduced{{}, {{}}};
  bool inner_reduced = false;
  int64_t width = 1;
};

Split split(const ir::Shape& x, const std::vector<int64_t>& axes) {
  const std::vector<int64_t> steps = strides(x);
  Split result;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto axis = static_cast<int64_t>(i), other_name = axis - static_cast<int64_t>(x.size());
    const bool reduced = axes.empty() || std::count(axes.begin(), axes.end(), axis) > 0 ||
                         std::count(axes.begin(), axes.end(), other_name) > 0;
    Axes& to = reduced ? result.reduced : result.kept;
    to.extents.push_back(x[i]);
    to.steps[0].push_back(steps[i]);
    if (x[i] != 1) result.inner_reduced = reduced;
  }
  result.kept = join(result.kept);
  result.reduced = join(result.reduced);
  result.width = take_inner(result.inner_reduced ? result.reduced : result.kept).extent;
  return result;
}

// finish(sum) is stored.
template <class Finish>
std::unique_ptr<Kernel> sums(const Call& call, Finish finish) {
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  const Split axes = split(call.inputs[0].shape, ir::attr_ints(call.attrs, "axes"));
  return for_acc(call, [&]<class A>() {
    return kernel([=, x = In<A>(call, 0), y = Out<double>(call, 0)](const Operands& operands) {
      int64_t result = 0;
      Chunk<A> from;
      Chunk<double> total;
      each_offset(axes.kept, [&](const int64_t* kept) {
        if (axes.inner_reduced) {
          double sum = 0;
          each_offset(axes.reduced, [&](const int64_t* at) {
            sum += row_sum(operands, x, *kept + *at, axes.width, [](A v) { return v; });
          });
          return y.put(finish(sum), operands, result++);
        }
        for_chunks(axes.width, [&](int64_t start, int64_t n) {
          std::fill_n(total.at, kChunk, 0.0);
          each_offset(axes.reduced, [&](const int64_t* at) {
            change_each(
                n, [](double sum, A v) { return sum + static_cast<double>(v); }, total.at,
                x.load(operands, *kept + *at + start, n, from));
          });
          for (int64_t i = 0; i < n; ++i) total.at[i] = finish(total.at[i]);
          y.store(total.at, operands, result, n);
          result += n;
        });
      });
    });
  });
}

// The largest of sign x, times sign. With `last`, of so many elements of the last axis, which is reduced
// alone.
std::unique_ptr<Kernel> extremes(const Call& call, int sign, std::optional<int64_t> last = {}) {
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  Split axes = split(call.inputs[0].shape, ir::attr_ints(call.attrs, "axes"));
  if (last) axes.width = *last;
  return for_acc(call, [&]<class A>() {
    return kernel(
        [=, by = static_cast<A>(sign), x = In<A>(call, 0), y = Out<A>(call, 0)](const Operands& operands) {
          int64_t result = 0;
          Chunk<A> from, most;
          each_offset(axes.kept, [&](const int64_t* kept) {
            if (axes.inner_reduced) {
              A largest = -std::numeric_limits<A>::infinity();
              each_offset(axes.reduced, [&](const int64_t* at) {
                for_chunks(axes.width, [&](int64_t start, int64_t n) {
                  const A* more = x.load(operands, *kept + *at + start, n, from);
                  largest = std::max(largest, max_of(
                                                  n, [by](A v) { return by * v; }, more));
                });
              });
              return y.put(static_cast<double>(by * largest), operands, result++);
            }
            for_chunks(axes.width, [&](int64_t start, int64_t n) {
              std::fill_n(most.at, kChunk, -std::numeric_limits<A>::infinity());
              each_offset(axes.reduced, [&](const int64_t* at) {
                change_each(
                    n, [by](A largest, A v) { return std::max(largest, by * v); }, most.at,
                    x.load(operands, *kept + *at + start, n, from));
              });
              for (int64_t i = 0; i < n; ++i) most.at[i] *= by;
              y.store(most.at, operands, result, n);
              result += n;
            });
          });
        });
  });
}

std::unique_ptr<Kernel> make_sum(const Call& call) {
  return sums(call, [](double sum) { return sum; });
}

std::unique_ptr<Kernel> make_mean(const Call& call) {
  int64_t count = ir::attr_int(call.attrs, "count");
  const int64_t results = call.outputs[0].elements();
  if (count == 0 && results > 0) count = call.inputs[0].elements() / results;
  return sums(call, [count](double sum) { return sum / static_cast<double>(count); });
}

std::unique_ptr<Kernel> nothing_to_reduce(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([count = call.outputs[0].elements(), y = Out<A>(call, 0)](const Operands& operands) {
      for (int64_t i = 0; i < count; ++i) y.put(-std::numeric_limits<double>::infinity(), operands, i);
    });
  });
}

std::unique_ptr<Kernel> make_max(const Call& call) {
  if (ir::attr_int(call.attrs, "classes") == 0) return extremes(call, 1);
  const int64_t extent = call.inputs[0].shape.back(), classes = ir::classes_here(call.attrs, extent);
  if (classes == 0) return nothing_to_reduce(call);
  return classes == extent ? extremes(call, 1) : extremes(call, 1, classes);
}
std::unique_ptr<Kernel> make_min(const Call& call) { return extremes(call, -1); }

}  // namespace

void add_reduce_kernels(Factories& table) {
  table.insert({{"reduce_sum", make_sum},
                {"reduce_mean", make_mean},
                {"reduce_max", make_max},
                {"reduce_min", make_min}});
}

}  // namespace boxcar::backends::cpu
