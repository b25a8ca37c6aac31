#include "actors/training/data.h"

#include <fmt/format.h>

#include <vector>

#include "backends/host/images.h"
#include "backends/host/records.h"
#include "sbp/error.h"

namespace boxcar::training {
namespace {

namespace host = backends::host;

// Both parts of the data, or all of it where nothing is held out, are a sequence or more.
void check_lengths(const host::TokenData& all, const std::optional<host::TokenData>& held_out, int64_t seq,
                   const KeyName& name) {
  const host::Sampler long_enough(all, seq, 0);
  if (!held_out) return;
  const auto check = [&](const char* does, int64_t tokens, const char* larger) {
    if (tokens <= seq)
      throw Error::input(
          name("run.validation_fraction"),
          fmt::format("{} {} of {} tokens, expected at least seq + 1 = {} (use a {} one, more text or "
                      "a shorter seq)",
                      does, tokens, all.size(), seq + 1, larger));
  };
  check("holds back", held_out->size(), "larger");
  check("leaves", all.size() - held_out->size(), "smaller");
}

}  // namespace

Data open_data(const TrainRun& run, const ir::models::Model& model, const KeyName& name) {
  const bool random = run.data == std::vector<std::string>{"random"};
  Data data;
  if (const ir::models::ConvNet* net = model.conv_net()) {
    const auto images = random ? host::ImageData::random(net->image, net->classes, run.seed)
                               : host::ImageData::open(run.data, net->image, net->classes);
    data.samples = std::make_unique<host::ImageSamples>(images, run.seed);
    data.all = data.training = images.identity();
    return data;
  }
  if (const ir::models::GraphModel* graph = model.graph()) {
    if (run.data.size() != 1)
      throw Error::input(name("run.data"), "of a graph is one file of safetensors, or random");
    const std::vector<ir::models::GraphInput> inputs = ir::models::inputs_of(*graph);
    const auto records =
        random ? host::RecordData::random(inputs, run.seed) : host::RecordData::open(run.data[0], inputs);
    data.samples = std::make_unique<host::RecordSamples>(records, run.seed);
    data.all = data.training = records.identity();
    return data;
  }
  const auto all = random ? host::TokenData::random(model->vocab, run.seed)
                          : host::TokenData::open(run.data, model->vocab);
  if (run.validate_every > 0) data.held_out = all.tail(run.validation_fraction);
  check_lengths(all, data.held_out, model->seq, name);
  const host::TokenData training = data.held_out ? all.head(run.validation_fraction) : all;
  data.samples = std::make_unique<host::TextSamples>(training, model->seq, run.seed);
  data.all = all.identity(), data.training = training.identity();
  return data;
}

}  // namespace boxcar::training
