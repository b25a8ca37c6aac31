#include "actors/training/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backends/host/encoded_images.h"
#include "backends/host/images.h"
#include "backends/host/objectives.h"
#include "backends/host/records.h"
#include "sbp/error.h"

namespace boxcar::training {
namespace {

namespace host = backends::host;

bool is_random(const TrainRun& run) { return run.data == std::vector<std::string>{"random"}; }

// Checks that the whole text and, if some is held out, both parts have at least a sequence.
void check_lengths(const host::TokenData& all, bool validates, int64_t held_out, int64_t seq,
                   const KeyName& name) {
  const host::Sampler long_enough(all, seq, 0);
  if (!validates) return;
  const auto check = [&](const char* does, int64_t tokens, const char* larger) {
    if (tokens <= seq)
      throw Error::input(
          name("run.validation_fraction"),
          fmt::format("{} {} of {} tokens, expected at least the {} of a sample (use a {} one, more text or "
                      "a shorter seq)",
                      does, tokens, all.size(), seq + 1, larger));
  };
  check("holds back", held_out, "larger");
  check("leaves", all.size() - held_out, "smaller");
}

// A model's way of reading text.
struct Reading {
  int64_t special, window;  // tokens that text must not have; the seq of a Sampler
  std::function<std::unique_ptr<host::Samples>(const host::TokenData&, int64_t seed)> samples;
};

// Throws Error (bad input) where a model's key, which is `value`, is less than its samples need.
void need(int64_t value, int64_t least, const std::string& where, const std::string& why) {
  if (value < least)
    throw Error::input(where, fmt::format("is {}; {}, expected {} or more", value, why, least));
}

// The token that ends a document; -1: none does.
int64_t document_end(const TrainRun& run, const ir::models::Transformer& model, const KeyName& name) {
  if (model.document_length == 0) return -1;
  if (run.document_end >= model.vocab)
    throw Error::input(name("run.document_end"),
                       fmt::format("is {}, expected below vocab {}", run.document_end, model.vocab));
  return run.document_end >= 0 ? run.document_end : model.vocab - 1;
}

Reading reading_of(const TrainRun& run, const ir::models::Transformer& model, int64_t end,
                   const KeyName& name) {
  const int64_t seq = model.seq;
  if (run.spans) {
    const host::SpanSizes sizes{seq, model.decoder_seq, model.vocab};
    need(sizes.decoder_seq, 5, name("model.decoder_seq"),
         "a span has three tokens and a mark, and one more mark ends all");
    need(seq, 2 * sizes.spans(), name("model.seq"), fmt::format("{} spans are missing in it", sizes.spans()));
    need(sizes.vocab, sizes.special() + 1, name("model.vocab"),
         fmt::format("its last {} tokens mark spans", sizes.special()));
    return {sizes.special(), sizes.text(), [sizes](const auto& part, int64_t seed) {
              return std::make_unique<host::SpanSamples>(part, sizes, seed);
            }};
  }
  if (model.masked > 0) {
    const host::MaskedSizes sizes{seq, model.masked, model.vocab};
    need(sizes.vocab, sizes.special + 1, name("model.vocab"),
         "[CLS], [SEP] and [MASK] are its last three tokens");
    need(seq, 4, name("model.seq"), "[CLS] and [SEP] are three of its tokens");
    if (sizes.masked > sizes.text())
      throw Error::input(
          name("model.masked"),
          fmt::format("is {}, but three tokens of seq {} are [CLS] and [SEP]; expected {} or fewer",
                      sizes.masked, seq, sizes.text()));
    return {sizes.special, sizes.text(), [sizes](const auto& part, int64_t seed) {
              return std::make_unique<host::MaskedSamples>(part, sizes, seed);
            }};
  }
  if (const int64_t decoder_seq = model.decoder_seq; decoder_seq > 0)
    return {0, host::ContinuationSamples::window(seq, decoder_seq),
            [seq, decoder_seq](const auto& part, int64_t seed) {
              return std::make_unique<host::ContinuationSamples>(part, seq, decoder_seq, seed);
            }};
  return {0, seq, [seq, end](const auto& part, int64_t seed) {
            return std::make_unique<host::TextSamples>(part, seq, seed, end);
          }};
}

Data text(const TrainRun& run, const ir::models::Transformer& model, const KeyName& name) {
  const int64_t end = document_end(run, model, name);
  const Reading reading = reading_of(run, model, end, name);
  const auto all = is_random(run) ? host::TokenData::random(model.vocab - reading.special, run.seed)
                                  : host::TokenData::open(run.data, model.vocab, reading.special);
  const bool validates = run.validate_every > 0;
  const host::TokenData held_out = all.tail(validates ? run.validation_fraction : 0),
                        training = all.head(validates ? run.validation_fraction : 0);
  check_lengths(all, validates, held_out.size(), reading.window, name);
  if (end >= 0 && !is_random(run)) {
    const std::span<const uint16_t> tokens = training.tokens();
    if (std::ranges::find(tokens, end) == tokens.end())
      throw Error::input(
          name("run.document_end"),
          fmt::format("is {}, which the data does not have (give the token that ends its documents)", end));
  }
  Data data{reading.samples(training, run.seed), all.identity(), training.identity()};
  if (run.spans) data.training += ", with missing spans";  // counts as another run
  if (end >= 0) data.training += fmt::format(", documents end with {}", end);
  if (validates)
    data.held_out = {reading.samples(held_out, 0), host::Sampler(held_out, reading.window, 0).windows()};
  return data;
}

// make(part, is_training): the samples of a part of the images.
template <class Images, class Make>
Data split(const TrainRun& run, const Images& all, const KeyName& name, Make make) {
  if (run.validate_every == 0) return {make(all, true), all.identity(), all.identity()};
  const auto [held_out, training] = all.split(run.validation_fraction);
  if (held_out.size() == 0 || training.size() == 0)
    throw Error::input(name("run.validation_fraction"),
                       fmt::format("holds back {} of {} images, expected at least one on each side",
                                   held_out.size(), all.size()));
  return {make(training, true), all.identity(), training.identity(),
          HeldOut{make(held_out, false), held_out.size()}};
}

Data images(const TrainRun& run, const ir::models::ConvNet& net, const KeyName& name) {
  const auto seed = [&run](bool is_training) { return is_training ? run.seed : 0; };
  if (!has_encoded_images(run))
    return split(run,
                 is_random(run) ? host::ImageData::random(net.image, net.classes, run.seed)
                                : host::ImageData::open(run.data, net.image, net.classes),
                 name, [&](const host::ImageData& part, bool is_training) {
                   return std::make_unique<host::ImageSamples>(part, seed(is_training));
                 });
  Data data =
      split(run, host::EncodedImages::open(run.data, net.classes), name,
            [&](const host::EncodedImages& part, bool is_training) {
              const bool draws = is_training && run.augment;
              return std::make_unique<host::EncodedSamples>(
                  part, net.image, seed(is_training), draws ? host::Crops::random : host::Crops::middle);
            });
  if (!run.augment) data.training += ", not augmented";  // counts as another run
  data.encoded = static_cast<const host::EncodedSamples*>(data.samples.get());
  return data;
}

Data records(const TrainRun& run, const ir::models::GraphModel& graph, const KeyName& name) {
  if (run.data.size() != 1)
    throw Error::input(name("run.data"), "of a graph is one file of safetensors, or random");
  const std::vector<ir::models::GraphInput> inputs = ir::models::inputs_of(graph);
  const auto all = is_random(run) ? host::RecordData::random(inputs, run.seed)
                                  : host::RecordData::open(run.data[0], inputs);
  return {std::make_unique<host::RecordSamples>(all, run.seed), all.identity(), all.identity()};
}

}  // namespace

bool has_encoded_images(const TrainRun& run) {
  return std::any_of(run.data.begin(), run.data.end(), host::EncodedImages::holds);
}

Data open_data(const TrainRun& run, const ir::models::Model& model, const KeyName& name) {
  if (const ir::models::ConvNet* net = model.conv_net()) return images(run, *net, name);
  if (const ir::models::GraphModel* graph = model.graph()) return records(run, *graph, name);
  return text(run, transformer_of(model), name);
}

}  // namespace boxcar::training
