#include "cli/what_if.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>

#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

using backends::Cluster;
using backends::CollectiveModel;
using backends::Curve;
using backends::DeviceProfile;

// Numbers that one name stands for; what they may become.
struct Constant {
  std::vector<double*> numbers = {};
  double least = 0, most = 1e18;
};
using Constants = std::map<std::string, Constant>;

void add(Constants& all, const std::string& name, double& number, double least = 0, double most = 1e18) {
  all[name] = {{&number}, least, most};
}

void add(Constants& all, const std::string& name, Curve& curve) {
  Constant& constant = all[name];
  for (double& y : curve.y) constant.numbers.push_back(&y);
}

template <typename Map>
void add_each(Constants& all, const std::string& name, Map& numbers) {
  for (auto& [key, number] : numbers) add(all, fmt::format("{}.{}", name, key), number);
}

void add_line(Constants& all, const std::string& name, CollectiveModel::Line& line) {
  add(all, name + ".base", line.base);
  add(all, name + ".hop", line.hop);
  add(all, name + ".share", line.share);
}

void add_line(Constants& all, const std::string& name, CollectiveModel::NetLine& line) {
  add(all, name + ".base", line.base);
  add(all, name + ".hop", line.hop);
  add(all, name + ".net_hop", line.net_hop);
  add(all, name + ".share", line.share);
}

void add_collective(Constants& all, CollectiveModel& c) {
  for (size_t p = 0; p < 3; ++p) {
    const std::string protocol = CollectiveModel::protocols[p];
    add_line(all, "collective.node." + protocol, c.node[p]);
    add_line(all, "collective.ring." + protocol, c.ring[p]);
    add_line(all, "collective.tree." + protocol, c.tree[p]);
  }
  for (size_t line = 0; line < 2; ++line) {
    add_line(all, fmt::format("collective.exchange.{}", line), c.exchange[line]);
    add_line(all, fmt::format("collective.transfer.{}", line), c.transfer[line]);
  }
  add_line(all, "collective.nvls", c.nvls);
  add_line(all, "collective.net_exchange", c.net_exchange);
  add(all, "collective.all_reduce_loss", c.all_reduce_loss);
  add(all, "collective.gather_loss", c.gather_loss);
  add(all, "collective.exchange_loss", c.exchange_loss);
  add(all, "collective.nic_share", c.nic_share);
}

void add_device(Constants& all, DeviceProfile& d) {
  add(all, "bandwidth.memory", d.memory_bandwidth);
  add(all, "latency.launch", d.launch_latency);
  Constant& flops = all["flops"];
  for (auto& [type, rate] : d.peak_flops) {
    flops.numbers.push_back(&rate);
    add(all, fmt::format("flops.{}", ir::to_text(type)), rate);
  }
  add(all, "kernel_floor", d.kernel_floor);
  add(all, "under_load", d.under_load);
  add(all, "overlap_slowdown", d.overlap_slowdown, 0, 0.99);
  add(all, "matmul_efficiency", d.matmul_efficiency);
  add(all, "convolution_efficiency", d.convolution_efficiency);
  add(all, "memory_efficiency", d.memory_efficiency);
  add(all, "attention_forward_efficiency", d.attention_forward_efficiency);
  add(all, "attention_backward_efficiency", d.attention_backward_efficiency);
  add(all, "attention_head_share", d.attention_head_share);
  add_each(all, "op_share", d.op_share);
  add(all, "matmul.wave_overlap", d.matmul.wave_overlap, 0, 1);
  add(all, "matmul.wave_seconds", d.matmul.wave_seconds);
  add(all, "matmul.split_seconds", d.matmul.split_seconds);
  add(all, "matmul.start_seconds", d.matmul.start_seconds);
  add(all, "matmul.memory_share", d.matmul.memory_share);
  add(all, "matmul.ramp_bytes", d.matmul.ramp_bytes);
}

