#include "ir/rank_attrs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace boxcar::ir {
namespace {

using testing::ElementsAre;

TEST(RankAttrs, finds_whole_numbers_and_puts_others_in_their_places) {
  const Attr text = std::string("dropout(2) {p=0.1, starts=[0, -3], x3=4}");
  EXPECT_THAT(whole_numbers(text), ElementsAre(2, 0, -3, 4));
  EXPECT_EQ(std::get<std::string>(with_whole_numbers(text, {2, 8, 5, 4})),
            "dropout(2) {p=0.1, starts=[8, 5], x3=4}");
  EXPECT_THAT(whole_numbers(Attr{0.5}), ElementsAre());
}

TEST(RankAttrs, a_rank_has_its_own) {
  Attrs attrs{{"offset", int64_t{0}}, {"starts", std::vector<int64_t>{0, 0}}};
  add_difference(attrs, "offset", "tp",
                 {{{"offset", int64_t{0}}}, {{"offset", int64_t{4}}}, {{"offset", int64_t{7}}}});
  add_difference(attrs, "starts", "dp",
                 {{{"starts", std::vector<int64_t>{0, 0}}}, {{"starts", std::vector<int64_t>{2, 0}}}});
  EXPECT_EQ(to_text(attrs), "{offset=0, offset_by_tp=[0, 4, 7], starts=[0, 0], starts_step_dp=[2, 0]}");
  const auto at = [](const std::string& dim) -> Coordinates { return {dim == "tp" ? 2 : 1, 0}; };
  EXPECT_EQ(to_text(rank_attrs(attrs, at)), "{offset=7, starts=[2, 0]}");
}

}  // namespace
}  // namespace boxcar::ir
