#include "backends/host/objectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "backends/random.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

enum class Draw : int64_t { places, replacements, tokens, pairs, partners, kept, missing };

// A whole number below `limit`: number `i` of what a sample draws for one purpose.
int64_t draw(int64_t seed, int64_t index, Draw purpose, int64_t i, int64_t limit) {
  const RandomKey key = random_key(seed, index, static_cast<int64_t>(purpose));
  return static_cast<int64_t>(mix(key.value ^ static_cast<uint64_t>(i)) % static_cast<uint64_t>(limit));
}

int64_t write(std::span<const int64_t> values, const sbp::Range& range, std::byte* out) {
  const auto part = values.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(range.size()));
  std::memcpy(out, part.data(), part.size_bytes());
  return static_cast<int64_t>(part.size_bytes());
}

// The tokens of a window and the one behind them.
std::vector<int64_t> read_window(const Sampler& sampler, int64_t window, int64_t seq) {
  std::vector<int64_t> tokens(static_cast<size_t>(seq)), labels(tokens.size());
  sampler.read(window, tokens, labels);
  tokens.push_back(labels.back());
  return tokens;
}

// `count` of these places, ascending; all choices are as likely.
std::vector<int64_t> choose(std::vector<int64_t> places, int64_t count, int64_t seed, int64_t index,
                            Draw purpose) {
  for (int64_t i = 0; i < count; ++i)
    std::swap(at(places, i), at(places, i + draw(seed, index, purpose, i, std::ssize(places) - i)));
  places.resize(static_cast<size_t>(count));
  std::sort(places.begin(), places.end());
  return places;
}

// The ends of `parts` parts of `count` tokens, at least one in each.
std::vector<int64_t> cut(int64_t count, int64_t parts, int64_t seed, int64_t index, Draw purpose) {
  std::vector<int64_t> ends(static_cast<size_t>(count - 1));
  std::iota(ends.begin(), ends.end(), 1);
  ends = choose(std::move(ends), parts - 1, seed, index, purpose);
  ends.push_back(count);
  return ends;
}

}  // namespace

MaskedSamples::MaskedSamples(TokenData data, MaskedSizes sizes, int64_t seed)
    : sampler_(std::move(data), sizes.text(), seed),
      sizes_(sizes),
      seed_(seed),
      first_(sizes.text() - sizes.text() / 2) {}

std::vector<int64_t> MaskedSamples::pair(int64_t index, bool& follows) const {
  const int64_t window = sampler_.window(index), windows = sampler_.windows();
  follows = windows == 1 || draw(seed_, index, Draw::pairs, 0, 2) == 0;
  const int64_t partner =
      follows ? window : (window + 1 + draw(seed_, index, Draw::partners, 0, windows - 1)) % windows;
  const auto first = read_window(sampler_, window, sizes_.text()),
             second = read_window(sampler_, partner, sizes_.text());
  std::vector<int64_t> tokens{sizes_.cls()};
  tokens.insert(tokens.end(), first.begin(), first.begin() + first_);
  tokens.push_back(sizes_.sep());
  tokens.insert(tokens.end(), second.begin() + first_, second.begin() + sizes_.text());
  tokens.push_back(sizes_.sep());
  return tokens;
}

std::vector<int64_t> MaskedSamples::predicted(int64_t index) const {
  std::vector<int64_t> places(static_cast<size_t>(sizes_.text()));
  std::iota(places.begin(), places.begin() + first_, 1);         // behind [CLS]
  std::iota(places.begin() + first_, places.end(), first_ + 2);  // behind [SEP]
  return choose(std::move(places), sizes_.masked, seed_, index, Draw::places);
}

