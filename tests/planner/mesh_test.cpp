#include "planner/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/comms.h"
#include "planner/stages.h"

namespace boxcar::planner {
namespace {

using testing::ElementsAre;

TEST(Mesh, orders_ranks_as_megatron_and_leaves_out_extents_of_one) {
  Hints h;
  h.dp = 2, h.tp = 4, h.pp = 2;
  const Mesh mesh = mesh_of(h);
  EXPECT_THAT(mesh.names, ElementsAre("dp", "tp"));
  EXPECT_THAT(mesh.extents, ElementsAre(2, 4));
  EXPECT_EQ(mesh.device(5, 1), 13);
  h = {};
  h.dp = 1;
  EXPECT_THAT(mesh_of(h).names, ElementsAre("dp"));
  h.dp = 8, h.cp = 2, h.zero = 3, h.fsdp_group = 4;
  EXPECT_THAT(mesh_of(h).names, ElementsAre("replica", "dp", "cp"));
  EXPECT_THAT(mesh_of(h).extents, ElementsAre(2, 4, 2));
}

TEST(CommTable, groups_along_dimensions_over_all_stages) {
  const Mesh mesh{{"dp", "tp"}, {2, 2}};
  CommTable comms(mesh, 2);
  const auto groups = [&](int comm) { return comms.comms[static_cast<size_t>(comm)].groups; };
  const int tp = comms.along({1}), dp = comms.along({0}), world = comms.across_stages({0, 1});
  EXPECT_THAT(groups(tp),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(groups(dp),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(groups(world), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)));
  EXPECT_EQ(comms.along({1}), tp);
  EXPECT_EQ(comms.queue(tp), "net.tp");
  EXPECT_EQ(comms.queue(world), "net.world");
  EXPECT_THAT(groups(comms.between(0, 1)),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_THAT(comms.pulls[static_cast<size_t>(comms.peers(-1))].source, ElementsAre(4, 5, 6, 7, 0, 1, 2, 3));
}

TEST(Stages, layers_go_to_virtual_stages_in_turn) {
  const std::vector<int> layers{3, 3, 3, 3};
  EXPECT_EQ(virtual_stage(layers, -1), 0);
  EXPECT_EQ(virtual_stage(layers, 2), 0);
  EXPECT_EQ(virtual_stage(layers, 7), 2);
  EXPECT_EQ(virtual_stage(layers, 12), 3);
  EXPECT_THAT(stage_starts(layers), ElementsAre(0, 3, 6, 9));
}

}  // namespace
}  // namespace boxcar::planner
