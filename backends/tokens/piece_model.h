// A model file of SentencePiece (github.com/google/sentencepiece, src/sentencepiece_model.proto), read
// without its library, whose own protobuf conflicts with another in the same program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace boxcar::backends::tokens {

struct Piece {
  enum Type : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  std::string text;
  float score = 0;
  Type type = normal;
};

struct PieceModel {
  enum Kind : uint8_t { unigram = 1, byte_pairs = 2 };
  std::vector<Piece> pieces;  // by token
  Kind kind = unigram;
  bool byte_fallback = false;  // unknown text becomes tokens of its bytes
  std::string rules;           // the normaliser's table (normalizer.h)
  bool adds_space = true;      // in front of a text
  bool removes_spaces = true;  // at both ends, and all but one between words
  bool marks_spaces = true;    // U+2581 stands for a space
};

// Throws Error (bad input) naming `path` if the bytes are no such model, or one of another kind, of words or
// characters.
PieceModel read_piece_model(const std::string& path, const std::string& bytes);

}  // namespace boxcar::backends::tokens
