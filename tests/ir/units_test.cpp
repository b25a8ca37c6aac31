#include "ir/units.h"

#include <gtest/gtest.h>

namespace boxcar::ir {
namespace {

TEST(Units, OfBytesAndSeconds) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1 kB");
  EXPECT_EQ(format_bytes(79.24e9), "79.2 GB");
  EXPECT_EQ(format_seconds(18.4444), "18.44 s");
  EXPECT_EQ(format_seconds(0.00321), "3.21 ms");
  EXPECT_EQ(format_seconds(1.5e-6), "1.5 us");
}

}  // namespace
}  // namespace boxcar::ir
