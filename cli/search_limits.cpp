#include "cli/search_limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <set>

#include "backends/machines/framework.h"
#include "planner/search/dimensions.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

constexpr const char* max_stack = "--max-stack";

// "1..4"
bool is_range(const std::string& path, const Given& given) {
  return path.starts_with("parallel.") && given.text.find("..") != std::string::npos;
}

std::pair<int, int> range_of(const search::Dimension& d, const Given& given) {
  const size_t dots = given.text.find("..");
  const auto number = [](const std::string& text) {
    int n = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    return error == std::errc() && end == text.data() + text.size() ? n : -1;
  };
  const auto refuse = [&](const std::string& expected) {
    throw Error::input(given.where, fmt::format("got \"{}\", expected {}", given.text, expected));
  };
  const int first = number(given.text.substr(0, dots)), last = number(given.text.substr(dots + 2));
  if (first < 0 || last < first) refuse("a range such as 1..4");
  if (first < d.least || (d.has_levels() && last > d.most))
    refuse(d.has_levels() ? fmt::format("a range within {}..{}", d.least, d.most)
                          : fmt::format("a range that begins at {} or more", d.least));
  return {first, last};
}

backends::Framework framework_of_flag(const std::string& name) {
  try {
    return backends::load_framework(name);
  } catch (const Error& error) {
    const std::string text = error.what(), place = "framework: ";
    throw Error::input(max_stack, text.starts_with(place) ? text.substr(place.size()) : text);
  }
}

const search::Dimension& dimension_at(const std::string& path, const std::string& where) {
  for (const search::Dimension& d : search::dimensions())
    if ("parallel." + d.name_in_file() == path) return d;
  throw Error::input(max_stack, fmt::format("{}: no key that is searched is named {}", where, path));
}

// Puts what the framework runs in place of an open key.
void restrict_key(const search::Dimension& d, const Given& allowed, const std::string& framework,
                  GivenKeys& given) {
  const std::string path = "parallel." + d.name_in_file();
  const auto [found, open] = given.try_emplace(path, allowed);
  if (open || found->second.text == allowed.text) return;
  if (is_range(path, allowed)) {
    const auto [least, most] = range_of(d, allowed);
    Given asked = found->second;
    if (!is_range(path, asked)) asked.text += ".." + asked.text;
    const auto [first, last] = range_of(d, asked);
    if (least <= first && last <= most) return;
  }
  throw Error::input(found->second.where, fmt::format("{} runs {} {} alone ({})", framework, d.name_in_file(),
                                                      allowed.text, allowed.where));
}

search::Rule rule_in_pipelines(const search::Dimension& d, const Given& allowed,
                               const std::string& framework) {
  const std::pair<int, int> limits = range_of(d, allowed);
  return {{"pp", d.key},
          {},
          fmt::format("{} runs {} {} alone where pp is 2 or more ({})", framework, d.name_in_file(),
                      allowed.text, allowed.where),
          [&d, limits](const planner::Job& job) {
            const int value = number_of(d, job);
            return job.parallel.pp == 1 || (limits.first <= value && value <= limits.second);
          }};
}

}  // namespace

std::map<std::string, std::pair<int, int>> take_ranges(GivenKeys& given) {
  std::set<std::string> numbers;
  std::map<std::string, std::pair<int, int>> ranges;
  for (const search::Dimension& d : search::dimensions()) {
    if (!d.is_number()) continue;
    numbers.insert(d.key);
    const auto found = given.find("parallel." + d.name_in_file());
    if (found == given.end() || !is_range(found->first, found->second)) continue;
    ranges[d.key] = range_of(d, found->second);
    given.erase(found);
  }
  for (const auto& [path, value] : given)
    if (is_range(path, value))
      throw Error::input(value.where, fmt::format("got \"{}\", but only {} take a range", value.text,
                                                  fmt::join(numbers, ", ")));
  return ranges;
}

std::vector<search::Rule> restrict_to(const std::string& name, GivenKeys& given) {
  const backends::Framework framework = framework_of_flag(name);
  if (framework.runs.empty())
    throw Error::input(max_stack, fmt::format("framework {} does not say what it runs", framework.name));
  const std::string file = "framework " + framework.name, flag = fmt::format("{} {}", max_stack, name);
  for (const auto& [path, text] : framework.runs)
    restrict_key(dimension_at(path, file + ": runs"), {text, flag}, framework.name, given);
  std::vector<search::Rule> rules;
  for (const auto& [path, text] : framework.runs_in_pipelines)
    rules.push_back(
        rule_in_pipelines(dimension_at(path, file + ": runs_in_pipelines"), {text, flag}, framework.name));
  return rules;
}

}  // namespace boxcar::cli
