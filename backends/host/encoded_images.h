// Training images as JPEG files: in a folder with a folder for each class, or in tar shards as WebDataset
// writes them (0001.jpg beside 0001.cls, which holds the class as a number).
//
//   const EncodedImages images = EncodedImages::open({"imagenet/train"}, 1000);
//   images.label(0), images.name(0)            // 0, "imagenet/train/n01440764/n01440764_10026.JPEG"
//   const EncodedSamples samples(images, 224, seed, Crops::random);     // in training order (data.h)
//   auto file = samples.file(17);              // in steps, as actors take them (planner/input_pipeline.h)
//   ... samples.decode(17, file, pixels); samples.read("images", 17, ranges, false, out); // ... or at once
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/host/data.h"

namespace boxcar::backends::host {

// A value that shares its list of files with its copies; files are read on demand.
class EncodedImages {
 public:
  // Whether `path` is read as encoded images: a folder, or a name that ends with .tar in upper or lower case.
  static bool holds(const std::string& path);
  // One folder, whose folders are the classes in the order of their names; or tar archives, read in the order
  // given. Files with other endings, and those whose names begin with a dot, are ignored. Throws Error (bad
  // input), naming file or folder, if one is missing or unreadable, there are no images, an image has no
  // class or one >= `classes`, or an archive has one twice.
  static EncodedImages open(const std::vector<std::string>& paths, int64_t classes);

  int64_t size() const { return static_cast<int64_t>(order_.size()); }
  int64_t label(int64_t index) const;
  std::string name(int64_t index) const;
  // The file. Throws Error (bad input) if it is gone or shorter than it was.
  std::vector<std::byte> read(int64_t index) const;
  // "1281167 encoded images of fingerprint 91a3...", by their names in their folder or archive and their
  // classes.
  std::string identity() const;
  // A share of the images, rounded down, drawn evenly; and the others. The same each time.
  std::pair<EncodedImages, EncodedImages> split(double fraction) const;

 private:
  struct Files;
  EncodedImages(std::shared_ptr<const Files> files, std::vector<int64_t> order);

  std::shared_ptr<const Files> files_;
  std::vector<int64_t> order_;  // which of the files these are
};

// How images are cropped (crop.h): training draws, by the seed and the sample's number; validation does not.
enum class Crops : uint8_t { random, middle };

// Inputs "images", [3, image, image], and "labels", one int64.
class EncodedSamples : public Samples {
 public:
  EncodedSamples(EncodedImages images, int64_t image, int64_t seed, Crops crops);
  int64_t read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges, bool wide,
               std::byte* out) const override;

  // The file of sample number `index`; and that file decoded, cropped, resized and mirrored, as bytes [3,
  // image, image]. decode() throws Error (bad input), naming the file, if it is no JPEG file.
  std::vector<std::byte> file(int64_t index) const;
  void decode(int64_t index, std::span<const std::byte> file, std::span<uint8_t> pixels) const;
  int64_t image() const { return image_; }
  int64_t pixels() const { return 3 * image_ * image_; }  // bytes of a sample

 private:
  int64_t place(int64_t index) const { return shuffled_place(index, images_.size(), seed_); }

  EncodedImages images_;
  int64_t image_, seed_;
  Crops crops_;
};

}  // namespace boxcar::backends::host
