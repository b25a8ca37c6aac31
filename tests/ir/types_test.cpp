#include "ir/types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "sbp/error.h"

namespace boxcar::ir {
namespace {

template <class Call>
std::string message(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(DType, TextReadsBack) {
  for (DType dtype : {DType::float64, DType::float32, DType::float16, DType::bfloat16, DType::float8,
                      DType::int64, DType::int32, DType::int8, DType::boolean}) {
    EXPECT_EQ(parse_dtype(to_text(dtype)), dtype);
  }
  EXPECT_EQ(size_of(DType::bfloat16), 2);
  EXPECT_TRUE(is_float(DType::float8));
  EXPECT_FALSE(is_float(DType::boolean));
}

TEST(DType, UnknownNamesAreRefused) {
  EXPECT_EQ(message([] { parse_dtype("float23"); }),
            "\"float23\": no such element type; known are float64, float32, float16, bfloat16, float8, "
            "int64, int32, "
            "int8, boolean");
}

TEST(TensorType, CountsAndReadsBack) {
  TensorType type{{4, 6}, DType::float16};
  EXPECT_EQ(type.elements(), 24);
  EXPECT_EQ(type.bytes(), 48);
  EXPECT_EQ(to_text(type), "float16[4, 6]");
  EXPECT_EQ(parse_tensor_type(" float16[ 4,6 ]"), type);
  EXPECT_EQ(parse_tensor_type("int64[]"), (TensorType{{}, DType::int64}));
  EXPECT_EQ((TensorType{{}, DType::int64}).elements(), 1);
}

TEST(TensorType, BadTextIsRefused) {
  EXPECT_EQ(message([] { parse_tensor_type("float32"); }),
            "\"float32\": expected a tensor type such as float32[4, 6]");
  EXPECT_EQ(message([] { parse_tensor_type("float32[4, x]"); }),
            "\"float32[4, x]\": expected integers between [ and ], such as [4, 6]");
  EXPECT_EQ(message([] { parse_tensor_type("float32[-4]"); }), "\"float32[-4]\": an extent is negative");
  EXPECT_EQ(message([] { parse_tensor_type("float32[9223372036854775807]"); }),
            "\"float32[9223372036854775807]\": an extent is beyond 2147483648");
  EXPECT_EQ(message([] { parse_tensor_type("int8[1073741824, 2147483648, 0]"); }),
            "\"int8[1073741824, 2147483648, 0]\": its extents multiply to more than 1152921504606846976");
}

TEST(Attr, TextReadsBack) {
  const Attr attrs[] = {int64_t{-3},
                        0.5,
                        1e-5,
                        2.0,
                        1e300,
                        true,
                        std::string("float16"),
                        std::string("a \"b\" \\"),
                        std::string("2"),
                        std::vector<int64_t>{1, -2},
                        std::vector<int64_t>{}};
  for (const Attr& attr : attrs) EXPECT_EQ(parse_attr(to_text(attr)), attr) << to_text(attr);
  EXPECT_EQ(to_text(Attr{2.0}), "2.0");
  EXPECT_EQ(parse_attr("float16"), Attr{std::string("float16")});
  EXPECT_EQ(parse_attr(to_text(Attr{HUGE_VAL})), Attr{HUGE_VAL});
}

TEST(Attr, BadTextIsRefused) {
  EXPECT_EQ(message([] { parse_attr("[1, b]"); }),
            "\"[1, b]\": expected integers between [ and ], such as [4, 6]");
  EXPECT_EQ(message([] { parse_attr("a b"); }),
            "\"a b\": expected an attribute: 4, 0.5, true, \"text\" or [1, 2]");
}

TEST(Attrs, ReadByNameAndKind) {
  Attrs attrs = {{"axis", int64_t{1}}, {"keepdims", true}};
  EXPECT_EQ(to_text(attrs), "{axis=1, keepdims=true}");
  EXPECT_EQ(attr_int(attrs, "axis"), 1);
  EXPECT_TRUE(attr_bool(attrs, "keepdims"));
  EXPECT_EQ(message([&] { attr_int(attrs, "axes"); }), "axes: attribute is missing");
  EXPECT_EQ(message([&] { attr_int(attrs, "keepdims"); }), "keepdims: true is not an integer");
}

}  // namespace
}  // namespace boxcar::ir
