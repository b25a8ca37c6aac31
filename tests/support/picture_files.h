// JPEG files and tar archives that tests make.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace boxcar::tests {

// Red, green or blue (0, 1, 2) at a pixel.
using Paint = std::function<uint8_t(int64_t x, int64_t y, int colour)>;

// A JPEG file; empty if this build has no libjpeg-turbo.
std::string jpeg_file(int64_t width, int64_t height, const Paint& paint);
// The same in four inks, as Adobe's programs write them: 255 less the ink, black last.
std::string cmyk_file(int64_t width, int64_t height, const Paint& paint);

// An archive of POSIX's ustar format.
std::string tar_file(const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace boxcar::tests
