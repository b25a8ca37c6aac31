#include "backends/tokens/byte_pairs.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <queue>
#include <tuple>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::tokens {
namespace {

uint64_t key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// A piece while it is merged: tokens by the place of their first byte, each with its neighbours.
struct Link {
  int32_t token = -1;  // -1: it was merged into the one before
  int64_t before = -1, after = -1;
};

bool prints(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

// By character: the byte that it stands for, -1 if it stands for none.
std::array<int, 512> make_bytes() {
  std::array<int, 512> bytes{};
  bytes.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) at(bytes, prints(byte) ? byte : next++) = byte;
  return bytes;
}

}  // namespace

BytePairs::BytePairs(Vocabulary vocabulary, const std::vector<std::pair<std::string, std::string>>& merges)
    : vocabulary_(std::move(vocabulary)) {
  const auto token = [this](const std::string& bytes) {
    const auto found = vocabulary_.find(bytes);
    return found == vocabulary_.end() ? -1 : found->second;
  };
  for (const auto& [left, right] : merges) {
    const int32_t a = token(left), b = token(right), result = token(left + right);
    if (a < 0 || b < 0 || result < 0)
      throw Error::input(fmt::format("merge {}", merges_.size() + 1),
                         "joins or makes a token that the vocabulary does not have");
    merges_.try_emplace(key_of(a, b), Merge{static_cast<int32_t>(merges_.size()), result});
  }
}

const BytePairs::Merge* BytePairs::find(int32_t left, int32_t right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairs::encode(std::string_view piece, std::vector<int32_t>& tokens) const {
  const auto size = static_cast<int64_t>(piece.size());
  std::vector<Link> links(piece.size());
  for (int64_t i = 0; i < size; ++i) {
    const auto found = vocabulary_.find(std::string(1, at(piece, i)));
    if (found == vocabulary_.end())
      throw Error::input(fmt::format("byte 0x{:02x}", static_cast<unsigned char>(at(piece, i))),
                         "is no token of the vocabulary");
    at(links, i) = {found->second, i - 1, i + 1 < size ? i + 1 : -1};
  }
  // By rank, then place; and the tokens that were there, since either may have been merged meanwhile.
  using Candidate = std::tuple<int32_t, int64_t, int32_t, int32_t>;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto consider = [&](int64_t left) {
    if (left < 0 || at(links, left).after < 0) return;
    const int32_t a = at(links, left).token, b = at(links, at(links, left).after).token;
    if (const Merge* merge = find(a, b)) candidates.emplace(merge->rank, left, a, b);
  };
  for (int64_t i = 0; i < size; ++i) consider(i);
  while (!candidates.empty()) {
    const auto [rank, left, a, b] = candidates.top();
    candidates.pop();
    Link& link = at(links, left);
    if (link.token != a || link.after < 0 || at(links, link.after).token != b) continue;
    Link& gone = at(links, link.after);
    link.token = find(a, b)->result;
    link.after = std::exchange(gone.after, -1);
    gone.token = -1;
    if (link.after >= 0) at(links, link.after).before = left;
    consider(left);
    consider(link.before);
  }
  for (int64_t i = 0; i >= 0 && i < size; i = at(links, i).after) tokens.push_back(at(links, i).token);
}

std::string bytes_of_token(std::string_view token) {
  static const std::array<int, 512> bytes = make_bytes();
  std::string result;
  for (size_t i = 0; i < token.size(); ++i) {
    const auto lead = static_cast<unsigned char>(token[i]);
    int character = lead;
    if (lead >= 0x80 && i + 1 < token.size())  // two bytes of UTF-8, for up to 0x7ff
      character = (lead & 0x1f) << 6 | (static_cast<unsigned char>(token[++i]) & 0x3f);
    const bool known = lead < 0xe0 && character < 512 && at(bytes, character) >= 0;
    if (!known)
      throw Error::input(fmt::format("token \"{}\"", token), "is not written as GPT-2 writes tokens");
    result += static_cast<char>(at(bytes, character));
  }
  return result;
}

}  // namespace boxcar::backends::tokens
