#include "backends/tokens/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/host/files.h"
#include "backends/tokens/byte_pairs.h"
#include "backends/tokens/pieces.h"
#include "backends/tokens/words.h"
#include "sbp/error.h"

namespace boxcar::backends::tokens {
namespace {

using Json = nlohmann::json;
using Merges = std::vector<std::pair<std::string, std::string>>;

// GPT-2's (github.com/openai/gpt-2, src/encoder.py), which is a byte-level splitter's default.
constexpr const char* gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* other_file = "of Llama 2 and T5, give the .model file of SentencePiece";

// A file's description of how text becomes tokens.
struct Described {
  BytePairs::Vocabulary vocabulary;
  Merges merges;
  std::map<std::string, int32_t, std::less<>> special;  // by name, as text
  std::string pattern = gpt2_pattern;
  bool whole_words = false;  // a piece that is a token stays one, whatever the merges say
  bool ascii = false;        // other text would be normalised first
};

class BytePairTokenizer : public Tokenizer {
 public:
  BytePairTokenizer(const std::string& path, Described described)
      : pairs_(std::move(described.vocabulary), described.merges),
        pieces_(path, described.pattern),
        special_(std::move(described.special)),
        whole_words_(described.whole_words),
        ascii_(described.ascii) {
    for (const auto& [bytes, token] : pairs_.vocabulary()) vocab_ = std::max<int64_t>(vocab_, token + 1);
    for (const auto& [name, token] : special_) vocab_ = std::max<int64_t>(vocab_, token + 1);
  }

  int64_t vocab() const override { return vocab_; }

  std::optional<int32_t> find(std::string_view name) const override {
    const auto found = special_.find(name);
    return found == special_.end() ? std::nullopt : std::optional(found->second);
  }

  void encode(std::string_view text, std::vector<int32_t>& tokens) const override {
    if (ascii_) check_ascii(text);
    Words words;
    pieces_.each(text, [&](std::string_view piece) {
      const auto& made = words.of(piece, [&](auto& to) { encode_piece(piece, to); });
      tokens.insert(tokens.end(), made.begin(), made.end());
    });
  }

 private:
  void encode_piece(std::string_view piece, std::vector<int32_t>& tokens) const {
    const auto& vocabulary = pairs_.vocabulary();
    if (const auto whole = vocabulary.find(std::string(piece)); whole_words_ && whole != vocabulary.end())
      tokens.push_back(whole->second);
    else
      pairs_.encode(piece, tokens);
  }

  static void check_ascii(std::string_view text) {
    const auto* const found =
        std::find_if(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
    if (found != text.end())
      throw Error::input(
          "", fmt::format("has a character beyond ASCII at byte {}, which this tokenizer normalises "
                          "first (NFC); that is not there",
                          found - text.begin()));
  }

  BytePairs pairs_;
  Pieces pieces_;
  std::map<std::string, int32_t, std::less<>> special_;
  bool whole_words_, ascii_;
  int64_t vocab_ = 0;
};

Json read_json(const std::string& path) {
  try {
    Json json = Json::parse(host::read_text(path));
    if (json.is_object()) return json;
  } catch (const Json::exception&) {
  }
  throw Error::input(path, "is no JSON object");
}

int32_t token_of(const std::string& name, const Json& number) {
  if (!number.is_number_integer() || number.get<int64_t>() < 0 || number.get<int64_t>() >= INT32_MAX)
    throw Error::input(fmt::format("token \"{}\"", name), "has no number of its own");
  return number.get<int32_t>();
}

void read_vocabulary(const Json& json, Described& described) {
  for (const auto& [name, token] : json.items())
    described.vocabulary.emplace(bytes_of_token(name), token_of(name, token));
}

void add_merge(std::string_view line, Merges& merges) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || line.find(' ', space + 1) != std::string_view::npos)
    throw Error::input(fmt::format("merge {}", merges.size() + 1),
                       "expected two tokens with a space between them");
  merges.emplace_back(bytes_of_token(line.substr(0, space)), bytes_of_token(line.substr(space + 1)));
}

// One on each line, after a line "#version: 0.2".
void read_merges(std::string_view text, Merges& merges) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with("#version")) add_merge(line, merges);
    begin = end + 1;
  }
}

