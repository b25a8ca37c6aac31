#include "backends/host/data.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "counting.h"
#include "sbp/at.h"

namespace boxcar::tests {
namespace {

using backends::host::Sampler;
using backends::host::TokenData;
using testing::ElementsAre;

template <class T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// llm.c's format: 256 int32 and the tokens.
std::string llmc(int32_t magic, int32_t version, int32_t count, const std::vector<uint16_t>& tokens) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return raw(header) + raw(tokens);
}

TEST(TokenData, ReadsTextAsBytes) {
  const TemporaryFolder folder;
  const TokenData data = TokenData::open({folder.file("a.txt", "ab\n\xff")}, 256);
  EXPECT_THAT(data.tokens(), ElementsAre(97, 98, 10, 255));
}

TEST(TokenData, ReadsTextLongerThanOneChunk) {
  const TemporaryFolder folder;
  std::string text(2'500'000, 'x');
  text[1'048'576] = 'y';
  const TokenData data = TokenData::open({folder.file("a", text)}, 256);
  ASSERT_EQ(data.size(), 2'500'000);
  EXPECT_EQ(std::string(data.tokens().begin(), data.tokens().end()), text);
}

TEST(TokenData, ReadsRawTokens) {
  const TemporaryFolder folder;
  EXPECT_THAT(TokenData::open({folder.file("a.bin", raw<uint16_t>({1, 50256, 7}))}, 50257).tokens(),
              ElementsAre(1, 50256, 7));
}

TEST(TokenData, ReadsTokensAfterAHeader) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.bin", llmc(20240520, 1, 3, {5, 6, 65535}));
  EXPECT_THAT(TokenData::open({path}, 65536).tokens(), ElementsAre(5, 6, 65535));
}

TEST(TokenData, TakesALongFileWithoutTheMagicNumberAsTokens) {
  const TemporaryFolder folder;
  EXPECT_EQ(TokenData::open({folder.file("a.bin", llmc(3, 1, 3, {5, 6}))}, 256).size(), 514);
}

TEST(TokenData, JoinsFilesInTheOrderGiven) {
  const TemporaryFolder folder;
  const std::string text = folder.file("b.txt", "b"), tokens = folder.file("a.bin", raw<uint16_t>({1, 2}));
  EXPECT_THAT(TokenData::open({text, tokens, text}, 256).tokens(), ElementsAre(98, 1, 2, 98));
}

TEST(TokenData, HoldsATailBack) {
  const TemporaryFolder folder;
  const TokenData data = TokenData::open({folder.file("a.txt", "abcdefghijk")}, 256);
  EXPECT_THAT(data.tail(0.2).tokens(), ElementsAre('j', 'k'));
  EXPECT_EQ(data.head(0.2).size(), 9);
  EXPECT_EQ(data.head(0).size(), 11);
  EXPECT_EQ(data.tail(0).size(), 0);
  EXPECT_THAT(data.head(0.2).tail(0.5).tokens(), ElementsAre('f', 'g', 'h', 'i'));
}

TEST(TokenData, OutlivesWhatItWasTakenFrom) {
  const TemporaryFolder folder;
  const TokenData tail = TokenData::open({folder.file("a.txt", "abcdefghij")}, 256).tail(0.1);
  EXPECT_THAT(tail.tokens(), ElementsAre('j'));
}

