#include "sbp/sbp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sbp/error.h"
#include "sbp/words.h"

namespace boxcar::sbp {
namespace {

using testing::ElementsAre;

template <typename Function>
std::string message(Function function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_input);
    return error.what();
  }
  return "no error";
}

enum class Size : uint8_t { small, large };
std::vector<std::string> words_of(Size) { return {"small", "large"}; }

TEST(Words, ARowIsFoundByItsKind) {
  const struct {
    Size kind;
    int value;
  } rows[] = {{Size::large, 7}};
  EXPECT_EQ(find_row(rows, Size::large).value, 7);
  EXPECT_THROW(find_row(rows, Size::small), std::logic_error);
}

TEST(Sbp, TextReadsBack) {
  for (const char* text : {"S(0)", "S(127)", "B", "P(sum)", "P(max)", "P(min)", "S(1,inner)", "S(2,inner3)"})
    EXPECT_EQ(to_text(parse_sbp(text)), text);
  for (const char* text : {"S(0)", "(S(0), B)", "(S(0,inner), P(max), S(0))"})
    EXPECT_EQ(to_text(parse_nd_sbp(text)), text);
}

TEST(Sbp, TextIsLenient) {
  EXPECT_EQ(parse_sbp(" P "), Sbp::P());
  EXPECT_EQ(parse_sbp("S( 1 , inner )"), Sbp::S(1, 1));
  EXPECT_EQ(parse_nd_sbp("(S(0),B)"), (NdSbp{Sbp::S(0), Sbp::B()}));
  EXPECT_EQ(parse_nd_sbp("( B )"), NdSbp{Sbp::B()});
}

TEST(Sbp, EveryValueReadsBack) {
  for (int axis = 0; axis <= max_axis; ++axis)
    for (int inner : {0, 1, 2, max_axis})
      EXPECT_EQ(parse_sbp(to_text(Sbp::S(axis, inner))), Sbp::S(axis, inner));
}

TEST(Sbp, BadTextNamesThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", R"~(layout "": expected S(axis), B or P(sum, max or min) at the end)~"},
      {"X", R"~(layout "X": expected S(axis), B or P(sum, max or min) at "X")~"},
      {"S", R"~(layout "S": expected "(" and an axis, as in S(0), at the end)~"},
      {"S(", R"~(layout "S(": expected an axis at the end)~"},
      {"S(-1)", R"~(layout "S(-1)": expected an axis at "-1)")~"},
      {"S(128)", R"~(layout "S(128)": expected an axis of at most 127 at "128)")~"},
      {"S(99999999999999999999)",
       R"~(layout "S(99999999999999999999)": expected an axis of at most 127 at "99999999999999999999)")~"},
      {"S(0", R"~(layout "S(0": expected ")" at the end)~"},
      {"S(0,outer)", R"~(layout "S(0,outer)": expected "inner" at "outer)")~"},
      {"P(avg)", R"~(layout "P(avg)": expected sum, max or min at "avg)")~"},
      {"P(sum", R"~(layout "P(sum": expected ")" at the end)~"},
      {"(S(0) B)", R"~(layout "(S(0) B)": expected "," or ")" at "B)")~"},
      {"(S(0), B", R"~(layout "(S(0), B": expected "," or ")" at the end)~"},
      {"B B", R"~(layout "B B": expected nothing more at "B")~"},
      {"()", R"~(layout "()": expected S(axis), B or P(sum, max or min) at ")")~"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(message([t = text] { parse_nd_sbp(t); }), expected);
}

TEST(Placement, TextReadsBack) {
  for (const char* text : {"0", "0-7", "0-7:2x4", "0,2,5", "3,2,1", "0-1,4-5:2x2", "0-7:1x8", "7:1x1"})
    EXPECT_EQ(to_text(parse_placement(text)), text);
  EXPECT_EQ(parse_placement("0-3"), Placement::line(4));
  EXPECT_EQ(parse_placement(" 8 - 11 : 2 x 2 "), Placement::grid({2, 2}, 8));
}

