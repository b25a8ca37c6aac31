#include "cli/search_limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "backends/machines/framework.h"
#include "ir/read_number.h"
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
  const auto number = [](const std::string& text) { return ir::read_number<int>(text).value_or(-1); };
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

// Null: the key is not searched. Throws where it is no key of a job.
const search::Dimension* dimension_at(const std::string& path, const std::string& where) {
  for (const search::Dimension& d : search::dimensions())
    if ("parallel." + d.name_in_file() == path) return &d;
  const size_t dot = path.find('.');
  if (dot != std::string::npos && find_key(path.substr(0, dot), path.substr(dot + 1))) return nullptr;
  throw Error::input(max_stack, fmt::format("{}: no key of a job is named {}", where, path));
}

const search::Dimension& searched_at(const std::string& path, const std::string& where) {
  if (const search::Dimension* d = dimension_at(path, where)) return *d;
  throw Error::input(max_stack, fmt::format("{}: {} is not searched", where, path));
}

// "bf16|fp32"
std::vector<std::string> words_in(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, '|');) words.push_back(word);
  return words;
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

// Limits where a degree is 2 or more.
struct WhereSplit {
  const char* key;  // the degree's
  int planner::Hints::*degree;
  const char* name;  // in a framework's file
  std::map<std::string, std::string> backends::Framework::*limits;
};
constexpr WhereSplit where_split[] = {
    {"pp", &planner::Hints::pp, "runs_in_pipelines", &backends::Framework::runs_in_pipelines},
    {"tp", &planner::Hints::tp, "runs_split", &backends::Framework::runs_split},
};

search::Rule rule_where(const WhereSplit& where, const search::Dimension& d, const Given& allowed,
                        const std::string& framework) {
  const std::string path = "parallel." + d.name_in_file();
  std::function<bool(const planner::Job&)> keeps;
  if (is_range(path, allowed)) {
    keeps = [&d, limits = range_of(d, allowed)](const planner::Job& job) {
      const int value = number_of(d, job);
      return limits.first <= value && value <= limits.second;
    };
  } else {
    Request request;
    set(request, path, allowed);
    keeps = [&d, only = value_of(d, request.job)](const planner::Job& job) {
      return value_of(d, job) == only;
    };
  }
  return {{where.key, d.key},
          {},
          fmt::format("{} runs {} {} alone where {} is 2 or more ({})", framework, d.name_in_file(),
                      allowed.text, where.key, allowed.where),
          [degree = where.degree, keeps](const planner::Job& job) {
            return job.parallel.*degree == 1 || keeps(job);
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

std::vector<std::string> frameworks_with_runs() {
  std::vector<std::string> names = backends::framework_names();
  std::erase_if(names, [](const std::string& name) { return backends::load_framework(name).runs.empty(); });
  return names;
}

StackLimits restrict_to(const std::string& name, GivenKeys& given) {
  const backends::Framework framework = framework_of_flag(name);
  if (framework.runs.empty())
    throw Error::input(max_stack, fmt::format("framework {} does not say what it runs; those that do are {}",
                                              framework.name, fmt::join(frameworks_with_runs(), ", ")));
  const std::string file = "framework " + framework.name, flag = fmt::format("{} {}", max_stack, name);
  StackLimits limits{framework.name, {}, {}};
  for (const auto& [path, text] : framework.runs) {
    const search::Dimension* const searched = dimension_at(path, file + ": runs");
    if (searched)
      restrict_key(*searched, {text, flag}, framework.name, given);
    else
      limits.words[path] = words_in(text);
  }
  for (const WhereSplit& where : where_split)
    for (const auto& [path, text] : framework.*where.limits)
      limits.rules.push_back(rule_where(where, searched_at(path, fmt::format("{}: {}", file, where.name)),
                                        {text, flag}, framework.name));
  limits.rules.push_back(
      {{"virtual_stages", "pp", "dp", "micro_batch"},
       {},
       fmt::format("{} interleaves multiples of pp micro-batches alone ({})", framework.name, flag),
       [](const planner::Job& job) {
         const planner::Hints& h = job.parallel;
         return h.virtual_stages == 1 || job.global_batch / (int64_t{h.dp} * h.micro_batch) % h.pp == 0;
       }});
  return limits;
}

void check_words(const StackLimits& limits, const GivenKeys& given, const Request& request) {
  for (const auto& [path, words] : limits.words) {
    const Key& key = key_at(path);
    if (!key.is_of(request.job.model.family())) continue;  // then the family is none of theirs
    const std::string value = get(key, request);
    if (std::find(words.begin(), words.end(), value) != words.end()) continue;
    const auto found = given.find(path), model = given.find("model.family");
    const bool of_model = found == given.end() && key.section == "model" && model != given.end();
    const bool by_default = found == given.end() && !of_model;
    throw Error::input(
        by_default ? path
        : of_model ? model->second.where
                   : found->second.where,
        fmt::format("{} {}{}; {} runs {} alone ({} {})", key.name, value, by_default ? " (its default)" : "",
                    limits.framework, fmt::join(words, " or "), max_stack, limits.framework));
  }
}

}  // namespace boxcar::cli
