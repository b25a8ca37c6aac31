#include "cli/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>
#include <variant>

#include "backends/constants.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

using backends::Cluster;

// A number of the description, by where it stands in the YAML: "node.nic_bandwidth", "matmul.wave_overlap".
struct Constant {
  std::string name;
  double least, most;
  std::variant<double*, int*, int64_t*> at;

  double value() const {
    return std::visit([](auto* number) { return static_cast<double>(*number); }, at);
  }
  void set(double value) const {
    std::visit([value](auto* number) { *number = static_cast<std::decay_t<decltype(*number)>>(value); }, at);
  }
};

class Collector {
 public:
  static constexpr bool reads = false;

  template <class Number>
  void number(const std::string& key, double least, double most, Number& value) {
    all.push_back({path_ + key, least, most, &value});
  }
  void whole(const std::string& key, auto least, auto most, auto& value) {
    number(key, static_cast<double>(least), static_cast<double>(most), value);
  }
  void curve(const std::string& key, backends::Curve& curve) {
    for (size_t i = 0; i < curve.y.size(); ++i)
      number(fmt::format("{}.{}", key, i), 0, most_share, curve.y[i]);
  }
  void tiles(const std::string& key, std::vector<backends::MatmulModel::Tile>& tiles) {
    for (size_t i = 0; i < tiles.size(); ++i)
      number(fmt::format("{}.{}", key, i), 0, most_share, tiles[i].share);
  }
  void types(double least, double most, std::map<ir::DType, double>& values) {
    for (auto& [type, value] : values) number(ir::to_text(type), least, most, value);
  }
  void names(const std::string& key, double least, double most, auto& values) {
    for (auto& [name, value] : values) number(key + "." + name, least, most, value);
  }
  void inside(const std::string& key, bool, const auto& work) {
    const std::string outside = std::exchange(path_, path_ + key + ".");
    work();
    path_ = outside;
  }
  void line(const std::string& key, bool written, const auto& work) { inside(key, written, work); }
  void by_type(const std::string& key, auto& models, const auto& work) {
    for (auto& one : models) inside(key + "." + ir::to_text(one.first), true, [&] { work(one.second); });
  }
  void optional(const std::string&, auto&, const auto&) {}  // of a host, which is in the cluster by now
  void require(const char*) {}

  std::vector<Constant> all;

 private:
  static constexpr double most_share = 1.5;
  std::string path_;
};

std::vector<Constant> constants_of(Cluster& cluster) {
  Collector found;
  visit(found, cluster.device);
  found.inside("node", true, [&] { visit(found, cluster.node); });
  found.inside("fabric", true, [&] { visit(found, cluster.fabric); });
  found.inside("collective", true, [&] { visit(found, cluster.collective); });
  found.number("piece_seconds", 0, backends::most_latency, cluster.stack.piece_seconds);
  return found.all;
}

// What people say for where it stands.
constexpr std::pair<const char*, const char*> short_names[] = {
    {"bandwidth.network", "node.nic_bandwidth"},
    {"bandwidth.link", "node.link_bandwidth"},
    {"bandwidth.pcie", "node.pcie_bandwidth"},
    {"bandwidth.memory", "memory_bandwidth"},
    {"latency.network", "node.nic_latency"},
    {"latency.link", "node.link_latency"},
    {"latency.switch", "fabric.hop_latency"},
    {"latency.launch", "launch_latency"},
    {"oversubscription", "fabric.oversubscription"},
    {"host_per_op", "node.host_per_op"},
    {"memory", "memory_bytes"},
    {"flops", "peak_flops"},
};

std::string long_name(const std::string& name) {
  for (const auto& [shorter, longer] : short_names)
    if (name == shorter || name.starts_with(shorter + std::string(".")))
      return longer + name.substr(std::string(shorter).size());
  return name;
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

// Those that `name` stands for: one, or all below it ("peak_flops", "collective.net.ring_ll").
std::vector<Constant> find(Cluster& cluster, const std::string& name) {
  const std::string path = long_name(name);
  std::vector<Constant> found;
  for (const Constant& constant : constants_of(cluster))
    if (constant.name == path || constant.name.starts_with(path + ".")) found.push_back(constant);
  if (!found.empty()) return found;
  std::vector<std::string> known = constant_names(cluster);
  for (const auto& names : short_names) known.emplace_back(names.first);
  throw Error::input("--what-if", fmt::format("unknown constant \"{}\"{}; docs/clusters.md lists them", name,
                                              did_you_mean(name, known)));
}

}  // namespace

std::vector<std::string> constant_names(const Cluster& cluster) {
  Cluster copy = cluster;
  std::vector<std::string> names;
  for (const Constant& constant : constants_of(copy)) names.push_back(constant.name);
  std::sort(names.begin(), names.end());
  return names;
}

void change(Cluster& cluster, const std::string& text) {
  const Setting set = split(text, "--what-if", "NAME=NUMBER or NAME=FACTORx, as bandwidth.network=2x");
  const std::vector<Constant> constants = find(cluster, set.name);
  const std::string where = "--what-if " + set.name;
  const bool factor = set.value.back() == 'x';
  double number = 0;
  if (!read(std::string_view(set.value).substr(0, set.value.size() - (factor ? 1 : 0)), number) || number < 0)
    throw Error::input(where, fmt::format("got \"{}\", expected a number, or a factor as 2x", set.value));
  if (!factor && constants.size() != 1)
    throw Error::input(where, fmt::format("stands for {} numbers; give a factor as 2x", constants.size()));
  if (factor &&
      std::all_of(constants.begin(), constants.end(), [](const Constant& c) { return c.value() == 0; }))
    throw Error::input(where, "is 0, which no factor changes; give a number");
  for (const Constant& constant : constants) {
    if (factor && constant.value() == 0) continue;
    const double next = factor ? constant.value() * number : number;
    if (next < constant.least || next > constant.most)
      throw Error::input(where, fmt::format("{}would be {:g}, expected {:g} to {:g}",
                                            constants.size() > 1 ? constant.name + " " : "", next,
                                            constant.least, constant.most));
    constant.set(next);
  }
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
