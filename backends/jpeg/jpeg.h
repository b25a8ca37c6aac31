// JPEG files as pixels, by libjpeg-turbo if the build has found it.
//
//   const Picture picture = jpeg::decode(file, 0.3, "n01440764_10026.JPEG");   // of 500 x 375: 188 x 141
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace boxcar::backends::jpeg {

// Red, green and blue of each pixel, row by row.
struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

struct Size {
  int64_t width = 0, height = 0;
};

// Whether this build decodes JPEG files.
bool available();

// Both throw Error (bad input), naming `name`, if the bytes are no whole JPEG file or have more than
// `most_pixels` (a progressive file takes up to 6 bytes of memory for each); Error (cannot run) if this build
// cannot decode.
constexpr int64_t most_pixels = int64_t{1} << 26;
Size size_of(std::span<const std::byte> file, const std::string& name);
// Decodes to the smallest size that takes less work (eighths of the whole) and is at least `scale` of the
// whole; to the whole if `scale` is above 7/8. Grey and CMYK files become RGB.
Picture decode(std::span<const std::byte> file, double scale, const std::string& name);

}  // namespace boxcar::backends::jpeg
