// Text as tokens of a vocabulary that somebody else has trained.
//
//   const auto tokenizer = read_tokenizer("gpt2/tokenizer.json");
//   std::vector<int32_t> tokens;
//   tokenizer->encode("Hello world", tokens);          // 15496 995, by GPT-2's vocabulary
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace boxcar::backends::tokens {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // One more than the largest token that it makes.
  virtual int64_t vocab() const = 0;
  // Adds the tokens of a text to `tokens`. Names of special tokens in it are text like any other. Byte pairs
  // throw Error (bad input) with the byte's place if the text is not UTF-8 or the vocabulary cannot express
  // it; SentencePiece takes U+FFFD for what is not UTF-8.
  virtual void encode(std::string_view text, std::vector<int32_t>& tokens) const = 0;
  // A token by its name, "<|endoftext|>"; nothing if there is none.
  virtual std::optional<int32_t> find(std::string_view name) const = 0;
};

// By the file's name: tokenizer.json of Hugging Face with byte pairs, as of GPT-2, Llama 3 and Qwen;
// vocab.json with merges.txt beside it, or encoder.json with vocab.bpe; SentencePiece's .model, as of Llama 2
// and T5. Throws Error (bad input), naming the file, if it is none of these; Error (cannot run) if this build
// lacks the library that its kind needs.
std::unique_ptr<Tokenizer> read_tokenizer(const std::string& path);

}  // namespace boxcar::backends::tokens
