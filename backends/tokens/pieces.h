// Text split into pieces by a regular expression, with Unicode's letters, digits and spaces, by PCRE2 if the
// build has found it.
//
//   const Pieces pieces("tokenizer.json", R"( ?\p{L}+| ?\p{N}+)");
//   pieces.each("two 2s", [](std::string_view piece) { ... });          // "two", " 2", "s"
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace boxcar::backends::tokens {

class Pieces {
 public:
  // Throws Error (bad input) naming `where` if the pattern cannot be read; Error (cannot run) if this build
  // has no PCRE2.
  Pieces(const std::string& where, const std::string& pattern);
  ~Pieces();
  Pieces(Pieces&&) noexcept;

  // Each match, and the text between two matches, in order. Throws Error (bad input) if the text is not
  // UTF-8.
  void each(std::string_view text, const std::function<void(std::string_view piece)>& visit) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace boxcar::backends::tokens
