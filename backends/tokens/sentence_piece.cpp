#include "backends/tokens/sentence_piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "backends/host/files.h"
#include "backends/tokens/normalizer.h"
#include "backends/tokens/piece_model.h"
#include "backends/tokens/words.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::tokens {
namespace {

constexpr float unknown_penalty = 10;  // below the least score; unigram_model.cc
constexpr float defined_margin = 0.1F;

class SentencePiece : public Tokenizer {
 public:
  SentencePiece(const std::string& path, PieceModel model)
      : model_(std::move(model)), normalizer_(path, model_) {
    float least = std::numeric_limits<float>::max();
    for (size_t token = 0; token < model_.pieces.size(); ++token) {
      const Piece& piece = model_.pieces[token];
      const auto number = static_cast<int32_t>(token);
      names_.try_emplace(piece.text, number);
      if (piece.type == Piece::unknown) unknown_ = number;
      if (piece.type == Piece::unused)
        throw Error::input(path,
                           fmt::format("has a piece that is not used, \"{}\", expected none", piece.text));
      if (piece.type == Piece::normal)
        least = std::min(least, piece.score), most_ = std::max(most_, piece.score);
      if (piece.type != Piece::normal && piece.type != Piece::user_defined) continue;
      pieces_.try_emplace(piece.text, number);
      longest_ = std::max(longest_, piece.text.size());
      by_words_ = by_words_ && first_word(piece.text) == piece.text.size();
    }
    if (unknown_ < 0) throw Error::input(path, "has no piece for what is unknown");
    for (int byte = 0; model_.byte_fallback && byte < 256; ++byte)
      if (!find(fmt::format("<0x{:02X}>", byte)))
        throw Error::input(
            path, fmt::format("has no piece <0x{:02X}>, though bytes stand for what is unknown", byte));
    unknown_score_ = least - unknown_penalty;
  }

  int64_t vocab() const override { return std::ssize(model_.pieces); }

  std::optional<int32_t> find(std::string_view name) const override {
    const auto found = names_.find(std::string(name));
    return found == names_.end() ? std::nullopt : std::optional(found->second);
  }

  void encode(std::string_view text, std::vector<int32_t>& tokens) const override {
    const std::string normalized = normalizer_.normalized(text);
    const size_t begun = tokens.size();
    Words words;
    for (std::string_view rest = normalized; !rest.empty();) {
      const size_t size = by_words_ ? first_word(rest) : rest.size();
      const std::string_view word = rest.substr(0, size);
      for (const int32_t token :
           words.of(word, [&](auto& to) { encode_word(word, to); }))  // unknown neighbours become one
        if (token != unknown_ || tokens.size() == begun || tokens.back() != unknown_) tokens.push_back(token);
      rest.remove_prefix(size);
    }
  }

 private:
  using Parts = std::vector<std::string_view>;

  // The size of the first word of a text: marks of spaces, and the text up to the next ones.
  static size_t first_word(std::string_view text) {
    size_t at = 0;
    while (text.substr(at).starts_with(space_mark)) at += space_mark.size();
    return std::min(text.find(space_mark, at), text.size());
  }

  void encode_word(std::string_view text, std::vector<int32_t>& tokens) const {
    for (const std::string_view part : model_.kind == PieceModel::unigram ? likeliest(text) : merged(text)) {
      const auto found = pieces_.find(std::string(part));
      if (found != pieces_.end())
        tokens.push_back(found->second);
      else if (model_.byte_fallback)
        for (const char c : part)
          tokens.push_back(*find(fmt::format("<0x{:02X}>", static_cast<unsigned char>(c))));
      else
        tokens.push_back(unknown_);
    }
  }

