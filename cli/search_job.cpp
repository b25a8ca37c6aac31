#include "cli/search_job.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "backends/machines/framework.h"
#include "cli/arguments.h"
#include "cli/effects.h"
#include "cli/output.h"
#include "cli/search_limits.h"
#include "cli/search_report.h"
#include "planner/search/dimensions.h"
#include "sim/simulate.h"

namespace boxcar::cli {

namespace {

// Keys that a user gave, by dimension: they are not searched.
std::set<std::string> pinned_keys(const GivenKeys& given) {
  std::set<std::string> keys;
  for (const search::Dimension& d : search::dimensions())
    if (given.contains("parallel." + d.name_in_file())) keys.insert(d.key);
  return keys;
}

}  // namespace

OpenJob open_job(const GivenKeys& asked, const std::string& max_stack) {
  OpenJob open{{}, asked, {}};
  FrameworkLimits limits;
  if (!max_stack.empty()) {
    limits = restrict_to(max_stack, open.given);
    open.options.lay_out = 0;  // a framework lays ops out as degrees do
  }
  open.options.ranges = take_ranges(open.given);
  open.request = open_request(open.given);
  if (!max_stack.empty() || open.request.job.cluster.framework->allocator)  // which hands out memory
    open.options.without_moves.insert("drop-slots");
  check_values(limits, asked, open.request);
  check_effects(asked, open.request, open_keys(open.given));
  open.options.rules = rules_of(limits, open.request);
  open.options.pinned = pinned_keys(open.given);
  return open;
}

void add_max_stack(CLI::App& command, std::string& max_stack, const std::string& when) {
  command
      .add_option(
          "--max-stack", max_stack,
          when + "only what this framework runs: a name that docs/frameworks.md lists, or a YAML file")
      ->type_name("NAME")
      ->check(not_empty());
}

void tell_stack(const GivenKeys& given, const std::string& max_stack) {
  if (max_stack.empty() || given.contains("train.stack")) return;
  const std::string usual = Request().framework;
  tell(fmt::format("--max-stack: steps are simulated as {} runs them; --stack {} simulates them as {} does",
                   usual, max_stack, max_stack));
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