MaskedSamples::Sample MaskedSamples::sample(int64_t index) const {
  bool follows = false;
  std::vector<int64_t> tokens = pair(index, follows);
  const std::vector<int64_t> places = predicted(index);
  Sample sample;
  sample.next = {follows ? 0 : 1};
  std::vector<bool> is_predicted(tokens.size());
  for (size_t i = 0; i < places.size(); ++i) {
    int64_t& token = at(tokens, places[i]);
    sample.labels.push_back(token);
    is_predicted[static_cast<size_t>(places[i])] = true;
    const int64_t tenth = draw(seed_, index, Draw::replacements, static_cast<int64_t>(i), 10);
    if (tenth < 8) token = sizes_.mask();
    if (tenth == 8) token = draw(seed_, index, Draw::tokens, static_cast<int64_t>(i), sizes_.text_vocab());
  }
  sample.positions = {0};
  sample.positions.insert(sample.positions.end(), places.begin(), places.end());
  for (int64_t place = 1; place < sizes_.seq; ++place)
    if (!is_predicted[static_cast<size_t>(place)]) sample.positions.push_back(place);
  for (const int64_t place : sample.positions) {
    sample.tokens.push_back(at(tokens, place));
    sample.segments.push_back(place > first_ + 1 ? 1 : 0);
  }
  return sample;
}

int64_t MaskedSamples::read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges, bool,
                            std::byte* out) const {
  const Sample made = sample(index);
  const std::pair<std::string_view, const std::vector<int64_t>&> inputs[] = {{"tokens", made.tokens},
                                                                             {"segments", made.segments},
                                                                             {"positions", made.positions},
                                                                             {"labels", made.labels},
                                                                             {"next", made.next}};
  for (const auto& [name, values] : inputs)
    if (name == input) return write(values, ranges[0], out);
  throw Error::fault("%" + std::string(input), "is no input of masked text");
}

int64_t ContinuationSamples::read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges,
                                  bool, std::byte* out) const {
  const std::vector<int64_t> text = read_window(sampler_, sampler_.window(index), window(seq_, decoder_seq_));
  const std::span<const int64_t> all(text);
  if (input == "tokens") return write(all.first(static_cast<size_t>(seq_)), ranges[0], out);
  // The decoder's first token is the encoder's last.
  const auto from = static_cast<size_t>(input == "decoder_tokens" ? seq_ - 1 : seq_);
  return write(all.subspan(from, static_cast<size_t>(decoder_seq_)), ranges[0], out);
}

SpanSamples::SpanSamples(TokenData data, SpanSizes sizes, int64_t seed)
    : sampler_(std::move(data), sizes.text(), seed), sizes_(sizes), seed_(seed) {}

SpanSamples::Sample SpanSamples::sample(int64_t index) const {
  const std::vector<int64_t> text = read_window(sampler_, sampler_.window(index), sizes_.text());
  const int64_t spans = sizes_.spans();
  const std::vector<int64_t> kept = cut(sizes_.kept(), spans, seed_, index, Draw::kept),
                             missing = cut(sizes_.missing(), spans, seed_, index, Draw::missing);
  Sample sample;
  auto next = text.begin();
  const auto take = [&](std::vector<int64_t>& to, const std::vector<int64_t>& ends, int64_t part) {
    const int64_t count = at(ends, part) - (part > 0 ? at(ends, part - 1) : 0);
    to.insert(to.end(), next, next + count);
    next += count;
  };
  for (int64_t span = 0; span < spans; ++span) {
    take(sample.tokens, kept, span);
    sample.tokens.push_back(sizes_.mark(span));
    sample.labels.push_back(sizes_.mark(span));
    take(sample.labels, missing, span);
  }
  sample.labels.push_back(sizes_.mark(spans));
  return sample;
}

int64_t SpanSamples::read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges, bool,
                          std::byte* out) const {
  Sample made = sample(index);
  if (input == "tokens") return write(made.tokens, ranges[0], out);
  if (input == "labels") return write(made.labels, ranges[0], out);
  made.labels.pop_back();
  made.labels.insert(made.labels.begin(), 0);
  return write(made.labels, ranges[0], out);
}

}  // namespace boxcar::backends::host
