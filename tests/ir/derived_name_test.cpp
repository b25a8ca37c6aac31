#include "ir/derived_name.h"

#include <gtest/gtest.h>

namespace boxcar::ir {
namespace {

TEST(DerivedName, LeadsBackToTheModelsTensor) {
  EXPECT_EQ(base_name("h0.attn.qkv.weight.half.grad"), "h0.attn.qkv.weight");
  EXPECT_EQ(base_name("embedding.word.replica7.grad.sum0"), "embedding.word");
  EXPECT_EQ(base_name("h0.residual1.grad.1"), "h0.residual1");
  EXPECT_EQ(base_name("h0.ln1.recomputed"), "h0.ln1");
  EXPECT_EQ(base_name("h0.ln1"), "h0.ln1");
}

TEST(DerivedName, ReadsAsInPlans) {
  EXPECT_EQ(derived_name("w", Derived::gradient), "w.grad");
  EXPECT_EQ(derived_name("w", Derived::half), "w.half");
  EXPECT_EQ(derived_name("w", Derived::sum), "w.sum");
  EXPECT_EQ(derived_name("w", Derived::next), "w.next");
  EXPECT_EQ(derived_name("w", Derived::recomputed), "w.recomputed");
  EXPECT_EQ(derived_name("w", Derived::replica, 7), "w.replica7");
}

TEST(DerivedName, EveryKindInEveryOtherLeadsBack) {
  for (const Derived outer :
       {Derived::gradient, Derived::half, Derived::sum, Derived::next, Derived::recomputed, Derived::replica})
    for (const Derived inner : {Derived::gradient, Derived::half, Derived::sum, Derived::next,
                                Derived::recomputed, Derived::replica}) {
      EXPECT_EQ(base_name(derived_name(derived_name("h3.ln1", inner), outer)), "h3.ln1");
      EXPECT_EQ(base_name(derived_name(derived_name("h3.ln1", inner, 12), outer, 3)), "h3.ln1");
    }
}

}  // namespace
}  // namespace boxcar::ir
