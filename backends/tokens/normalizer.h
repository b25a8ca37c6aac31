// SentencePiece's normalisation of text (src/normalizer.cc there): a table replaces the longest text that it
// knows, spaces are removed or marked.
//
//   const Normalizer normalizer(model);                // of T5
//   normalizer.normalized(" The  \xef\xac\x81rst\n")   // "▁The▁first"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/tokens/piece_model.h"

namespace boxcar::backends::tokens {

// A space where spaces are marked.
inline constexpr std::string_view space_mark = "\xe2\x96\x81";

class Normalizer {
 public:
  // Throws Error (bad input) naming `path` if the model's table is invalid.
  Normalizer(const std::string& path, const PieceModel& model);
  // Pieces that users defined stay as they are.
  std::string normalized(std::string_view text) const;
  // The bytes of the longest such piece that `text` begins with; 0 if there is none.
  size_t defined(std::string_view text) const;

  // The bytes of the character at the beginning of a text that is not empty; 1 if it is not UTF-8.
  static size_t first_character(std::string_view text);

 private:
  // The replacement of the beginning of `text`, and the bytes that it replaces.
  std::pair<std::string_view, size_t> prefix(std::string_view text) const;

  const PieceModel& model_;
  std::vector<uint32_t> trie_;        // a double array, as Darts-clone writes it
  std::string_view replacements_;     // each up to a zero
  std::vector<std::string> defined_;  // by users, longest first
};

}  // namespace boxcar::backends::tokens
