#include "backends/cpu/chunks.h"

#include <bit>

#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

// --- 16-bit floats, without branches

float widen(Bfloat16 x) { return std::bit_cast<float>(uint32_t{x.value} << 16); }

uint16_t narrow_bfloat16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<uint16_t>(x != x ? (bits >> 16) | 0x40U : rounded);
}

// The exponent is moved by a product, which is exact and normalises what was subnormal.
float widen(Half x) {
  const uint32_t bits = x.x & 0x7fffU, sign = (x.x & 0x8000U) << 16;
  const auto magnitude = std::bit_cast<uint32_t>(std::bit_cast<float>(bits << 13) * 0x1p112F);
  return std::bit_cast<float>((bits >= 0x7c00U ? (bits << 13) | 0x7f800000U : magnitude) | sign);
}

uint16_t narrow_half(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t a = bits & 0x7fffffffU, sign = (bits >> 16) & 0x8000U;
  // Subnormal results: adding 0.5 leaves their bits, rounded, below those of 0.5.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(a) + 0.5F) - 0x3f000000U;
  const uint32_t normal = (a - 0x38000000U + 0xfffU + ((a >> 13) & 1U)) >> 13;
  const uint32_t special = a > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const uint32_t finite = a < 0x38800000U ? small : normal;
  return static_cast<uint16_t>((a >= 0x477ff000U ? special : finite) | sign);
}

// --- arrays

template <class T, class A>
A to_acc(T x) {
  if constexpr (sizeof(T) == 2) {
    return static_cast<A>(widen(x));
  } else {
    return static_cast<A>(x);
  }
}

template <class T, class A>
T from_acc(A x) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    return Eigen::bfloat16_impl::raw_uint16_to_bfloat16(narrow_bfloat16(static_cast<float>(x)));
  } else if constexpr (std::is_same_v<T, Half>) {
    return Eigen::half_impl::raw_uint16_to_half(narrow_half(static_cast<float>(x)));
  } else if constexpr (std::is_same_v<T, bool>) {
    return x != 0;
  } else {
    return static_cast<T>(x);
  }
}

template <class T, class A>
void read(const void* array, int64_t count, A* to) {
  on_vectors(
      [](int64_t n, A* __restrict y, const T* __restrict x) {
        int64_t b = 0;
        for (; b + kLanes <= n; b += kLanes) {
          for (int64_t i = 0; i < kLanes; ++i) y[b + i] = to_acc<T, A>(x[b + i]);
        }
        if (b == n) return;
        for (int64_t i = 0; i < kLanes; ++i) y[b + i] = b + i < n ? to_acc<T, A>(x[b + i]) : A(0);
      },
      count, to, static_cast<const T*>(array));
}

template <class T, class A>
void write(const A* from, int64_t count, void* array) {
  on_vectors(
      [](int64_t n, T* __restrict y, const A* __restrict x) {
        int64_t b = 0;
        for (; b + kLanes <= n; b += kLanes) {
          for (int64_t i = 0; i < kLanes; ++i) y[b + i] = from_acc<T, A>(x[b + i]);
        }
        for (; b < n; ++b) y[b] = from_acc<T, A>(x[b]);
      },
      count, static_cast<T*>(array), from);
}

// visit.operator()<T>() for the C++ type of a dtype.
template <class Visit>
auto for_type(ir::DType dtype, Visit visit) {
  switch (dtype) {
    case ir::DType::float64:
      return visit.template operator()<double>();
    case ir::DType::float32:
      return visit.template operator()<float>();
    case ir::DType::bfloat16:
      return visit.template operator()<Bfloat16>();
    case ir::DType::float16:
      return visit.template operator()<Half>();
    case ir::DType::int64:
      return visit.template operator()<int64_t>();
    case ir::DType::int32:
      return visit.template operator()<int32_t>();
    case ir::DType::int8:
      return visit.template operator()<int8_t>();
    case ir::DType::boolean:
      return visit.template operator()<bool>();
    case ir::DType::float8:
      break;
  }
  throw Error::fault("cpu", std::string("no elements of ") + ir::to_text(dtype));
}

template <class A>
bool is_same(ir::DType dtype) {
  return dtype == (std::is_same_v<A, double> ? ir::DType::float64 : ir::DType::float32);
}

}  // namespace

template <class A>
In<A>::In(const Call& call, size_t operand)
    : operand_(operand),
      size_(ir::size_of(call.inputs[operand].dtype)),
      direct_(is_same<A>(call.inputs[operand].dtype)),
      convert_(for_type(call.inputs[operand].dtype, []<class T>() { return &read<T, A>; })) {}

template <class A>
Out<A>::Out(const Call& call, size_t operand)
    : operand_(operand),
      size_(ir::size_of(call.outputs[operand].dtype)),
      convert_(for_type(call.outputs[operand].dtype, []<class T>() { return &write<T, A>; })) {}

template class In<float>;
template class In<double>;
template class Out<float>;
template class Out<double>;

}  // namespace boxcar::backends::cpu
