#include "cli/cpu_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/models/kernel_time.h"

namespace boxcar::cli {
namespace {

using backends::CollectiveModel;
using backends::DeviceProfile;
using backends::HostProfile;
using sbp::Collective;

// Four digits: more were not measured.
double rounded(double value) { return std::stod(fmt::format("{:.4g}", value)); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

ir::Work work_of(const KernelSample& sample) {
  return ir::work(ir::op(sample.call.op), sample.call.inputs, sample.call.outputs, sample.call.attrs);
}
ir::DType type_of(const KernelSample& sample) { return sample.call.inputs.front().dtype; }
bool is_float32(const KernelSample& sample) { return type_of(sample) == ir::DType::float32; }
bool has_true(const KernelSample& sample, const char* name) {
  const auto found = sample.call.attrs.find(name);
  return found != sample.call.attrs.end() && std::get<bool>(found->second);
}
// A product as it is written in a forward pass.
bool is_product(const KernelSample& sample) {
  return sample.call.op == "matmul" && !has_true(sample, "transpose_a") && !has_true(sample, "transpose_b");
}
// Two vectors and their sum: what memory gives by itself.
bool is_plain_sum(const KernelSample& sample) {
  return sample.call.op == "add" && sample.call.inputs.front().shape.size() == 1 &&
         sample.call.inputs[0] == sample.call.inputs[1];
}

// Medians of y over samples whose x lie within a factor of 4 of each other.
backends::Curve curve_of(const std::vector<std::pair<double, double>>& points) {
  std::map<int, std::vector<std::pair<double, double>>> groups;
  for (const auto& point : points)
    groups[static_cast<int>(std::floor(std::log2(point.first) / 2))].push_back(point);
  backends::Curve curve;
  for (const auto& [group, members] : groups) {
    std::vector<double> x, y;
    for (const auto& point : members) x.push_back(std::log(point.first)), y.push_back(point.second);
    curve.x.push_back(rounded(std::exp(median(x))));
    curve.y.push_back(rounded(std::clamp(median(y), 1e-6, 1.5)));
  }
  return curve;
}

void fit_memory(const Samples& samples, DeviceProfile& device) {
  device.kernel_floor = INFINITY;
  for (const KernelSample& sample : samples.kernels)
    if (is_plain_sum(sample)) device.kernel_floor = std::min(device.kernel_floor, sample.seconds);
  std::vector<std::pair<double, double>> rates;  // by bytes
  for (const KernelSample& sample : samples.kernels) {
    if (!is_plain_sum(sample) || sample.seconds < 2 * device.kernel_floor) continue;
    const double bytes = work_of(sample).bytes;
    rates.emplace_back(bytes, bytes / (sample.seconds - device.kernel_floor));
    device.memory_bandwidth = std::max(device.memory_bandwidth, rates.back().second);
  }
  device.kernel_floor = rounded(device.kernel_floor);
  device.memory_bandwidth = rounded(device.memory_bandwidth);
  for (auto& rate : rates) rate.second /= device.memory_bandwidth;
  device.memory_efficiency = curve_of(rates);
}

void fit_products(const Samples& samples, DeviceProfile& device) {
  for (const KernelSample& sample : samples.kernels) {
    if (!is_product(sample)) continue;
    double& peak = device.peak_flops[type_of(sample)];
    peak = std::max(peak, work_of(sample).flops / sample.seconds);
  }
  for (auto& [type, peak] : device.peak_flops) peak = rounded(peak);
  std::vector<std::pair<double, double>> shares;  // by flops
  const double peak = device.peak_flops[ir::DType::float32];
  for (const KernelSample& sample : samples.kernels) {
    if (!is_product(sample) || !is_float32(sample)) continue;
    const double flops = work_of(sample).flops;
    shares.emplace_back(flops, flops / (peak * sample.seconds));
  }
  device.matmul_efficiency = curve_of(shares);
}

// Fused attention by the length of a sequence; a causal one counts as a quarter of its own (kernel_time.cpp).
void fit_attention(const Samples& samples, DeviceProfile& device) {
  std::vector<std::pair<double, double>> forward, backward;
  for (const KernelSample& sample : samples.kernels) {
    if (ir::op(sample.call.op).family != ir::Family::attention || !is_float32(sample)) continue;
    const bool is_backward = sample.call.op.ends_with("_grad");
    const auto& keys = sample.call.inputs[is_backward ? 2 : 1].shape;
    const double sequence = static_cast<double>(keys[keys.size() - 2]) / (has_true(sample, "causal") ? 4 : 1);
    const double rate = work_of(sample).flops / (sample.seconds - device.kernel_floor);
    (is_backward ? backward : forward).emplace_back(sequence, rate / device.peak_flops[ir::DType::float32]);
  }
  device.attention_forward_efficiency = curve_of(forward);
  device.attention_backward_efficiency = curve_of(backward);
}

// What is left between the model and the samples, by op.
void fit_shares(const Samples& samples, DeviceProfile& device) {
  std::map<std::string, std::vector<double>> shares;
  for (const KernelSample& sample : samples.kernels)  // views that are copies here
    if (ir::op(sample.call.op).family == ir::Family::none) device.op_share[sample.call.op] = 1;
  for (const KernelSample& sample : samples.kernels) {
    const ir::OpDef& def = ir::op(sample.call.op);
    if (def.family == ir::Family::attention || is_plain_sum(sample) || !is_float32(sample)) continue;
    const double fixed = def.family == ir::Family::matmul ? 0 : device.kernel_floor;
    if (sample.seconds < 2 * fixed) continue;
    const double model =
        sim::kernel_seconds(device, def, sample.call.inputs, sample.call.outputs, sample.call.attrs);
    const bool input_grad = def.name == "matmul" && has_true(sample, "transpose_b");
    shares[input_grad ? "matmul_input_grad" : def.name].push_back((model - fixed) / (sample.seconds - fixed));
  }
  for (const auto& [name, values] : shares)
    device.op_share[name] = rounded(std::clamp(median(values), 1e-3, 10.0));
}

double seconds_of(const Samples& samples, Collective collective, int ranks, bool large) {
  double seconds = 0;
  int64_t least = INT64_MAX, most = 0;
  for (const GroupSample& sample : samples.groups) {
    if (sample.collective != collective || sample.ranks != ranks) continue;
    if (large ? sample.bytes > most : sample.bytes < least) seconds = sample.seconds;
    least = std::min(least, sample.bytes), most = std::max(most, sample.bytes);
  }
  return seconds;
}

// Bus bytes per second of a member with a core to itself, between the smallest and the largest size.
double bus_rate(const Samples& samples, Collective collective, int ranks) {
  int64_t bytes = 0;
  for (const GroupSample& sample : samples.groups) bytes = std::max(bytes, sample.bytes);
  const double spent =
      seconds_of(samples, collective, ranks, true) - seconds_of(samples, collective, ranks, false);
  const double rounds = collective == Collective::all_reduce ? 2 : 1;
  const double bus = rounds * static_cast<double>(bytes) * (ranks - 1) / ranks;
  return bus * std::max(1.0, ranks / samples.cores) / std::max(spent, 1e-9);
}

// Rates of n ranks are bandwidth x (1 - loss / n); an all-reduce of 2 and of 4 gives both.
void fit_host(const Samples& samples, HostProfile& host) {
  const double two = bus_rate(samples, Collective::all_reduce, 2),
               four = bus_rate(samples, Collective::all_reduce, 4);
  CollectiveModel& model = host.collective;
  const auto loss = [](double value) { return rounded(std::clamp(value, 0.0, 1.5)); };
  model.all_reduce_loss = loss((four - two) / (four / 2 - two / 4));
  host.cores = rounded(samples.cores);
  host.link_bandwidth = rounded(two / (1 - model.all_reduce_loss / 2));
  const double gather =
      (bus_rate(samples, Collective::all_gather, 2) + bus_rate(samples, Collective::reduce_scatter, 2)) / 2;
  model.gather_loss = loss(2 * (1 - gather / host.link_bandwidth));
  model.exchange_loss = 0;
  // An act of a collective is heard of by a thread that sleeps, and its end by another one.
  const double messages = 2 * samples.message_seconds;
  const double small = seconds_of(samples, Collective::all_reduce, 2, false);
  const double hop = std::max((seconds_of(samples, Collective::all_reduce, 4, false) - small) / 4, 0.0);
  const auto share = [&](double rate) { return rounded(std::clamp(rate / host.link_bandwidth, 1e-4, 2.0)); };
  for (auto& line : model.node) line = {rounded(messages + std::max(small - 2 * hop, 0.0)), rounded(hop), 1};
  const double exchange = bus_rate(samples, Collective::all_to_all, 2);
  for (auto& line : model.exchange)
    line = {rounded(messages + seconds_of(samples, Collective::all_to_all, 2, false)), 0, share(exchange)};
  for (auto& line : model.transfer) line = {rounded(messages), 0, share(samples.copy_bandwidth)};
}

}  // namespace

DeviceProfile fit(const Samples& samples) {
  DeviceProfile device;
  device.name = "cpu";
  device.memory_bytes = samples.memory_bytes;
  device.multiprocessors = 1;
  fit_memory(samples, device);
  fit_products(samples, device);
  fit_attention(samples, device);
  fit_shares(samples, device);
  fit_host(samples, device.host.emplace());
  device.launch_latency = rounded(samples.act_seconds);
  return device;
}

}  // namespace boxcar::cli
