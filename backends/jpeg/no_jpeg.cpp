#include "backends/jpeg/jpeg.h"
#include "sbp/error.h"

namespace boxcar::backends::jpeg {
namespace {

[[noreturn]] void refuse(const std::string& name) {
  throw Error::cannot_run(name, "this build does not decode JPEG files (install libturbojpeg0-dev, rebuild)");
}

}  // namespace

bool available() { return false; }
Size size_of(std::span<const std::byte>, const std::string& name) { refuse(name); }
Picture decode(std::span<const std::byte>, double, const std::string& name) { refuse(name); }

}  // namespace boxcar::backends::jpeg
