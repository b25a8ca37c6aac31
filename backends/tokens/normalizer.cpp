#include "backends/tokens/normalizer.h"

#include <algorithm>
#include <cstring>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::tokens {
namespace {

constexpr std::string_view no_character = "\xef\xbf\xbd";

// Fields of a unit of the double array (github.com/s-yata/darts-clone, include/darts.h).
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7fffffff; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000ff; }
uint32_t offset_of(uint32_t unit) { return unit >> 10 << ((unit & 512) >> 6); }

}  // namespace

Normalizer::Normalizer(const std::string& path, const PieceModel& model) : model_(model) {
  for (const Piece& piece : model.pieces)
    if (piece.type == Piece::user_defined) defined_.push_back(piece.text);
  std::stable_sort(defined_.begin(), defined_.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  if (model.rules.empty()) return;
  uint32_t size = 0;  // of the double array, in front of it
  if (model.rules.size() > sizeof size) std::memcpy(&size, model.rules.data(), sizeof size);
  if (size == 0 || size % sizeof(uint32_t) != 0 || size > model.rules.size() - sizeof size ||
      model.rules.back() != '\0')
    throw Error::input(path, "has a table of replacements that cannot be read");
  trie_.resize(size / sizeof(uint32_t));
  std::memcpy(trie_.data(), model.rules.data() + sizeof size, size);
  replacements_ = std::string_view(model.rules).substr(sizeof size + size);
}

size_t Normalizer::first_character(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t size = byte(0) < 0x80         ? 1
                      : byte(0) >> 5 == 0x06 ? 2
                      : byte(0) >> 4 == 0x0e ? 3
                      : byte(0) >> 3 == 0x1e ? 4
                                             : 0;
  if (size <= 1 || size > text.size()) return 1;
  uint32_t code = byte(0) & (0x7fU >> size);
  for (size_t i = 1; i < size; ++i) {
    if (byte(i) >> 6 != 2) return 1;
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};  // by size: shorter forms are not allowed
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < least[size] || code > 0x10ffff || surrogate ? 1 : size;
}

size_t Normalizer::defined(std::string_view text) const {
  for (const std::string& piece : defined_)
    if (text.starts_with(piece)) return piece.size();
  return 0;
}

std::pair<std::string_view, size_t> Normalizer::prefix(std::string_view text) const {
  if (const size_t whole = defined(text); whole > 0) return {text.substr(0, whole), whole};
  size_t known = 0;
  uint32_t at_replacement = 0;
  for (size_t node = 0, i = 0; !trie_.empty() && i < text.size(); ++i) {
    const auto label = static_cast<unsigned char>(text[i]);
    node ^= offset_of(at(trie_, node)) ^ label;
    if (node >= trie_.size() || label_of(trie_[node]) != label) break;
    const size_t leaf = node ^ offset_of(trie_[node]);
    if (!has_leaf(trie_[node]) || leaf >= trie_.size()) continue;
    known = i + 1;
    at_replacement = value_of(trie_[leaf]);
  }
  if (known > 0 && at_replacement < replacements_.size())
    return {replacements_.data() + at_replacement, known};
  const size_t size = first_character(text);
  const bool whole = size > 1 || static_cast<unsigned char>(text[0]) < 0x80;
  return {whole ? text.substr(0, size) : no_character, size};
}

std::string Normalizer::normalized(std::string_view text) const {
  std::string result;
  const std::string_view space = model_.marks_spaces ? space_mark : " ";
  bool after_space = model_.removes_spaces, begun = false;
  while (!text.empty()) {
    auto [with, size] = prefix(text);
    text.remove_prefix(size);
    if (!begun && model_.removes_spaces && with == " ") continue;
    if (!begun && model_.adds_space) result += space;
    begun = true;
    while (after_space && with.starts_with(' ')) with.remove_prefix(1);
    for (const char c : with) c == ' ' ? result += space : result += c;
    if (!with.empty()) after_space = model_.removes_spaces && with.ends_with(' ');
  }
  while (model_.removes_spaces && result.ends_with(space)) result.erase(result.size() - space.size());
  return result;
}

}  // namespace boxcar::backends::tokens
