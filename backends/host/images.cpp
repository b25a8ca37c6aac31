#include "backends/host/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/host/files.h"
#include "backends/host/fingerprint.h"
#include "backends/random.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

constexpr int64_t label_bytes = 2, random_images = 256;

template <class T>
constexpr std::array<T, 256> number_of = [] {
  std::array<T, 256> numbers{};
  for (size_t byte = 0; byte < numbers.size(); ++byte)
    numbers[byte] = (static_cast<T>(byte) - T(127.5)) / T(63.75);
  return numbers;
}();

int64_t record_bytes(int64_t image) { return label_bytes + 3 * image * image; }

int64_t label_of(const uint8_t* record) { return record[0] + 256 * int64_t{record[1]}; }

void append(const std::string& path, int64_t image, int64_t classes, std::vector<uint8_t>& records) {
  const InputFile file(path);
  const int64_t record = record_bytes(image);
  if (file.size() == 0) throw Error::input(path, "is empty, expected images");
  if (file.size() % record != 0)
    throw Error::input(path,
                       fmt::format("has {} bytes, expected a multiple of {}: 2 of a label and 3 x {} x {} "
                                   "of an image",
                                   file.size(), record, image, image));
  const size_t begin = records.size();
  records.resize(begin + static_cast<size_t>(file.size()));
  file.read(0, std::as_writable_bytes(std::span(records).subspan(begin)));
  for (int64_t i = 0; i < file.size() / record; ++i)
    if (const int64_t label = label_of(records.data() + begin + i * record); label >= classes)
      throw Error::input(path, fmt::format("image {} is of class {}, expected 0 to {} (increase classes)", i,
                                           label, classes - 1));
}

}  // namespace

ImageData::ImageData(std::vector<uint8_t> records, int64_t image)
    : records_(std::make_shared<const std::vector<uint8_t>>(std::move(records))),
      image_(image),
      record_(record_bytes(image)),
      count_(static_cast<int64_t>(records_->size()) / record_) {}

ImageData ImageData::open(const std::vector<std::string>& paths, int64_t image, int64_t classes) {
  std::vector<uint8_t> records;
  for (const std::string& path : paths) append(path, image, classes, records);
  return ImageData(std::move(records), image);
}

ImageData ImageData::random(int64_t image, int64_t classes, int64_t seed) {
  const int64_t record = record_bytes(image), labels = std::min<int64_t>(classes, 65536);
  std::vector<uint8_t> records(static_cast<size_t>(random_images * record));
  uint64_t state = mix(static_cast<uint64_t>(seed));
  for (uint8_t& byte : records) byte = static_cast<uint8_t>(mix(++state));
  for (int64_t i = 0; i < random_images; ++i) {
    const uint64_t label = mix(++state) % static_cast<uint64_t>(labels);
    at(records, i * record) = static_cast<uint8_t>(label % 256);
    at(records, i * record + 1) = static_cast<uint8_t>(label / 256);
  }
  return ImageData(std::move(records), image);
}

std::span<const uint8_t> ImageData::bytes() const {
  return std::span(*records_).subspan(static_cast<size_t>(first_ * record_),
                                      static_cast<size_t>(count_ * record_));
}

int64_t ImageData::label(int64_t index) const { return label_of(bytes().data() + index * record_); }

std::span<const uint8_t> ImageData::pixels(int64_t index) const {
  return bytes().subspan(static_cast<size_t>(index * record_ + label_bytes),
                         static_cast<size_t>(record_ - label_bytes));
}

std::string ImageData::identity() const {
  return fmt::format("{} images of fingerprint {:016x}", size(), fingerprint(bytes()));
}

ImageData ImageData::part(int64_t first, int64_t count) const {
  ImageData result = *this;
  result.first_ += first, result.count_ = count;
  return result;
}

std::pair<ImageData, ImageData> ImageData::split(double fraction) const {
  const auto held = static_cast<int64_t>(fraction * static_cast<double>(count_));
  return {part(count_ - held, held), part(0, count_ - held)};
}

int64_t write_numbers(std::span<const uint8_t> pixels, int64_t image, std::span<const sbp::Range> ranges,
                      bool wide, std::byte* out) {
  const auto numbers = [&]<class T>(T* to) {
    const T* const begin = to;
    for (int64_t plane = ranges[0].begin; plane < ranges[0].end; ++plane)
      for (int64_t row = ranges[1].begin; row < ranges[1].end; ++row) {
        const int64_t first = (plane * image + row) * image + ranges[2].begin;
        for (const uint8_t byte :
             pixels.subspan(static_cast<size_t>(first), static_cast<size_t>(ranges[2].size())))
          *to++ = number_of<T>[byte];
      }
    return (to - begin) * static_cast<int64_t>(sizeof(T));
  };
  return wide ? numbers(reinterpret_cast<double*>(out)) : numbers(reinterpret_cast<float*>(out));
}

int64_t ImageSamples::read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges,
                           bool wide, std::byte* out) const {
  const int64_t place = shuffled_place(index, data_.size(), seed_);
  if (input == "labels") {
    const int64_t label = data_.label(place);
    std::memcpy(out, &label, sizeof label);
    return sizeof label;
  }
  return write_numbers(data_.pixels(place), data_.image(), ranges, wide, out);
}

}  // namespace boxcar::backends::host
