// `boxcar tokenize`, and training on its output.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "train.h"

namespace boxcar::tests {
namespace {

const std::string likeliest = BOXCAR_SOURCE_DIR "/tests/host/sentence_piece/likeliest.model";

class Tokenize : public Train {
 protected:
  Output tokenize(const Words& more) const {
    Words words{"tokenize"};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  std::string text(const std::string& name, const std::string& content) const {
    std::ofstream(path(name)) << content;
    return path(name);
  }
  std::string refused(const Words& more) const {
    const Output output = tokenize(more);
    EXPECT_EQ(output.exit_code, 2) << output.out;
    return replace_all(output.err, path(""), "");
  }
};

// Two bytes a token, little-endian, with the end behind each file.
TEST_F(Tokenize, WritesTokensThatTrainReads) {
  const std::string out = path("a.bin");
  const Output output = tokenize({text("a.txt", "boxcar"), text("b.txt", "boxcar boxcar"), "--tokenizer",
                                  likeliest, "--end=</s>", "-o", out});
  ASSERT_EQ(output.exit_code, 0) << output.err;
  std::ifstream file(out, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const size_t tokens = bytes.size() / 2;
  EXPECT_EQ(output.out, fmt::format("{0}: {1} tokens, {2:.2f} bytes of text each\n"
                                    "train on them with --data {0} --vocab 200\n",
                                    out, tokens, 19.0 / static_cast<double>(tokens)));
  EXPECT_EQ(bytes.substr(bytes.size() - 2), std::string("\2\0", 2));
  int ends = 0;
  for (size_t i = 0; i < tokens; ++i) ends += bytes[2 * i] == 2 && bytes[2 * i + 1] == 0 ? 1 : 0;
  EXPECT_EQ(ends, 2);

  ASSERT_EQ(tokenize({BOXCAR_SOURCE_DIR "/README.md", "--tokenizer", likeliest, "-o", out}).exit_code, 0);
  const Output trained = run_program({"train", "--model=gpt", "--layers=1", "--hidden=8", "--heads=1",
                                      "--seq=8", "--vocab=200", "--steps=2", "--json", "--data=" + out});
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_EQ(losses(trained.out).size(), 2U);
}

TEST_F(Tokenize, RefusesWhatItCannotWrite) {
  const std::string a = text("a.txt", "boxcar"), empty = text("empty.txt", ""), out = path("a.bin");
  EXPECT_EQ(refused({a, "--tokenizer", likeliest, "-o", path("a.txt")}),
            "boxcar: --output: \"a.txt\" does not end with .bin, by which train knows tokens\n");
  EXPECT_EQ(refused({a, "--tokenizer", likeliest, "-o", out, "--end=<none>"}),
            fmt::format("boxcar: --end: \"<none>\" is no token of {}\n", likeliest));
  EXPECT_EQ(refused({empty, "--tokenizer", likeliest, "-o", out}),
            "boxcar: empty.txt: is empty, expected text\n");
  EXPECT_EQ(refused({path("none.txt"), "--tokenizer", likeliest, "-o", out}),
            "boxcar: none.txt: cannot be read: No such file or directory\n");
  const std::string own = text("own.bin", "boxcar");
  EXPECT_EQ(refused({own, "--tokenizer", likeliest, "-o", own}),
            "boxcar: --output: own.bin is the same file as TEXT\n");
  std::string vocabulary = "{\"a\": 70000}", none = "#version: 0.2\n";
  text("merges.txt", none);
  EXPECT_EQ(
      refused({a, "--tokenizer", text("vocab.json", vocabulary), "-o", out}),
      "boxcar: vocab.json: has 70001 tokens, expected at most 65536: .bin files keep a token in 16 bits\n");
  EXPECT_EQ(refused({a, "--tokenizer", text("vocab.json", "{\"a\": 0}"), "-o", out}),
            "boxcar: a.txt: byte 0x62: is no token of the vocabulary\n");
}

}  // namespace
}  // namespace boxcar::tests