// `memory` stands for the device's bytes, which are whole.
Constants constants_of(Cluster& cluster, double& memory) {
  Constants all;
  add(all, "bandwidth.network", cluster.node.nic_bandwidth);
  add(all, "bandwidth.link", cluster.node.link_bandwidth);
  add(all, "bandwidth.pcie", cluster.node.pcie_bandwidth);
  add(all, "latency.network", cluster.node.nic_latency);
  add(all, "latency.link", cluster.node.link_latency);
  add(all, "latency.switch", cluster.fabric.hop_latency);
  add(all, "oversubscription", cluster.fabric.oversubscription, 1, 1000);
  add(all, "host_per_op", cluster.node.host_per_op);
  add(all, "piece_seconds", cluster.stack.piece_seconds);
  add(all, "memory", memory, 1);
  add_device(all, cluster.device);
  add_collective(all, cluster.collective);
  return all;
}

// The whole of `text` as a number.
bool read(std::string_view text, double& value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && rest == text.data() + text.size() && std::isfinite(value);
}

struct Setting {
  std::string name, value;
};

Setting split(const std::string& text, const char* option, const char* expected) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw Error::input(option, fmt::format("got \"{}\", expected {}", text, expected));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

const Constant& find(const Constants& all, const std::string& name) {
  const auto found = all.find(name);
  if (found != all.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [key, constant] : all) known.push_back(key);
  throw Error::input("--what-if", fmt::format("unknown constant \"{}\"{}; docs/clusters.md lists them", name,
                                              did_you_mean(name, known)));
}

}  // namespace

std::vector<std::string> constant_names(const Cluster& cluster) {
  Cluster copy = cluster;
  double memory = 0;
  std::vector<std::string> names;
  for (const auto& [name, constant] : constants_of(copy, memory)) names.push_back(name);
  return names;
}

void change(Cluster& cluster, const std::string& text) {
  const Setting set = split(text, "--what-if", "NAME=NUMBER or NAME=FACTORx, as bandwidth.network=2x");
  auto memory = static_cast<double>(cluster.device.memory_bytes);
  const Constants all = constants_of(cluster, memory);
  const Constant& constant = find(all, set.name);
  const std::string where = "--what-if " + set.name;
  const bool factor = set.value.back() == 'x';
  double number = 0;
  if (!read(std::string_view(set.value).substr(0, set.value.size() - (factor ? 1 : 0)), number) || number < 0)
    throw Error::input(where, fmt::format("got \"{}\", expected a number, or a factor as 2x", set.value));
  if (!factor && constant.numbers.size() != 1)
    throw Error::input(where,
                       fmt::format("stands for {} numbers; give a factor as 2x", constant.numbers.size()));
  for (double* at : constant.numbers) {
    if (factor && *at == 0) throw Error::input(where, "is 0, which no factor changes; give a number");
    const double next = factor ? *at * number : number;
    if (next < constant.least || next > constant.most)
      throw Error::input(
          where, fmt::format("would be {:g}, expected {:g} to {:g}", next, constant.least, constant.most));
    *at = next;
  }
  cluster.device.memory_bytes = static_cast<int64_t>(memory);
}

void slow_down(Cluster& cluster, const std::string& text) {
  constexpr const char* expected = "rank=NUMBER,slowdown=FACTOR, as rank=17,slowdown=1.3";
  const size_t comma = text.find(',');
  if (comma == std::string::npos)
    throw Error::input("--straggler", fmt::format("got \"{}\", expected {}", text, expected));
  double rank = -1, factor = 0;
  for (const std::string& part : {text.substr(0, comma), text.substr(comma + 1)}) {
    const Setting set = split(part, "--straggler", expected);
    double* to = set.name == "rank" ? &rank : set.name == "slowdown" ? &factor : nullptr;
    if (!to || !read(set.value, *to))
      throw Error::input("--straggler", fmt::format("got \"{}\", expected {}", text, expected));
  }
  const int devices = cluster.devices();
  if (rank < 0 || rank >= devices || rank != std::floor(rank))
    throw Error::input("--straggler",
                       fmt::format("rank {:g} is not there; ranks are 0 to {}", rank, devices - 1));
  if (factor < 1 || factor > 1000)
    throw Error::input("--straggler", fmt::format("slowdown {:g} is outside 1 to 1000", factor));
  cluster.slowdown[static_cast<int>(rank)] = factor;
}

}  // namespace boxcar::cli
