#include "ir/rank_attrs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "ir/read_number.h"
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

// The whole numbers by coordinate.
std::vector<std::vector<int64_t>> numbers_of(const std::string& name, const std::vector<Attrs>& at) {
  std::vector<std::vector<int64_t>> numbers;
  const Attr& first = at[0].at(name);
  for (const Attrs& one : at) {
    const auto found = one.find(name);
    if (found != one.end()) numbers.push_back(whole_numbers(found->second));
    const bool alike = found != one.end() && found->second.index() == first.index() &&
                       numbers.back().size() == numbers[0].size() &&
                       with_whole_numbers(first, numbers.back()) == found->second;
    if (!alike)
      throw Error::fault(
          "attribute " + name,
          fmt::format("is {} on one rank and {} on another of its class, which differ in more "
                      "than whole numbers",
                      to_text(first), found == one.end() ? "missing" : to_text(found->second)));
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
      const std::string_view digits = std::string_view(*text).substr(begin, end - begin);
      const auto number = read_number<int64_t>(digits);
      if (!number) throw Error::input(std::string(digits), "is beyond 64 bits");
      numbers.push_back(*number);
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
  const auto is_first = [&](const Attrs& one) {
    const auto found = one.find(name);
    return found != one.end() && found->second == at[0].at(name);
  };
  if (std::all_of(at.begin(), at.end(), is_first)) return;  // nearly always
  const std::vector<std::vector<int64_t>> numbers = numbers_of(name, at);
  const std::vector<int64_t>& first = numbers[0];
  std::vector<int64_t> step(first.size()), all;
  bool even = true;
  for (size_t k = 0; k < numbers.size(); ++k)
    for (size_t i = 0; i < first.size(); ++i) {
      if (k == 1) step[i] = numbers[k][i] - first[i];
      even = even && numbers[k][i] == first[i] + step[i] * static_cast<int64_t>(k);
      all.push_back(numbers[k][i]);
    }
  const bool one = std::holds_alternative<int64_t>(attrs.find(name)->second);
  if (!even)
    attrs[name + std::string(list_mark) + dim] = all;
  else if (one)
    attrs[name + std::string(step_mark) + dim] = step[0];
  else
    attrs[name + std::string(step_mark) + dim] = step;
}

namespace {

// "starts_step_tp": how starts differs along tp.
struct Mark {
  std::string_view name, mark, dim;  // no mark: an attribute as it is
};

Mark mark_in(std::string_view name) {
  for (const std::string_view mark : {step_mark, list_mark})
    if (const size_t cut = name.find(mark); cut != name.npos)
      return {name.substr(0, cut), mark, name.substr(cut + mark.size())};
  return {name, {}, {}};
}

// `value` + times x `step`; in 64 bits, or an error.
int64_t moved(const std::string& name, int64_t value, int64_t times, int64_t step) {
  int64_t change = 0, result = 0;
  if (__builtin_mul_overflow(times, step, &change) || __builtin_add_overflow(value, change, &result))
    throw Error::input(name, fmt::format("{} and {} times {} are beyond 64 bits", value, times, step));
  return result;
}

}  // namespace

std::string_view changed_attr(std::string_view name) { return mark_in(name).name; }

std::set<std::string> differing_dims(const Attrs& attrs) {
  std::set<std::string> dims;
  for (const auto& [name, value] : attrs)
    if (const Mark mark = mark_in(name); !mark.mark.empty()) dims.emplace(mark.dim);
  return dims;
}

Attrs rank_attrs(const Attrs& attrs, const std::function<Coordinates(const std::string& dim)>& at) {
  Attrs result;
  for (const auto& [name, value] : attrs)
    if (mark_in(name).mark.empty()) result[name] = value;
  for (const auto& [name, value] : attrs) {
    const Mark mark = mark_in(name);
    if (mark.mark.empty()) continue;
    const auto target = result.find(mark.name);
    if (target == result.end())
      throw Error::input(name, fmt::format("there is no attribute {} that differs", mark.name));
    const Coordinates place = at(std::string(mark.dim));
    std::vector<int64_t> numbers = whole_numbers(target->second);
    const std::vector<int64_t> change = whole_numbers(value);
    const bool steps = mark.mark == step_mark;
    const int64_t rows = steps ? 1 : std::max(place.own, place.first) + 1;
    if (numbers.empty() || change.size() % numbers.size() != 0 ||
        static_cast<int64_t>(change.size() / numbers.size()) < rows)
      throw Error::input(name, fmt::format("has {} numbers, {} has {} and needs {}", change.size(), mark.name,
                                           numbers.size(), steps ? "as many" : "them for every coordinate"));
    const auto nth = [&](int64_t k, size_t i) { return change[static_cast<size_t>(k) * numbers.size() + i]; };
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (steps)
        numbers[i] = moved(name, numbers[i], place.own - place.first, change[i]);
      else
        numbers[i] = moved(name, moved(name, numbers[i], 1, nth(place.own, i)), -1, nth(place.first, i));
    }
    target->second = with_whole_numbers(target->second, numbers);
  }
  return result;
}

}  // namespace boxcar::ir
