#include "planner/mesh.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "planner/comms.h"
#include "planner/routes.h"
#include "planner/stages.h"
#include "sbp/at.h"
#include "support/error_of.h"

namespace boxcar::planner {
namespace {

using testing::ElementsAre;

TEST(Mesh, OrdersRanksAsMegatronAndLeavesOutExtentsOfOne) {
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

TEST(Mesh, StandsOnDevicesInTheOrderThatIsGiven) {
  Hints h;
  h.dp = 2, h.tp = 4, h.pp = 2;
  h.mesh_order = parse_mesh_order("dp,pp,cp,tp");
  Mesh mesh = mesh_of(h);
  EXPECT_THAT(mesh.names, ElementsAre("dp", "tp"));
  EXPECT_EQ(mesh.device(5, 1), 13);
  EXPECT_EQ(mesh.device(4, 0), 8);
  h.mesh_order = parse_mesh_order("pp,tp,cp,dp");
  EXPECT_EQ(mesh_of(h).device(6, 1), 13);
  h.stage_order = {1, 0};
  EXPECT_EQ(mesh_of(h).device(6, 1), 5);
  EXPECT_EQ(mesh_of(h).stage_of(5, 2), 1);
  EXPECT_EQ(mesh_of(h).stage_of(13, 2), 0);
  // Experts dealt out over tp leave fewer ranks of dp to be dealt out over.
  h = {};
  h.dp = 8, h.tp = 2, h.ep = 8, h.etp = 1;
  EXPECT_THAT(mesh_of(h).names, ElementsAre("dp", "ep", "tp"));
  EXPECT_THAT(mesh_of(h).extents, ElementsAre(2, 4, 2));
  h.ep = 2;
  EXPECT_THAT(mesh_of(h).names, ElementsAre("dp", "tp"));
  h.etp = 0;
  EXPECT_THAT(mesh_of(h).extents, ElementsAre(4, 2, 2));
  // Every order has every device once; experts and replicas replace dp.
  h = {};
  h.dp = 8, h.ep = 2, h.fsdp_group = 4, h.zero = 1, h.cp = 3, h.tp = 2, h.pp = 5;
  for (const char* order : {"pp,dp,cp,tp", "tp,cp,dp,pp", "cp,dp,tp,pp", "dp,tp,pp,cp"}) {
    h.mesh_order = parse_mesh_order(order);
    h.stage_order = {2, 4, 0, 1, 3};
    mesh = mesh_of(h);
    std::set<int> devices;
    for (int stage = 0; stage < h.pp; ++stage)
      for (int place = 0; place < mesh.devices(); ++place) {
        devices.insert(mesh.device(place, stage));
        EXPECT_EQ(mesh.stage_of(mesh.device(place, stage), h.pp), stage);
      }
    EXPECT_EQ(devices.size(), 240u);
    EXPECT_EQ(*devices.rbegin(), 239);
    const auto stride = [&](MeshDim dim) { return at(mesh.strides, mesh.dim(dim)); };
    EXPECT_EQ(stride(MeshDim::dp), 2 * stride(MeshDim::ep));
    EXPECT_EQ(stride(MeshDim::replica), 2 * stride(MeshDim::dp));
  }
}

TEST(Mesh, RefusesWhatIsNoOrder) {
  for (const char* order : {"", "dp,tp", "pp,dp,cp,tp,tp", "pp,dp,cp,ep", "pp,dp,cp,tp,"})
    EXPECT_EQ(
        support::error_of([&] { parse_mesh_order(order); }),
        fmt::format("parallel.mesh_order: unknown order '{}' (give each of pp, dp, cp, tp once, outermost "
                    "first: ranks of the last lie beside each other)",
                    order));
}

TEST(CommTable, GroupsAlongDimensionsOverAllStages) {
  const Mesh mesh{{"dp", "tp"}, {2, 2}};
  CommTable comms(mesh, 2);
  const auto groups = [&](int comm) { return at(comms.comms, comm).groups; };
  const int tp = comms.along({1}), dp = comms.along({0}), world = comms.across_stages({0, 1});
  EXPECT_THAT(groups(tp),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(groups(dp),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(groups(world), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)));
  EXPECT_EQ(comms.along({1}), tp);
  EXPECT_EQ(comms.queue(tp), "net.tp");
  EXPECT_EQ(comms.queue(world), "net.world");
  EXPECT_THAT(groups(comms.between({0, 1})),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_THAT(at(comms.pulls, comms.peers(-1)).source, ElementsAre(4, 5, 6, 7, 0, 1, 2, 3));
}

TEST(CommTable, StagesAreWhereTheirOrderPutsThem) {
  Hints h;
  h.dp = 2, h.pp = 3, h.stage_order = {2, 0, 1};
  CommTable comms(mesh_of(h), 3);
  const auto groups = [&](int comm) { return at(comms.comms, comm).groups; };
  EXPECT_THAT(groups(comms.along({0})), ElementsAre(ElementsAre(4, 5), ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(at(comms.pulls, comms.peers(-1)).source, ElementsAre(4, 5, 0, 1, 2, 3));
}

TEST(CommTable, GroupsAreWhereTheOrderPutsThem) {
  Hints h;
  h.dp = 2, h.tp = 2, h.pp = 2, h.mesh_order = parse_mesh_order("tp,pp,cp,dp");
  CommTable comms(mesh_of(h), 2);
  const auto groups = [&](int comm) { return at(comms.comms, comm).groups; };
  EXPECT_THAT(groups(comms.along({1})),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_THAT(groups(comms.along({0})),
              ElementsAre(ElementsAre(0, 1), ElementsAre(4, 5), ElementsAre(2, 3), ElementsAre(6, 7)));
  EXPECT_THAT(groups(comms.across_stages({0, 1})), ElementsAre(ElementsAre(0, 4, 1, 5, 2, 6, 3, 7)));
  EXPECT_THAT(groups(comms.between({0, 1})),
              ElementsAre(ElementsAre(0, 2), ElementsAre(4, 6), ElementsAre(1, 3), ElementsAre(5, 7)));
  EXPECT_THAT(at(comms.pulls, comms.peers(-1)).source, ElementsAre(2, 3, 0, 1, 6, 7, 4, 5));
}

TEST(Stages, LayersGoToVirtualStagesInTurn) {
  const std::vector<int> layers{3, 3, 3, 3};
  EXPECT_EQ(virtual_stage(layers, -1), 0);
  EXPECT_EQ(virtual_stage(layers, 2), 0);
  EXPECT_EQ(virtual_stage(layers, 7), 2);
  EXPECT_EQ(virtual_stage(layers, 12), 3);
  EXPECT_THAT(stage_starts(layers), ElementsAre(0, 3, 6, 9));
}

TEST(Mesh, CountsTheStagesOfANode) {
  const auto stages = [](int stride, int stages) {
    Mesh mesh{{"dp"}, {2}, {1}, stride};
    return stages_on_node(mesh, stages, 8);
  };
  EXPECT_EQ(stages(1, 4), 4);
  EXPECT_EQ(stages(1, 12), 8);
  EXPECT_EQ(stages(2, 8), 4);
  EXPECT_EQ(stages(3, 8), 3);
  EXPECT_EQ(stages(6, 8), 2);
  EXPECT_EQ(stages(8, 4), 1);
  EXPECT_EQ(stages(32, 4), 1);
}

// Two ranks of dp 4 devices apart, four of cp beside each other; and the other way round.
TEST(Routes, GatherWhereRanksStandFarthestApartFirst) {
  const auto route = [](std::vector<int> strides) {
    Mesh mesh;
    mesh.names = {"dp", "cp"}, mesh.extents = {2, 4}, mesh.strides = std::move(strides);
    const sbp::Sbp b = sbp::Sbp::B();
    RouteTable routes(mesh);
    std::string text;
    for (const sbp::MeshStep& step : routes.find({8, 8}, {sbp::Sbp::S(1), sbp::Sbp::S(0)}, {b, b}).steps)
      text += fmt::format("{} along {}: {}, {}; ", sbp::to_text(step.collective), step.dims[0],
                          sbp::to_text(step.result), step.elements_moved);
    return text;
  };
  EXPECT_EQ(route({4, 1}), "all_gather along 0: (B, S(0)), 64; all_gather along 1: (B, B), 384; ");
  EXPECT_EQ(route({1, 2}), "all_gather along 1: (S(1), B), 192; all_gather along 0: (B, B), 256; ");
}

}  // namespace
}  // namespace boxcar::planner
