// Building blocks of memory-bound kernels: arrays of any element type, read and written in chunks of the
// accumulation type A (float, or double where an operand is float64), and loops over chunks that become
// vector code.
//
//   const In<A> x(call, 0);
//   const Out<A> y(call, 0);
//   Chunk<A> from, to;
//   for_chunks(count, [&](int64_t at, int64_t n) {
//     each(n, [](A v) { return v > 0 ? v : 0; }, to.at, x.load(operands, at, n, from));
//     y.store(to.at, operands, at, n);
//   });
//
// Loops go over whole lanes: elements between a chunk's end and the next multiple of kLanes are computed but
// not stored. Sums run in kLanes parallel sums of A per chunk and in double over chunks. Nothing depends on
// where an array lies in memory or on the processor's vectors (vectors.h), so the same numbers give the same
// bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/convert.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/vectors.h"

namespace boxcar::backends::cpu {

constexpr int64_t kLanes = 16;
constexpr int64_t kChunk = 512;

template <class A>
struct Chunk {
  alignas(64) A at[kChunk];
};

// An input of a call, read as A.
template <class A>
class In {
 public:
  In(const Call& call, size_t operand);

  // Elements [at, at + count), count at most kChunk, followed by zeros up to a multiple of kLanes: in
  // `buffer`, or in place.
  const A* load(const Operands& operands, int64_t at, int64_t count, Chunk<A>& buffer) const {
    const std::byte* from = address(operands, at);
    if (direct_ && count % kLanes == 0) return reinterpret_cast<const A*>(from);
    convert_(from, count, buffer.at);
    return buffer.at;
  }

  // The same with a step of 0 (one element repeated) or 1.
  const A* load_step(const Operands& operands, int64_t at, int64_t step, int64_t count,
                     Chunk<A>& buffer) const {
    if (step == 1) return load(operands, at, count, buffer);
    const A value = element(operands, at);
    for (int64_t i = 0; i < count; i += kLanes) std::fill_n(buffer.at + i, kLanes, value);
    return buffer.at;
  }

  A element(const Operands& operands, int64_t at) const {
    alignas(64) A value[kLanes];
    convert_(address(operands, at), 1, value);
    return value[0];
  }

 private:
  const std::byte* address(const Operands& operands, int64_t at) const {
    return operands.in<std::byte>(operand_) + at * size_;
  }

  size_t operand_;
  int64_t size_;
  bool direct_;
  void (*convert_)(const void* from, int64_t count, A* to);
};

// An output of a call, written from A: rounded to nearest, integers towards zero.
template <class A>
class Out {
 public:
  Out(const Call& call, size_t operand);

  // Stores elements [at, at + count). Reads `from` up to a multiple of kLanes.
  void store(const A* from, const Operands& operands, int64_t at, int64_t count) const {
    convert_(from, count, operands.out<std::byte>(operand_) + at * size_);
  }

  void put(double value, const Operands& operands, int64_t at) const {
    alignas(64) const A values[kLanes] = {static_cast<A>(value)};
    store(values, operands, at, 1);
  }

 private:
  size_t operand_;
  int64_t size_;
  void (*convert_)(const A* from, int64_t count, void* to);
};

// Calls make.operator()<A>() with the accumulation type of a call; null if an operand's elements cannot be
// read (float8).
template <class Make>
std::unique_ptr<Kernel> for_acc(const Call& call, Make make) {
  bool wide = false;
  for (const ir::Types* types : {&call.inputs, &call.outputs}) {
    for (const ir::TensorType& type : *types) {
      if (!is_stored(type.dtype)) return nullptr;
      wide |= type.dtype == ir::DType::float64;
    }
  }
  if (wide) return make.template operator()<double>();
  return make.template operator()<float>();
}

// body(at, count) for pieces of at most kChunk of `count` elements.
template <class Body>
void for_chunks(int64_t count, Body body) {
  for (int64_t at = 0; at < count; at += kChunk) body(at, std::min(kChunk, count - at));
}

// y[i] = f(x[i]...). y overlaps no x.
template <class A, class F, class... X>
void each(int64_t count, F f, A* y, const X*... x) {
  on_vectors(
      [](int64_t n, F g, A* __restrict to, const X* __restrict... from) {
        for (int64_t b = 0; b < n; b += kLanes) {
          for (int64_t i = 0; i < kLanes; ++i) to[b + i] = g(from[b + i]...);
        }
      },
      count, f, y, x...);
}

// y[i] = f(y[i], x[i]...). y overlaps no x.
template <class A, class F, class... X>
void change_each(int64_t count, F f, A* y, const X*... x) {
  on_vectors(
      [](int64_t n, F g, A* __restrict to, const X* __restrict... from) {
        for (int64_t b = 0; b < n; b += kLanes) {
          for (int64_t i = 0; i < kLanes; ++i) to[b + i] = g(to[b + i], from[b + i]...);
        }
      },
      count, f, y, x...);
}

// The sum of f(x[i]...).
template <class A, class F, class... X>
double sum_of(int64_t count, F f, const A* x, const X*... more) {
  return on_vectors(
      [](int64_t n, F g, const A* first, const X*... others) {
        alignas(64) A lanes[kLanes] = {};
        int64_t b = 0;
        for (; b + kLanes <= n; b += kLanes) {
          for (int64_t i = 0; i < kLanes; ++i) lanes[i] += g(first[b + i], others[b + i]...);
        }
        for (int64_t i = 0; b + i < n; ++i) lanes[i] += g(first[b + i], others[b + i]...);
        double total = 0;
        for (const A lane : lanes) total += static_cast<double>(lane);
        return total;
      },
      count, f, x, more...);
}

// The sum over elements start to start + width of an input.
template <class A, class F>
double row_sum(const Operands& operands, const In<A>& x, int64_t start, int64_t width, F f) {
  Chunk<A> buffer;
  double total = 0;
  for_chunks(width,
             [&](int64_t at, int64_t n) { total += sum_of(n, f, x.load(operands, start + at, n, buffer)); });
  return total;
}

// The largest f(x[i]); -infinity if there is none.
template <class A, class F>
A max_of(int64_t count, F f, const A* x) {
  return on_vectors(
      [](int64_t n, F g, const A* from) {
        alignas(64) A lanes[kLanes];
        for (A& lane : lanes) lane = -std::numeric_limits<A>::infinity();
        int64_t b = 0;
        for (; b + kLanes <= n; b += kLanes) {
          for (int64_t i = 0; i < kLanes; ++i) {
            const A value = g(from[b + i]);
            lanes[i] = lanes[i] < value ? value : lanes[i];
          }
        }
        for (int64_t i = 0; b + i < n; ++i) lanes[i] = std::max(lanes[i], g(from[b + i]));
        A most = lanes[0];
        for (const A lane : lanes) most = std::max(most, lane);
        return most;
      },
      count, f, x);
}

}  // namespace boxcar::backends::cpu
