#include "backends/jpeg/jpeg.h"

#include <fmt/format.h>
#include <turbojpeg.h>

#include <memory>
#include <string_view>

#include "sbp/error.h"

namespace boxcar::backends::jpeg {
namespace {

struct Close {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Decoder = std::unique_ptr<void, Close>;

struct Header {
  int width = 0, height = 0, sampling = 0, colours = 0;
};

const unsigned char* data_of(std::span<const std::byte> file) {
  return reinterpret_cast<const unsigned char*>(file.data());
}

[[noreturn]] void refuse(const Decoder& decoder, const std::string& name) {
  std::string_view why = tjGetErrorStr2(decoder.get());
  if (const size_t call = why.find("(): "); call != std::string_view::npos) why.remove_prefix(call + 4);
  throw Error::input(name, fmt::format("is no whole JPEG file: {}", why));
}

// Whether a decoder's complaint is only of extra bytes or of a version that it does not know, so that nothing
// is missing.
bool is_harmless(const Decoder& decoder) {
  return tjGetErrorCode(decoder.get()) == TJERR_WARNING &&
         std::string_view(tjGetErrorStr2(decoder.get())).find("remature end") == std::string_view::npos;
}

Decoder open(const std::string& name) {
  Decoder decoder(tjInitDecompress());
  if (!decoder) throw Error::fault(name, "libjpeg-turbo has no memory to decode it");
  return decoder;
}

Header header_of(const Decoder& decoder, std::span<const std::byte> file, const std::string& name) {
  if (file.empty()) throw Error::input(name, "is empty, expected a JPEG file");
  Header h;
  if (tjDecompressHeader3(decoder.get(), data_of(file), file.size(), &h.width, &h.height, &h.sampling,
                          &h.colours) != 0 &&
      !is_harmless(decoder))
    refuse(decoder, name);
  if (int64_t{h.width} * h.height > most_pixels)
    throw Error::input(
        name, fmt::format("has {} x {} pixels, expected at most {} in all", h.width, h.height, most_pixels));
  return h;
}

// The smallest eighth that is at least `scale`; libjpeg-turbo has all of them up to 16/8.
tjscalingfactor factor(double scale) {
  int eighths = 8;
  while (eighths > 1 && eighths - 1 >= 8 * scale) --eighths;
  return {eighths, 8};
}

// Adobe's files keep 255 less the ink.
void to_rgb(const std::vector<uint8_t>& inks, std::vector<uint8_t>& rgb) {
  for (size_t pixel = 0; pixel < rgb.size() / 3; ++pixel)
    for (size_t c = 0; c < 3; ++c)
      rgb[3 * pixel + c] = static_cast<uint8_t>(inks[4 * pixel + c] * inks[4 * pixel + 3] / 255);
}

}  // namespace

bool available() { return true; }

Size size_of(std::span<const std::byte> file, const std::string& name) {
  const Header h = header_of(open(name), file, name);
  return {h.width, h.height};
}

Picture decode(std::span<const std::byte> file, double scale, const std::string& name) {
  const Decoder decoder = open(name);
  const Header h = header_of(decoder, file, name);
  const tjscalingfactor by = factor(scale);
  const int width = TJSCALED(h.width, by), height = TJSCALED(h.height, by);
  const bool inks = h.colours == TJCS_CMYK || h.colours == TJCS_YCCK;
  Picture picture{width, height,
                  std::vector<uint8_t>(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height))};
  std::vector<uint8_t> four(inks ? picture.rgb.size() / 3 * 4 : 0);
  uint8_t* const to = inks ? four.data() : picture.rgb.data();
  // A file that was cut off would be grey below the cut, with only a warning.
  if (tjDecompress2(decoder.get(), data_of(file), file.size(), to, width, 0, height,
                    inks ? TJPF_CMYK : TJPF_RGB, TJFLAG_LIMITSCANS) != 0 &&
      !is_harmless(decoder))
    refuse(decoder, name);
  if (inks) to_rgb(four, picture.rgb);
  return picture;
}

}  // namespace boxcar::backends::jpeg
