#include "ir/quantity.h"

#include <gtest/gtest.h>

namespace boxcar::ir {
namespace {

TEST(Quantity, ReadsNumbersWithUnits) {
  const auto expect = [](const char* text, double value, Unit unit) {
    const auto read = read_quantity(text);
    ASSERT_TRUE(read) << text;
    EXPECT_DOUBLE_EQ(read->value, value) << text;
    EXPECT_EQ(read->unit, unit) << text;
  };
  expect("0.5", 0.5, Unit::none);
  expect("80GB", 80e9, Unit::bytes);
  expect("80GiB", 80 * 0x1p30, Unit::bytes);
  expect("450GB/s", 450e9, Unit::bytes_per_second);
  expect("400Gbit/s", 50e9, Unit::bytes_per_second);
  expect("2us", 2e-6, Unit::seconds);
  expect("989TFLOP/s", 989e12, Unit::flops_per_second);
}

TEST(Quantity, RefusesAllElse) {
  for (const char* text : {"", "GB", "1 GB", "1gb", "1GBs", "1e308GB", "nan", "infs", "x1"})
    EXPECT_FALSE(read_quantity(text) && read_quantity(text)->unit != Unit::none) << text;
  EXPECT_FALSE(read_quantity("1GB/"));
  EXPECT_FALSE(read_quantity("nan"));
}

TEST(Quantity, NamesTheUnitsOfANumberThatHasAnother) {
  EXPECT_EQ(units_hint("2min", Unit::seconds), "; its unit may be ns, us, ms, s");
  EXPECT_EQ(units_hint("1e9flops", Unit::flops_per_second), "; its unit may be GFLOP/s, TFLOP/s, PFLOP/s");
  for (const char* text : {"", ".nan", "fast", "12"}) EXPECT_EQ(units_hint(text, Unit::seconds), "") << text;
  EXPECT_EQ(units_hint("1s", Unit::none), "");
}

TEST(Quantity, ExamplesReadBack) {
  for (Unit unit : {Unit::none, Unit::bytes, Unit::bytes_per_second, Unit::seconds, Unit::flops_per_second}) {
    const auto read = read_quantity(example_of(unit));
    ASSERT_TRUE(read) << example_of(unit);
    EXPECT_EQ(read->unit, unit) << example_of(unit);
  }
}

}  // namespace
}  // namespace boxcar::ir