// How text is split: by the byte level's own pattern, or by one in front of it.
void read_splitter(const Json& splitter, Described& described) {
  const std::string type = splitter.value("type", "");
  if (type == "Sequence") {
    const Json& parts = splitter.at("pretokenizers");
    const bool known = parts.size() == 2 && parts[0].value("type", "") == "Split" &&
                       parts[0].value("behavior", "") == "Isolated" && !parts[0].value("invert", false) &&
                       parts[0].at("pattern").contains("Regex") &&
                       parts[1].value("type", "") == "ByteLevel" && !parts[1].value("use_regex", true) &&
                       !parts[1].value("add_prefix_space", false);
    if (!known) throw Error::input("pre_tokenizer", "is no split by a pattern with bytes behind it");
    described.pattern = parts[0].at("pattern").at("Regex").get<std::string>();
  } else if (type != "ByteLevel" || !splitter.value("use_regex", true)) {
    throw Error::input("pre_tokenizer", fmt::format("is {}, expected ByteLevel ({})",
                                                    type.empty() ? "none" : type, other_file));
  } else if (splitter.value("add_prefix_space", true)) {
    throw Error::input("pre_tokenizer", "adds a space in front of a text, which is not there");
  }
}

Described described_by(const Json& json) {
  Described described;
  const Json& model = json.at("model");
  if (model.value("type", "BPE") != "BPE")
    throw Error::input(
        "model", fmt::format("is {}, expected BPE ({})", model.at("type").get<std::string>(), other_file));
  const bool split = json.contains("pre_tokenizer") && json.at("pre_tokenizer").is_object();
  read_splitter(split ? json.at("pre_tokenizer") : Json::object(), described);
  read_vocabulary(model.at("vocab"), described);
  for (const Json& merge : model.at("merges")) {
    if (merge.is_string())
      add_merge(merge.get<std::string>(), described.merges);
    else
      described.merges.emplace_back(bytes_of_token(merge.at(0).get<std::string>()),
                                    bytes_of_token(merge.at(1).get<std::string>()));
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix", "dropout"})
    if (model.contains(key) && !model.at(key).is_null() && model.at(key) != "")
      throw Error::input(fmt::format("model: {}", key), "is set, expected none");
  described.whole_words = model.value("ignore_merges", false);
  if (json.contains("added_tokens"))
    for (const Json& added : json.at("added_tokens"))
      described.special.emplace(added.at("content").get<std::string>(),
                                token_of(added.at("content").get<std::string>(), added.at("id")));
  if (json.contains("normalizer") && !json.at("normalizer").is_null()) {
    if (json.at("normalizer").value("type", "") != "NFC")
      throw Error::input("normalizer", "is none that is there (NFC)");
    described.ascii = true;
  }
  return described;
}

// vocab.json and merges.txt: every token may be asked for by its name.
Described described_by(const Json& vocabulary, const std::string& merges) {
  Described described;
  read_vocabulary(vocabulary, described);
  read_merges(merges, described.merges);
  for (const auto& [name, token] : vocabulary.items()) described.special.emplace(name, token.get<int32_t>());
  return described;
}

std::string merges_beside(const std::string& path, const Json& json) {
  const auto is_number = [](const Json& value) { return value.is_number(); };
  if (json.empty() || !std::all_of(json.begin(), json.end(), is_number))
    throw Error::input(path, "is no tokenizer.json, and no vocabulary of tokens with their numbers");
  const auto ends = [&path](std::string_view name) { return path.ends_with(name); };
  const std::string folder = path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  return ends("encoder.json") ? folder + "vocab.bpe" : folder + "merges.txt";
}

}  // namespace

std::unique_ptr<Tokenizer> read_byte_pairs(const std::string& path) {
  const Json json = read_json(path);
  const bool alone = json.contains("model") && json.at("model").is_object();
  const std::string merges = alone ? "" : host::read_text(merges_beside(path, json));
  try {
    return std::make_unique<BytePairTokenizer>(path, alone ? described_by(json) : described_by(json, merges));
  } catch (const Json::exception&) {
    throw Error::input(path, "is no tokenizer.json: its model, splitter or added tokens are not as expected");
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(path)) throw;
    throw Error(error.code(), path, error.what());
  }
}

}  // namespace boxcar::backends::tokens