TEST(TokenData, RefusesBadFiles) {
  const TemporaryFolder folder;
  const auto open = [&](const std::string& path, int64_t vocab = 256) {
    return message_of(folder, [&] { TokenData::open({path}, vocab); });
  };
  EXPECT_EQ(open(folder / "none.txt"), "2: none.txt: cannot be read: No such file or directory");
  EXPECT_EQ(open("/dev/null"), "2: /dev/null: cannot be read: it is not a file");
  std::filesystem::create_directory(folder / "sub");
  EXPECT_EQ(open(folder / "sub"), "2: sub: cannot be read: it is a folder");
  EXPECT_EQ(open(folder.file("empty.txt", "")), "2: empty.txt: is empty, expected tokens");
  EXPECT_EQ(open(folder.file("empty.bin", "")), "2: empty.bin: is empty, expected tokens");
  EXPECT_EQ(open(folder.file("header.bin", llmc(20240520, 1, 0, {}))),
            "2: header.bin: is empty, expected tokens");
  EXPECT_EQ(open(folder.file("odd.bin", "abc")),
            "2: odd.bin: has 3 bytes, expected an even number: two bytes a token");
  EXPECT_EQ(open(folder.file("version.bin", llmc(20240520, 2, 1, {5}))),
            "2: version.bin: has a header of version 2, expected 1");
  EXPECT_EQ(open(folder.file("short.bin", llmc(20240520, 1, 3, {5, 6}))),
            "2: short.bin: has 4 bytes after its header, which promises 3 tokens of 2");
  EXPECT_EQ(open(folder.file("long.bin", llmc(20240520, 1, 1, {5, 6}))),
            "2: long.bin: has 4 bytes after its header, which promises 1 tokens of 2");
  EXPECT_EQ(open(folder.file("large.bin", raw<uint16_t>({1, 300, 400})), 300),
            "2: large.bin: token 1 is 300, expected less than vocab 300 (use a larger vocab)");
  EXPECT_EQ(
      open(folder.file("large.txt", "ab\xe4"), 128),
      "2: large.txt: byte 2 is 228, expected less than vocab 128 (use a larger vocab, 256 takes any text)");
  EXPECT_EQ(
      message_of(folder, [&] { TokenData::open({folder.file("special.txt", "ab\xff")}, 256, 3); }),
      "2: special.txt: byte 2 is 255, expected less than 253, since the last 3 of vocab 256 are special "
      "(use a larger vocab, 256 takes any text)");
  EXPECT_EQ(message_of(folder, [] { TokenData::open({}, 256); }), "2: data: names no file");
}

TEST(TokenData, WaitsForNoPipe) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(message_of(folder, [&] { TokenData::open({folder / "pipe"}, 256); }),
            "2: pipe: cannot be read: it is not a file");
}

TEST(TokenData, NamesTheSecondOfTwoFiles) {
  const TemporaryFolder folder;
  const std::string good = folder.file("good.txt", "abc"), bad = folder.file("bad.txt", "\x90");
  EXPECT_EQ(
      message_of(folder,
                 [&] {
                   TokenData::open({good, bad}, 128);
                 }),
      "2: bad.txt: byte 0 is 144, expected less than vocab 128 (use a larger vocab, 256 takes any text)");
}

TEST(TokenData, RefusesAFractionThatLeavesNothing) {
  const TemporaryFolder folder;
  const TokenData data = TokenData::open({folder.file("a.txt", "abc")}, 256);
  EXPECT_EQ(message_of(folder, [&] { data.head(1.0); }),
            "2: data: a fraction of 1 cannot be held back for validation, expected at least 0 and below 1");
  EXPECT_EQ(
      message_of(folder, [&] { data.tail(-0.5); }),
      "2: data: a fraction of -0.5 cannot be held back for validation, expected at least 0 and below 1");
}

std::vector<int64_t> epoch(const Sampler& sampler, int64_t number) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < sampler.windows(); ++i)
    order.push_back(sampler.window(number * sampler.windows() + i));
  return order;
}

TEST(Sampler, CutsWindowsThatOverlapByOneToken) {
  const TemporaryFolder folder;
  EXPECT_EQ(Sampler(counting(folder, 10), 3, 1).windows(), 3);
  EXPECT_EQ(Sampler(counting(folder, 9), 3, 1).windows(), 2);
  EXPECT_EQ(Sampler(counting(folder, 4), 3, 1).windows(), 1);
}

