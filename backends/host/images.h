// Training images: files of records, each the label in two bytes, little-endian, and 3 x image x image bytes,
// the red, green and blue planes row by row. A byte b is the number (b - 127.5) / 63.75, between -2 and 2.
//
//   const ImageData data = ImageData::open({"images.bin"}, 224, 1000);
//   data.label(0), data.pixels(0)                      // 7, 150528 bytes
//   const ImageSamples samples(data, seed);            // in training order (data.h)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/host/data.h"

namespace boxcar::backends::host {

// A value that shares its images with its copies; they are in memory once.
class ImageData {
 public:
  // Files are read in the order given, one after the other. Throws Error (bad input), naming the file, if one
  // is missing, unreadable, empty, not a whole number of records or has a label >= classes.
  static ImageData open(const std::vector<std::string>& paths, int64_t image, int64_t classes);
  // 256 images of noise, of random classes.
  static ImageData random(int64_t image, int64_t classes, int64_t seed);

  int64_t size() const { return count_; }
  int64_t label(int64_t index) const;
  std::span<const uint8_t> pixels(int64_t index) const;  // [3, image, image]
  int64_t image() const { return image_; }
  // "1281 images of fingerprint 91a3...": the same for the same images, whatever their files are called.
  std::string identity() const;
  // The last `fraction` of the images, rounded down, and those before them.
  std::pair<ImageData, ImageData> split(double fraction) const;

 private:
  ImageData(std::vector<uint8_t> records, int64_t image);
  ImageData part(int64_t first, int64_t count) const;
  std::span<const uint8_t> bytes() const;  // of its records

  std::shared_ptr<const std::vector<uint8_t>> records_;
  int64_t image_, record_;     // bytes of a record
  int64_t first_ = 0, count_;  // which of the records these are
};

// The part in `ranges` of an image's bytes [3, image, image] as numbers, as Samples::read() writes them.
int64_t write_numbers(std::span<const uint8_t> pixels, int64_t image, std::span<const sbp::Range> ranges,
                      bool wide, std::byte* out);

// Inputs "images", [3, image, image], and "labels", one int64.
class ImageSamples : public Samples {
 public:
  ImageSamples(ImageData data, int64_t seed) : data_(std::move(data)), seed_(seed) {}
  int64_t read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges, bool wide,
               std::byte* out) const override;

 private:
  ImageData data_;
  int64_t seed_;
};

}  // namespace boxcar::backends::host
