#include "backends/tokens/pieces.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>

#include "sbp/error.h"

namespace boxcar::backends::tokens {
namespace {

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct Pieces::Impl {
  pcre2_code* code = nullptr;
  ~Impl() { pcre2_code_free(code); }
};

Pieces::~Pieces() = default;
Pieces::Pieces(Pieces&&) noexcept = default;

Pieces::Pieces(const std::string& where, const std::string& pattern) : impl_(std::make_unique<Impl>()) {
  int error = 0;
  PCRE2_SIZE place = 0;
  impl_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &place, nullptr);
  if (!impl_->code)
    throw Error::input(
        where, fmt::format("its pattern cannot be read: {} (at character {})", message_of(error), place));
  pcre2_jit_compile(impl_->code, PCRE2_JIT_COMPLETE);  // if that fails, matching is slower
}

void Pieces::each(std::string_view text, const std::function<void(std::string_view)>& visit) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create_from_pattern(impl_->code, nullptr), &pcre2_match_data_free);
  const auto* const begin = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t done = 0;
  uint32_t options = 0;  // the whole text is checked once
  for (size_t at = 0; at < text.size();) {
    const int found = pcre2_match(impl_->code, begin, text.size(), at, options, match.get(), nullptr);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0 && found <= PCRE2_ERROR_UTF8_ERR1 && found >= PCRE2_ERROR_UTF8_ERR21)
      throw Error::input("", fmt::format("is no UTF-8 at byte {}", pcre2_get_startchar(match.get())));
    if (found < 0)
      throw Error::fault("", fmt::format("cannot be split at byte {}: {}", at, message_of(found)));
    options = PCRE2_NO_UTF_CHECK;
    const PCRE2_SIZE* const range = pcre2_get_ovector_pointer(match.get());
    if (range[0] > done) visit(text.substr(done, range[0] - done));
    if (range[1] > range[0]) visit(text.substr(range[0], range[1] - range[0]));
    done = range[1];
    at = range[1];
    if (range[1] == range[0])  // an empty match: on by a character
      do ++at;
      while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  }
  if (done < text.size()) visit(text.substr(done));
}

}  // namespace boxcar::backends::tokens
