// Prints times of kernels and collectives by the presets' time models: for each line of standard input, a
// line of microseconds.
//
//   a100-sxm-80g matmul float16[512,1024] float16[1024,4096]       device, op, types of inputs, attributes
//   h100-sxm scaled_dot_product_attention float16[2,16,8192,128] float16[2,16,8192,128]
//       float16[2,16,8192,128] causal=true                         (in one line)
//   dgx-a100-80g all_reduce 2x8 1048576                            cluster, collective, nodes x ranks, bytes
//   dgx-1-v100-32g transfer 0-8 1048576                            between two devices
//
// Kernels run alone: at the clock of a measured table, not of a training step (DeviceProfile::under_load).
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "sbp/error.h"
#include "sim/models/collective_time.h"
#include "sim/models/kernel_time.h"

namespace boxcar::sim {
namespace {

const backends::DeviceProfile& device_of(const std::string& name) {
  static std::map<std::string, backends::DeviceProfile> known;
  auto [at, added] = known.try_emplace(name);
  if (added) {
    at->second = backends::load_device(name);
    at->second.under_load = 1;
  }
  return at->second;
}

const backends::Cluster& cluster_of(const std::string& name, int nodes) {
  static std::map<std::pair<std::string, int>, backends::Cluster> known;
  auto [at, added] = known.try_emplace({name, nodes});
  if (added) {
    at->second = backends::load_cluster(name);
    backends::resize(at->second, nodes * at->second.node.gpus);
  }
  return at->second;
}

// Two numbers with a character between them.
std::pair<int, int> pair_of(const std::string& text) {
  std::istringstream in(text);
  int first = 0, second = 0;
  char between = 0;
  if (!(in >> first >> between >> second)) throw Error::input(text, "not two numbers");
  return {first, second};
}

double kernel(const std::string& device, const ir::OpDef& def, const std::vector<std::string>& operands) {
  ir::Types inputs;
  ir::Attrs attrs;
  for (const std::string& operand : operands) {
    const size_t equals = operand.find('=');
    if (equals == std::string::npos)
      inputs.push_back(ir::parse_tensor_type(operand));
    else
      attrs[operand.substr(0, equals)] = ir::parse_attr(operand.substr(equals + 1));
  }
  attrs = ir::complete(def, attrs);
  return kernel_seconds(device_of(device), def, inputs, def.infer(inputs, attrs), attrs);
}

double communication(const std::string& preset, const std::string& name, const std::string& where,
                     int64_t bytes) {
  const auto [first, second] = pair_of(where);
  if (name == to_text(sbp::Collective::transfer)) {
    const int per_node = cluster_of(preset, 1).node.gpus;
    return transfer_time(cluster_of(preset, std::max(first, second) / per_node + 1), bytes, first, second)
        .seconds();
  }
  for (const auto collective :
       {sbp::Collective::all_reduce, sbp::Collective::all_gather, sbp::Collective::reduce_scatter,
        sbp::Collective::all_to_all, sbp::Collective::broadcast, sbp::Collective::reduce}) {
    if (name != to_text(collective)) continue;
    const backends::Cluster& cluster = cluster_of(preset, first);
    return collective_time(cluster, collective, bytes, {first * second, first, second, leaves_of(cluster)})
        .seconds();
  }
  throw Error::input(name, "no op or collective");
}

double seconds(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  if (words.size() < 3) throw Error::input(line, "not a preset, what it runs, and on what");
  if (ir::has_op(words[1])) return kernel(words[0], ir::op(words[1]), {words.begin() + 2, words.end()});
  if (words.size() != 4) throw Error::input(line, "not a preset, a collective, nodes x ranks and bytes");
  return communication(words[0], words[1], words[2], std::stoll(words[3]));
}

}  // namespace
}  // namespace boxcar::sim

int main() {
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number) {
    try {
      fmt::print("{:.4f}\n", boxcar::sim::seconds(line) * 1e6);
    } catch (const std::exception& error) {
      fmt::print(stderr, "line {}: {}\n", number, error.what());
      return 2;
    }
  }
  return 0;
}
