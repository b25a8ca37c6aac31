// Law 1 of docs/design.md: every op of the registry offers exactly the right signatures. A new op is covered
// by its row: it needs samples and a reference kernel, nothing here.
#include "law1.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cpu/reference.h"

namespace boxcar::tests {
namespace {

std::string first_lines(const std::vector<std::string>& lines) {
  std::vector<std::string> first(lines.begin(),
                                 lines.begin() + static_cast<long>(std::min<size_t>(lines.size(), 20)));
  return fmt::format("{} findings\n{}", lines.size(), fmt::join(first, "\n"));
}

// Collects the findings of all samples. A declared omission that no sample needs is also a finding.
void expect_law1(const ir::OpDef& def, uint64_t first_seed, uint64_t seeds, bool all_omissions) {
  std::set<std::string> omitted;
  for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
    for (const ir::Sample& sample : draw_samples(def, seed)) {
      for (int64_t parts : {2, 3, 4}) {
        Law1 law = check_law1(def, sample, parts, seed);
        ASSERT_TRUE(law.findings.empty()) << first_lines(law.findings);
        omitted.insert(law.omitted.begin(), law.omitted.end());
      }
    }
  }
  if (!all_omissions) return;
  for (const ir::Omission& omission : def.omitted) {
    EXPECT_TRUE(omitted.count(omission.reason)) << "no sample needs: " << omission.reason;
  }
}

// The part of the second of `parts` devices: local types and localized attributes.
ir::Sample second_part(const ir::OpDef& def, const ir::Sample& sample, const sbp::Signature& signature,
                       int64_t parts) {
  ir::Sample part = sample;
  for (size_t i = 0; i < part.inputs.size(); ++i) {
    part.inputs[i].shape = sbp::local_shape(sample.inputs[i].shape, {signature.inputs[i]}, {parts}, 1);
  }
  part.attrs = ir::localize(def, sample.inputs, ir::complete(def, sample.attrs), signature, parts, 1);
  return part;
}

bool has_small_extent(const ir::Sample& sample) {
  for (const ir::TensorType& type : sample.inputs) {
    for (int64_t extent : type.shape) {
      if (extent < 2) return true;
    }
  }
  return false;
}

class Law1Test : public testing::TestWithParam<std::string> {};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const ir::OpDef& def : ir::all_ops()) all.push_back(def.name);
  return all;
}

TEST_P(Law1Test, OffersExactlyTheRightSignatures) { expect_law1(ir::op(GetParam()), 1, 1, true); }
TEST_P(Law1Test, LongOffersExactlyTheRightSignatures) { expect_law1(ir::op(GetParam()), 2, 20, false); }

// An n-dimensional layout applies one signature after the other, so signatures must also be right on a part
// with its local attributes. Missing ones are not checked: a part whose indices all lie elsewhere is zero in
// any layout.
TEST_P(Law1Test, NothingIsWrongOnAPart) {
  const ir::OpDef& def = ir::op(GetParam());
  if (!def.localize) return;
  std::set<std::string> seen;
  for (const ir::Sample& sample : draw_samples(def, 5)) {
    for (const auto& signature : ir::signatures(def, sample.inputs, ir::complete(def, sample.attrs), 2)) {
      ir::Sample part = second_part(def, sample, signature, 2);
      std::string key = ir::to_text(part.attrs);
      for (const ir::TensorType& type : part.inputs) key += ir::to_text(type);
      if (has_small_extent(part) || !seen.insert(key).second) continue;
      for (const std::string& finding : check_law1(def, part, 2, 5).findings) {
        EXPECT_EQ(finding.find(" wrong: "), std::string::npos) << sbp::to_text(signature) << " then\n"
                                                               << finding;
      }
    }
  }
}

TEST_P(Law1Test, RowIsComplete) {
  const ir::OpDef& def = ir::op(GetParam());
  EXPECT_TRUE(def.infer && def.index_map && def.samples);
  EXPECT_FALSE(def.inputs.empty());
  EXPECT_FALSE(def.outputs.empty());
  EXPECT_EQ(static_cast<bool>(def.extra), !def.extra_reason.empty());
  EXPECT_TRUE(backends::cpu::reference_kernels().count(def.name));
  for (const ir::Sample& sample : draw_samples(def, 1)) {
    ir::Attrs attrs = ir::complete(def, sample.attrs);
    ir::Types outputs = def.infer(sample.inputs, attrs);
    const bool variadic = !def.outputs.empty() && def.outputs.back().ends_with("...");
    const auto optional = std::count_if(def.outputs.begin(), def.outputs.end(),
                                        [](const std::string& name) { return name.ends_with("?"); });
    EXPECT_GE(outputs.size(), def.outputs.size() - static_cast<size_t>(optional));
    EXPECT_TRUE(variadic || outputs.size() <= def.outputs.size());
    EXPECT_GE(ir::work(def, sample.inputs, outputs, attrs).bytes, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Law1Test, testing::ValuesIn(names()),
                         [](const testing::TestParamInfo<std::string>& param) { return param.param; });

TEST(Law1Kernels, EveryKernelHasItsOp) {
  for (const auto& entry : backends::cpu::reference_kernels())
    EXPECT_TRUE(ir::has_op(entry.first)) << entry.first;
}

// The checker finds planted mistakes.
TEST(Law1Checker, FindsAWrongAndAMissingRule) {
  ir::OpDef broken = ir::op("matmul");
  broken.index_map = [](const ir::Types&, const ir::Attrs&) {
    return sbp::parse_index_map("m k, k n -> m n ; max k ; linear 0 ; linear 1");
  };
  ir::Sample sample{.inputs = {{{4, 6}, ir::DType::float32}, {{6, 5}, ir::DType::float32}}};
  Law1 law = check_law1(broken, sample, 2, 7);
  std::string all = fmt::format("{}", fmt::join(law.findings, "\n"));
  EXPECT_NE(all.find("wrong: S(1), S(0) -> P(max)"), std::string::npos) << all;
  EXPECT_NE(all.find("missing: S(1), S(0) -> P(sum)"), std::string::npos) << all;
}

}  // namespace
}  // namespace boxcar::tests
