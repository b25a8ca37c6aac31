// A cursor over a short text, for the parsers in this folder.
//
//   Cursor c("S( 0 )", "layout");
//   c.take("S"); c.take("("); c.number(0, 127); c.take(")"); c.done();
//
// Spaces are free between tokens. fail() throws Error (bad input):
//   layout "S(x)": expected an axis at "x)"
#pragma once

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <string>
#include <string_view>

#include "sbp/error.h"
#include "sbp/sbp.h"

namespace boxcar::sbp {

class Cursor {
 public:
  Cursor(std::string_view text, std::string_view what) : all_(text), rest_(text), what_(what) {}

  std::string_view rest() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front()))) rest_.remove_prefix(1);
    return rest_;
  }
  bool done() { return rest().empty(); }

  // Takes `token` if it is next.
  bool take(std::string_view token) {
    if (!rest().starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  // Takes a run of letters, digits and underscores; empty if there is none.
  std::string_view word() {
    size_t size = 0;
    for (rest(); size < rest_.size() && is_word(rest_[size]);) ++size;
    const std::string_view result = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return result;
  }

  // Takes a number of [0, max], or fails with "expected `expected`".
  int64_t number(int64_t max, std::string_view expected) {
    int64_t value = 0;
    const std::string_view from = rest();
    const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), value);
    if (from.empty() || !std::isdigit(static_cast<unsigned char>(from.front())) ||
        error == std::errc::invalid_argument)
      fail(fmt::format("expected {}", expected));
    if (error != std::errc() || value > max) fail(fmt::format("expected {} of at most {}", expected, max));
    rest_.remove_prefix(static_cast<size_t>(end - from.data()));
    return value;
  }

  [[noreturn]] void fail(std::string_view problem) {
    const std::string_view at = rest();
    const std::string place = at.empty() ? " at the end" : fmt::format(" at \"{}\"", at);
    throw Error::input(fmt::format("{} \"{}\"", what_, all_), fmt::format("{}{}", problem, place));
  }

 private:
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  std::string_view all_, rest_, what_;
};

Sbp read_sbp(Cursor& in);  // one layout at the cursor, "S(0,inner)"

}  // namespace boxcar::sbp
