#include "sim/explain/report.h"

#include <gtest/gtest.h>

#include "backends/machines/cluster.h"
#include "backends/machines/framework.h"

namespace boxcar::explain {
namespace {

TEST(Report, CommBytesCountEveryRankAndAct) {
  ir::Plan plan;
  plan.devices = 2;
  plan.comms = {{"dp", {{0, 1}}}};
  ir::Program program;
  program.phases = {"F", "U"};
  program.schedule = {{0, 0}, {0, 1}, {0, 2}, {1, 0}};
  ir::Actor reduce;
  reduce.kind = ir::ActorKind::collective;
  reduce.collective = sbp::Collective::all_reduce;
  reduce.comm = 0;
  reduce.comm_bytes = 1000;
  reduce.phase = 1;
  reduce.layer = 0, reduce.moves = "ln2";
  ir::Actor pull;
  pull.kind = ir::ActorKind::pull;
  pull.comm_bytes = 10;
  program.actors = {reduce, pull};
  plan.programs = {program};
  plan.classes = {{0, {0, 1}}};
  backends::Cluster cluster = backends::load_cluster("dgx-a100-80g", 2);
  std::map<std::string, double> bytes = comm_bytes(plan, cluster);
  EXPECT_EQ(bytes["all_reduce"], 2 * 1000);
  EXPECT_EQ(bytes["pull"], 2 * 3 * 10);
  cluster.framework->all_reduces["ln2"] = 3;
  EXPECT_EQ(comm_bytes(plan, cluster)["all_reduce"], 3 * bytes["all_reduce"]);
}

}  // namespace
}  // namespace boxcar::explain
