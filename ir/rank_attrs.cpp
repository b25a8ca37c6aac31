#include "ir/rank_attrs.h"

#include <fmt/format.h>

#include <cctype>
#include <string_view>

#include "sbp/error.h"

namespace boxcar::ir {

namespace {

constexpr std::string_view step_mark = "_step_", list_mark = "_by_";

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
}

// Calls visit(begin, end) for every whole number that stands alone in `text`.
template <typename Visit>
void each_number(const std::string& text, Visit visit) {
  for (size_t i = 0; i < text.size();) {
    if (!is_word(text[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    const size_t digits = text[i] == '-' ? i + 1 : i;
    bool whole = digits < end;
    for (size_t k = digits; k < end; ++k) whole = whole && is_digit(text[k]);
    if (whole) visit(i, end);
    i = end;
  }
}

// By coordinate.
std::vector<std::vector<int64_t>> numbers_of(const std::string& name, const std::vector<Attrs>& at) {
  std::vector<std::vector<int64_t>> numbers;
  const Attr& first = at[0].at(name);
  for (const Attrs& one : at) {
    const auto found = one.find(name);
    const std::string got = found == one.end() ? "missing" : to_text(found->second);
    if (found != one.end()) numbers.push_back(whole_numbers(found->second));
    const bool alike = found != one.end() && found->second.index() == first.index() &&
                       numbers.back().size() == numbers[0].size() &&
                       with_whole_numbers(first, numbers.back()) == found->second;
    if (!alike)
      throw Error::fault("attribute " + name,
                         fmt::format("is {} on one rank and {} on another of its class, which differ in more "
                                     "than whole numbers",
                                     to_text(first), got));
  }
  return numbers;
}

}  // namespace

std::vector<int64_t> whole_numbers(const Attr& attr) {
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attr)) return *list;
  if (const auto* number = std::get_if<int64_t>(&attr)) return {*number};
  std::vector<int64_t> numbers;
  if (const auto* text = std::get_if<std::string>(&attr))
    each_number(*text, [&](size_t begin, size_t end) {
      numbers.push_back(std::stoll(text->substr(begin, end - begin)));
    });
  return numbers;
}

Attr with_whole_numbers(const Attr& attr, const std::vector<int64_t>& numbers) {
  if (std::holds_alternative<std::vector<int64_t>>(attr)) return numbers;
  if (std::holds_alternative<int64_t>(attr)) return numbers.at(0);
  const auto* text = std::get_if<std::string>(&attr);
  if (!text) return attr;
  std::string result;
  size_t copied = 0, next = 0;
  each_number(*text, [&](size_t begin, size_t end) {
    result += text->substr(copied, begin - copied) + fmt::format("{}", numbers.at(next++));
    copied = end;
  });
  return result + text->substr(copied);
}

void add_difference(Attrs& attrs, const std::string& name, const std::string& dim,
                    const std::vector<Attrs>& at) {
  const std::vector<std::vector<int64_t>> numbers = numbers_of(name, at);
  const std::vector<int64_t>& first = numbers[0];
  std::vector<int64_t> step(first.size()), all;
  bool same = true, even = true;
  for (size_t k = 0; k < numbers.size(); ++k)
    for (size_t i = 0; i < first.size(); ++i) {
      if (k == 1) step[i] = numbers[k][i] - first[i];
      same = same && numbers[k][i] == first[i];
      even = even && numbers[k][i] == first[i] + step[i] * static_cast<int64_t>(k);
      all.push_back(numbers[k][i]);
    }
  if (same) return;
  const bool one = std::holds_alternative<int64_t>(attrs.find(name)->second);
  if (!even)
    attrs[name + std::string(list_mark) + dim] = all;
  else if (one)
    attrs[name + std::string(step_mark) + dim] = step[0];
  else
    attrs[name + std::string(step_mark) + dim] = step;
}

Attrs rank_attrs(const Attrs& attrs, const std::function<Coordinates(const std::string& dim)>& at) {
  Attrs result;
  const auto mark_in = [](const std::string& name) {
    for (const std::string_view mark : {step_mark, list_mark})
      if (name.find(mark) != std::string::npos) return mark;
    return std::string_view();
  };
  for (const auto& [name, value] : attrs)
    if (mark_in(name).empty()) result[name] = value;
  for (const auto& [name, value] : attrs) {
    const std::string_view mark = mark_in(name);
    if (mark.empty()) continue;
    const size_t cut = name.find(mark);
    const Coordinates place = at(name.substr(cut + mark.size()));
    Attr& target = result.at(name.substr(0, cut));
    std::vector<int64_t> numbers = whole_numbers(target);
    const std::vector<int64_t> change = whole_numbers(value);
    const auto nth = [&](int64_t k, size_t i) { return change[static_cast<size_t>(k) * numbers.size() + i]; };
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] +=
          mark == step_mark ? change[i] * (place.own - place.first) : nth(place.own, i) - nth(place.first, i);
    target = with_whole_numbers(target, numbers);
  }
  return result;
}

}  // namespace boxcar::ir
