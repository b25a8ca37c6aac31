#include "ir/plan_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "sbp/error.h"

namespace boxcar::ir {
namespace {

bool is_keyword(std::string_view name) {
  constexpr std::string_view words[] = {"arena", "workspace", "phases", "schedule", "queue", "program",
                                        "class", "comm",      "peers",  "fact",     "label"};
  return std::find(std::begin(words), std::end(words), name) != std::end(words);
}

bool is_in_plan_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '/' || c == '+';
}

}  // namespace

std::string name_text(std::string_view name) {
  bool plain = !name.empty() && !is_keyword(name) && std::all_of(name.begin(), name.end(), is_in_plan_name);
  if (plain) return std::string(name);
  std::string quoted = "\"";
  for (char c : name) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

void PlanLine::fail_at(size_t at, std::string_view message) const {
  throw Error::input(fmt::format("plan:{}:{}", number_, at + 1), std::string(message));
}

std::string PlanLine::got() const {
  if (at_ >= text_.size()) return "the end of the line";
  std::string_view rest = text_.substr(at_);
  return fmt::format("\"{}\"", rest.substr(0, std::max<size_t>(1, rest.find(' '))));
}

bool PlanLine::done() {
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  return at_ == text_.size();
}

bool PlanLine::peek(char c) { return !done() && text_[at_] == c; }

bool PlanLine::take(char c) {
  if (!peek(c)) return false;
  ++at_;
  return true;
}

bool PlanLine::take_word(std::string_view word) {
  if (done() || !text_.substr(at_).starts_with(word)) return false;
  size_t end = at_ + word.size();
  if (end < text_.size() && is_in_plan_name(text_[end])) return false;
  at_ = end;
  return true;
}

void PlanLine::expect(char c) {
  if (!take(c)) fail(fmt::format("expected '{}', got {}", c, got()));
}

void PlanLine::expect_word(std::string_view word) {
  if (!take_word(word)) fail(fmt::format("expected \"{}\", got {}", word, got()));
}

void PlanLine::expect_done() {
  if (!done()) fail(fmt::format("expected the end of the line, got {}", got()));
}

std::string PlanLine::name(std::string_view what) {
  if (!take('"')) {
    size_t begin = at_;
    while (at_ < text_.size() && is_in_plan_name(text_[at_])) ++at_;
    if (at_ == begin) fail(fmt::format("expected {}, got {}", what, got()));
    return std::string(text_.substr(begin, at_ - begin));
  }
  size_t begin = at_ - 1;
  std::string name;
  while (at_ < text_.size() && text_[at_] != '"') {
    if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
    name += text_[at_++];
  }
  if (at_ == text_.size()) fail_at(begin, "the quote does not end");
  ++at_;
  return name;
}

std::string_view PlanLine::rest() {
  done();
  std::string_view left = text_.substr(at_);
  at_ = text_.size();
  return left;
}

std::string_view PlanLine::until(char open, char close) {
  if (!peek(open)) fail(fmt::format("expected '{}', got {}", open, got()));
  size_t begin = at_;
  int depth = 0;
  bool quoted = false;
  for (; at_ < text_.size(); ++at_) {
    char c = text_[at_];
    if (quoted && c == '\\') {
      ++at_;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      depth += (c == open) - (c == close);
      if (depth == 0) return text_.substr(begin, ++at_ - begin);
    }
  }
  fail_at(begin, fmt::format("the '{}' does not end", open));
}

int64_t PlanLine::number(int64_t least, int64_t most) {
  done();
  int64_t value = 0;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error == std::errc::invalid_argument) fail(fmt::format("expected a number, got {}", got()));
  if (error != std::errc() || value < least || value > most) {
    fail(fmt::format("expected a number from {} to {}, got {}", least, most, got()));
  }
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

double PlanLine::real() {
  done();
  double value = 0;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error != std::errc()) fail(fmt::format("expected a number, got {}", got()));
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

int64_t PlanLine::turns() {
  done();
  size_t end = at_;
  while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
  if (end == at_ || end == text_.size() || text_[end] != '*') return -1;
  int64_t count = number(1, 1 << 24);
  expect('*');
  return count;
}

}  // namespace boxcar::ir
