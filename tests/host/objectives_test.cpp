#include "backends/host/objectives.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "counting.h"
#include "sbp/at.h"

namespace boxcar::tests {
namespace {

using backends::host::ContinuationSamples;
using backends::host::MaskedSamples;
using backends::host::MaskedSizes;
using backends::host::SpanSamples;
using backends::host::SpanSizes;
using backends::host::TokenData;
using testing::ElementsAre;
using testing::ElementsAreArray;

const MaskedSizes sizes{.seq = 20, .masked = 5, .vocab = 10003};

// A sample's tokens in their places, with the predicted ones restored.
std::vector<int64_t> text_of(const MaskedSamples::Sample& sample) {
  std::vector<int64_t> text(sample.tokens.size());
  for (size_t row = 0; row < text.size(); ++row) at(text, sample.positions[row]) = sample.tokens[row];
  for (size_t i = 0; i < sample.labels.size(); ++i) at(text, sample.positions[i + 1]) = sample.labels[i];
  return text;
}

TEST(MaskedSamples, ArePairsBetweenSpecialTokens) {
  const TemporaryFolder folder;
  const MaskedSamples samples(counting(folder, 2000), sizes, 1);
  for (int64_t index = 0; index < 300; ++index) {
    const MaskedSamples::Sample sample = samples.sample(index);
    const std::vector<int64_t> text = text_of(sample);
    // 17 tokens of text: nine, then eight.
    EXPECT_EQ(text[0], sizes.cls());
    EXPECT_EQ(text[10], sizes.sep());
    EXPECT_EQ(text[19], sizes.sep());
    for (size_t i = 2; i < 10; ++i) EXPECT_EQ(text[i], text[i - 1] + 1);
    for (size_t i = 12; i < 19; ++i) EXPECT_EQ(text[i], text[i - 1] + 1);
    EXPECT_EQ(sample.next, std::vector<int64_t>{text[11] == text[9] + 1 ? 0 : 1});
  }
}

TEST(MaskedSamples, HaveThePredictedTokensBehindTheFirst) {
  const TemporaryFolder folder;
  const MaskedSamples samples(counting(folder, 2000), sizes, 1);
  std::set<int64_t> places;
  for (int64_t index = 0; index < 300; ++index) {
    const MaskedSamples::Sample sample = samples.sample(index);
    ASSERT_EQ(sample.labels.size(), 5u);
    std::vector<int64_t> sorted = sample.positions;
    EXPECT_EQ(sorted[0], 0);
    EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.begin() + 6));
    EXPECT_TRUE(std::is_sorted(sorted.begin() + 6, sorted.end()));
    places.insert(sorted.begin() + 1, sorted.begin() + 6);
    std::sort(sorted.begin(), sorted.end());
    std::vector<int64_t> all(20);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    for (size_t row = 0; row < 20; ++row) EXPECT_EQ(sample.segments[row], sample.positions[row] > 10 ? 1 : 0);
  }
  // Every token of text is predicted some time, special ones never.
  std::set<int64_t> of_text;
  for (int64_t place = 1; place < 19; ++place)
    if (place != 10) of_text.insert(place);
  EXPECT_EQ(places, of_text);
}

TEST(MaskedSamples, MaskReplaceAndKeepAsPublished) {
  const TemporaryFolder folder;
  const MaskedSamples samples(counting(folder, 10000), sizes, 3);
  std::map<std::string, int> seen;
  const int64_t all = 4000;
  for (int64_t index = 0; index < all; ++index) {
    const MaskedSamples::Sample sample = samples.sample(index);
    ++seen[sample.next[0] == 0 ? "next" : "other"];
    for (size_t i = 0; i < 5; ++i) {
      const int64_t token = sample.tokens[i + 1];
      EXPECT_TRUE(token < sizes.text_vocab() || token == sizes.mask());
      ++seen[token == sizes.mask() ? "masked" : token == sample.labels[i] ? "kept" : "replaced"];
    }
  }
  // Within five deviations of a binomial distribution.
  EXPECT_NEAR(seen["masked"], 0.8 * 5 * all, 5 * 57);
  EXPECT_NEAR(seen["kept"], 0.1 * 5 * all, 5 * 43);
  EXPECT_NEAR(seen["replaced"], 0.1 * 5 * all, 5 * 43);
  EXPECT_NEAR(seen["next"], 0.5 * all, 5 * 32);
}

TEST(MaskedSamples, DependOnIndexAndSeedAlone) {
  const TemporaryFolder folder;
  const TokenData data = counting(folder, 2000);
  const MaskedSamples samples(data, sizes, 1), same(data, sizes, 1), other(data, sizes, 2);
  EXPECT_EQ(samples.sample(7).tokens, same.sample(7).tokens);
  EXPECT_NE(samples.sample(7).tokens, other.sample(7).tokens);
  const int64_t epoch = 1999 / 17;
  std::multiset<int64_t> first, second;  // each window once an epoch, with other tokens predicted
  int64_t alike = 0;
  for (int64_t index = 0; index < epoch; ++index) {
    first.insert(text_of(samples.sample(index))[1]);
    second.insert(text_of(samples.sample(index + epoch))[1]);
    alike += samples.sample(index).positions == samples.sample(index + epoch).positions ? 1 : 0;
  }
  EXPECT_EQ(first, second);
  EXPECT_EQ(first.size(), std::set<int64_t>(first.begin(), first.end()).size());
  EXPECT_LT(alike, epoch / 10);
}

