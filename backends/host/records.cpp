#include "backends/host/records.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "backends/host/fingerprint.h"
#include "backends/host/initial.h"
#include "backends/host/parts.h"
#include "backends/random.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

using ir::DType;
using ir::models::GraphInput;

constexpr int64_t random_samples = 256;

bool is_whole(DType type) { return type == DType::int64 || type == DType::int32; }

// Types that data comes in.
void check_kind(const GraphInput& input) {
  const DType type = input.sample.dtype;
  if (type != DType::float32 && type != DType::int64)
    throw Error::input("%" + input.name, fmt::format("is {}; inputs that are trained on are float32 or int64",
                                                     ir::to_text(type)));
}

ir::Shape with_samples(int64_t samples, const ir::Shape& sample) {
  ir::Shape shape{samples};
  shape.insert(shape.end(), sample.begin(), sample.end());
  return shape;
}

void check_numbers(const std::string& where, const StoredTensor& tensor, int64_t below) {
  const int64_t size = ir::size_of(tensor.type.dtype);
  for (int64_t i = 0; i < tensor.type.elements() && below > 0; ++i) {
    const double value = load_element(tensor.type.dtype, tensor.bytes.data() + i * size);
    if (value < 0 || value >= static_cast<double>(below))
      throw Error::input(where, fmt::format("has {:.0f}, expected 0 to {}", value, below - 1));
  }
}

// The input's tensor out of the file's, in the input's type.
StoredTensor take(const std::string& path, const GraphInput& input, StoredFile& file) {
  const auto found = file.tensors.find(input.name);
  if (found == file.tensors.end())
    throw Error::input(path, fmt::format("has no tensor {}, an input of the graph", input.name));
  const StoredTensor& tensor = found->second;
  const std::string where = fmt::format("{}: {}", path, input.name);
  const ir::Shape& shape = tensor.type.shape;
  if (shape.empty() ||
      !std::equal(shape.begin() + 1, shape.end(), input.sample.shape.begin(), input.sample.shape.end()))
    throw Error::input(where, fmt::format("is {}, expected samples of {}", ir::to_text(tensor.type),
                                          ir::to_text(input.sample)));
  const bool whole = is_whole(input.sample.dtype);
  if (is_whole(tensor.type.dtype) != whole)
    throw Error::input(where, fmt::format("is {}, expected {}", ir::to_text(tensor.type.dtype),
                                          whole ? "int64 or int32" : "floating-point numbers"));
  if (whole) check_numbers(where, tensor, input.below);
  StoredTensor taken{{shape, input.sample.dtype}, {}};
  taken.bytes.resize(static_cast<size_t>(taken.type.bytes()));
  take_part(tensor, all_of(shape), taken.type.dtype, taken.bytes);
  file.tensors.erase(found);
  return taken;
}

StoredTensor drawn(const GraphInput& input, int64_t seed) {
  const ir::TensorType type{with_samples(random_samples, input.sample.shape), input.sample.dtype};
  if (!is_whole(type.dtype)) return initial_tensor(input.name, type, {0, 1}, seed);
  if (input.below == 0)
    throw Error::input("%" + input.name,
                       "no op that reads it limits its whole numbers, so none can be drawn; give data");
  StoredTensor tensor{type, std::vector<std::byte>(static_cast<size_t>(type.bytes()))};
  const RandomKey key = random_key(seed, 0, static_cast<int64_t>(fingerprint(std::string_view(input.name))));
  const auto size = static_cast<size_t>(ir::size_of(type.dtype)),
             count = static_cast<size_t>(type.elements());
  for (size_t i = 0; i < count; ++i)
    store_element(type.dtype, tensor.bytes.data() + i * size,
                  static_cast<double>(mix(key.value ^ i) % static_cast<uint64_t>(input.below)));
  return tensor;
}

}  // namespace

RecordData::RecordData(StoredFile file, int64_t samples)
    : file_(std::make_shared<const StoredFile>(std::move(file))), samples_(samples) {}

RecordData RecordData::open(const std::string& path, const std::vector<GraphInput>& inputs) {
  StoredFile read = read_safetensors(path), kept;
  std::optional<int64_t> samples;
  for (const GraphInput& input : inputs) {
    check_kind(input);
    StoredTensor tensor = take(path, input, read);
    const int64_t here = tensor.type.shape[0];
    if (here == 0 || here != samples.value_or(here))
      throw Error::input(fmt::format("{}: {}", path, input.name),
                         fmt::format("has {} samples, expected {}", here,
                                     samples ? fmt::format("{}", *samples) : "1 or more"));
    samples = here;
    kept.tensors.emplace(input.name, std::move(tensor));
  }
  return RecordData(std::move(kept), samples.value_or(0));
}

RecordData RecordData::random(const std::vector<GraphInput>& inputs, int64_t seed) {
  StoredFile file;
  for (const GraphInput& input : inputs) {
    check_kind(input);
    file.tensors.emplace(input.name, drawn(input, seed));
  }
  return RecordData(std::move(file), random_samples);
}

const StoredTensor& RecordData::tensor(std::string_view input) const {
  return file_->tensors.at(std::string(input));
}

std::string RecordData::identity() const {
  std::string all;
  for (const auto& [name, tensor] : file_->tensors)
    all += fmt::format(
        "{} {:016x} ", name,
        fingerprint(std::span(reinterpret_cast<const uint8_t*>(tensor.bytes.data()), tensor.bytes.size())));
  return fmt::format("{} samples of fingerprint {:016x}", samples_, fingerprint(std::string_view(all)));
}

int64_t RecordSamples::read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges,
                            bool wide, std::byte* out) const {
  const StoredTensor& tensor = data_.tensor(input);
  const int64_t place = shuffled_place(index, data_.size(), seed_);
  std::vector<sbp::Range> part{{place, place + 1}};
  part.insert(part.end(), ranges.begin(), ranges.end());
  const DType to = tensor.type.dtype == DType::float32 && wide ? DType::float64 : tensor.type.dtype;
  int64_t bytes = ir::size_of(to);
  for (const sbp::Range& range : ranges) bytes *= range.size();
  take_part(tensor, part, to, {out, static_cast<size_t>(bytes)});
  return bytes;
}

}  // namespace boxcar::backends::host
