#include "cli/search_job.h"

#include <utility>

#include "cli/search_report.h"
#include "planner/search/dimensions.h"
#include "sim/simulate.h"

namespace boxcar::cli {

std::set<std::string> pinned_keys(const GivenKeys& given) {
  std::set<std::string> keys;
  for (const search::Dimension& d : search::dimensions())
    if (given.contains("parallel." + d.name_in_file())) keys.insert(d.key);
  return keys;
}

std::vector<std::string> open_keys(const GivenKeys& given) {
  std::vector<std::string> open = searched_keys();
  std::erase_if(open, [&](const std::string& path) { return given.contains(path); });
  return open;
}

backends::Cluster as_described(const Request& request) {
  const backends::Cluster whole = load_cluster(request.cluster, request.device, 0, request.gpus_per_node);
  backends::Cluster cluster = request.job.cluster;
  cluster.nodes = whole.nodes;
  cluster.node.gpus = whole.node.gpus;
  cluster.node.mesh_links = whole.node.mesh_links;
  return cluster;
}

search::Oracle simulating_oracle() {
  return {sim::act_seconds,
          [](const ir::Plan& plan, const backends::Cluster& cluster,
             const std::function<void()>& look) -> search::Oracle::Step {
            sim::Result result = sim::simulate(plan, cluster, {.look = look});
            const double seconds = result.step_seconds;
            return {seconds, std::move(result)};
          }};
}

}  // namespace boxcar::cli
