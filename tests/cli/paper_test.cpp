// The paper's tables and figures come out as pinned in experiments/reproduce/pins.json. After an intended
// change, `experiments/paper --pin` rewrites them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "host/temporary.h"
#include "run_experiment.h"

namespace boxcar::cli {
namespace {

using ::testing::HasSubstr;

std::string paper(const std::string& arguments) {
  const tests::TemporaryFolder folder;
  return experiment("paper", fmt::format("{} -o '{}'", arguments, folder.path()));
}

TEST(Paper, QuickFiguresAreAsPinned) { EXPECT_EQ(paper("--check --quick"), "all values are as pinned\n"); }

TEST(Paper, LongAllFiguresAreAsPinned) { EXPECT_EQ(paper("--check"), "all values are as pinned\n"); }

TEST(Paper, AFigureIsATableBesideThePublishedValues) {
  const std::string said = paper("table1");
  EXPECT_THAT(said, HasSubstr("S(1), S(0)  layout of X W  P(sum)  P(sum)  same\n"));
  EXPECT_THAT(said, HasSubstr("table1  in tolerance  layout of X W: 6 of 6 equal\n"));
}

TEST(Paper, MissingFilesAreNamed) {
  EXPECT_THAT(paper("list"), HasSubstr("fig8: nothing prints an actor's address"));
  EXPECT_THAT(paper("fig8"), HasSubstr("paper: error: fig8 is not there: nothing prints"));
  EXPECT_THAT(paper("fig17"), HasSubstr("paper: error: no figure is named fig17"));
}

}  // namespace
}  // namespace boxcar::cli
