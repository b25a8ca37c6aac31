#include "sbp/boxing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "sbp/apply.h"
#include "sbp/layouts.h"

namespace boxcar::sbp {
namespace {

using testing::ElementsAre;

std::string route(Shape shape, const char* from, const char* to, const char* devices = "0-3",
                  const char* others = "") {
  return to_text(box(layout(shape, from, devices), layout(shape, to, *others ? others : devices)));
}

// Boxes one pair; checks it against the identity and its own figures.
void check(const Layout& from, const Layout& to, Aim aim = Aim::traffic) {
  SCOPED_TRACE(to_text(from) + " to " + to_text(to) + " of " + std::to_string(from.shape.size()) + " axes");
  const Route route = box(from, to, aim);
  SCOPED_TRACE(to_text(route));
  const auto global = counting(from.shape);
  Held held = lay_out(global, from, 7);
  try {
    ASSERT_EQ(assemble(to, apply(route, from, held)), global);
  } catch (const std::exception& error) {
    FAIL() << error.what();
  }
  ASSERT_EQ(std::accumulate(route.received.begin(), route.received.end(), int64_t{0}), route.elements_moved);
  if (!route.steps.empty()) {
    ASSERT_EQ(to_text(route.steps.back().result), to_text(to));
  }
}

// Table 2 of the paper: every pair, same devices and disjoint ones.
TEST(Paper, Table2) {
  const Shape shape{12, 12};
  const std::vector<Sbp> kinds{Sbp::S(0), Sbp::S(1), Sbp::B(), Sbp::P()};
  for (const int p1 : {2, 3, 4})
    for (const int p2 : {2, 3, 4})
      for (const Sbp from : kinds)
        for (const Sbp to : kinds) {
          SCOPED_TRACE(to_text(from) + " to " + to_text(to));
          const Layout source{shape, {from}, Placement::line(p1)};
          EXPECT_EQ(box(source, {shape, {to}, Placement::line(p2, 8)}).elements_moved,
                    table2(from, to, 144, p1, p2, false));
          if (p1 == p2) {
            EXPECT_EQ(box(source, {shape, {to}, Placement::line(p1)}).elements_moved,
                      table2(from, to, 144, p1, p1, true));
          }
        }
}

TEST(Paper, Table2Formulas) {
  EXPECT_EQ(table2(Sbp::S(0), Sbp::S(1), 144, 4, 4, true), 108);
  EXPECT_EQ(table2(Sbp::S(0), Sbp::B(), 144, 4, 4, true), 432);
  EXPECT_EQ(table2(Sbp::P(), Sbp::S(0), 144, 4, 4, true), 432);
  EXPECT_EQ(table2(Sbp::P(), Sbp::B(), 144, 4, 4, true), 864);
  EXPECT_EQ(table2(Sbp::B(), Sbp::P(), 144, 4, 4, true), 0);
  EXPECT_EQ(table2(Sbp::S(0), Sbp::S(0), 144, 4, 2, false), 144);
  EXPECT_EQ(table2(Sbp::B(), Sbp::B(), 144, 4, 2, false), 288);
  EXPECT_EQ(table2(Sbp::P(), Sbp::B(), 144, 4, 2, false), 720);
  EXPECT_EQ(table2(Sbp::P(), Sbp::P(), 144, 4, 2, false), 576);
}

// Figure 5: Y0, the product of A0 4x5 and B0 5x8, is split on node 0 and needed whole on node 1.
TEST(Paper, Figure5) {
  const Layout from = layout({4, 8}, "S(0)", "0-1"), to = layout({4, 8}, "B", "2-3");
  const Route route = box(from, to);
  ASSERT_EQ(route.steps.size(), 1u);
  EXPECT_EQ(route.steps[0].collective, Collective::transfer);
  ASSERT_EQ(route.steps[0].slices.size(), 4u);
  EXPECT_EQ(route.steps[0].slices[1].from, 1);
  EXPECT_EQ(route.steps[0].slices[1].to, 2);
  EXPECT_THAT(route.steps[0].slices[1].block, ElementsAre(Range{2, 4}, Range{0, 8}));
  EXPECT_EQ(route.elements_moved, 2 * 32);
  EXPECT_THAT(route.devices, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(route.received, ElementsAre(0, 0, 32, 32));
  check(from, to);
}

TEST(Boxing, OneMeshDimension) {
  EXPECT_EQ(route({8, 8}, "B", "B"), "");
  EXPECT_EQ(route({8, 8}, "S(0)", "B"), "all_gather -> B on 0-3");
  EXPECT_EQ(route({8, 8}, "S(0)", "S(1)"), "all_to_all -> S(1) on 0-3");
  EXPECT_EQ(route({8, 8}, "S(0)", "P"), "none -> P(sum) on 0-3");
  EXPECT_EQ(route({8, 8}, "B", "S(1)"), "none -> S(1) on 0-3");
  EXPECT_EQ(route({8, 8}, "B", "P(max)"), "none -> P(max) on 0-3");
  EXPECT_EQ(route({8, 8}, "P", "B"), "all_reduce -> B on 0-3");
  EXPECT_EQ(route({8, 8}, "P", "S(1)"), "reduce_scatter -> S(1) on 0-3");
  EXPECT_EQ(route({8, 8}, "P", "P(max)"), "reduce_scatter -> S(0) on 0-3; none -> P(max) on 0-3");
  EXPECT_EQ(route({}, "P", "B"), "all_reduce -> B on 0-3");
}

TEST(Boxing, SeveralMeshDimensions) {
  const char* mesh = "0-7:2x4";
  EXPECT_EQ(route({8, 8}, "(S(0), B)", "(S(0), S(1))", mesh), "none -> (S(0), S(1)) on 0-7:2x4");
  EXPECT_EQ(route({8, 8}, "(S(0), S(1))", "(S(0), B)", mesh), "all_gather -> (S(0), B) on 0-7:2x4");
  EXPECT_EQ(route({8, 8}, "(P, P)", "(B, B)", mesh), "all_reduce -> (B, B) on 0-7:2x4");
  EXPECT_EQ(route({8, 8}, "(S(0), S(0))", "(B, B)", mesh), "all_gather -> (B, B) on 0-7:2x4");
  EXPECT_EQ(route({8, 8}, "(S(0), S(0))", "(S(1), S(1))", mesh), "all_to_all -> (S(1), S(1)) on 0-7:2x4");
  EXPECT_EQ(route({8, 8}, "(P, P)", "(S(0), S(0))", mesh), "reduce_scatter -> (S(0), S(0)) on 0-7:2x4");
  EXPECT_EQ(route({8, 8}, "(P, S(1))", "(S(0), B)", mesh),
            "reduce_scatter -> (S(0), S(1)) on 0-7:2x4; all_gather -> (S(0), B) on 0-7:2x4");
  // An optimizer shard inside a tensor-parallel part is gathered along the data dimension only.
  EXPECT_EQ(route({8, 8}, "(S(0,inner), S(0))", "(B, S(0))", mesh), "all_gather -> (B, S(0)) on 0-7:2x4");
  EXPECT_EQ(route({8, 8}, "(P, S(0))", "(S(0,inner), S(0))", mesh),
            "reduce_scatter -> (S(0,inner), S(0)) on 0-7:2x4");
}

// Copies share a reduction's work where that moves less: 48 rather than 4 x 48 elements twice.
TEST(Boxing, CopiesShareTheWork) {
  const Layout from = layout({8, 6}, "(P, B)", "0-7:4x2"), to = layout({8, 6}, "(B, B)", "0-7:4x2");
  const Route least = box(from, to), fewest = box(from, to, Aim::steps);
  EXPECT_EQ(to_text(fewest), "all_reduce -> (B, B) on 0-7:4x2");
  EXPECT_EQ(fewest.steps[0].mesh_dim, 0);
  EXPECT_THAT(fewest.steps[0].groups, ElementsAre(ElementsAre(0, 2, 4, 6), ElementsAre(1, 3, 5, 7)));
  EXPECT_EQ(fewest.elements_moved, 2 * 2 * 3 * 48);
  EXPECT_EQ(least.elements_moved, 3 * 48 + 7 * 48);
  check(from, to);
  check(from, to, Aim::steps);
}

TEST(Boxing, MeshesThatMeanTheSame) {
  EXPECT_EQ(route({8, 8}, "S(0)", "(S(0), S(0))", "0-3", "0-3:2x2"), "none -> (S(0), S(0)) on 0-3:2x2");
  EXPECT_EQ(route({8, 8}, "(S(0), S(0))", "B", "0-3:2x2", "0-3"), "all_gather -> B on 0-3");
  EXPECT_EQ(route({8, 8}, "P", "(B, B)", "0-3", "3,2,1,0:2x2"), "all_reduce -> (B, B) on 3,2,1,0:2x2");
  EXPECT_EQ(route({8, 8}, "B", "B", "0-3", "3,2,1,0"), "none -> B on 3,2,1,0");
  EXPECT_EQ(route({6, 6}, "S(0)", "(S(0), S(0))", "0-3", "0-3:2x2"), "transfer -> (S(0), S(0)) on 0-3:2x2");
}

TEST(Boxing, OneDeviceAndMany) {
  EXPECT_EQ(route({8, 8}, "B", "B", "2", "0-3"), "broadcast -> B on 0-3");
  EXPECT_EQ(route({8, 8}, "P", "B", "0-3", "1"), "reduce -> B on 1");
  EXPECT_EQ(route({8, 8}, "B", "B", "0-3", "1"), "transfer -> B on 1");
  EXPECT_EQ(box(layout({8, 8}, "B", "0-3"), layout({8, 8}, "B", "1")).elements_moved, 0);
  EXPECT_EQ(box(layout({8, 8}, "B", "9"), layout({8, 8}, "B", "0-3")).elements_moved, 4 * 64);
}

// Law 2, the identity: every pair of layouts on every pair of placements, also where nothing divides.
void check_all(const std::vector<Placement>& placements, const std::vector<Shape>& shapes,
               const std::vector<Reduction>& reductions) {
  for (const Shape& shape : shapes)
    for (const Placement& a : placements)
      for (const Placement& b : placements)
        for (const NdSbp& from : all_layouts(shape.size(), a.mesh.size(), reductions))
          for (const NdSbp& to : all_layouts(shape.size(), b.mesh.size(), reductions)) {
            check({shape, from, a}, {shape, to, b});
            if (a == b) check({shape, from, a}, {shape, to, b}, Aim::steps);
            if (testing::Test::HasFatalFailure()) return;
          }
}

TEST(Law2, OneDimension) {
  std::vector<Placement> placements;
  for (const char* text : {"0", "3", "0-1", "0-2", "0-3", "3,2,1,0", "2-4", "4-7", "5-7"})
    placements.push_back(parse_placement(text));
  check_all(placements, {{}, {5}, {1}, {0}, {4, 4}, {5, 3}, {2, 7, 2}},
            {Reduction::sum, Reduction::max, Reduction::min});
}

TEST(Law2, TwoDimensions) {
  std::vector<Placement> placements;
  for (const char* text :
       {"0-3", "0-3:2x2", "2-5:2x2", "4-7:2x2", "3,1,2,0:2x2", "0-5:2x3", "0-5:3x2", "1-3"})
    placements.push_back(parse_placement(text));
  check_all(placements, {{5, 3}, {4, 4}}, {Reduction::sum});
}

TEST(Law2, MixedReductions) {
  check_all({Placement::grid({2, 2}), Placement::grid({2, 2}, 2), Placement::line(3)}, {{3, 4}, {}},
            {Reduction::sum, Reduction::max, Reduction::min});
}

TEST(Law2, ThreeDimensions) {
  check_all({Placement::grid({2, 2, 2}), Placement::grid({4, 2}, 0)}, {{5}, {8}}, {Reduction::sum});
}

}  // namespace
}  // namespace boxcar::sbp
