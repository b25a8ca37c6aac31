// In place of pieces.cpp if PCRE2 was not found.
#include "backends/tokens/pieces.h"
#include "sbp/error.h"

namespace boxcar::backends::tokens {

struct Pieces::Impl {};
Pieces::~Pieces() = default;
Pieces::Pieces(Pieces&&) noexcept = default;
Pieces::Pieces(const std::string& where, const std::string&) {
  throw Error::cannot_run(where,
                          "byte pairs need PCRE2, which this build lacks (install libpcre2-dev, rebuild)");
}
void Pieces::each(std::string_view, const std::function<void(std::string_view)>&) const {}

}  // namespace boxcar::backends::tokens
