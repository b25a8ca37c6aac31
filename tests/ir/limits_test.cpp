// Every op with arbitrary numbers: huge, negative, at the limits. It returns types or refuses, and everything
// that follows from the types is in bounds; the sanitizers of the asan preset report overflows.
#include "ir/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/op.h"
#include "sbp/error.h"

namespace boxcar::ir {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t numbers[] = {INT64_MIN,
                               INT64_MIN + 1,
                               -most_extent - 1,
                               -most_extent,
                               -1,
                               0,
                               1,
                               2,
                               3,
                               most_extent - 1,
                               most_extent,
                               most_extent + 1,
                               most_elements - 1,
                               most_elements,
                               INT64_MAX / 2 + 1,
                               INT64_MAX - 1,
                               INT64_MAX};

class Numbers : public testing::TestWithParam<std::string> {
 protected:
  int64_t number() { return numbers[random_() % std::size(numbers)]; }
  // Within the limits: numbers that an op may compute with.
  int64_t allowed() { return random_() % 2 ? most_extent >> random_() % 32 : number(); }
  bool chance(unsigned of) { return random_() % of == 0; }

  Types changed(Types types) {
    for (TensorType& type : types)
      for (int64_t& extent : type.shape)
        if (chance(3)) extent = allowed();
    return types;
  }
  Attrs changed(Attrs attrs) {
    for (auto& [name, value] : attrs) {
      if (auto* number = std::get_if<int64_t>(&value); number && chance(2)) *number = allowed();
      if (auto* list = std::get_if<std::vector<int64_t>>(&value)) {
        for (int64_t& number : *list)
          if (chance(2)) number = allowed();
        if (chance(8)) list->push_back(allowed());
      }
    }
    return attrs;
  }

  std::mt19937 random_{1};
};

// All queries that planning makes of an op once its types are right.
void ask(const OpDef& def, const Types& inputs, const Attrs& attrs, const Types& outputs) {
  work(def, inputs, outputs, attrs);
  for (const int64_t parts : {2, 3})
    for (const sbp::Signature& signature : signatures(def, inputs, attrs, parts))
      localize(def, inputs, attrs, signature, parts, parts - 1);
}

TEST_P(Numbers, AreWithinLimitsOrRefused) {
  const OpDef& def = op(GetParam());
  const Extent extent = [&] { return 2 + static_cast<int64_t>(random_() % 6); };
  for (int round = 0; round < 200; ++round)
    for (const Sample& sample : def.samples(extent)) {
      const Types inputs = chance(4) ? sample.inputs : changed(sample.inputs);
      const Attrs attrs = changed(complete(def, sample.attrs));
      try {
        const Types outputs = def.infer(inputs, attrs);
        for (const TensorType& type : outputs) EXPECT_EQ(flaw_of(type), "");
        ask(def, inputs, attrs, outputs);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::bad_input) << to_text(attrs);
      }
    }
}

TEST_P(Numbers, BeyondLimitsAreRefusedByName) {
  const OpDef& def = op(GetParam());
  const Sample sample = def.samples([] { return 4; })[0];
  for (const auto& [name, value] : complete(def, sample.attrs))
    for (const int64_t number : {INT64_MAX, INT64_MIN, most_extent + 1, -most_extent - 1}) {
      Attrs attrs = complete(def, sample.attrs);
      if (std::holds_alternative<int64_t>(value))
        attrs[name] = number;
      else if (std::holds_alternative<std::vector<int64_t>>(value))
        attrs[name] = std::vector<int64_t>{1, number};
      else
        continue;
      try {
        def.infer(sample.inputs, attrs);
        ADD_FAILURE() << name << " " << number;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr(def.name + ": " + name + " is "),
                                        HasSubstr("expected numbers from -2147483648 to 2147483648")));
      }
    }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const OpDef& def : all_ops()) all.push_back(def.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Ops, Numbers, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

TEST(Limits, SayWhatNoTensorIs) {
  EXPECT_EQ(flaw_of({{}}), "");
  EXPECT_EQ(flaw_of({{most_extent, most_elements / most_extent}}), "");
  EXPECT_EQ(flaw_of({{most_extent, most_elements / most_extent, 2}}),
            "its extents multiply to more than 1152921504606846976");
  EXPECT_EQ(flaw_of({{0, most_extent, most_extent}}),
            "its extents multiply to more than 1152921504606846976");
  EXPECT_EQ(flaw_of({{INT64_MAX}}), "an extent is beyond 2147483648");
  EXPECT_EQ(flaw_of({{INT64_MIN}}), "an extent is negative");
}

}  // namespace
}  // namespace boxcar::ir
