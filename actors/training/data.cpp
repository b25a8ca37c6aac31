#include "actors/training/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backends/host/encoded_images.h"
#include "backends/host/images.h"
#include "backends/host/records.h"
#include "sbp/error.h"

namespace boxcar::training {
namespace {

namespace host = backends::host;

bool is_random(const TrainRun& run) { return run.data == std::vector<std::string>{"random"}; }

// Both parts of the text, or all of it where nothing is held out, are a sequence or more.
void check_lengths(const host::TokenData& all, int64_t held_out, int64_t seq, const KeyName& name) {
  const host::Sampler long_enough(all, seq, 0);
  if (held_out == 0) return;
  const auto check = [&](const char* does, int64_t tokens, const char* larger) {
    if (tokens <= seq)
      throw Error::input(
          name("run.validation_fraction"),
          fmt::format("{} {} of {} tokens, expected at least seq + 1 = {} (use a {} one, more text or "
                      "a shorter seq)",
                      does, tokens, all.size(), seq + 1, larger));
  };
  check("holds back", held_out, "larger");
  check("leaves", all.size() - held_out, "smaller");
}

Data text(const TrainRun& run, const ir::models::Transformer& model, const KeyName& name) {
  const auto all = is_random(run) ? host::TokenData::random(model.vocab, run.seed)
                                  : host::TokenData::open(run.data, model.vocab);
  const bool validates = run.validate_every > 0;
  const host::TokenData held_out = all.tail(validates ? run.validation_fraction : 0),
                        training = all.head(validates ? run.validation_fraction : 0);
  check_lengths(all, validates ? held_out.size() : 0, model.seq, name);
  Data data{std::make_unique<host::TextSamples>(training, model.seq, run.seed), all.identity(),
            training.identity()};
  if (validates)
    data.held_out = {std::make_unique<host::TextSamples>(held_out, model.seq, 0),
                     host::Sampler(held_out, model.seq, 0).windows()};
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
  if (!run.augment) data.training += ", not augmented";  // another run
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
