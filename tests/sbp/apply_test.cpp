#include "sbp/apply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "sbp/error.h"
#include "sbp/layouts.h"

namespace boxcar::sbp {
namespace {

TEST(Apply, LayOutSplits) {
  const Held held = lay_out({1, 2, 3, 4, 5}, layout({5}, "S(0)", "7-8"), 1);
  EXPECT_EQ(held.at(7), std::vector<Piece>({{{{0, 3}}, {1, 2, 3}}}));
  EXPECT_EQ(held.at(8), std::vector<Piece>({{{{3, 5}}, {4, 5}}}));
}

TEST(Apply, PartialsDifferByOperandAndCopy) {
  const Layout partial = layout({4}, "(B, P)", "0-3:2x2");
  const Held a = lay_out({1, 2, 3, 4}, partial, 1), b = lay_out({1, 2, 3, 4}, partial, 2);
  EXPECT_NE(a, b);
  EXPECT_NE(a.at(0)[0].values, a.at(2)[0].values);
  for (size_t x = 0; x < 4; ++x) {
    EXPECT_EQ(a.at(0)[0].values[x] + a.at(1)[0].values[x], x + 1);
    EXPECT_EQ(a.at(2)[0].values[x] + a.at(3)[0].values[x], x + 1);
  }
}

TEST(Apply, AssembleRefusesWhatTheLayoutDoesNotSay) {
  const Layout copies = layout({2}, "B", "0-1");
  Held held = lay_out({1, 2}, copies, 1);
  held.at(1)[0].values[0] = 9;
  EXPECT_THROW(assemble(copies, held), Error);
  EXPECT_THROW(assemble(layout({2}, "S(0)", "0-1"), held), Error);
}

TEST(Apply, RefusesAStepThatLacksData) {
  const Layout from = layout({4}, "S(0)", "0-3"), to = layout({4}, "B", "0-3");
  Route route = box(from, to);
  route.steps[0].groups = {{0, 1, 2}, {3}};
  EXPECT_THROW(apply(route, from, lay_out({1, 2, 3, 4}, from, 1)), Error);
  route.steps[0].collective = Collective::transfer;
  route.steps[0].slices = {{0, 1, {{3, 4}}}};
  EXPECT_THROW(apply(route, from, lay_out({1, 2, 3, 4}, from, 1)), Error);
}

// Random meshes of up to three dimensions, on devices drawn from twelve, tensors of up to three axes.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  int64_t number(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }

  Shape shape() {
    Shape shape(static_cast<size_t>(number(0, 3)));
    for (int64_t& extent : shape) extent = number(1, 6);
    return shape;
  }

  Layout layout(const Shape& shape) {
    Layout layout{shape, {}, {}};
    int64_t devices = 1;
    for (int64_t d = number(1, 3); d > 0; --d) {
      const int64_t extent = number(1, 3);
      if (devices * extent > 12) break;
      devices *= extent;
      layout.placement.mesh.push_back(extent);
      layout.sbp.push_back(entry(shape));
    }
    std::vector<int> ids(12);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
    if (number(0, 2) == 0) std::shuffle(ids.begin(), ids.end(), random_);
    const auto first = static_cast<size_t>(number(0, 12 - devices));
    layout.placement.devices.assign(ids.begin() + first, ids.begin() + first + devices);
    layout.sbp = canonical(layout.sbp);
    return layout;
  }

 private:
  Sbp entry(const Shape& shape) {
    const int64_t kind = number(0, 4);
    if (kind == 0) return Sbp::P(static_cast<Reduction>(number(0, 5) % 3));
    if (kind == 1 || shape.empty()) return Sbp::B();
    return Sbp::S(static_cast<int>(number(0, static_cast<int64_t>(shape.size()) - 1)),
                  static_cast<int>(number(0, 1)));
  }

  std::mt19937_64 random_;
};

void expect_identity(uint64_t seed) {
  Draw draw(seed);
  const Shape shape = draw.shape();
  const Layout from = draw.layout(shape), to = draw.layout(shape);
  SCOPED_TRACE("seed " + std::to_string(seed) + ": " + to_text(from) + " to " + to_text(to));
  for (const Aim aim : {Aim::traffic, Aim::steps}) {
    const Route route = box(from, to, aim);
    SCOPED_TRACE(to_text(route));
    const auto global = counting(shape);
    ASSERT_NO_THROW(ASSERT_EQ(assemble(to, apply(route, from, lay_out(global, from, seed))), global));
    int64_t received = 0;
    for (const int64_t elements : route.received) received += elements;
    ASSERT_EQ(received, route.elements_moved);
  }
}

TEST(Law2, RandomPairs) {
  for (uint64_t seed = 0; seed < 1000 && !testing::Test::HasFailure(); ++seed) expect_identity(seed);
}

TEST(Law2, LongRandomPairs) {
  const uint64_t first = std::random_device()();
  for (uint64_t seed = first; seed < first + 50'000 && !testing::Test::HasFailure(); ++seed)
    expect_identity(seed);
}

}  // namespace
}  // namespace boxcar::sbp
