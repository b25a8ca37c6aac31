// Text for models that predict something other than each next token: BERT's masked tokens, and the
// continuation or the missing spans that T5 writes. Samples depend on their index and the seed alone, so
// every plan reads the same ones.
//
//   MaskedSamples samples(data, {.seq = 128, .masked = 20, .vocab = 30522}, seed);
//   ContinuationSamples samples(data, 512, 128, seed);
//   SpanSamples samples(data, {.seq = 512, .decoder_seq = 114, .vocab = 32128}, seed);
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "backends/host/data.h"

namespace boxcar::backends::host {

// Sizes of BERT's samples: [CLS] first [SEP] second [SEP] in `seq` tokens, of which `masked` are predicted.
struct MaskedSizes {
  static constexpr int64_t special = 3;
  int64_t seq, masked, vocab;

  // The vocabulary's last three tokens, which text must not have. Bytes of UTF-8 never have them.
  int64_t cls() const { return vocab - 3; }
  int64_t sep() const { return vocab - 2; }
  int64_t mask() const { return vocab - 1; }
  int64_t text_vocab() const { return vocab - special; }
  int64_t text() const { return seq - 3; }  // tokens of text in a sample
};

// As in Devlin et al. 2018 (arXiv:1810.04805), section 3.1: of the predicted tokens, drawn anew for each
// sample, 80 % are masked, 10 % replaced by a random token and 10 % kept. In half of the samples the second
// part follows the first in the text, in the others it is from elsewhere.
class MaskedSamples : public Samples {
 public:
  // Rows as the model reads them (ir/models/transformer.h): [CLS], the predicted tokens, then the others.
  struct Sample {
    std::vector<int64_t> tokens, segments, positions;  // seq each
    std::vector<int64_t> labels;                       // masked
    std::vector<int64_t> next;                         // 0: the second part follows the first, 1: it does not
  };

  // REQUIRES 1 <= masked <= text(). Throws as Sampler does.
  MaskedSamples(TokenData data, MaskedSizes sizes, int64_t seed);
  Sample sample(int64_t index) const;
  int64_t read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges, bool wide,
               std::byte* out) const override;

 private:
  // [CLS] first [SEP] second [SEP], and whether the second part follows.
  std::vector<int64_t> pair(int64_t index, bool& follows) const;
  std::vector<int64_t> predicted(int64_t index) const;  // places in a pair, ascending

  Sampler sampler_;
  MaskedSizes sizes_;
  int64_t seed_, first_;  // first_: tokens of the first part
};

// The encoder reads `seq` tokens, the decoder predicts the `decoder_seq` after them: the prefix language
// model of Raffel et al. 2019 (arXiv:1910.10683), section 3.2.1. Inputs "tokens", "decoder_tokens", "labels".
class ContinuationSamples : public Samples {
 public:
  ContinuationSamples(TokenData data, int64_t seq, int64_t decoder_seq, int64_t seed)
      : sampler_(std::move(data), window(seq, decoder_seq), seed), seq_(seq), decoder_seq_(decoder_seq) {}
  // The seq of a Sampler whose windows a sample reads.
  static int64_t window(int64_t seq, int64_t decoder_seq) { return seq + decoder_seq - 1; }
  int64_t read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges, bool wide,
               std::byte* out) const override;

 private:
  Sampler sampler_;
  int64_t seq_, decoder_seq_;
};

// Sizes of samples with missing spans, of three tokens on average. A mark stands for each in the encoder's
// `seq` tokens; the decoder's `decoder_seq` are each mark with the tokens of its span, and one more mark.
//
//   seq 6, decoder_seq 9, vocab 100:  text     a b c d e f g h i j    2 spans of 6 tokens in all
//                                     encoder  a b 99 f 98 ...
//                                     decoder  99 c d e 98 ... 97
struct SpanSizes {
  int64_t seq, decoder_seq, vocab;

  int64_t spans() const { return (decoder_seq - 1) / 4; }
  int64_t missing() const { return decoder_seq - 1 - spans(); }  // tokens
  int64_t kept() const { return seq - spans(); }
  int64_t text() const { return kept() + missing(); }
  // Marks are the vocabulary's last tokens, the first mark the last; text must not have them.
  int64_t special() const { return spans() + 1; }
  int64_t mark(int64_t span) const { return vocab - 1 - span; }
};

// Span corruption, as in Raffel et al. 2019 (arXiv:1910.10683), section 3.1.4: kept and missing tokens are
// each cut into as many parts, of at least one token, and alternate. Inputs "tokens", "decoder_tokens" (0,
// then the labels but the last), "labels".
class SpanSamples : public Samples {
 public:
  struct Sample {
    std::vector<int64_t> tokens, labels;  // seq, decoder_seq
  };

  // REQUIRES 1 <= spans() <= kept(). Throws as Sampler does.
  SpanSamples(TokenData data, SpanSizes sizes, int64_t seed);
  Sample sample(int64_t index) const;
  int64_t read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges, bool wide,
               std::byte* out) const override;

 private:
  Sampler sampler_;
  SpanSizes sizes_;
  int64_t seed_;
};

}  // namespace boxcar::backends::host
