#include "sim/fit/device_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "backends/machines/collective_model.h"
#include "backends/machines/device_profile.h"
#include "sim/fit/product_fit.h"
#include "sim/models/kernel_time.h"

namespace boxcar::fit {
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

ir::Work work_of(const measure::KernelSample& sample) {
  return ir::work(ir::op(sample.call.op), sample.call.inputs, sample.call.outputs, sample.call.attrs);
}
ir::DType type_of(const measure::KernelSample& sample) { return sample.call.inputs.front().dtype; }
bool has_true(const measure::KernelSample& sample, const char* name) {
  const auto found = sample.call.attrs.find(name);
  return found != sample.call.attrs.end() && std::get<bool>(found->second);
}
// A product as it is written in a forward pass.
bool is_product(const measure::KernelSample& sample) {
  return sample.call.op == "matmul" && !has_true(sample, "transpose_a") && !has_true(sample, "transpose_b");
}
// Two vectors and their sum: the memory's rate by itself.
bool is_plain_sum(const measure::KernelSample& sample) {
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

void fit_memory(const measure::Samples& samples, DeviceProfile& device) {
  device.kernel_floor = INFINITY;
  for (const measure::KernelSample& sample : samples.kernels)
    if (is_plain_sum(sample)) device.kernel_floor = std::min(device.kernel_floor, sample.seconds);
  std::vector<std::pair<double, double>> rates;  // by bytes
  for (const measure::KernelSample& sample : samples.kernels) {
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

sim::MatmulShape shape_of(const measure::KernelSample& sample) {
  const ir::Shape &a = sample.call.inputs[0].shape, &out = sample.call.outputs[0].shape;
  sim::MatmulShape shape;
  shape.n = out.back();
  shape.m = sample.call.outputs[0].elements() / shape.n;
  shape.k = a.back();
  return shape;
}

void fit_products(const measure::Samples& samples, DeviceProfile& device) {
  std::vector<ProductSample> products;
  for (const measure::KernelSample& sample : samples.kernels) {
    if (!is_product(sample)) continue;
    const ir::Work work = work_of(sample);
    products.push_back({shape_of(sample), type_of(sample), work.bytes, sample.seconds});
    double& peak = device.peak_flops[type_of(sample)];
    peak = std::max(peak, work.flops / sample.seconds);
  }
  for (auto& [type, peak] : device.peak_flops) peak = rounded(peak);
  if (samples.multiprocessors > 1) {
    fit_products(products, samples.type, device);
    backends::MatmulModel& m = device.matmul;
    for (auto& tile : m.tiles) tile.share = rounded(tile.share);
    for (double* value : {&m.wave_overlap, &m.wave_seconds, &m.tile_seconds, &m.split_seconds,
                          &m.start_seconds, &m.memory_share, &m.cache_bandwidth, &m.ramp_bytes})
      *value = rounded(*value);
    for (auto& [type, share] : m.type_share) share = rounded(share);
    for (double& share : device.matmul_efficiency.y) share = rounded(share);
    return;
  }
  std::vector<std::pair<double, double>> shares;  // by flops
  const double peak = device.peak_flops[samples.type];
  for (const measure::KernelSample& sample : samples.kernels) {
    if (!is_product(sample) || type_of(sample) != samples.type) continue;
    const double flops = work_of(sample).flops;
    shares.emplace_back(flops, flops / (peak * sample.seconds));
  }
  device.matmul_efficiency = curve_of(shares);
}

// Fused attention by the length of a sequence; a causal one counts as a quarter of its own (kernel_time.cpp).
// The curves are those of the widest heads; others have a share of them.
void fit_attention(const measure::Samples& samples, DeviceProfile& device) {
  struct Point {
    bool backward = false;
    double width = 0, sequence = 0, share = 0;
  };
  std::vector<Point> points;
  double widest = 0;
  for (const measure::KernelSample& sample : samples.kernels) {
    if (ir::op(sample.call.op).family != ir::Family::attention || type_of(sample) != samples.type) continue;
    const bool is_backward = sample.call.op.ends_with("_grad");
    const auto& keys = sample.call.inputs[is_backward ? 2 : 1].shape;
    const double sequence = static_cast<double>(keys[keys.size() - 2]) / (has_true(sample, "causal") ? 4 : 1);
    const double rate = work_of(sample).flops / (sample.seconds - device.kernel_floor);
    const auto width = static_cast<double>(keys.back());
    points.push_back({is_backward, width, sequence, rate / device.peak_flops[samples.type]});
    widest = std::max(widest, width);
  }
  std::vector<std::pair<double, double>> forward, backward;
  for (const Point& point : points)
    if (point.width == widest)
      (point.backward ? backward : forward).emplace_back(point.sequence, point.share);
  device.attention.forward = curve_of(forward);
  device.attention.backward = curve_of(backward);
  std::map<double, std::vector<double>> shares;  // by width
  for (const Point& point : points) {
    const auto& curve = point.backward ? device.attention.backward : device.attention.forward;
    shares[point.width].push_back(point.share / curve.at(point.sequence));
  }
  if (shares.size() < 2) return;
  for (const auto& [width, values] : shares) {
    device.attention.head_share.x.push_back(width);
    device.attention.head_share.y.push_back(rounded(std::clamp(median(values), 1e-6, 1.5)));
  }
}

// Convolutions by their flops; the part of it that gradients reach is their op's share.
void fit_convolutions(const measure::Samples& samples, DeviceProfile& device) {
  std::vector<std::pair<double, double>> shares;
  for (const measure::KernelSample& sample : samples.kernels) {
    if (sample.call.op != "conv2d" || type_of(sample) != samples.type) continue;
    const double flops = work_of(sample).flops;
    const double peak = device.peak_flops[samples.type];
    if (sample.seconds > 2 * device.kernel_floor)
      shares.emplace_back(flops, flops / (peak * (sample.seconds - device.kernel_floor)));
  }
  device.convolution_efficiency = curve_of(shares);
}

// The rest between model and samples, by op: of samples in the type that is trained in, else of the others.
void fit_shares(const measure::Samples& samples, DeviceProfile& device) {
  std::map<std::string, std::vector<double>> shares, of_others;
  for (const measure::KernelSample& sample : samples.kernels)  // views that are copies here
    if (ir::op(sample.call.op).family == ir::Family::none) device.op_share[sample.call.op] = 1;
  for (const measure::KernelSample& sample : samples.kernels) {
    const ir::OpDef& def = ir::op(sample.call.op);
    if (def.family == ir::Family::attention || is_plain_sum(sample)) continue;
    const double own = def.family == ir::Family::matmul ? 0 : device.kernel_floor;
    const double fixed = own + static_cast<double>(sample.adds) * device.kernel_floor;
    if (sample.seconds < 2 * fixed) continue;
    const double model =
        sim::kernel_seconds(device, def, sample.call.inputs, sample.call.outputs, sample.call.attrs);
    const bool input_grad = def.name == "matmul" && has_true(sample, "transpose_b");
    (type_of(sample) == samples.type ? shares : of_others)[input_grad ? "matmul_input_grad" : def.name]
        .push_back((model - own) / (sample.seconds - fixed));
  }
  shares.merge(of_others);
  for (const auto& [name, values] : shares)
    device.op_share[name] = rounded(std::clamp(median(values), 1e-3, 10.0));
}

double seconds_of(const measure::Samples& samples, Collective collective, int ranks, bool large) {
  double seconds = 0;
  int64_t least = INT64_MAX, most = 0;
  for (const measure::GroupSample& sample : samples.groups) {
    if (sample.collective != collective || sample.ranks != ranks) continue;
    if (large ? sample.bytes > most : sample.bytes < least) seconds = sample.seconds;
    least = std::min(least, sample.bytes), most = std::max(most, sample.bytes);
  }
  return seconds;
}

// Bus bytes per second of a member with a core to itself, between the smallest and the largest size.
double bus_rate(const measure::Samples& samples, Collective collective, int ranks) {
  int64_t bytes = 0;
  for (const measure::GroupSample& sample : samples.groups) bytes = std::max(bytes, sample.bytes);
  const double spent =
      seconds_of(samples, collective, ranks, true) - seconds_of(samples, collective, ranks, false);
  const double bus = sbp::sent_bytes(collective, static_cast<double>(bytes), ranks);
  const double shared = samples.cores > 0 ? std::max(1.0, ranks / samples.cores) : 1;
  return bus * shared / std::max(spent, 1e-9);
}

// y = at zero + slope x of the least squares; level where all x are one.
struct Line {
  double at_zero = 0, slope = 0;
};
Line line_through(const std::vector<std::pair<double, double>>& points) {
  const auto n = static_cast<double>(points.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [a, b] : points) x += a / n, y += b / n;
  for (const auto& [a, b] : points) xx += (a - x) * (a - x), xy += (a - x) * (b - y);
  const double slope = xx > 0 ? xy / xx : 0;
  return {y - slope * x, slope};
}

// Rates of n ranks are bandwidth x (1 - loss / n), and an all-reduce of a few bytes takes 2 (n - 1) hops:
// lines through groups of all sizes.
void fit_groups(const measure::Samples& samples, HostProfile& host) {
  std::set<int> sizes;
  for (const measure::GroupSample& sample : samples.groups) sizes.insert(sample.ranks);
  std::vector<std::pair<double, double>> rates, latencies;
  for (const int ranks : sizes) {
    rates.emplace_back(1.0 / ranks, bus_rate(samples, Collective::all_reduce, ranks));
    latencies.emplace_back(2 * (ranks - 1), seconds_of(samples, Collective::all_reduce, ranks, false));
  }
  const Line rate = line_through(rates), latency = line_through(latencies);
  CollectiveModel& model = host.collective.emplace();
  const auto loss = [](double value) { return rounded(std::min(std::max(0.0, value), 1.5)); };  // no -0
  model.all_reduce_loss = loss(-rate.slope / rate.at_zero);
  // Through the middle of the measurements, where the loss is cut off.
  double middle = 0, rest = 0;
  for (const auto& [one_by_ranks, value] : rates)
    middle += value, rest += 1 - model.all_reduce_loss * one_by_ranks;
  host.link_bandwidth = rounded(middle / rest);
  const double gather =
      (bus_rate(samples, Collective::all_gather, 2) + bus_rate(samples, Collective::reduce_scatter, 2)) / 2;
  model.gather_loss = loss(2 * (1 - gather / host.link_bandwidth));
  model.exchange_loss = 0;
  // An act of a collective is heard of by a thread that sleeps, and its end by another one.
  const double messages = 2 * samples.message_seconds;
  const double hop = std::max(latency.slope, 0.0);
  double small = 0;  // without hops
  for (const auto& [hops, seconds] : latencies)
    small += (seconds - hops * hop) / static_cast<double>(latencies.size());
  const auto share = [&](double rate) { return rounded(std::clamp(rate / host.link_bandwidth, 1e-4, 2.0)); };
  for (auto& line : model.node) line = {rounded(messages + std::max(small, 0.0)), rounded(hop), 1};
  const double exchange = bus_rate(samples, Collective::all_to_all, 2);
  for (auto& line : model.exchange)
    line = {rounded(messages + seconds_of(samples, Collective::all_to_all, 2, false)), 0, share(exchange)};
  const double copies = samples.copy_bandwidth > 0 ? samples.copy_bandwidth : exchange;
  for (auto& line : model.transfer) line = {rounded(messages), 0, share(copies)};
}

void fit_host(const measure::Samples& samples, HostProfile& host) {
  host.cores = rounded(samples.cores);
  host.pcie_bandwidth = rounded(samples.upload_bandwidth);
  host.per_op = rounded(samples.launch_seconds);
  if (!samples.groups.empty()) fit_groups(samples, host);
}

}  // namespace

DeviceProfile fit_device(const measure::Samples& samples) {
  DeviceProfile device;
  device.name = samples.name;
  device.memory_bytes = samples.memory_bytes;
  device.multiprocessors = samples.multiprocessors;
  fit_memory(samples, device);
  fit_products(samples, device);
  fit_attention(samples, device);
  fit_convolutions(samples, device);
  fit_shares(samples, device);
  fit_host(samples, device.host.emplace());
  device.launch_latency = rounded(samples.act_seconds);
  device.under_load = rounded(samples.load_share);
  return device;
}

}  // namespace boxcar::fit
