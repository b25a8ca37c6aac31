// Names in a plan's text and a cursor over one of its lines.
//
//   PlanLine in("%y: float32[4]", 7);
//   in.expect('%'); in.name("a register") == "y"; in.expect(':');
//   in.number(0, 9);   // throws Error: plan:7:5: expected a number, got "float32[4]"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace boxcar::ir {

// A name in the form of the text: quoted if it has characters other than letters, digits and _.-/+, or is a
// keyword.
std::string name_text(std::string_view name);

// A cursor over one line of a plan's text. Spaces are free between tokens. Errors say where:
//   plan:7:12: expected a register, got "matmul"
class PlanLine {
 public:
  PlanLine(std::string_view text, int number) : text_(text), number_(number) {}

  [[noreturn]] void fail(std::string_view message) const { fail_at(at_, message); }
  [[noreturn]] void fail_at(size_t at, std::string_view message) const;
  size_t at() const { return at_; }
  int number() const { return number_; }
  bool done();
  bool peek(char c);
  bool take(char c);
  // Takes `word` if it is next and is not the beginning of a longer name.
  bool take_word(std::string_view word);
  void expect(char c);
  void expect_word(std::string_view word);
  void expect_done();
  std::string name(std::string_view what);
  std::string_view rest();                        // takes the rest
  std::string_view until(char open, char close);  // from `open` to its matching `close`, both included
  // Takes "12*" and gives 12; gives -1 if that is not next.
  int64_t turns();
  int64_t number(int64_t least, int64_t most);
  int small(int least) { return static_cast<int>(number(least, 2147483647)); }
  double real();

 private:
  std::string got() const;

  std::string_view text_;
  int number_ = 0;
  size_t at_ = 0;
};

}  // namespace boxcar::ir
