#include "sbp/mesh_route.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace boxcar::sbp {
namespace {

// "reduce_scatter 0 -> (S(0), S(1)) 96; ...": collective, dimensions, result, elements moved.
std::string route_of(Shape mesh, const char* from, const char* to, Aim aim = Aim::traffic,
                     Shape shape = {8, 8}) {
  const auto found = mesh_route(shape, mesh, parse_nd_sbp(from), parse_nd_sbp(to), aim);
  if (!found) return "no route";
  std::string text;
  int64_t total = 0;
  for (const MeshStep& step : found->steps) {
    text += text.empty() ? "" : "; ";
    text += step.collective == Collective::none
                ? fmt::format("local -> {}", to_text(step.result))
                : fmt::format("{} {} -> {} {}", to_text(step.collective), fmt::join(step.dims, ","),
                              to_text(step.result), step.elements_moved);
    total += step.elements_moved;
  }
  EXPECT_EQ(total, found->elements_moved);
  return text;
}

TEST(MeshRoute, ExampleOfTheHeader) {
  EXPECT_EQ(route_of({2, 4}, "(P, S(1))", "(S(0), B)", Aim::traffic, {8, 6}),
            "reduce_scatter 0 -> (S(0), S(1)) 48; all_gather 1 -> (S(0), B) 144");
}

// A route counts the elements that all ranks of a group send.
TEST(MeshRoute, MovesWhatRanksSend) {
  const double ranks = 4, whole = 64;  // elements
  const auto sent = [&](Collective collective, double of_rank) {
    return ranks * sent_bytes(collective, of_rank, ranks);
  };
  const auto moved = [](const char* from, const char* to) {
    return static_cast<double>(mesh_route({8, 8}, {4}, parse_nd_sbp(from), parse_nd_sbp(to))->elements_moved);
  };
  EXPECT_EQ(sent(Collective::all_reduce, whole), moved("P", "B"));
  EXPECT_EQ(sent(Collective::reduce_scatter, whole), moved("P", "S(0)"));
  EXPECT_EQ(sent(Collective::all_gather, whole), moved("S(0)", "B"));
  EXPECT_EQ(sent(Collective::all_to_all, whole / ranks), moved("S(0)", "S(1)"));
  EXPECT_EQ(sent(Collective::none, whole), moved("B", "S(0)"));
  EXPECT_EQ(sent_bytes(Collective::transfer, 100, 2), 100);
  EXPECT_EQ(sent_bytes(Collective::broadcast, 100, 4), 75);  // the last of a chain sends nothing
}

TEST(MeshRoute, NothingToDo) {
  EXPECT_EQ(route_of({4}, "S(0)", "S(0)"), "");
  EXPECT_EQ(route_of({1}, "P", "S(0)"), "local -> S(0)");
  EXPECT_EQ(route_of({2, 1}, "(S(0), P)", "(S(0), B)"), "local -> (S(0), B)");
}

// Routes that data, tensor and sharded optimizer parallelism need, as published systems communicate.
TEST(MeshRoute, AimStepsTakesOneCollectivePerDimension) {
  EXPECT_EQ(route_of({4, 2}, "(P, B)", "(B, B)", Aim::steps), "all_reduce 0 -> (B, B) 768");
  EXPECT_EQ(route_of({4, 2}, "(P, B)", "(S(0), B)", Aim::steps), "reduce_scatter 0 -> (S(0), B) 384");
  EXPECT_EQ(route_of({4, 2}, "(S(0), B)", "(B, B)", Aim::steps), "all_gather 0 -> (B, B) 384");
  EXPECT_EQ(route_of({4, 2}, "(S(0), P)", "(S(0), B)", Aim::steps), "all_reduce 1 -> (S(0), B) 128");
  EXPECT_EQ(route_of({4, 2}, "(S(0), P)", "(S(0), S(1))", Aim::steps), "reduce_scatter 1 -> (S(0), S(1)) 64");
  EXPECT_EQ(route_of({4, 2}, "(P, S(0))", "(S(0,inner), S(0))", Aim::steps),
            "reduce_scatter 0 -> (S(0,inner), S(0)) 192");
  EXPECT_EQ(route_of({4, 2}, "(S(0,inner), S(0))", "(B, S(0))", Aim::steps), "all_gather 0 -> (B, S(0)) 192");
  EXPECT_EQ(route_of({4, 2}, "(S(0), S(1))", "(S(0), S(2))", Aim::steps, {8, 4, 4}),
            "all_to_all 1 -> (S(0), S(2)) 64");
}

TEST(MeshRoute, AimTrafficLetsCopiesShareTheWork) {
  EXPECT_EQ(
      route_of({4, 2}, "(P, B)", "(B, B)"),
      "local -> (P(sum), S(0)); reduce_scatter 0 -> (S(0,inner), S(0)) 192; all_gather 1,0 -> (B, B) 448");
  EXPECT_EQ(route_of({2, 2}, "(P, B)", "(B, B)"),
            "all_reduce 0 -> (B, B) 256");  // two collectives cost the same
}

// (S(0), B) -> (B, S(0)): gathering first would bring everything to all; slicing first leaves parts that are
// no blocks. Slices are cheaper.
TEST(MeshRoute, NoneWhereTransfersAreCheaper) {
  EXPECT_EQ(route_of({2, 2}, "(S(0), B)", "(B, S(0))"), "no route");
  EXPECT_EQ(route_of({2, 2}, "(S(0), S(1))", "(S(1), S(0))"), "no route");
}

TEST(MeshRoute, SumAndMaxReduceFromTheInside) {
  EXPECT_EQ(route_of({2, 2}, "(P(sum), P(max))", "(B, B)", Aim::steps),
            "all_reduce 1 -> (P(sum), B) 256; all_reduce 0 -> (B, B) 256");
  EXPECT_EQ(route_of({2, 2}, "(P(max), P(sum))", "(P(max), B)"), "all_reduce 1 -> (P(max), B) 256");
}

TEST(MeshRoute, UnevenPartsCountWhatStays) {
  // 5 x 3 over 2: rows 3 and 2, columns 2 and 1: 3*2 + 2*1 = 8 of 15 stay.
  EXPECT_EQ(route_of({2}, "S(0)", "S(1)", Aim::traffic, {5, 3}), "all_to_all 0 -> S(1) 7");
  EXPECT_EQ(route_of({2}, "S(0)", "B", Aim::traffic, {5, 3}), "all_gather 0 -> B 15");
  EXPECT_EQ(route_of({4}, "P", "S(1)", Aim::traffic, {5, 3}), "reduce_scatter 0 -> S(1) 45");
}

TEST(MeshRoute, ScatterRouteLeavesEachElementOnOneDevice) {
  const MeshRoute found = scatter_route({8, 8}, {2, 2, 2}, parse_nd_sbp("(P(sum), B, S(1))"));
  EXPECT_EQ(to_text(found.steps.back().result), "(S(0,inner), S(0), S(1))");
  EXPECT_EQ(found.elements_moved, 64);
}

}  // namespace
}  // namespace boxcar::sbp
