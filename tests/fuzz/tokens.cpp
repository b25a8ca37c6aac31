// Files of tokens: .bin, and text.
#include <vector>

#include "backends/host/data.h"
#include "folder.h"
#include "harness.h"

namespace boxcar::fuzz {
namespace {

void read(const std::string& path, int64_t vocab) {
  const backends::host::TokenData data = backends::host::TokenData::open({path}, vocab);
  constexpr size_t seq = 3;
  const backends::host::Sampler sampler(data.head(0.1), seq, 1);
  std::vector<int64_t> tokens(seq), labels(seq);
  for (int64_t i = 0; i < 5; ++i) {
    sampler.sample(i, tokens, labels);
    for (const int64_t token : tokens)
      if (token < 0 || token >= vocab) throw Broken("a token beyond the vocabulary");
  }
}

}  // namespace

void fuzz_tokens(std::string_view input) {
  const std::string binary = put("tokens.bin", input), text = put("tokens.txt", input);
  for (const int64_t vocab : {100, 256, 40000}) {
    ends([&] { read(binary, vocab); });
    ends([&] { read(text, vocab); });
  }
}

}  // namespace boxcar::fuzz
