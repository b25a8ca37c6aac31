#include "backends/host/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "backends/host/files.h"
#include "backends/host/fingerprint.h"
#include "backends/random.h"
#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian, as this machine is");

constexpr int32_t kMagic = 20240520, kVersion = 1;
constexpr int64_t kHeader = 256;  // int32 numbers
constexpr int64_t kHeaderBytes = kHeader * 4;

// Bytes before the tokens: llm.c's header, checked against the size of the file, or none.
int64_t header_bytes(const InputFile& file) {
  if (file.size() < kHeaderBytes) return 0;
  std::array<int32_t, 3> header{};
  file.read(0, std::as_writable_bytes(std::span(header)));
  if (header[0] != kMagic) return 0;
  if (header[1] != kVersion)
    throw Error::input(file.path(),
                       fmt::format("has a header of version {}, expected {}", header[1], kVersion));
  if (file.size() != kHeaderBytes + 2 * static_cast<int64_t>(header[2]))
    throw Error::input(file.path(),
                       fmt::format("has {} bytes after its header, which promises {} tokens of 2",
                                   file.size() - kHeaderBytes, header[2]));
  return kHeaderBytes;
}

void append_tokens(const InputFile& file, std::vector<uint16_t>& tokens) {
  if (file.size() % 2 != 0)
    throw Error::input(file.path(),
                       fmt::format("has {} bytes, expected an even number: two bytes a token", file.size()));
  const int64_t skip = header_bytes(file);
  const size_t begin = tokens.size();
  tokens.resize(begin + static_cast<size_t>((file.size() - skip) / 2));
  file.read(skip, std::as_writable_bytes(std::span(tokens).subspan(begin)));
}

void append_text(const InputFile& file, std::vector<uint16_t>& tokens) {
  tokens.reserve(tokens.size() + static_cast<size_t>(file.size()));
  std::vector<std::byte> chunk(static_cast<size_t>(std::min<int64_t>(file.size(), 1 << 20)));
  for (int64_t at = 0; at < file.size(); at += static_cast<int64_t>(chunk.size())) {
    chunk.resize(std::min(chunk.size(), static_cast<size_t>(file.size() - at)));
    file.read(at, chunk);
    for (std::byte b : chunk) tokens.push_back(std::to_integer<uint16_t>(b));
  }
}

void append(const std::string& path, int64_t vocab, int64_t special, std::vector<uint16_t>& tokens) {
  const InputFile file(path);
  const bool binary = path.ends_with(".bin");
  const auto begin = static_cast<std::ptrdiff_t>(tokens.size());
  binary ? append_tokens(file, tokens) : append_text(file, tokens);
  const auto first = tokens.begin() + begin;
  if (first == tokens.end()) throw Error::input(path, "is empty, expected tokens");
  const auto bad =
      std::find_if(first, tokens.end(), [&](uint16_t token) { return token >= vocab - special; });
  if (bad == tokens.end()) return;
  const std::string limit = special == 0 ? fmt::format("vocab {}", vocab)
                                         : fmt::format("{}, since the last {} of vocab {} are special",
                                                       vocab - special, special, vocab);
  throw Error::input(path, fmt::format("{} {} is {}, expected less than {} (use a larger vocab{})",
                                       binary ? "token" : "byte", bad - first, *bad, limit,
                                       binary ? "" : ", 256 takes any text"));
}

// A permutation of 0 .. n-1 for each key, without a table: a Feistel network of four rounds on the smallest
// even number of bits that holds n, walked along its cycle until the value is below n. The cycles have at
// most 4 n values, so this takes fewer than four turns on average.
int64_t shuffled(int64_t value, int64_t n, uint64_t key) {
  const int half = std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(n - 1)) + 1) / 2);
  const uint64_t mask = (uint64_t{1} << half) - 1;
  auto x = static_cast<uint64_t>(value);
  do {
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < 4; ++round)
      left = std::exchange(right, left ^ (mix(key ^ mix(right << 2 | round)) & mask));
    x = left << half | right;
  } while (x >= static_cast<uint64_t>(n));
  return static_cast<int64_t>(x);
}

}  // namespace

