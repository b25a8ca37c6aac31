// Which process of a failed run prints a message, and its text.
#include "backends/mpi/endings.h"

#include <gtest/gtest.h>

namespace boxcar::backends {
namespace {

TEST(Endings, TheFirstProcessSpeaksWhenAllHaveEnded) {
  Endings endings(3);
  endings.ended(0, {false, Exit::fault, "waits"});
  endings.ended(2, {true, Exit::bad_input, "out of luck"});
  EXPECT_FALSE(endings.is_speaker(0, 0));
  EXPECT_TRUE(endings.is_speaker(0, Endings::patience));
  endings.ended(1, {true, Exit::fault, "too late"});
  EXPECT_TRUE(endings.is_speaker(0, 0));
  EXPECT_FALSE(endings.is_speaker(1, Endings::patience));
  EXPECT_FALSE(endings.is_speaker(2, Endings::patience));
  EXPECT_TRUE(endings.is_speaker(2, Endings::longest));
  EXPECT_STREQ(endings.agreed(0).what(), "process 1: too late");
  EXPECT_EQ(endings.agreed(0).code(), Exit::fault);
}

TEST(Endings, WithoutTheFirstProcessTheFirstCauseSpeaks) {
  Endings endings(4);
  endings.ended(1, {false, Exit::fault, "waits"});
  endings.ended(2, {true, Exit::bad_input, "out of luck"});
  endings.ended(3, {true, Exit::bad_input, "out of luck"});
  EXPECT_FALSE(endings.is_speaker(2, 0));
  EXPECT_FALSE(endings.is_speaker(1, Endings::patience));
  EXPECT_TRUE(endings.is_speaker(2, Endings::patience));
  EXPECT_FALSE(endings.is_speaker(3, Endings::patience));
  EXPECT_STREQ(endings.agreed(2).what(), "process 2: out of luck");
  EXPECT_EQ(endings.agreed(2).code(), Exit::bad_input);
}

TEST(Endings, OneThatWasStoppedFindsThatAnotherHasSpoken) {
  Endings endings(2);
  endings.ended(1, {true, Exit::fault, "process 0 has not been heard from for 15 s"});
  EXPECT_FALSE(endings.is_spoken());
  endings.another_speaks();
  EXPECT_TRUE(endings.is_spoken());
  endings.ended(0, {false, Exit::fault, "process 1 failed"});
  EXPECT_FALSE(endings.is_speaker(0, Endings::patience));
  EXPECT_TRUE(endings.is_speaker(0, Endings::longest));
}

TEST(Endings, AnErrorThatAllReportIsNobodysOwn) {
  Endings endings(2);
  endings.ended(0, {true, Exit::bad_input, "no such file"});
  endings.ended(1, {true, Exit::bad_input, "no such file"});
  EXPECT_STREQ(endings.agreed(0).what(), "no such file");
}

TEST(Endings, WithoutACauseASpeakerSaysItsOwn) {
  Endings endings(2);
  endings.ended(1, {false, Exit::fault, "waits"});
  EXPECT_STREQ(endings.agreed(1).what(), "process 1: waits");
}

}  // namespace
}  // namespace boxcar::backends
