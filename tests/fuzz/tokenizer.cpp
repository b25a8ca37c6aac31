// Tokenizers: of byte pairs, and of SentencePiece.
#include "backends/tokens/tokenizer.h"

#include "folder.h"
#include "harness.h"

namespace boxcar::fuzz {
namespace {

void read(const std::string& path) {
  const auto tokenizer = backends::tokens::read_tokenizer(path);
  std::vector<int32_t> tokens;
  ends([&] { tokenizer->encode(" the 2nd, that's \xc3\xa9\n\n\xff ab...", tokens); });
  ends([&] { tokenizer->encode("the  boxcar", tokens); });
  for (const int32_t token : tokens)
    if (token < 0 || token >= tokenizer->vocab()) throw Broken("a token beyond the vocabulary");
}

}  // namespace

void fuzz_tokenizer(std::string_view input) {
  for (const char* name : {"tokenizer.json", "a.model"}) {
    const std::string path = put(name, input);
    ends([&] { read(path); });
  }
}

}  // namespace boxcar::fuzz