TEST(Sampler, LabelsAreTheTokensOneFurther) {
  const TemporaryFolder folder;
  const Sampler sampler(counting(folder, 100), 7, 3);
  for (int64_t index = 0; index < 40; ++index) {
    std::vector<int64_t> tokens(7), labels(7), expected(7);
    sampler.sample(index, tokens, labels);
    std::iota(expected.begin(), expected.end(), 7 * sampler.window(index));
    EXPECT_EQ(tokens, expected);
    std::iota(expected.begin(), expected.end(), 7 * sampler.window(index) + 1);
    EXPECT_EQ(labels, expected);
  }
}

TEST(Sampler, ReadsEveryWindowOnceAnEpoch) {
  const TemporaryFolder folder;
  for (int64_t n = 1; n <= 70; ++n) {
    const Sampler sampler(counting(folder, n + 1), 1, 5);
    for (int64_t number : {0, 1, 1000}) {
      std::vector<int64_t> order = epoch(sampler, number), all(static_cast<size_t>(n));
      std::sort(order.begin(), order.end());
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(order, all) << n;
    }
  }
}

TEST(Sampler, ShufflesByEpochAndSeed) {
  const TemporaryFolder folder;
  const TokenData data = counting(folder, 1001);
  const Sampler sampler(data, 1, 5);
  std::vector<int64_t> sorted(1000);
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_NE(epoch(sampler, 0), sorted);
  EXPECT_NE(epoch(sampler, 0), epoch(sampler, 1));
  EXPECT_NE(epoch(sampler, 0), epoch(Sampler(data, 1, 6), 0));
  EXPECT_EQ(epoch(sampler, 1), epoch(Sampler(data, 1, 5), 1));
}

// The position of window 0 is close to uniform: 4,000 epochs of 8 windows, 500 per position; six deviations
// of about 21.
TEST(Sampler, PutsAWindowAnywhere) {
  const TemporaryFolder folder;
  const Sampler sampler(counting(folder, 9), 1, 17);
  std::vector<int> counts(8);
  for (int64_t number = 0; number < 4000; ++number) {
    const std::vector<int64_t> order = epoch(sampler, number);
    ++at(counts, std::find(order.begin(), order.end(), 0) - order.begin());
  }
  EXPECT_THAT(counts, testing::Each(testing::AllOf(testing::Ge(500 - 126), testing::Le(500 + 126))));
}

TEST(Sampler, RefusesTooFewTokens) {
  const TemporaryFolder folder;
  const TokenData data = counting(folder, 8);
  EXPECT_EQ(message_of(folder, [&] { Sampler(data, 8, 1); }),
            "2: data: has 8 tokens, expected at least the 9 of a sample (use more text or a shorter seq)");
  EXPECT_EQ(Sampler(data, 7, 1).windows(), 1);
  EXPECT_EQ(message_of(folder, [&] { Sampler(data.tail(0.01), 8, 1); }),
            "2: data: has 0 tokens, expected at least the 9 of a sample (use more text or a shorter seq)");
}

TEST(TextSamples, SayHowMuchOfItsDocumentATokenSees) {
  using backends::host::seen_in_documents;
  EXPECT_THAT(seen_in_documents(std::vector<int64_t>{5, 9, 7, 9, 9, 1, 2}, 9),
              ElementsAre(1, 2, 1, 2, 1, 1, 2));
  EXPECT_THAT(seen_in_documents(std::vector<int64_t>{5, 9, 7}, 3), ElementsAre(1, 2, 3));
  const TemporaryFolder folder;
  const backends::host::TextSamples samples(
      TokenData::open({folder.file("a.bin", raw<uint16_t>({5, 9, 7, 8, 9, 1, 2}))}, 10), 6, 1, 9);
  std::vector<int64_t> seen(4);
  const std::vector<sbp::Range> part{{1, 5}};
  EXPECT_EQ(samples.read("seen", 0, part, false, reinterpret_cast<std::byte*>(seen.data())), 32);
  EXPECT_THAT(seen, ElementsAre(2, 1, 2, 3));
}

}  // namespace
}  // namespace boxcar::tests
