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
#include "ir/op_kind.h"
#include "sim/fit/dials.h"
#include "sim/fit/product_fit.h"
#include "sim/models/convolution_time.h"
#include "sim/models/kernel_time.h"

namespace boxcar::fit {
namespace {

using backends::CollectiveModel;
using backends::DeviceProfile;
using backends::HostProfile;
using sbp::Collective;

// Four digits: measurements have no more.
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
  return found != sample.call.attrs.end() && ir::attr_bool(sample.call.attrs, name);
}
bool is_of_products(const measure::KernelSample& sample) {
  return ir::op(sample.call.op).family == ir::Family::matmul;
}
bool has_odd_rows(const measure::KernelSample& sample) {
  return is_of_products(sample) && sim::has_odd_rows(sample.call.inputs, sample.call.outputs);
}
// A product as it is written in a forward pass.
bool is_product(const measure::KernelSample& sample) {
  return ir::kind_of(sample.call.op) == ir::OpKind::product && !has_true(sample, "transpose_a") &&
         !has_true(sample, "transpose_b") && !has_odd_rows(sample);
}
// Two vectors and their sum: only the memory's rate.
bool is_plain_sum(const measure::KernelSample& sample) {
  return ir::kind_of(sample.call.op) == ir::OpKind::add && sample.call.inputs.front().shape.size() == 1 &&
         sample.call.inputs[0] == sample.call.inputs[1];
}

using Some = std::vector<const measure::KernelSample*>;

double predicted(const DeviceProfile& device, const measure::KernelSample& sample) {
  const backends::Call& call = sample.call;
  return sim::kernel_seconds(device, ir::op(call.op), call.inputs, call.outputs, call.attrs);
}

double mean_misfit(const DeviceProfile& device, const Some& samples) {
  double sum = 0;
  for (const measure::KernelSample* sample : samples)
    sum += misfit(predicted(device, *sample), sample->seconds);
  return sum / static_cast<double>(samples.size());
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

// Fused attention by the length of a sequence, separately for causal rows. The curves are those of the widest
// heads; others have a share of them.
void fit_attention(const measure::Samples& samples, DeviceProfile& device) {
  struct Point {
    backends::Curve* curve;
    double width = 0, sequence = 0, share = 0;
  };
  backends::AttentionKernel& kernel = device.attention;
  std::vector<Point> points;
  double widest = 0;
  for (const measure::KernelSample& sample : samples.kernels) {
    if (ir::op(sample.call.op).family != ir::Family::attention || type_of(sample) != samples.type) continue;
    // Kernels that drop probabilities are different, and no constant describes them.
    if (sample.call.attrs.contains("p") && ir::attr_float(sample.call.attrs, "p") != 0) continue;
    const bool is_backward = ir::kind_of(sample.call.op) == ir::OpKind::attention_grad;
    const bool causal = has_true(sample, "causal");
    const auto& keys = sample.call.inputs[is_backward ? 2 : 1].shape;
    const double rate = work_of(sample).flops / (sample.seconds - device.kernel_floor);
    const auto width = static_cast<double>(keys.back());
    backends::Curve& forward = causal ? kernel.causal_forward : kernel.forward;
    backends::Curve& backward = causal ? kernel.causal_backward : kernel.backward;
    points.push_back({is_backward ? &backward : &forward, width, static_cast<double>(keys[keys.size() - 2]),
                      rate / device.peak_flops[samples.type]});
    widest = std::max(widest, width);
  }
  std::map<backends::Curve*, std::map<double, std::vector<double>>> rows;  // by sequence
  for (const Point& point : points)
    if (point.width == widest) rows[point.curve][point.sequence].push_back(point.share);
  if (!rows.empty()) device.attention_kernel = "measured";
  for (const auto& [curve, by_sequence] : rows)
    for (const auto& [sequence, values] : by_sequence) {
      curve->x.push_back(sequence);
      curve->y.push_back(rounded(std::clamp(median(values), 1e-6, 1.5)));
    }
  std::map<double, std::vector<double>> shares;  // by width
  for (const Point& point : points)
    if (!point.curve->x.empty()) shares[point.width].push_back(point.share / point.curve->at(point.sequence));
  if (shares.size() < 2) return;
  for (const auto& [width, values] : shares) {
    kernel.head_share.x.push_back(width);
    kernel.head_share.y.push_back(rounded(std::clamp(median(values), 1e-6, 1.5)));
  }
}

bool is_convolution(const measure::KernelSample& sample) {
  return ir::op(sample.call.op).family == ir::Family::convolution;
}

// Convolutions by their flops; the part of it that gradients reach is their op's share.
void fit_convolution_curve(const measure::Samples& samples, DeviceProfile& device) {
  std::vector<std::pair<double, double>> shares;
  for (const measure::KernelSample& sample : samples.kernels) {
    if (ir::kind_of(sample.call.op) != ir::OpKind::convolution || type_of(sample) != samples.type) continue;
    const double flops = work_of(sample).flops;
    const double peak = device.peak_flops[samples.type];
    if (sample.seconds > 2 * device.kernel_floor)
      shares.emplace_back(flops, flops / (peak * (sample.seconds - device.kernel_floor)));
  }
  device.convolution_efficiency = curve_of(shares);
}

// Convolutions by their shape, in tiles like products (sim/models/convolution_time.h). Those whose channels
// do not suit tensor cores run as in float32: they give a factor on its tiles, and its passes' shares.
void fit_convolution_tiles(const measure::Samples& samples, DeviceProfile& device) {
  Some filling, others;
  for (const measure::KernelSample& sample : samples.kernels) {
    if (!is_convolution(sample) || type_of(sample) != samples.type) continue;
    const backends::Call& call = sample.call;
    const sim::ConvolutionShape shape =
        sim::convolution_shape(sim::pass_of(ir::op(call.op)), call.inputs, call.outputs, call.attrs);
    (sim::fills_tensor_cores(shape) ? filling : others).push_back(&sample);
  }
  if (filling.empty()) return;
  backends::ConvolutionModel& model = device.convolution[samples.type];
  model.waves = device.matmul;
  model.waves.cache_bandwidth = 0, model.waves.ramp_bytes = 0, model.waves.odd_share = 1;
  model.waves.type_share.clear();
  for (auto& tile : model.waves.tiles) tile.share = 0.7;
  std::vector<Dial> dials;
  for (auto& tile : model.waves.tiles) dials.push_back({&tile.share, 1e-2, 1.5});
  for (double* share : {&model.input_grad, &model.weight_grad, &model.strided_input_grad,
                        &model.pointwise_weight_grad, &model.pointwise_strided_input_grad})
    dials.push_back({share, 1e-2, 10});
  dials.push_back({&model.waves.wave_overlap, 0.01, 1});
  for (double* seconds : {&model.waves.wave_seconds, &model.waves.tile_seconds, &model.waves.split_seconds,
                          &model.waves.start_seconds})
    dials.push_back({seconds, 1e-8, 1e-3});
  dials.push_back({&model.waves.memory_share, 0.01, 1});
  turn_dials(dials, [&] { return mean_misfit(device, filling); });
  for (const Dial& dial : dials) *dial.value = rounded(*dial.value);
  device.convolution[ir::DType::float32] = model;
  const auto of_pass = [&](sim::ConvolutionPass pass) {
    Some own;
    for (const auto* sample : others)
      if (sim::pass_of(ir::op(sample->call.op)) == pass) own.push_back(sample);
    return own;
  };
  const auto turn = [&](sim::ConvolutionPass pass, const std::vector<Dial>& some, const auto& put) {
    if (const Some own = of_pass(pass); !own.empty())
      turn_dials(some, [&] { return put(), mean_misfit(device, own); });
  };
  backends::ConvolutionModel& slow = device.convolution[ir::DType::float32];
  double factor = 1;
  turn(sim::ConvolutionPass::forward, {{&factor, 1e-2, 10}}, [&] {
    for (size_t t = 0; t < slow.waves.tiles.size(); ++t)
      slow.waves.tiles[t].share = rounded(std::clamp(model.waves.tiles[t].share * factor, 1e-3, 1.5));
  });
  turn(sim::ConvolutionPass::weight_grad, {{&slow.weight_grad, 1e-2, 10}}, [] {});
  turn(sim::ConvolutionPass::input_grad, {{&slow.input_grad, 1e-2, 10}}, [] {});
  for (double* share : {&slow.weight_grad, &slow.input_grad}) *share = rounded(*share);
}

// By flops or by shape, whichever is nearer to the samples.
void fit_convolutions(const measure::Samples& samples, DeviceProfile& device) {
  Some all;
  for (const measure::KernelSample& sample : samples.kernels)
    if (is_convolution(sample) && type_of(sample) == samples.type) all.push_back(&sample);
  if (all.empty()) return;
  fit_convolution_curve(samples, device);
  if (samples.multiprocessors <= 1) return;
  DeviceProfile by_curve = device, by_shape = device;
  for (const char* op : {"conv2d", "conv2d_input_grad", "conv2d_weight_grad"}) {
    Some own;
    for (const measure::KernelSample* sample : all)
      if (sample->call.op == op) own.push_back(sample);
    double& share = by_curve.op_share[op] = 1;
    if (!own.empty()) turn_dials({{&share, 1e-3, 10}}, [&] { return mean_misfit(by_curve, own); });
  }
  fit_convolution_tiles(samples, by_shape);
  if (mean_misfit(by_shape, all) < mean_misfit(by_curve, all)) device = by_shape;
}

// The remaining difference between model and samples, by op. Products and convolutions have a share, from
// samples in the type of training, otherwise from the others; odd rows have theirs, by layout. Other ops have
// a share of the memory's rate, one more in 16 bits, and the time of their further kernels.
class Shares {
 public:
  Shares(const measure::Samples& samples, DeviceProfile& device) : samples_(samples), device_(device) {}

  void fit() {
    std::map<std::string, Some> computing, odd, of_memory;
    for (const measure::KernelSample& sample : samples_.kernels) {
      const ir::OpDef& def = ir::op(sample.call.op);
      if (def.family == ir::Family::none) device_.op_share[def.name] = 1;  // views that are copies here
      const std::string role =
          ir::kind_of(def.name) == ir::OpKind::product ? sim::role_name(def, sample.call.attrs) : def.name;
      if (has_odd_rows(sample))
        odd[fmt::format("odd_{}", sim::role_name(def, sample.call.attrs))].push_back(&sample);
      else if (is_of_products(sample))
        computing[role].push_back(&sample);
      else if (is_convolution(sample) && !device_.convolution.contains(type_of(sample)))
        computing[def.name].push_back(&sample);
      else if (!is_convolution(sample) && def.family != ir::Family::attention)
        of_memory[def.name].push_back(&sample);
    }
    for (const auto& [name, some] : computing) fit_share(name, of_type(some));
    for (const auto& [name, some] : odd) fit_share(name, of_type(some));
    for (const auto& [name, some] : of_memory) fit_memory_op(name, some);
  }

 private:
  // Those in the type of training, or all if there are none.
  Some of_type(const Some& some) const {
    Some own;
    for (const auto* sample : some)
      if (type_of(*sample) == samples_.type) own.push_back(sample);
    return own.empty() ? some : own;
  }

  void fit_share(const std::string& name, const Some& some) {
    double& share = device_.op_share[name] = 1;
    turn_dials({{&share, 1e-3, 10}}, [&] { return mean_misfit(device_, some); });
    share = rounded(share);
  }

  // A sample determines a share if its bytes take longer than the shortest kernel.
  void fit_memory_op(const std::string& name, const Some& some) {
    const bool view = device_.op_share.contains(name);
    double& share = device_.op_share[name] = 1;
    bool halves = false, others = false;
    for (const auto* sample : some)
      if (predicted(device_, *sample) >= 2 * device_.kernel_floor)
        (sim::is_half(type_of(*sample)) ? halves : others) = true;
    std::vector<Dial> dials;
    if (halves || others) dials.push_back({&share, 1e-3, 10});
    if (halves && others && name != "fused")  // fused ops are distinguished by their steps
      dials.push_back({&(device_.half_op_share[name] = 1), 1e-3, 10});
    double& more = device_.op_seconds[name] = least_seconds;
    dials.push_back({&more, least_seconds, 1e-3});
    turn_dials(dials, [&] { return mean_misfit(device_, some); });
    for (const Dial& dial : dials) *dial.value = rounded(*dial.value);
    if (more < negligible) device_.op_seconds.erase(name);
    if (share == 1 && !view) device_.op_share.erase(name);
  }

  static constexpr double least_seconds = 1e-8, negligible = 5e-8;
  const measure::Samples& samples_;
  DeviceProfile& device_;
};

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

// y = at zero + slope x by least squares; level if all x are equal.
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
  // Through the middle of the measurements if the loss is cut off.
  double middle = 0, rest = 0;
  for (const auto& [one_by_ranks, value] : rates)
    middle += value, rest += 1 - model.all_reduce_loss * one_by_ranks;
  host.link_bandwidth = rounded(middle / rest);
  const double gather =
      (bus_rate(samples, Collective::all_gather, 2) + bus_rate(samples, Collective::reduce_scatter, 2)) / 2;
  model.gather_loss = loss(2 * (1 - gather / host.link_bandwidth));
  model.exchange_loss = 0;
  // A sleeping thread learns of an act of a collective, and another one of its end.
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
  Shares(samples, device).fit();
  fit_host(samples, device.host.emplace());
  device.launch_latency = rounded(samples.act_seconds);
  if (samples.load_share < 1)
    device.sustained_flops = rounded(samples.load_share * device.peak_flops[samples.type]);
  return device;
}

}  // namespace boxcar::fit
