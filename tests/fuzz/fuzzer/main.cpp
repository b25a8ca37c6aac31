// libFuzzer's entry for the harness that BOXCAR_HARNESS names.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace boxcar::fuzz {
void BOXCAR_HARNESS(std::string_view input);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  boxcar::fuzz::BOXCAR_HARNESS({reinterpret_cast<const char*>(data), size});
  return 0;
}
