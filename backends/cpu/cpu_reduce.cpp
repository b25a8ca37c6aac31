#include "backends/cpu/cpu_reduce.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>

#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

using Reduce = void (*)(std::span<const void* const> parts, void* out, int64_t count);

struct Sum {
  template <typename A, typename B>
  static void into(A& acc, const B& x) {
    acc += x;
  }
};
struct Max {
  template <typename A, typename B>
  static void into(A& acc, const B& x) {
    acc = acc.binaryExpr(x, [](auto a, auto b) { return b > a || b != b ? b : a; });
  }
};
struct Min {
  template <typename A, typename B>
  static void into(A& acc, const B& x) {
    acc = acc.binaryExpr(x, [](auto a, auto b) { return b < a || b != b ? b : a; });
  }
};

// Elements of Stored, added up in Wide, a block at a time: it stays in the nearest cache, and `out` is
// written only after this block of every part has been read.
template <typename Stored, typename Wide, typename Act>
void reduce_as(std::span<const void* const> parts, void* out, int64_t count) {
  constexpr int64_t most = 2048;
  using Part = Eigen::Map<const Eigen::Array<Stored, Eigen::Dynamic, 1>>;
  Eigen::Array<Wide, Eigen::Dynamic, 1, 0, most, 1> sum;
  for (int64_t begin = 0; begin < count; begin += most) {
    const int64_t n = std::min(most, count - begin);
    const auto part = [&](const void* from) { return Part(static_cast<const Stored*>(from) + begin, n); };
    sum = part(parts[0]).template cast<Wide>();
    for (const void* from : parts.subspan(1)) Act::into(sum, part(from).template cast<Wide>());
    Eigen::Map<Eigen::Array<Stored, Eigen::Dynamic, 1>>(static_cast<Stored*>(out) + begin, n) =
        sum.template cast<Stored>();
  }
}

struct Combiner {
  ir::DType dtype;
  Reduce sum, max, min;  // null: no such reduction
};
template <typename Stored, typename Wide>
constexpr Combiner row(ir::DType dtype) {
  return {dtype, reduce_as<Stored, Wide, Sum>, reduce_as<Stored, Wide, Max>, reduce_as<Stored, Wide, Min>};
}

constexpr Combiner rows[] = {
    row<double, double>(ir::DType::float64),
    row<float, float>(ir::DType::float32),
    row<Eigen::half, float>(ir::DType::float16),
    row<Eigen::bfloat16, float>(ir::DType::bfloat16),
    row<int64_t, int64_t>(ir::DType::int64),
    row<int32_t, int64_t>(ir::DType::int32),
    row<int8_t, int64_t>(ir::DType::int8),
    {ir::DType::boolean, nullptr, reduce_as<uint8_t, uint8_t, Max>, reduce_as<uint8_t, uint8_t, Min>},
};

Reduce find(ir::DType dtype, sbp::Reduction reduction) {
  const auto* found =
      std::find_if(std::begin(rows), std::end(rows), [&](const Combiner& r) { return r.dtype == dtype; });
  if (found == std::end(rows)) return nullptr;
  if (reduction == sbp::Reduction::sum) return found->sum;
  return reduction == sbp::Reduction::max ? found->max : found->min;
}

}  // namespace

void reduce(std::span<const void* const> parts, void* out, int64_t count, ir::DType dtype,
            sbp::Reduction reduction) {
  find(dtype, reduction)(parts, out, count);
}

void check_reduction(ir::DType dtype, sbp::Reduction reduction) {
  if (find(dtype, reduction)) return;
  throw Error::fault("", fmt::format("there is no {} of {}", sbp::to_text(reduction), ir::to_text(dtype)));
}

}  // namespace boxcar::backends::cpu
