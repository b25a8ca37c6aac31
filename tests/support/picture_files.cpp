#include "support/picture_files.h"

#include <fmt/format.h>

#if __has_include(<turbojpeg.h>)
#include <turbojpeg.h>
#endif

namespace boxcar::tests {
namespace {

#if __has_include(<turbojpeg.h>)
std::string compressed(int64_t width, int64_t height, int format, const std::vector<uint8_t>& pixels) {
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const tjhandle compressor = tjInitCompress();
  const int sampling = format == TJPF_CMYK ? TJSAMP_444 : TJSAMP_420;
  tjCompress2(compressor, pixels.data(), static_cast<int>(width), 0, static_cast<int>(height), format, &bytes,
              &size, sampling, 95, 0);
  std::string file(reinterpret_cast<char*>(bytes), size);
  tjFree(bytes);
  tjDestroy(compressor);
  return file;
}
#else
constexpr int TJPF_RGB = 0, TJPF_CMYK = 1;
std::string compressed(int64_t, int64_t, int, const std::vector<uint8_t>&) { return ""; }
#endif

}  // namespace

std::string jpeg_file(int64_t width, int64_t height, const Paint& paint) {
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x)
      for (int c = 0; c < 3; ++c) pixels.push_back(paint(x, y, c));
  return compressed(width, height, TJPF_RGB, pixels);
}

std::string cmyk_file(int64_t width, int64_t height, const Paint& paint) {
  std::vector<uint8_t> pixels;
  for (int64_t y = 0; y < height; ++y)
    for (int64_t x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) pixels.push_back(paint(x, y, c));
      pixels.push_back(255);  // no black
    }
  return compressed(width, height, TJPF_CMYK, pixels);
}

std::string tar_file(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string archive;
  for (const auto& [name, content] : files) {
    std::string header(512, '\0');
    const auto put = [&header](size_t at, const std::string& text) { header.replace(at, text.size(), text); };
    put(0, name), put(100, "0000644"), put(124, fmt::format("{:011o}", content.size())), put(148, "        ");
    put(156, "0"), put(257, "ustar"), put(263, "00");
    int sum = 0;
    for (const char byte : header) sum += static_cast<unsigned char>(byte);
    put(148, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
    archive += header + content + std::string((512 - content.size() % 512) % 512, '\0');
  }
  return archive + std::string(1024, '\0');
}

}  // namespace boxcar::tests
