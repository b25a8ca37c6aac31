// Words for an enum's values in files, flags and messages, listed beside the enum in its order:
//
//   enum class Recompute : uint8_t { none, selective, full };
//   inline std::vector<std::string> words_of(Recompute) { return {"none", "selective", "full"}; }
//
//   word(Recompute::full)                "full"
//   parse_word<Recompute>("selective")   Recompute::selective; nothing for "some"
//
// A table has a row for each value, with the value as its `kind`:
//
//   find_row(policies, Recompute::full)    the row with .kind = Recompute::full
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <stdexcept>
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

// Throws std::logic_error if a value has no row.
template <typename Row, size_t count, typename Enum>
const Row& find_row(const Row (&rows)[count], Enum kind) {
  for (const Row& row : rows)
    if (row.kind == kind) return row;
  throw std::logic_error("no row for " + word(kind));
}

}  // namespace boxcar