  // The parts whose scores add up to the most; characters that are in no piece are parts too.
  Parts likeliest(std::string_view text) const {
    struct End {
      float score = 0;
      int64_t begin = -1;
    };
    std::vector<End> ends(text.size() + 1);  // by byte: the best way there, and where its last part begins
    for (size_t begin = 0; begin < text.size();) {
      const size_t character = Normalizer::first_character(text.substr(begin));
      const auto consider = [&](size_t size, float score) {
        End& end = at(ends, begin + size);
        if (end.begin >= 0 && ends[begin].score + score <= end.score) return;
        end = {ends[begin].score + score, static_cast<int64_t>(begin)};
      };
      bool known = false;
      for (size_t size = 1; size <= std::min(longest_, text.size() - begin); ++size) {
        const auto found = pieces_.find(std::string(text.substr(begin, size)));
        if (found == pieces_.end()) continue;
        const Piece& piece = at(model_.pieces, found->second);
        const bool defined = piece.type == Piece::user_defined;
        consider(size, defined ? static_cast<float>(size) * most_ - defined_margin : piece.score);
        known = known || size == character;
      }
      if (!known) consider(character, unknown_score_);
      begin += character;
    }
    Parts parts;
    for (auto end = static_cast<int64_t>(text.size()); end > 0; end = at(ends, end).begin)
      parts.push_back(text.substr(static_cast<size_t>(at(ends, end).begin),
                                  static_cast<size_t>(end - at(ends, end).begin)));
    std::reverse(parts.begin(), parts.end());
    return parts;
  }

  // Neighbours whose union is the piece of the highest score become one, until none are.
  Parts merged(std::string_view text) const {
    struct Symbol {
      size_t begin = 0, size = 0;  // size 0: it was merged into the one before
      int64_t before = -1, after = -1;
      bool whole = false;  // a user's piece
    };
    std::vector<Symbol> symbols;
    for (size_t begin = 0; begin < text.size(); begin += symbols.back().size) {
      const size_t defined = normalizer_.defined(text.substr(begin));
      const size_t size = defined > 0 ? defined : Normalizer::first_character(text.substr(begin));
      symbols.push_back({begin, size, std::ssize(symbols) - 1, std::ssize(symbols) + 1, defined > 0});
    }
    if (symbols.empty()) return {};
    symbols.back().after = -1;
    using Candidate = std::tuple<float, int64_t, size_t>;  // score, less the place, size of both
    std::priority_queue<Candidate> candidates;
    const auto consider = [&](int64_t left) {
      if (left < 0 || at(symbols, left).after < 0) return;
      const Symbol &a = at(symbols, left), &b = at(symbols, a.after);
      if (a.whole || b.whole || a.size + b.size > longest_) return;
      const auto found = pieces_.find(std::string(text.substr(a.begin, a.size + b.size)));
      if (found != pieces_.end())
        candidates.emplace(at(model_.pieces, found->second).score, -left, a.size + b.size);
    };
    for (int64_t i = 0; i < std::ssize(symbols); ++i) consider(i);
    while (!candidates.empty()) {
      const auto [score, less, size] = candidates.top();
      candidates.pop();
      Symbol& left = at(symbols, -less);
      if (left.size == 0 || left.after < 0 || left.size + at(symbols, left.after).size != size) continue;
      Symbol& right = at(symbols, left.after);
      left.size = size;
      right.size = 0;
      left.after = right.after;
      if (left.after >= 0) at(symbols, left.after).before = -less;
      consider(left.before);
      consider(-less);
    }
    Parts parts;
    for (int64_t i = 0; i >= 0; i = at(symbols, i).after)
      parts.push_back(text.substr(at(symbols, i).begin, at(symbols, i).size));
    return parts;
  }

  PieceModel model_;
  Normalizer normalizer_;
  std::unordered_map<std::string, int32_t> pieces_, names_;  // that text may become; all
  size_t longest_ = 0;                                       // bytes of a piece
  float most_ = 0, unknown_score_ = 0;
  int32_t unknown_ = -1;
  bool by_words_ = true;  // no piece is of two words, so that each may be taken alone
};

}  // namespace

std::unique_ptr<Tokenizer> read_sentence_piece(const std::string& path) {
  return std::make_unique<SentencePiece>(path, read_piece_model(path, host::read_text(path)));
}

}  // namespace boxcar::backends::tokens
