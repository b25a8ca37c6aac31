// Searches plans on the tables of measured ops that Aceso's authors published, and compares with theirs.
//
//   build/experiments/search/search_aceso FOLDER          the folder with the two tables; models that it
//                                                         lacks are left out
//   build/experiments/search/search_aceso FOLDER P026     some problems
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <vector>

#include "experiments/search/op_tables.h"
#include "experiments/search/table_plans.h"
#include "sbp/error.h"

namespace boxcar::measured {
namespace {

// Step times in seconds: the best of the grid of Megatron-LM's plans, Aceso's.
struct Problem {
  const char *id, *table;
  int layers, gpus, node_gpus, global_batch;  // layers 0: a residual network
  double grid, aceso;
};
constexpr Problem problems[] = {
    {"P025", "gpt_1_3B", 24, 4, 4, 1024, 126.04, 101.18},
    {"P026", "gpt_2_6B", 32, 8, 8, 1024, 111.01, 87.13},
    {"P028", "gpt_13B", 40, 32, 8, 1024, 119.07, 84.61},
    {"P030", "resnet_4B", 0, 8, 8, 1536, 90.49, 53.86},
    {"P031", "resnet_6_8B", 0, 16, 8, 1536, 83.81, 45.36},
    {"P032", "resnet_13B", 0, 32, 8, 1536, 81.82, 47.6},
};
constexpr double memory = 28000;

std::string row(const std::string& folder, const Problem& p, const Links& links) {
  const OpTable table = OpTable::read(folder, p.table);
  const bool words = p.layers > 0;
  const Task task{words ? gpt(table, p.layers) : resnet(table),
                  p.gpus,
                  p.node_gpus,
                  p.global_batch,
                  memory,
                  words ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{16, 32, 48, 64}};
  const auto begin = std::chrono::steady_clock::now();
  const Plan plan = best(task, links);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return fmt::format("| {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.1f} | {} |\n", p.id, p.gpus, p.grid, p.aceso,
                     judge(task, links, plan).seconds, took.count(), to_text(plan));
}

// Compares all problems whose models the tables have, or the named ones; returns their number.
int compare(const std::string& folder, const std::vector<std::string>& ids) {
  const Links links = Links::read(folder);
  fmt::print("| problem | GPUs | grid, s | Aceso, s | found, s | search, s | plan found |\n");
  fmt::print("| --- | --- | --- | --- | --- | --- | --- |\n");
  int found = 0;
  for (const Problem& p : problems) {
    if (!ids.empty() && std::find(ids.begin(), ids.end(), p.id) == ids.end()) continue;
    try {
      fmt::print("{}", row(folder, p, links));
      ++found;
    } catch (const Error& error) {
      if (!ids.empty()) throw;
      fmt::print(stderr, "search_aceso: {} left out: {}\n", p.id, error.what());
    }
    std::fflush(stdout);
  }
  return found;
}

}  // namespace
}  // namespace boxcar::measured

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(
        stderr,
        "search_aceso: expected a folder with aceso_v100_op_profile.csv and aceso_v100_comm_profile.csv, "
        "and problems such as P026 if not all\n");
    return 2;
  }
  try {
    return boxcar::measured::compare(argv[1], {argv + 2, argv + argc}) > 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "search_aceso: {}\n", error.what());
    return 2;
  }
}