TEST(Placement, BadTextNamesThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", R"~(devices "": expected a device at the end)~"},
      {"-1", R"~(devices "-1": expected a device at "-1")~"},
      {"0-", R"~(devices "0-": expected a device at the end)~"},
      {"3-1", R"~(devices "3-1": 3-1 runs backwards; write 1-3 at the end)~"},
      {"0-99999999", R"~(devices "0-99999999": expected a device of at most 1048575 at "99999999")~"},
      {"0;1", R"~(devices "0;1": expected ",", "-" or ":" at ";1")~"},
      {"0-1048575,0", R"~(devices "0-1048575,0": more than 1048576 devices at the end)~"},
      {"0,1,0", R"~(devices "0-1,0": device 0 is there twice)~"},
      {"0-3:3", R"~(devices "0-3": mesh 3 has 3 places, but there are 4 devices)~"},
      {"0:2x2", R"~(devices "0:2x2": mesh 2x2 has 4 places, but there is 1 device)~"},
      {"0-3:2x", R"~(mesh "2x": expected an extent at the end)~"},
      {"0-3:0x4", R"~(mesh "0x4": an extent is 0, expected at least 1 at "x4")~"},
      {"0-3:2y2", R"~(mesh "2y2": expected "x" and an extent at "y2")~"},
      {"0-3:1000000x1000000x1000000",
       R"~(devices "0-3:1000000x1000000x1000000": mesh 1000000x1000000x1000000 has over 1048575 places, but there are 4 devices)~"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(message([t = text] { parse_placement(t); }), expected);
}

TEST(Layout, MustFitShapeAndMesh) {
  EXPECT_EQ(message([] {
              check_layout({4, 6}, parse_nd_sbp("(S(0), B)"), {4});
            }),
            R"~(layout "(S(0), B)": has 2 entries, but mesh 4 has 1)~");
  EXPECT_EQ(message([] {
              check_layout({4, 6}, parse_nd_sbp("S(2)"), {4});
            }),
            R"~(layout "S(2)": splits axis 2, but shape [4, 6] has 2 (from 0))~");
  check_layout({4, 6}, parse_nd_sbp("(S(1), S(1,inner))"), {2, 2});
}

TEST(Layout, CanonicalFormHasTheLeastInner) {
  const std::pair<const char*, const char*> cases[] = {
      {"(S(0,inner), B)", "(S(0), B)"},
      {"(S(0), S(0,inner))", "(S(0), S(0))"},
      {"(S(0,inner), S(0))", "(S(0,inner), S(0))"},
      {"(S(0,inner), S(1))", "(S(0), S(1))"},
      {"(S(0,inner2), S(0,inner), S(0))", "(S(0,inner2), S(0,inner), S(0))"},
      {"(S(0,inner), S(0,inner2), S(0))", "(S(0,inner), S(0,inner), S(0))"},
      {"(P(max), B)", "(P(max), B)"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(to_text(canonical(parse_nd_sbp(text))), expected);
}

TEST(Part, IsBalanced) {
  EXPECT_EQ(part_range(10, 4, 1), (Range{3, 6}));
  for (int64_t extent = 0; extent <= 9; ++extent)
    for (int64_t parts = 1; parts <= 5; ++parts) {
      int64_t end = 0;
      for (int64_t i = 0; i < parts; ++i) {
        const Range part = part_range(extent, parts, i);
        EXPECT_EQ(part.begin, end);
        EXPECT_EQ(part.size(), extent / parts + (i < extent % parts ? 1 : 0));
        end = part.end;
      }
      EXPECT_EQ(end, extent);
    }
}

std::vector<int64_t> sizes(const char* layout, Shape mesh, int64_t extent) {
  std::vector<int64_t> result;
  int64_t count = 1;
  for (const int64_t m : mesh) count *= m;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(local_shape({extent}, parse_nd_sbp(layout), mesh, i)[0]);
  return result;
}

// 6 elements: a nested split on 2 x 2 is 2,1,2,1, one split over 4 is 2,2,1,1.
TEST(Part, NestedSplitIsNotAFlatOne) {
  EXPECT_THAT(sizes("(S(0), S(0))", {2, 2}, 6), ElementsAre(2, 1, 2, 1));
  EXPECT_THAT(sizes("S(0)", {4}, 6), ElementsAre(2, 2, 1, 1));
}

// Mesh (data, tensor): tensor parts are {0..3} and {4..5}; the data ranks shard each of them.
TEST(Part, InnerSplitLiesInsideTheOther) {
  const NdSbp inner = parse_nd_sbp("(S(0,inner), S(0))");
  EXPECT_THAT(local_ranges({6}, inner, {2, 2}, 0), ElementsAre(Range{0, 2}));
  EXPECT_THAT(local_ranges({6}, inner, {2, 2}, 1), ElementsAre(Range{3, 5}));
  EXPECT_THAT(local_ranges({6}, inner, {2, 2}, 2), ElementsAre(Range{2, 3}));
  EXPECT_THAT(local_ranges({6}, inner, {2, 2}, 3), ElementsAre(Range{5, 6}));
}

TEST(Part, MoreDevicesThanExtentLeavesEmptyParts) {
  EXPECT_THAT(sizes("S(0)", {4}, 2), ElementsAre(1, 1, 0, 0));
}

// Figure 4: a 2 x 2 tensor on two devices, as split(0), split(1), broadcast and partial-sum.
TEST(Paper, Figure4) {
  const auto local = [](const char* layout, int64_t device) {
    return local_ranges({2, 2}, parse_nd_sbp(layout), {2}, device);
  };
  const Range first{0, 1}, second{1, 2}, all{0, 2};
  EXPECT_THAT(local("S(0)", 0), ElementsAre(first, all));
  EXPECT_THAT(local("S(0)", 1), ElementsAre(second, all));
  EXPECT_THAT(local("S(1)", 0), ElementsAre(all, first));
  EXPECT_THAT(local("S(1)", 1), ElementsAre(all, second));
  for (const char* whole : {"B", "P(sum)"})
    for (int64_t device : {0, 1}) EXPECT_THAT(local(whole, device), ElementsAre(all, all));
}

}  // namespace
}  // namespace boxcar::sbp
