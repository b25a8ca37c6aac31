// Values of keys (keys.h) as text: read into the fields of a request, and written.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "cli/keys.h"
#include "cli/quantities.h"
#include "ir/ops/optimizers.h"
#include "sbp/error.h"
#include "sbp/suggest.h"
#include "sbp/words.h"

namespace boxcar::cli {
namespace {

constexpr double most_times = 10000;  // the most repeats of a number in a list, and the most numbers

// Explains k and M if a text has other letters after a number: "8G".
std::string units_text(const std::string& text) {
  const bool has_unit = !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) &&
                        std::isalpha(static_cast<unsigned char>(text.back()));
  return has_unit ? "; k behind it stands for 1,024 and M for 1,024 x 1,024, as in 8k" : "";
}

[[noreturn]] void refuse(const std::string& where, const std::string& text, const std::string& expected) {
  throw Error::input(where, fmt::format("got \"{}\", expected {}", text, expected));
}

double parse_number(double least, double most, const std::string& where, const std::string& text,
                    bool whole_only) {
  std::string range = fmt::format("{} from {} to {}", whole_only ? "a whole number" : "a number",
                                  plain_number(least), plain_number(most));
  double value = 0;
  const char* end = text.data() + text.size();
  auto [rest, error] = std::from_chars(text.data(), end, value);
  if (whole_only && rest + 1 == end)  // lengths and sizes of models are counted so; no number is a thousandth
    for (const auto& [unit, factor] : {std::pair('k', 0x1p10), {'m', 0x1p20}})
      if (rest != end && std::tolower(static_cast<unsigned char>(*rest)) == unit) value *= factor, ++rest;
  bool good = error == std::errc() && rest == end && std::isfinite(value);
  if (!good || (whole_only && value != std::floor(value)) || value < least || value > most)
    refuse(where, text, range + (whole_only ? units_text(text) : ""));
  return value;
}

bool parse_bool(const std::string& where, const std::string& text) {
  std::string word = text;  // YAML has true, True and TRUE
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  if (word == "true" || word == "yes" || word == "on" || word == "1" || word.empty()) return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  refuse(where, text, "true or false");
}

std::vector<std::string> split_list(std::string text) {
  if (text == "[]") return {};
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  std::vector<std::string> items(1);
  for (char c : text) {
    if (c == ',')
      items.emplace_back();
    else if (c != ' ')
      items.back() += c;
  }
  return items;
}

size_t parse_word(const Key& key, const std::string& where, const std::string& text) {
  auto found = std::find(key.words.begin(), key.words.end(), text);
  if (found == key.words.end()) {
    const auto meant = key.meant.find(text);
    throw Error::input(
        where, fmt::format("got \"{}\", expected {}{}", text, fmt::join(key.words, ", "),
                           meant == key.meant.end() ? did_you_mean(text, key.words)
                                                    : fmt::format(" (did you mean {}?)", meant->second)));
  }
  return static_cast<size_t>(found - key.words.begin());
}

struct Setter {
  const Key& key;
  const std::string& where;
  const std::string& text;

