#include "ir/rank_attrs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sbp/error.h"

namespace boxcar::ir {
namespace {

using testing::ElementsAre;

TEST(RankAttrs, FindsWholeNumbersAndPutsOthersInTheirPlaces) {
  const Attr text = std::string("dropout(2) {p=0.1, starts=[0, -3], x3=4}");
  EXPECT_THAT(whole_numbers(text), ElementsAre(2, 0, -3, 4));
  EXPECT_EQ(std::get<std::string>(with_whole_numbers(text, {2, 8, 5, 4})),
            "dropout(2) {p=0.1, starts=[8, 5], x3=4}");
  EXPECT_THAT(whole_numbers(Attr{0.5}), ElementsAre());
}

TEST(RankAttrs, ARankHasItsOwn) {
  Attrs attrs{{"offset", int64_t{0}}, {"starts", std::vector<int64_t>{0, 0}}};
  add_difference(attrs, "offset", "tp",
                 {{{"offset", int64_t{0}}}, {{"offset", int64_t{4}}}, {{"offset", int64_t{7}}}});
  add_difference(attrs, "starts", "dp",
                 {{{"starts", std::vector<int64_t>{0, 0}}}, {{"starts", std::vector<int64_t>{2, 0}}}});
  EXPECT_EQ(to_text(attrs), "{offset=0, offset_by_tp=[0, 4, 7], starts=[0, 0], starts_step_dp=[2, 0]}");
  const auto at = [](const std::string& dim) -> Coordinates { return {dim == "tp" ? 2 : 1, 0}; };
  EXPECT_EQ(to_text(rank_attrs(attrs, at)), "{offset=7, starts=[2, 0]}");
}

// No difference is dropped silently.
TEST(RankAttrs, ADifferenceThatNumbersCannotSayIsAnError) {
  const auto message = [](const Attr& first, const Attrs& second) -> std::string {
    Attrs attrs{{"a", first}};
    try {
      add_difference(attrs, "a", "tp", {{{"a", first}}, second});
    } catch (const Error& error) {
      return error.what();
    }
    return to_text(attrs);
  };
  const auto text = [](const char* t) { return Attr{std::string(t)}; };
  EXPECT_EQ(message(text("mask(0)"), {{"a", text("mask(0) {row_offset=2}")}}),
            "attribute a: is \"mask(0)\" on one rank and \"mask(0) {row_offset=2}\" on another of its class, "
            "which differ in more than whole numbers");
  EXPECT_EQ(message(text("mask(0)"), {{"a", text("mask(2)")}}), "{a=\"mask(0)\", a_step_tp=[2]}");
  EXPECT_EQ(message(Attr{std::vector<int64_t>{}}, {{"a", Attr{std::vector<int64_t>{2, 0}}}}),
            "attribute a: is [] on one rank and [2, 0] on another of its class, which differ in more than "
            "whole numbers");
  EXPECT_EQ(message(Attr{true}, {{"a", Attr{false}}}),
            "attribute a: is true on one rank and false on another of its class, which differ in more than "
            "whole numbers");
  EXPECT_EQ(message(Attr{0.5}, {{"a", Attr{0.25}}}),
            "attribute a: is 0.5 on one rank and 0.25 on another of its class, which differ in more than "
            "whole numbers");
  EXPECT_EQ(message(Attr{int64_t{1}}, {}),
            "attribute a: is 1 on one rank and missing on another of its class, which differ in more than "
            "whole numbers");
  EXPECT_EQ(message(Attr{0.5}, {{"a", Attr{0.5}}}), "{a=0.5}");
}

}  // namespace
}  // namespace boxcar::ir
