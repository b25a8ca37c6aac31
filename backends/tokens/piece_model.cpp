#include "backends/tokens/piece_model.h"

#include <cstring>
#include <functional>
#include <optional>
#include <string_view>

#include "sbp/error.h"

namespace boxcar::backends::tokens {
namespace {

struct Malformed {};

// A field of a message of protobuf: a number, or bytes.
struct Field {
  uint64_t number = 0, value = 0;
  std::string_view bytes;
};

class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}

  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const uint64_t tag = varint();
    Field field{tag >> 3, 0, {}};
    switch (tag & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.bytes = take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        field.bytes = take(4);
        break;
      default:
        throw Malformed();
    }
    return field;
  }

 private:
  std::string_view take(uint64_t size) {
    if (size > rest_.size()) throw Malformed();
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    throw Malformed();
  }

  std::string_view rest_;
};

void each(std::string_view bytes, const std::function<void(const Field&)>& visit) {
  Message message(bytes);
  while (const auto field = message.next()) visit(*field);
}

Piece read_piece(std::string_view bytes) {
  Piece piece;
  each(bytes, [&piece](const Field& field) {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2 && field.bytes.size() == sizeof piece.score)
      std::memcpy(&piece.score, field.bytes.data(), sizeof piece.score);
    if (field.number == 3 && (field.value < Piece::normal || field.value > Piece::byte)) throw Malformed();
    if (field.number == 3) piece.type = static_cast<Piece::Type>(field.value);
  });
  if (piece.text.empty()) throw Malformed();
  return piece;
}

}  // namespace

PieceModel read_piece_model(const std::string& path, const std::string& bytes) {
  PieceModel model;
  uint64_t kind = PieceModel::unigram;
  bool suffix = false;
  try {
    each(bytes, [&](const Field& part) {
      if (part.number == 1) model.pieces.push_back(read_piece(part.bytes));
      if (part.number == 2)
        each(part.bytes, [&](const Field& field) {
          if (field.number == 3) kind = field.value;
          if (field.number == 24) suffix = field.value != 0;
          if (field.number == 35) model.byte_fallback = field.value != 0;
        });
      if (part.number == 3)
        each(part.bytes, [&](const Field& field) {
          if (field.number == 2) model.rules = field.bytes;
          if (field.number == 3) model.adds_space = field.value != 0;
          if (field.number == 4) model.removes_spaces = field.value != 0;
          if (field.number == 5) model.marks_spaces = field.value != 0;
        });
    });
  } catch (const Malformed&) {
    model.pieces.clear();
  }
  if (model.pieces.empty()) throw Error::input(path, "is no model of SentencePiece");
  if ((kind != PieceModel::unigram && kind != PieceModel::byte_pairs) || suffix)
    throw Error::input(path,
                       "is of words or characters, or marks spaces behind words, expected unigram or BPE");
  model.kind = static_cast<PieceModel::Kind>(kind);
  return model;
}

}  // namespace boxcar::backends::tokens
