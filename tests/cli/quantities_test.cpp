// Quantities with units on the command line.
#include "cli/quantities.h"

#include <gtest/gtest.h>

#include "sbp/error.h"

namespace boxcar::cli {
namespace {

TEST(Quantities, ReadWithTheirUnits) {
  EXPECT_EQ(read_count("--tokens", "15T"), 15e12);
  EXPECT_EQ(read_count("--tokens", "300B"), 300e9);
  EXPECT_EQ(read_count("--tokens", "4M"), 4e6);
  EXPECT_EQ(read_count("--tokens", "1.5k"), 1500);
  EXPECT_EQ(read_count("--tokens", "12"), 12);
  for (const auto& [text, number] : {std::pair("2K", 2e3), {"2m", 2e6}, {"2b", 2e9}, {"2t", 2e12}})
    EXPECT_EQ(read_count("--tokens", text), number) << text;
  EXPECT_EQ(read_seconds("--restart", "30m", "10m"), 1800);
  EXPECT_EQ(read_seconds("--restart", "3h", "10m"), 10'800);
  EXPECT_EQ(read_seconds("--restart", "12d", "10m"), 12 * 86'400);
  EXPECT_EQ(read_rate("--checkpoint-bandwidth", "200GB/s"), 200e9);
  EXPECT_EQ(read_rate("--checkpoint-bandwidth", "1GiB/s"), 0x1p30);
  EXPECT_EQ(read_bytes("--memory", "80GiB", "72GB"), 80 * 0x1p30);
  for (const char* bad : {"", "B", "-3B", "0", "3 B", "3g", "inf", "nan", "1e300T", "3Bn"})
    EXPECT_THROW(read_count("--tokens", bad), Error) << bad;
  for (const char* bits : {"72Gb", "72gb", "1mib"}) EXPECT_THROW(read_bytes("--memory", bits, "72GB"), Error);
}

TEST(Quantities, ReadAsText) {
  EXPECT_EQ(number_text(12), "12");
  EXPECT_EQ(number_text(189'196), "189k");
  EXPECT_EQ(number_text(999.6), "1k");
  EXPECT_EQ(number_text(300e9), "300B");
  EXPECT_EQ(number_text(15e12), "15T");
  EXPECT_EQ(number_text(12.34e15), "12340T");
  EXPECT_EQ(duration_text(0.5), "0.5 s");
  EXPECT_EQ(duration_text(504), "8.4 m");
  EXPECT_EQ(duration_text(10'800), "3 h");
  EXPECT_EQ(duration_text(12 * 86'400), "12 d");
  EXPECT_EQ(duration_text(1e8), "1157 d");
  EXPECT_EQ(percent_text(0.1234), "12.3 %");
  EXPECT_EQ(percent_text(-1e-9), "0.0 %");
  EXPECT_EQ(signed_percent_text(0.1234), "+12.3 %");
  EXPECT_EQ(signed_percent_text(-0.004), "-0.4 %");
  EXPECT_EQ(signed_percent_text(-0.0004), "0.0 %");
  EXPECT_EQ(signed_percent_text(0.0004), "0.0 %");
  EXPECT_EQ(counted(1, "GPU"), "1 GPU");
  EXPECT_EQ(counted(2, "step"), "2 steps");
}

}  // namespace
}  // namespace boxcar::cli
