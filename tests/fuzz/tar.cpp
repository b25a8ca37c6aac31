// Archives of encoded images.
#include "backends/host/encoded_images.h"
#include "folder.h"
#include "harness.h"

namespace boxcar::fuzz {

void fuzz_tar(std::string_view input) {
  const std::string path = put("images.tar", input);
  ends([&] {
    const auto images = backends::host::EncodedImages::open({path}, 3);
    int64_t bytes = 0;
    for (int64_t i = 0; i < images.size(); ++i) {
      if (images.label(i) < 0 || images.label(i) >= 3) throw Broken("a label beyond the classes");
      bytes += static_cast<int64_t>(images.read(i).size());
    }
    if (bytes > static_cast<int64_t>(input.size())) throw Broken("more bytes than the archive has");
  });
}

}  // namespace boxcar::fuzz
