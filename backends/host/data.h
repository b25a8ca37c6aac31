// Training text as tokens: byte-level text files and .bin files of uint16 tokens, as nanoGPT and llm.c write
// them (llm.c's with its header of 256 int32: magic 20240520, version 1, number of tokens).
//
//   TokenData data = TokenData::open({"text.txt"}, vocab);
//   Sampler sampler(data.head(0.1), seq, seed);      // all but the last tenth
//   sampler.sample(17, tokens, labels);              // the 18th sequence of the training order
//
// Images: images.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sbp/sbp.h"

namespace boxcar::backends::host {

// A value that shares its tokens with its copies, heads and tails; they are in memory once, two bytes each.
class TokenData {
 public:
  // Files are read in the order given, one after the other: .bin as uint16, little-endian, all others as
  // bytes. Throws Error (bad input), naming the file, if one is missing, unreadable, empty, of odd length or
  // has a token >= vocab (naming the first and its position), or one of its last `special` tokens.
  static TokenData open(const std::vector<std::string>& paths, int64_t vocab, int64_t special = 0);
  // A million tokens at random, below `vocab`.
  static TokenData random(int64_t vocab, int64_t seed);
  int64_t size() const { return static_cast<int64_t>(part_.size()); }
  std::span<const uint16_t> tokens() const { return part_; }
  // "35149 tokens of fingerprint 91a3...": the same for the same tokens, whatever their files are called.
  std::string identity() const;
  // tail: the last `fraction` of the tokens, rounded down, for validation; head: the rest. Both throw Error
  // (bad input) unless 0 <= fraction < 1.
  TokenData head(double fraction) const;
  TokenData tail(double fraction) const;

 private:
  explicit TokenData(std::vector<uint16_t> tokens);
  size_t tail_size(double fraction) const;

  std::shared_ptr<const std::vector<uint16_t>> all_;
  std::span<const uint16_t> part_;
};

// Which of `count` samples is number `index` since training began. Each comes once per epoch; the seed alone
// shuffles each epoch anew.
int64_t shuffled_place(int64_t index, int64_t count, int64_t seed);

// A model's training inputs, by position in the training order. Threads may share one.
class Samples {
 public:
  virtual ~Samples() = default;
  // Writes the part in `ranges` (one for each axis behind that of samples) of this input of sample number
  // `index` since training began to `out`, row-major; returns its bytes. Numbers are float32, or float64 if
  // the input is `wide`.
  virtual int64_t read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges, bool wide,
                       std::byte* out) const = 0;
};

// The order of training sequences: windows of seq + 1 tokens at a stride of seq, shuffled anew each epoch by
// the seed alone, so that any position can be asked for and a resumed run sees the same as an uninterrupted
// one. The order is computed, not stored. Threads may share one.
class Sampler {
 public:
  // Throws Error (bad input) if the data has no seq + 1 tokens, saying how many it has.
  Sampler(TokenData data, int64_t seq, int64_t seed);
  int64_t windows() const { return windows_; }  // per epoch
  // The window that sequence number `index` since training began reads, 0 <= window < windows().
  int64_t window(int64_t index) const;
  // That sequence, seq tokens; labels are the tokens one position further.
  void sample(int64_t index, std::span<int64_t> tokens, std::span<int64_t> labels) const {
    read(window(index), tokens, labels);
  }
  // The same for a window.
  void read(int64_t window, std::span<int64_t> tokens, std::span<int64_t> labels) const;

 private:
  TokenData data_;
  int64_t seq_, seed_, windows_;
};

// How many tokens of its own document each token sees, up to itself, where `end` is the last token of a
// document: "a b | c d" with end b gives 1 2 1 2.
std::vector<int64_t> seen_in_documents(std::span<const int64_t> tokens, int64_t end);

// Inputs "tokens" and "labels", int64[seq], and if documents end with the token `document_end`, "seen"
// (ir/models/transformer.h).
class TextSamples : public Samples {
 public:
  // Throws as Sampler does.
  TextSamples(TokenData data, int64_t seq, int64_t seed, int64_t document_end = -1)
      : sampler_(std::move(data), seq, seed), seq_(seq), document_end_(document_end) {}
  int64_t read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges, bool wide,
               std::byte* out) const override;

 private:
  Sampler sampler_;
  int64_t seq_, document_end_;
};

}  // namespace boxcar::backends::host