  void operator()(int* p) const {
    *p = static_cast<int>(parse_number(key.least, key.most, where, text, true));
  }
  void operator()(int64_t* p) const {
    *p = static_cast<int64_t>(parse_number(key.least, key.most, where, text, true));
  }
  void operator()(double* p) const {
    if (key.most >= 1) {
      *p = parse_number(key.least, key.most, where, text, false);
      return;
    }
    const std::optional<double> share = read_share(text);
    if (text.ends_with('%')) {
      if (!share || !(*share >= key.least && *share <= key.most))
        refuse(where, text, fmt::format("0% to {:g}%", 100 * key.most));
      *p = *share;
      return;
    }
    if (share && *share > 1 && *share <= 100 * key.most)
      refuse(where, text,
             fmt::format("a number from {} to {}; {}% is {}", plain_number(key.least), plain_number(key.most),
                         text, plain_number(*share / 100)));
    *p = parse_number(key.least, key.most, where, text, false);
  }
  void operator()(bool* p) const {
    *p = key.words.empty() ? parse_bool(where, text) : parse_word(key, where, text) == 1;
  }
  void operator()(std::string* p) const {
    if (!key.words.empty()) parse_word(key, where, text);
    if (text.empty()) refuse(where, text, "a name");
    *p = text;
  }
  void operator()(planner::PipelineSchedule* p) const { *p = planner::parse_schedule(text, where); }
  void operator()(planner::MeshOrder* p) const { *p = planner::parse_mesh_order(text, where); }
  void operator()(std::vector<int>* p) const {
    p->clear();
    if (text == key.fallback) return;
    for (const std::string& item : split_list(text)) {  // 12x8: eight times 12
      const size_t x = std::min(item.find('x'), item.size());
      const double times = x < item.size() ? parse_number(1, most_times, where, item.substr(x + 1), true) : 1;
      if (static_cast<double>(p->size()) + times > most_times)
        throw Error::input(where, fmt::format("more than {} numbers in a list", most_times));
      p->insert(p->end(), static_cast<size_t>(times),
                static_cast<int>(parse_number(key.least, key.most, where, item.substr(0, x), true)));
    }
  }
  void operator()(std::vector<std::string>* p) const {
    p->clear();
    for (const std::string& item : split_list(text)) {
      if (item.empty()) refuse(where, text, "names with commas between them");
      p->push_back(item);
    }
  }
  void operator()(std::set<std::string>* p) const {
    p->clear();
    std::vector<std::string> names = ir::pass_names();
    for (const std::string& item : split_list(text)) {
      if (std::find(names.begin(), names.end(), item) == names.end()) {
        throw Error::input(where, fmt::format("no pass is named \"{}\"{}; the passes are {}", item,
                                              did_you_mean(item, names), fmt::join(names, ", ")));
      }
      p->insert(item);
    }
  }
  void operator()(std::set<ir::Module>* p) const {
    p->clear();
    for (const std::string& item : split_list(text))
      p->insert(*boxcar::parse_word<ir::Module>(key.words.at(parse_word(key, where, item))));
  }
  template <typename Enum>
  void operator()(Enum* p) const {
    *p = static_cast<Enum>(parse_word(key, where, text));
  }
};

struct Getter {
  const Key& key;
  std::string operator()(int* p) const { return fmt::format("{}", *p); }
  std::string operator()(int64_t* p) const { return fmt::format("{}", *p); }
  std::string operator()(double* p) const { return fmt::format("{}", *p); }
  std::string operator()(bool* p) const {
    return key.words.empty() ? (*p ? "true" : "false") : key.words[*p ? 1 : 0];
  }
  std::string operator()(std::string* p) const { return *p; }
  std::string operator()(planner::PipelineSchedule* p) const { return to_text(*p); }
  std::string operator()(planner::MeshOrder* p) const { return to_text(*p); }
  std::string operator()(std::vector<int>* p) const { return fmt::format("[{}]", fmt::join(*p, ", ")); }
  std::string operator()(std::vector<std::string>* p) const {
    return fmt::format("[{}]", fmt::join(*p, ", "));
  }
  std::string operator()(std::set<std::string>* p) const { return fmt::format("[{}]", fmt::join(*p, ", ")); }
  std::string operator()(std::set<ir::Module>* p) const {
    return fmt::format("[{}]", fmt::join(words(*p), ", "));
  }
  template <typename Enum>
  std::string operator()(Enum* p) const {
    return word(*p);
  }
};

}  // namespace

void set(const Key& key, Request& request, const std::string& where, const std::string& text) {
  std::visit(Setter{key, where, text}, key.field(request));
}

std::string text_of(const Key& key, const Request& request) {
  Request copy = request;
  return std::visit(Getter{key}, key.field(copy));
}

}  // namespace boxcar::cli
