// A cursor over one line of a graph's text, and the characters that a name may have.
//
//   GraphLine line("%y: float32[4] = neg(%x)", 7);
//   line.expect('%'); line.name("a name") == "y"; line.expect(':'); line.type() == float32[4]
//   line.number();   // throws Error: graph:7:17: expected a number, got '= neg(%x)'
#pragma once

#include <string>
#include <string_view>

#include "ir/types.h"
#include "sbp/error.h"
#include "sbp/sbp.h"

namespace boxcar::ir {

// Letters, digits and _ . - /; at least one.
bool is_graph_name(std::string_view name);

// Spaces are free between tokens.
class GraphLine {
 public:
  GraphLine(std::string_view text, int number) : text_(text), number_(number) {}

  [[noreturn]] void fail(const std::string& message) const { fail_at(at_, message); }
  [[noreturn]] void fail_at(size_t at, const std::string& message) const;
  // Runs `parse`; its error gets this line and column `begin`.
  template <typename Parse>
  auto guarded(size_t begin, Parse parse) const -> decltype(parse()) {
    try {
      return parse();
    } catch (const Error& error) {
      fail_at(begin, error.what());
    }
  }

  bool ended();
  bool peek(char c);
  bool accept(char c);
  void expect(char c);
  std::string_view name(const char* what);
  std::string_view until(std::string_view stops);  // up to one of `stops` outside brackets and quotes
  TensorType type();                               // "float32" or "float32[4, 5]"
  sbp::NdSbp layout();                             // "B", "S(0)" or "(S(0), B)"
  int number();
  size_t at();  // where the next token begins

 private:
  std::string rest() const;

  std::string_view text_;
  int number_;
  size_t at_ = 0;
};

}  // namespace boxcar::ir