TEST(MaskedSamples, OfOneWindowAreFollowedByTheirOwnText) {
  const TemporaryFolder folder;
  const MaskedSamples samples(counting(folder, 18), sizes, 1);
  for (int64_t index = 0; index < 20; ++index) EXPECT_THAT(samples.sample(index).next, ElementsAre(0));
}

std::vector<int64_t> read(const backends::host::Samples& samples, std::string_view input, sbp::Range range) {
  std::vector<int64_t> values(static_cast<size_t>(range.size()));
  const std::vector<sbp::Range> ranges{range};
  EXPECT_EQ(samples.read(input, 0, ranges, false, reinterpret_cast<std::byte*>(values.data())),
            range.size() * 8);
  return values;
}

TEST(MaskedSamples, AreReadInParts) {
  const TemporaryFolder folder;
  const MaskedSamples samples(counting(folder, 2000), sizes, 1);
  const MaskedSamples::Sample sample = samples.sample(0);
  EXPECT_THAT(read(samples, "tokens", {0, 20}), ElementsAreArray(sample.tokens));
  EXPECT_THAT(read(samples, "segments", {0, 20}), ElementsAreArray(sample.segments));
  EXPECT_THAT(read(samples, "positions", {5, 9}),
              ElementsAreArray(sample.positions.begin() + 5, sample.positions.begin() + 9));
  EXPECT_THAT(read(samples, "labels", {3, 5}), ElementsAre(sample.labels[3], sample.labels[4]));
  EXPECT_THAT(read(samples, "next", {0, 1}), ElementsAreArray(sample.next));
}

TEST(ContinuationSamples, ContinueWhatTheEncoderReads) {
  const TemporaryFolder folder;
  const ContinuationSamples samples(counting(folder, 10), 6, 3, 1);  // one window of nine tokens
  EXPECT_THAT(read(samples, "tokens", {0, 6}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(read(samples, "decoder_tokens", {0, 3}), ElementsAre(5, 6, 7));
  EXPECT_THAT(read(samples, "labels", {0, 3}), ElementsAre(6, 7, 8));
  EXPECT_THAT(read(samples, "labels", {1, 3}), ElementsAre(7, 8));
}

TEST(SpanSizes, OfThePaperMaskFifteenPercent) {
  const SpanSizes paper{.seq = 512, .decoder_seq = 114, .vocab = 32128};
  EXPECT_EQ(paper.spans(), 28);
  EXPECT_EQ(paper.missing(), 85);
  EXPECT_EQ(paper.text(), 569);
}

// Each mark replaced by its span gives the text back.
TEST(SpanSamples, HaveTheTextInTwoParts) {
  const TemporaryFolder folder;
  const SpanSizes few{.seq = 20, .decoder_seq = 14, .vocab = 10000};
  const SpanSamples samples(counting(folder, 2000), few, 1);
  std::set<std::vector<size_t>> cuts;
  for (int64_t index = 0; index < 300; ++index) {
    const SpanSamples::Sample sample = samples.sample(index);
    ASSERT_EQ(sample.tokens.size(), 20u);
    ASSERT_EQ(sample.labels.size(), 14u);
    EXPECT_EQ(sample.labels.back(), few.mark(few.spans()));
    std::map<int64_t, std::vector<int64_t>> spans;
    std::vector<size_t> lengths;
    for (size_t i = 0; i + 1 < sample.labels.size();) {
      std::vector<int64_t>& span = spans[sample.labels[i++]];
      while (sample.labels[i] < few.mark(few.spans())) span.push_back(sample.labels[i++]);
      EXPECT_FALSE(span.empty());
      lengths.push_back(span.size());
    }
    EXPECT_EQ(spans.size(), 3u);
    cuts.insert(lengths);
    std::vector<int64_t> text;
    for (const int64_t token : sample.tokens) {
      const auto span = spans.find(token);
      if (span == spans.end())
        text.push_back(token);
      else
        text.insert(text.end(), span->second.begin(), span->second.end());
    }
    ASSERT_EQ(static_cast<int64_t>(text.size()), few.text());
    for (size_t i = 1; i < text.size(); ++i) EXPECT_EQ(text[i], text[i - 1] + 1);
  }
  EXPECT_EQ(cuts.size(), 36u);  // all ways to cut ten tokens into three spans
}

TEST(SpanSamples, AreReadInParts) {
  const TemporaryFolder folder;
  const SpanSamples samples(counting(folder, 2000), {.seq = 20, .decoder_seq = 14, .vocab = 10000}, 1);
  const SpanSamples::Sample sample = samples.sample(5);
  const auto read_five = [&](std::string_view input, const sbp::Range& range) {
    std::vector<int64_t> values(static_cast<size_t>(range.size()));
    samples.read(input, 5, std::vector{range}, false, reinterpret_cast<std::byte*>(values.data()));
    return values;
  };
  EXPECT_THAT(read_five("tokens", {0, 20}), ElementsAreArray(sample.tokens));
  EXPECT_THAT(read_five("labels", {3, 5}), ElementsAre(sample.labels[3], sample.labels[4]));
  EXPECT_THAT(read_five("decoder_tokens", {0, 3}), ElementsAre(0, sample.labels[0], sample.labels[1]));
}

}  // namespace
}  // namespace boxcar::tests
