// Tokenizers: byte pairs compared with the plain algorithm, files of all kinds, and refusals.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

#include "backends/tokens/byte_pairs.h"
#include "backends/tokens/normalizer.h"
#include "backends/tokens/tokenizer.h"
#include "temporary.h"

namespace boxcar::tests {
namespace {

using backends::tokens::BytePairs;
using backends::tokens::bytes_of_token;
using backends::tokens::read_tokenizer;
using testing::ElementsAre;
using Merges = std::vector<std::pair<std::string, std::string>>;

// Merges the pair of the lowest rank, the leftmost first, over and over.
std::vector<int32_t> merged_plainly(const BytePairs::Vocabulary& vocabulary, const Merges& merges,
                                    const std::string& text) {
  std::vector<std::string> parts;
  for (const char c : text) parts.emplace_back(1, c);
  for (const auto& [left, right] : merges)
    for (size_t i = 0; i + 1 < parts.size(); ++i)
      if (parts[i] == left && parts[i + 1] == right) {
        parts[i] += parts[i + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
  std::vector<int32_t> tokens;
  for (const std::string& part : parts) tokens.push_back(vocabulary.at(part));
  return tokens;
}

// Merges over three letters, each of two tokens that are there by then, in an order that training could have.
struct Drawn {
  BytePairs::Vocabulary vocabulary{{"a", 0}, {"b", 1}, {"c", 2}};
  Merges merges;

  explicit Drawn(std::mt19937& random) {
    std::vector<std::string> tokens{"a", "b", "c"};
    for (int i = 0; i < 20; ++i) {
      const std::string left = tokens[random() % tokens.size()], right = tokens[random() % tokens.size()];
      if (left.size() + right.size() > 6 || vocabulary.contains(left + right)) continue;
      vocabulary.emplace(left + right, static_cast<int32_t>(vocabulary.size()));
      merges.emplace_back(left, right);
      tokens.push_back(left + right);
    }
  }
};

TEST(BytePairs, MergeAsThePlainAlgorithmDoes) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const Drawn drawn(random);
    const BytePairs pairs(drawn.vocabulary, drawn.merges);
    std::string text;
    for (uint32_t i = random() % 40; i > 0; --i) text += static_cast<char>('a' + random() % 3);
    std::vector<int32_t> tokens;
    pairs.encode(text, tokens);
    ASSERT_EQ(tokens, merged_plainly(drawn.vocabulary, drawn.merges, text)) << trial << ": " << text;
  }
}

// A word of a megabyte, which an algorithm of n squared would not end.
TEST(BytePairs, TakeLongPieces) {
  const BytePairs pairs({{"a", 0}, {"aa", 1}, {"aaaa", 2}}, {{"a", "a"}, {"aa", "aa"}});
  std::vector<int32_t> tokens;
  pairs.encode(std::string(1'000'003, 'a'), tokens);
  EXPECT_EQ(tokens.size(), 250'002U);
  EXPECT_EQ(tokens[0], 2);
  EXPECT_THAT(std::vector<int32_t>(tokens.end() - 2, tokens.end()), ElementsAre(1, 0));
}

TEST(BytePairs, RefuseWhatTheVocabularyHasNot) {
  const TemporaryFolder folder;
  EXPECT_EQ(message_of(folder,
                       [] {
                         BytePairs({{"a", 0}}, {{"a", "a"}});
                       }),
            "2: merge 1: joins or makes a token that the vocabulary does not have");
  EXPECT_EQ(message_of(folder,
                       [] {
                         std::vector<int32_t> tokens;
                         BytePairs({{"a", 0}}, {}).encode("ab", tokens);
                       }),
            "2: byte 0x62: is no token of the vocabulary");
}

// GPT-2 writes a space as U+0120, a line's end as U+010A.
TEST(BytePairs, ReadGpt2sCharacters) {
  EXPECT_EQ(bytes_of_token("a"), "a");
  EXPECT_EQ(bytes_of_token("\xc4\xa0the"), " the");
  EXPECT_EQ(bytes_of_token("\xc4\x8a"), "\n");
  EXPECT_EQ(bytes_of_token("\xc3\xa9"), "\xe9");
  const TemporaryFolder folder;
  EXPECT_EQ(message_of(folder, [] { bytes_of_token("\xe2\x96\x81the"); }),
            "2: token \"\xe2\x96\x81the\": is not written as GPT-2 writes tokens");
}

// All bytes as tokens 0 to 255 in GPT-2's characters, then " t", "he", " the" and the end of a text.
std::string character(int byte) {
  const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  int code = byte;
  if (!prints) {
    code = 256;
    for (int b = 0; b < byte; ++b)
      code += (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae ? 0 : 1;
  }
  if (code < 0x80)
    return code == '"' || code == '\\' ? std::string("\\") + static_cast<char>(code)
                                       : std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}
std::string vocabulary() {
  std::string json = "{";
  for (int byte = 0; byte < 256; ++byte) json += fmt::format("\"{}\": {}, ", character(byte), byte);
  return json + "\"\xc4\xa0t\": 256, \"he\": 257, \"\xc4\xa0the\": 258, \"<|endoftext|>\": 259}";
}
const std::string merges = "#version: 0.2\n\xc4\xa0 t\nh e\n\xc4\xa0t he\n";

std::vector<int32_t> encoded(const std::string& path, const std::string& text) {
  std::vector<int32_t> tokens;
  read_tokenizer(path)->encode(text, tokens);
  return tokens;
}

#ifdef BOXCAR_HAS_PCRE2
TEST(Tokenizer, ReadsVocabularyAndMerges) {
  const TemporaryFolder folder;
  const std::string path = folder.file("vocab.json", vocabulary());
  folder.file("merges.txt", merges);
  EXPECT_EQ(read_tokenizer(path)->vocab(), 260);
  EXPECT_EQ(read_tokenizer(path)->find("<|endoftext|>"), 259);
  EXPECT_EQ(read_tokenizer(path)->find("none"), std::nullopt);
  // A space goes with the word behind it; of two, the first stays alone; a line's end before a word too.
  EXPECT_THAT(encoded(path, "the the  the\nthe"), ElementsAre('t', 257, 258, ' ', 258, '\n', 't', 257));
  EXPECT_THAT(encoded(path, "it's 12\xc3\xa9"), ElementsAre('i', 't', '\'', 's', ' ', '1', '2', 0xc3, 0xa9));
  EXPECT_THAT(encoded(path, ""), ElementsAre());
  // OpenAI's names of the same files.
  const std::string encoder = folder.file("encoder.json", vocabulary());
  folder.file("vocab.bpe", merges);
  EXPECT_THAT(encoded(encoder, " the"), ElementsAre(258));
}

std::string tokenizer_json(const std::string& splitter, const std::string& more = "") {
  std::string lists = "[\"\xc4\xa0 t\", [\"h\", \"e\"], \"\xc4\xa0t he\"]";
  return R"({"added_tokens": [{"id": 300, "content": "<|end|>"}], "pre_tokenizer": )" + splitter +
         R"(, "model": {"type": "BPE", "vocab": )" + vocabulary() + R"(, "merges": )" + lists + more + "}}";
}
const std::string bytes = R"({"type": "ByteLevel", "add_prefix_space": false})";
const std::string by_letter =
    R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\p{L}"}, "behavior": "Isolated"},
        {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";

TEST(Tokenizer, ReadsHuggingFacesFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("tokenizer.json", tokenizer_json(bytes));
  EXPECT_EQ(read_tokenizer(path)->vocab(), 301);
  EXPECT_EQ(read_tokenizer(path)->find("<|end|>"), 300);
  EXPECT_THAT(encoded(path, "the the"), ElementsAre('t', 257, 258));
  // By a pattern of its own; what it does not match is a piece too.
  EXPECT_THAT(encoded(folder.file("tokenizer.json", tokenizer_json(by_letter)), "12 the"),
              ElementsAre('1', '2', ' ', 't', 'h', 'e'));
  // A piece that is a token stays one, though no merges lead to it.
  const std::string whole = tokenizer_json(bytes, R"(, "ignore_merges": true)");
  EXPECT_THAT(encoded(folder.file("tokenizer.json", whole), "<|endoftext|> he"),
              testing::Not(testing::Contains(259)));
  EXPECT_THAT(encoded(folder.file("tokenizer.json", whole), " the"), ElementsAre(258));
}

TEST(Tokenizer, RefusesFilesThatAreNone) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const std::string& content) {
    const std::string path = folder.file(name, content);
    return message_of(folder, [&] { read_tokenizer(path); });
  };
  EXPECT_EQ(refused("a.txt", ""),
            "2: a.txt: is no tokenizer that is known by its name, tokenizer.json, vocab.json with "
            "merges.txt beside it, or a .model of SentencePiece");
  EXPECT_EQ(refused("tokenizer.json", "[]"), "2: tokenizer.json: is no JSON object");
  EXPECT_EQ(refused("vocab.json", "{\"a\": 0}"), "2: merges.txt: cannot be read: No such file or directory");
  EXPECT_EQ(refused("config.json", R"({"tokenizer_class": "GPT2Tokenizer"})"),
            "2: config.json: is no tokenizer.json, and no vocabulary of tokens with their numbers");
  EXPECT_EQ(refused("tokenizer.json", tokenizer_json(bytes, R"(, "end_of_word_suffix": "</w>")")),
            "2: tokenizer.json: model: end_of_word_suffix: is set, expected none");
  std::string id = tokenizer_json(bytes);
  EXPECT_EQ(refused("tokenizer.json", id.replace(id.find("300"), 3, "-30")),
            "2: tokenizer.json: token \"<|end|>\": has no number of its own");
  EXPECT_EQ(refused("tokenizer.json", R"({"model": {"type": "Unigram"}})"),
            "2: tokenizer.json: model: is Unigram, expected BPE (of Llama 2 and T5, give the .model file of "
            "SentencePiece)");
  EXPECT_EQ(refused("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {}, "merges": []}})"),
            "2: tokenizer.json: pre_tokenizer: is none, expected ByteLevel (of Llama 2 and T5, give the "
            ".model file of "
            "SentencePiece)");
  EXPECT_EQ(refused("tokenizer.json", tokenizer_json(R"({"type": "ByteLevel", "add_prefix_space": true})")),
            "2: tokenizer.json: pre_tokenizer: adds a space in front of a text, which is not there");
  EXPECT_EQ(refused("tokenizer.json", tokenizer_json(R"({"type": "Sequence", "pretokenizers": []})")),
            "2: tokenizer.json: pre_tokenizer: is no split by a pattern with bytes behind it");
  EXPECT_THAT(refused("tokenizer.json", R"({"model": {"type": "BPE"}, "pre_tokenizer": )" + bytes + "}"),
              testing::StartsWith("2: tokenizer.json: is no tokenizer.json: "));
  folder.file("merges.txt", "a b c\n");
  EXPECT_EQ(refused("vocab.json", vocabulary()),
            "2: vocab.json: merge 1: expected two tokens with a space between them");
  folder.file("merges.txt", "");
  EXPECT_EQ(refused("vocab.json", R"({"a": -1})"), "2: vocab.json: token \"a\": has no number of its own");
  std::string pattern = tokenizer_json(by_letter);
  pattern.replace(pattern.find("\\\\p{L}"), 6, "(");
  EXPECT_THAT(
      refused("tokenizer.json", pattern),
      testing::StartsWith("2: tokenizer.json: its pattern cannot be read: missing closing parenthesis"));
}

TEST(Tokenizer, RefusesTextThatItCannotSay) {
  const TemporaryFolder folder;
  const std::string path = folder.file("tokenizer.json", tokenizer_json(bytes));
  EXPECT_EQ(message_of(folder, [&] { encoded(path, "ab\xff"); }), "2: is no UTF-8 at byte 2");
  std::string normalised = tokenizer_json(bytes);
  normalised.insert(1, R"("normalizer": {"type": "NFC"}, )");
  const std::string nfc = folder.file("tokenizer.json", normalised);
  EXPECT_THAT(encoded(nfc, " the"), ElementsAre(258));
  EXPECT_EQ(message_of(folder, [&] { encoded(nfc, "a\xc3\xa9"); }),
            "2: has a character beyond ASCII at byte 1, which this tokenizer normalises first (NFC); that is "
            "not there");
}
#endif

// A field of protobuf: its number, and bytes behind their length.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string flag(int number, int value) { return {static_cast<char>(number << 3), static_cast<char>(value)}; }
// A piece of a model with its score and type (2: unknown, 3: control, 1: all others).
std::string piece(const std::string& text, float score, int type) {
  std::string content = field(1, text) + static_cast<char>(2 << 3 | 5);
  content.append(reinterpret_cast<const char*>(&score), sizeof score);
  return field(1, content + flag(3, type));
}

TEST(Tokenizer, ReadsModelsOfSentencePiece) {
  const TemporaryFolder folder;
  const std::string space = "\xe2\x96\x81";
  const std::string model = piece("<unk>", 0, 2) + piece("</s>", 0, 3) + piece(space, -3, 1) +
                            piece("t", -4, 1) + piece("h", -4, 1) + piece("e", -4, 1) +
                            piece(space + "the", -1, 1) + field(3, field(1, "identity") + flag(3, 1));
  const std::string path = folder.file("spiece.model", model);
  EXPECT_EQ(read_tokenizer(path)->vocab(), 7);
  EXPECT_EQ(read_tokenizer(path)->find("</s>"), 1);
  EXPECT_EQ(read_tokenizer(path)->find("none"), std::nullopt);
  EXPECT_THAT(encoded(path, "the the"), ElementsAre(6, 6));
  EXPECT_THAT(encoded(path, "het"), ElementsAre(2, 4, 5, 3));
  // Neighbours that are unknown are one; white space at an end goes.
  EXPECT_THAT(encoded(path, " xyz t "), ElementsAre(2, 0, 2, 3));
}

// Forms that are too long, halves of pairs and what is beyond Unicode are no characters: bytes of their own.
TEST(Tokenizer, KnowsCharactersByTheirBytes) {
  using backends::tokens::Normalizer;
  for (const char* whole : {"a", "\xc3\xa9", "\xe2\x96\x81", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(Normalizer::first_character(std::string(whole) + "b"), std::string_view(whole).size()) << whole;
  for (const char* none :
       {"\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x96", "\xff"})
    EXPECT_EQ(Normalizer::first_character(none), 1U) << none;
}

// Models and texts of the library's own making (sentence_piece/make).
TEST(Tokenizer, MakesTheTokensThatSentencePieceMakes) {
  const std::string folder = BOXCAR_SOURCE_DIR "/tests/host/sentence_piece/";
  const nlohmann::json all = nlohmann::json::parse(contents(folder + "texts.json"));
  for (const auto& [model, rows] : all.items()) {
    EXPECT_GT(rows.size(), 50U);
    for (const auto& row : rows)
      EXPECT_EQ(encoded(folder + model + ".model", row[0]), row[1].get<std::vector<int32_t>>())
          << model << ": " << row[0];
  }
}

TEST(Tokenizer, RefusesModelsThatAreNone) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& content) {
    const std::string path = folder.file("a.model", content);
    return message_of(folder, [&] { read_tokenizer(path); });
  };
  const std::string unknown = piece("<unk>", 0, 2), letter = piece("t", -4, 1);
  EXPECT_EQ(refused(unknown + letter), "");
  for (const std::string& none :
       {std::string(), std::string("text"), unknown + "\x0a", piece("", 0, 1), piece("t", 0, 7)})
    EXPECT_EQ(refused(none), "2: a.model: is no model of SentencePiece");
  EXPECT_EQ(refused(letter), "2: a.model: has no piece for what is unknown");
  EXPECT_EQ(refused(unknown + piece("t", 0, 5)),
            "2: a.model: has a piece that is not used, \"t\", expected none");
  EXPECT_EQ(refused(unknown + field(2, flag(3, 3))),
            "2: a.model: is of words or characters, or marks spaces behind words, expected unigram or BPE");
  EXPECT_EQ(refused(unknown + field(2, std::string("\x98\x02\x01"))),
            "2: a.model: has no piece <0x00>, though bytes stand for what is unknown");
  EXPECT_EQ(refused(unknown + field(3, field(2, "table"))),
            "2: a.model: has a table of replacements that cannot be read");
}

}  // namespace
}  // namespace boxcar::tests
