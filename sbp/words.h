// Words for an enum's values in files, flags and messages, listed beside the enum in its order:
//
//   enum class Recompute : uint8_t { none, selective, full };
//   inline std::vector<std::string> words_of(Recompute) { return {"none", "selective", "full"}; }
//
//   word(Recompute::full)                "full"
//   parse_word<Recompute>("selective")   Recompute::selective; nothing of "some"
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace boxcar {

template <typename Enum>
std::string word(Enum value) {
  return words_of(value).at(static_cast<size_t>(value));
}

template <typename Enum>
std::vector<std::string> words(const std::set<Enum>& values) {
  std::vector<std::string> all;
  for (const Enum value : values) all.push_back(word(value));
  return all;
}

template <typename Enum>
std::optional<Enum> parse_word(std::string_view text) {
  const std::vector<std::string> words = words_of(Enum());
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) return std::nullopt;
  return static_cast<Enum>(found - words.begin());
}

}  // namespace boxcar
