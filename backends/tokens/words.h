// A cache of the tokens of words that recur in a text.
//
//   Words words;
//   for (...) words.of(word, [&](std::vector<int32_t>& tokens) { ... });   // calls only for a new word
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace boxcar::backends::tokens {

class Words {
 public:
  // Stays valid until the next call.
  template <class Make>
  const std::vector<int32_t>& of(std::string_view word, Make make) {
    if (tokens_.size() >= most) tokens_.clear();
    const auto [known, added] = tokens_.try_emplace(std::string(word));
    if (added) make(known->second);
    return known->second;
  }

 private:
  static constexpr size_t most = size_t{1} << 20;
  std::unordered_map<std::string, std::vector<int32_t>> tokens_;
};

}  // namespace boxcar::backends::tokens
