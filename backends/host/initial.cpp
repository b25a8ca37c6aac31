#include "backends/host/initial.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>
#include <vector>

#include "backends/host/fingerprint.h"
#include "backends/host/parts.h"
#include "backends/random.h"
#include "ir/ops/batch_statistics.h"

namespace boxcar::backends::host {
namespace {

constexpr double deviation = 0.02;
constexpr int64_t least_share = 1 << 18;  // elements that are worth a thread

// Box and Muller, two draws an element.
double normal(RandomKey key, int64_t element) {
  const double radius = 1 - uniform(key, 2 * element), angle = uniform(key, 2 * element + 1);
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle);
}

RandomKey key_of(std::string_view tensor, int64_t seed) {
  return random_key(seed, 0, static_cast<int64_t>(fingerprint(tensor)));
}
double value_at(InitialRule rule, RandomKey key, int64_t element) {
  return rule.deviation == 0 ? rule.mean : rule.mean + rule.deviation * normal(key, element);
}

// "h3.ln1.weight", "ln_f.weight"
bool is_norm(std::string_view layer) {
  const size_t dot = layer.rfind('.');
  return layer.substr(dot == std::string_view::npos ? 0 : dot + 1).starts_with("ln");
}

}  // namespace

InitialRule initial_rule(std::string_view tensor, int64_t layers, const ir::Shape& shape) {
  const size_t dot = tensor.rfind('.');
  const std::string_view kind = tensor.substr(dot + 1), layer = tensor.substr(0, dot);
  for (const std::string_view zero : {"bias", "beta", "m", "v", "r", "c"})
    if (kind == zero) return {};
  if (tensor.ends_with(ir::running_mean)) return {};
  if (kind == "gamma" || tensor.ends_with(ir::running_variance)) return {1, 0};
  if (kind == "weight" && is_norm(layer)) return {1, 0};
  if (kind == "weight" && shape.size() == 4)
    return {0, std::sqrt(2.0 / static_cast<double>(shape[1] * shape[2] * shape[3]))};
  if (layer.ends_with(".lora_a"))
    return {0, 1 / std::sqrt(3.0 * static_cast<double>(shape.empty() ? 1 : shape[0]))};
  if (layer.ends_with(".lora_b")) return {};
  const bool residual =
      layer.ends_with(".attn.proj") || layer.ends_with(".mlp.fc2") || layer.ends_with(".mlp.shared.fc2");
  return {0, residual ? deviation / std::sqrt(2.0 * static_cast<double>(layers)) : deviation};
}

void fill_initial(std::string_view tensor, const ir::Shape& shape, std::span<const sbp::Range> ranges,
                  InitialRule rule, int64_t seed, std::span<double> out) {
  const RandomKey key = key_of(tensor, seed);
  std::vector<int64_t> at;
  for (const sbp::Range& range : ranges) at.push_back(range.begin);
  for (double& value : out) {
    int64_t element = 0;
    for (size_t a = 0; a < shape.size(); ++a) element = element * shape[a] + at[a];
    value = value_at(rule, key, element);
    for (size_t a = shape.size(); a-- > 0;) {
      if (++at[a] < ranges[a].end) break;
      at[a] = ranges[a].begin;
    }
  }
}

StoredTensor initial_tensor(std::string_view tensor, const ir::TensorType& type, InitialRule rule,
                            int64_t seed) {
  StoredTensor drawn{type, std::vector<std::byte>(static_cast<size_t>(type.bytes()))};
  if (rule.mean == 0 && rule.deviation == 0) return drawn;
  const RandomKey key = key_of(tensor, seed);
  const int64_t elements = type.elements(), size = ir::size_of(type.dtype);
  const auto draw = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      store_element(type.dtype, drawn.bytes.data() + i * size, value_at(rule, key, i));
  };
  const int64_t cores = std::max(1U, std::thread::hardware_concurrency());
  const int64_t share = std::max(least_share, (elements + cores - 1) / cores);
  std::vector<std::jthread> others;
  for (int64_t begin = share; begin < elements; begin += share)
    others.emplace_back(draw, begin, std::min(begin + share, elements));
  draw(0, std::min(share, elements));
  others.clear();
  return drawn;
}

}  // namespace boxcar::backends::host
