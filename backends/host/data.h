// Training text as tokens: byte-level text files and .bin files of uint16 tokens, as nanoGPT and llm.c write
// them (llm.c's with its header of 256 int32: magic 20240520, version 1, number of tokens).
//
//   TokenData data = TokenData::open({"text.txt"}, vocab);
//   Sampler sampler(data, seq, seed);
//   sampler.sample(17, tokens, labels);      // the 18th sequence of the training order
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace boxcar::backends::host {

class TokenData {
 public:
  // Files are read in the order given, one after the other. Throws Error (bad input), naming the file, where
  // one is missing, unreadable, empty, of odd length or has a token >= vocab (naming the first and where it
  // is).
  static TokenData open(const std::vector<std::string>& paths, int64_t vocab);
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  std::span<const uint16_t> tokens() const { return tokens_; }
  // The last `fraction` of the tokens, for validation, and the rest.
  TokenData head(double fraction) const;
  TokenData tail(double fraction) const;

 private:
  std::vector<uint16_t> tokens_;
};

// The order of training sequences: windows of seq + 1 tokens, shuffled anew each epoch by the seed alone, so
// that any position can be asked for and a resumed run sees what an uninterrupted one would.
class Sampler {
 public:
  // Throws Error (bad input) where the data has no seq + 1 tokens, saying how many it has.
  Sampler(const TokenData& data, int64_t seq, int64_t seed);
  int64_t windows() const { return windows_; }  // per epoch
  // Sequence number `index` since training began: labels are the tokens one further.
  void sample(int64_t index, std::span<int64_t> tokens, std::span<int64_t> labels) const;

 private:
  const TokenData& data_;
  int64_t seq_, seed_, windows_;
};

}  // namespace boxcar::backends::host
