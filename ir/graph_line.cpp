#include "ir/graph_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace boxcar::ir {
namespace {

bool is_in_graph_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-' || c == '/';
}

}  // namespace

bool is_graph_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_in_graph_name);
}

void GraphLine::fail_at(size_t at, const std::string& message) const {
  throw Error::input(fmt::format("graph:{}:{}", number_, at + 1), message);
}

std::string GraphLine::rest() const {
  return at_ >= text_.size() ? "the end of the line" : fmt::format("'{}'", text_.substr(at_, 20));
}

size_t GraphLine::at() {
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  return at_;
}

bool GraphLine::ended() { return at() == text_.size(); }

bool GraphLine::peek(char c) { return !ended() && text_[at_] == c; }

bool GraphLine::accept(char c) {
  if (!peek(c)) return false;
  ++at_;
  return true;
}

void GraphLine::expect(char c) {
  if (!accept(c)) fail(fmt::format("expected '{}', got {}", c, rest()));
}

std::string_view GraphLine::name(const char* what) {
  const size_t begin = at();
  while (at_ < text_.size() && is_in_graph_name(text_[at_])) ++at_;
  if (begin == at_) fail(fmt::format("expected {}, got {}", what, rest()));
  return text_.substr(begin, at_ - begin);
}

std::string_view GraphLine::until(std::string_view stops) {
  const size_t begin = at();
  int depth = 0;
  bool quoted = false;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (quoted && c == '\\') ++at_;  // the next character is taken as it is
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (depth == 0 && stops.find(c) != std::string_view::npos) break;
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
  }
  at_ = std::min(at_, text_.size());
  return text_.substr(begin, at_ - begin);
}

TensorType GraphLine::type() {
  const size_t begin = at();
  name("a type");
  if (at_ < text_.size() && text_[at_] == '[')
    while (at_ < text_.size() && text_[at_++] != ']') {
    }
  return guarded(begin, [&] { return parse_tensor_type(text_.substr(begin, at_ - begin)); });
}

sbp::NdSbp GraphLine::layout() {
  const size_t begin = at();
  if (!peek('(')) name("a layout");
  if (peek('(')) {
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '(') ++depth;
      if (text_[at_] == ')' && --depth == 0) break;
    }
    if (at_ < text_.size()) ++at_;
  }
  return guarded(begin, [&] { return sbp::parse_nd_sbp(text_.substr(begin, at_ - begin)); });
}

int GraphLine::number() {
  const size_t begin = at();
  int value = 0;
  const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error != std::errc()) fail_at(begin, fmt::format("expected a number, got {}", rest()));
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

}  // namespace boxcar::ir
