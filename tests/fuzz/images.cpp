// Files of images with labels.
#include "backends/host/images.h"

#include "folder.h"
#include "harness.h"

namespace boxcar::fuzz {
namespace {

void read(const std::string& path, int64_t image, int64_t classes) {
  const auto data = backends::host::ImageData::open({path}, image, classes);
  for (int64_t i = 0; i < data.size(); ++i)
    if (data.label(i) < 0 || data.label(i) >= classes) throw Broken("a label beyond the classes");
  const backends::host::ImageSamples samples(data, 1);
  std::vector<std::byte> out(static_cast<size_t>(3 * image * image) * sizeof(double));
  const sbp::Range all[] = {{0, 3}, {0, image}, {0, image}};
  samples.read("images", 7, all, true, out.data());
  samples.read("labels", 7, {}, false, out.data());
}

}  // namespace

void fuzz_images(std::string_view input) {
  const std::string path = put("images.bin", input);
  for (const int64_t image : {1, 2, 3}) ends([&] { read(path, image, 300); });
}

}  // namespace boxcar::fuzz
