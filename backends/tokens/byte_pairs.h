// Byte-pair encoding over bytes (Sennrich et al. 2016, arXiv:1508.07909; over bytes: Radford et al. 2019,
// GPT-2): a text is split into pieces by a pattern; in each piece, the pair of neighbours that was merged
// first in training becomes one token, until none is left.
//
//   BytePairs pairs({{"a", 0}, {"b", 1}, {"ab", 2}}, {{"a", "b"}});
//   pairs.encode("abb", tokens);                       // 2 1
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace boxcar::backends::tokens {

class BytePairs {
 public:
  using Vocabulary = std::unordered_map<std::string, int32_t>;  // by the bytes that a token stands for
  // Merges from the first to the last. Throws Error (bad input) naming a merge whose parts or result are no
  // tokens.
  BytePairs(Vocabulary vocabulary, const std::vector<std::pair<std::string, std::string>>& merges);

  // Adds the tokens of a piece, in time of n log n for n bytes. Throws Error (bad input) for a byte that is
  // no token.
  void encode(std::string_view piece, std::vector<int32_t>& tokens) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  struct Merge {
    int32_t rank = 0, result = 0;
  };
  const Merge* find(int32_t left, int32_t right) const;

  Vocabulary vocabulary_;
  std::unordered_map<uint64_t, Merge> merges_;  // by both tokens
};

// The bytes that a token of GPT-2's vocabularies stands for. They are written as characters that print: the
// n-th byte that does not print is the character 256 + n. Throws Error (bad input) for another character.
std::string bytes_of_token(std::string_view token);

}  // namespace boxcar::backends::tokens
