// The part of a picture that training sees, at the model's size.
//
//   const Crop crop = random_crop(500, 375, key);   // {left 41, top 12, width 310, height 255, mirrored}
//   resize(picture, crop, 224, out);                // [3, 224, 224]
#pragma once

#include <cstdint>
#include <span>

#include "backends/jpeg/jpeg.h"

namespace boxcar::backends::host {

// In pixels of a picture; mirrored: left is right.
struct Crop {
  int64_t left = 0, top = 0, width = 0, height = 0;
  bool mirrored = false;
  friend bool operator==(const Crop&, const Crop&) = default;
};

// For training: a crop of 8 to 100 % of the area whose width to height is 3/4 to 4/3, mirrored half of the
// time, drawn by `key` (Szegedy et al. 2015, arXiv:1409.4842, section 6, with the bounds of PyTorch's
// RandomResizedCrop). If ten draws do not fit into the picture, its middle, as far as those ratios allow.
Crop random_crop(int64_t width, int64_t height, uint64_t key);
// For validation: the square in the middle whose side is 224/256 of the shorter side (Krizhevsky et al.
// 2012).
Crop middle_crop(int64_t width, int64_t height);
// `crop`, of a picture of size `from`, in the same picture of size `to`; at least one pixel.
Crop scaled(const Crop& crop, jpeg::Size from, jpeg::Size to);

// `crop` of the picture as `image` x `image` pixels, planes [3, image, image], by a triangular filter as wide
// as the pixels that it averages (Pillow's and PyTorch's antialiased "bilinear"). REQUIRES that the crop lies
// in the picture.
void resize(const jpeg::Picture& picture, const Crop& crop, int64_t image, std::span<uint8_t> planes);

}  // namespace boxcar::backends::host
