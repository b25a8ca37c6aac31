// Writing a device as YAML that parse_device reads back as the same value.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/cluster.h"

namespace boxcar::backends {
namespace {

class Writer {
 public:
  void number(const std::string& key, double value) { line(key, fmt::format("{}", value)); }
  void whole(const std::string& key, int64_t value) { line(key, fmt::format("{}", value)); }
  void open(const std::string& key) {
    line(key, "");
    depth_ += 2;
  }
  void close() { depth_ -= 2; }
  void line(const std::string& key, const std::string& value) {
    text += fmt::format("{:{}}{}:{}{}\n", "", depth_, key, value.empty() ? "" : " ", value);
  }
  void curve(const std::string& key, const Curve& curve) {
    std::vector<std::string> points;
    for (size_t i = 0; i < curve.x.size(); ++i)
      points.push_back(fmt::format("[{}, {}]", curve.x[i], curve.y[i]));
    if (!points.empty()) line(key, fmt::format("[{}]", fmt::join(points, ", ")));
  }
  void shares(const std::string& key, const auto& values) {
    if (values.empty()) return;
    open(key);
    for (const auto& [name, value] : values) number(name_of(name), value);
    close();
  }
  std::string text;

 private:
  static std::string name_of(const std::string& name) { return name; }
  static std::string name_of(ir::DType type) { return ir::to_text(type); }
  int depth_ = 0;
};

void write_waves(const MatmulModel& matmul, Writer& w) {
  std::vector<std::string> tiles;
  for (const auto& tile : matmul.tiles)
    tiles.push_back(fmt::format("[{}, {}, {}]", tile.rows, tile.columns, tile.share));
  if (!tiles.empty()) w.line("tiles", fmt::format("[{}]", fmt::join(tiles, ", ")));
  w.number("wave_overlap", matmul.wave_overlap);
  w.number("wave_seconds", matmul.wave_seconds);
  w.number("split_seconds", matmul.split_seconds);
  w.number("start_seconds", matmul.start_seconds);
  w.number("memory_share", matmul.memory_share);
}

void write_convolution(const ConvolutionModel& model, Writer& w) {
  write_waves(model.waves, w);
  w.number("input_grad", model.input_grad);
  w.number("weight_grad", model.weight_grad);
  w.number("strided_input_grad", model.strided_input_grad);
  w.number("winograd", model.winograd);
  w.number("winograd_fused", model.winograd_fused);
}

void write_matmul(const MatmulModel& matmul, Writer& w) {
  w.open("matmul");
  write_waves(matmul, w);
  w.number("ramp_bytes", matmul.ramp_bytes);
  w.shares("type_share", matmul.type_share);
  w.close();
}

void write_line(const std::string& key, const CollectiveModel::Line& line, Writer& w) {
  if (line.share > 0)
    w.line(key, fmt::format("{{base: {}, hop: {}, share: {}}}", line.base, line.hop, line.share));
}

void write_net_line(const std::string& key, const CollectiveModel::NetLine& line, Writer& w) {
  w.line(key, fmt::format("{{base: {}, hop: {}, net_hop: {}, share: {}}}", line.base, line.hop, line.net_hop,
                          line.share));
}

void write_collective(const CollectiveModel& model, Writer& w) {
  w.open("collective");
  for (int i = 0; i < 3; ++i) write_line(CollectiveModel::protocols[i], model.node[i], w);
  write_line("nvls", model.nvls, w);
  write_line("exchange_small", model.exchange[0], w);
  write_line("exchange", model.exchange[1], w);
  write_line("transfer_small", model.transfer[0], w);
  write_line("transfer", model.transfer[1], w);
  w.whole("nvls_ranks", model.nvls_ranks);
  w.line("few_ranks_loss", fmt::format("{{all_reduce: {}, gather: {}, exchange: {}}}", model.all_reduce_loss,
                                       model.gather_loss, model.exchange_loss));
  w.open("net");
  for (int i = 0; i < 3; ++i) {
    write_net_line(std::string("ring_") + CollectiveModel::protocols[i], model.ring[i], w);
    write_net_line(std::string("tree_") + CollectiveModel::protocols[i], model.tree[i], w);
  }
  write_net_line("exchange", model.net_exchange, w);
  w.number("nic_share", model.nic_share);
  w.close();
  w.close();
}

}  // namespace

std::string to_yaml(const DeviceProfile& device) {
  Writer w;
  w.line("name", device.name);
  w.whole("memory_bytes", device.memory_bytes);
  w.number("memory_bandwidth", device.memory_bandwidth);
  w.open("peak_flops");
  for (const auto& [type, flops] : device.peak_flops) w.number(ir::to_text(type), flops);
  if (device.tf32_flops > 0) w.number("tf32", device.tf32_flops);
  w.close();
  w.whole("multiprocessors", device.multiprocessors);
  w.number("launch_latency", device.launch_latency);
  w.number("kernel_floor", device.kernel_floor);
  w.curve("matmul_efficiency", device.matmul_efficiency);
  write_matmul(device.matmul, w);
  if (!device.convolution.empty()) w.open("convolution");
  for (const auto& [type, model] : device.convolution) {
    w.open(ir::to_text(type));
    write_convolution(model, w);
    w.close();
  }
  if (!device.convolution.empty()) w.close();
  w.curve("convolution_efficiency", device.convolution_efficiency);
  w.curve("memory_efficiency", device.memory_efficiency);
  w.shares("op_share", device.op_share);
  w.curve("attention_forward_efficiency", device.attention_forward_efficiency);
  w.curve("attention_backward_efficiency", device.attention_backward_efficiency);
  w.curve("attention_head_share", device.attention_head_share);
  w.number("under_load", device.under_load);
  w.number("overlap_slowdown", device.overlap_slowdown);
  if (!device.host) return w.text;
  w.open("host");
  w.number("cores", device.host->cores);
  w.number("link_bandwidth", device.host->link_bandwidth);
  write_collective(device.host->collective, w);
  w.close();
  return w.text;
}

}  // namespace boxcar::backends
