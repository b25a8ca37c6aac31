// Programs of fused chains as text.
#include "ir/ops/fused.h"

#include <gtest/gtest.h>

#include "sbp/error.h"

namespace boxcar::tests {
namespace {

TEST(Fused, ProgramsReadBack) {
  for (const char* text :
       {"add(0, 1)", "add(0, 1); gelu(3); mul(4, 4)", "scale(0) {factor=2.5}; cast(3) {to=float64}",
        "dropout(0) {op=3, p=0.5, shape=[4, 6], starts=[0, 3]}; neg(3)"})
    EXPECT_EQ(to_text(ir::parse_fused(text, 3)), text);
  EXPECT_EQ(to_text(ir::parse_fused(" add( 0,1 ) ;neg(2){ } ", 2)), "add(0, 1); neg(2)");
}

TEST(Fused, InferenceFollowsTheSteps) {
  const ir::OpDef& def = ir::op("fused");
  const auto infer = [&](const char* program) {
    return def.infer({{{2, 3}, ir::DType::float16}, {{3}, ir::DType::float16}},
                     ir::complete(def, {{"program", program}}));
  };
  EXPECT_EQ(to_text(infer("add(0, 1); cast(2) {to=float32}")[0]), "float32[2, 3]");
  EXPECT_THROW(infer("neg(1); add(0, 2)"), Error);  // a step of another shape
  EXPECT_THROW(infer(""), Error);
}

std::string refusal(const char* program) {
  try {
    ir::parse_fused(program, 2);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Fused, SaysWhatIsWrongWithAProgram) {
  EXPECT_EQ(refusal("add(0, 2)"),
            "fused: program step \"add(0, 2)\": operand 2 is no value before it (0 to 1)");
  EXPECT_EQ(refusal("add"), "fused: program step \"add\": expected op(operands), such as add(0, 1)");
  EXPECT_EQ(refusal("add(0, 1"), "fused: program step \"add(0, 1\": a bracket is not closed");
  EXPECT_EQ(refusal("scale(0) {factor}"),
            "fused: program step \"scale(0) {factor}\": expected name=value, got factor");
  EXPECT_EQ(refusal("neg(0) 1"), "fused: program step \"neg(0) 1\": something stands after it");
  EXPECT_EQ(refusal("softmax(0)").substr(0, 59),
            "fused: program step \"softmax(0)\": softmax is not one of add");
}

}  // namespace
}  // namespace boxcar::tests