TokenData::TokenData(std::vector<uint16_t> tokens)
    : all_(std::make_shared<const std::vector<uint16_t>>(std::move(tokens))), part_(*all_) {}

TokenData TokenData::open(const std::vector<std::string>& paths, int64_t vocab, int64_t special) {
  if (paths.empty()) throw Error::input("data", "names no file");
  std::vector<uint16_t> tokens;
  for (const std::string& path : paths) append(path, vocab, special, tokens);
  return TokenData(std::move(tokens));
}

TokenData TokenData::random(int64_t vocab, int64_t seed) {
  std::vector<uint16_t> tokens(size_t{1} << 20);
  const auto most = static_cast<uint64_t>(std::min<int64_t>(vocab, 65536));
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<uint16_t>(mix(mix(static_cast<uint64_t>(seed)) ^ i) % most);
  return TokenData(std::move(tokens));
}

size_t TokenData::tail_size(double fraction) const {
  if (!(fraction >= 0 && fraction < 1))
    throw Error::input("data", fmt::format("a fraction of {} cannot be held back for validation, expected at "
                                           "least 0 and below 1",
                                           fraction));
  return static_cast<size_t>(std::floor(fraction * static_cast<double>(part_.size())));
}

std::string TokenData::identity() const {
  return fmt::format("{} tokens of fingerprint {:016x}", part_.size(), fingerprint(part_));
}

TokenData TokenData::head(double fraction) const {
  TokenData head = *this;
  head.part_ = part_.first(part_.size() - tail_size(fraction));
  return head;
}

TokenData TokenData::tail(double fraction) const {
  TokenData tail = *this;
  tail.part_ = part_.last(tail_size(fraction));
  return tail;
}

int64_t shuffled_place(int64_t index, int64_t count, int64_t seed) {
  const uint64_t key = mix(mix(static_cast<uint64_t>(seed)) ^ static_cast<uint64_t>(index / count));
  return shuffled(index % count, count, key);
}

Sampler::Sampler(TokenData data, int64_t seq, int64_t seed)
    : data_(std::move(data)), seq_(seq), seed_(seed), windows_((data_.size() - 1) / seq) {
  if (data_.size() < seq + 1)
    throw Error::input("data",
                       fmt::format("has {} tokens, expected at least the {} of a sample (use more text or a "
                                   "shorter seq)",
                                   data_.size(), seq + 1));
}

int64_t Sampler::window(int64_t index) const { return shuffled_place(index, windows_, seed_); }

void Sampler::read(int64_t window, std::span<int64_t> tokens, std::span<int64_t> labels) const {
  const auto seq = static_cast<size_t>(seq_);
  const auto from = data_.tokens().subspan(static_cast<size_t>(window * seq_), seq + 1);
  std::copy_n(from.begin(), seq, tokens.begin());
  std::copy_n(from.begin() + 1, seq, labels.begin());
}

std::vector<int64_t> seen_in_documents(std::span<const int64_t> tokens, int64_t end) {
  std::vector<int64_t> seen;
  seen.reserve(tokens.size());
  bool ended = true;
  for (const int64_t token : tokens) {
    seen.push_back(ended ? 1 : seen.back() + 1);
    ended = token == end;
  }
  return seen;
}

int64_t TextSamples::read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges, bool,
                          std::byte* out) const {
  std::vector<int64_t> tokens(static_cast<size_t>(seq_)), labels(static_cast<size_t>(seq_));
  sampler_.sample(index, tokens, labels);
  if (input == "labels") tokens = std::move(labels);
  if (input == "seen") tokens = seen_in_documents(tokens, document_end_);
  const int64_t bytes = ranges[0].size() * static_cast<int64_t>(sizeof(int64_t));
  std::memcpy(out, tokens.data() + ranges[0].begin, static_cast<size_t>(bytes));
  return bytes;
}

}  // namespace boxcar::backends::host
