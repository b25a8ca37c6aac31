#include "cli/search_limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>
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

// Null: the key is not searched. Throws if it is no key of a job.
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

// "deepspeed runs schedule 1f1b or zb-h1 alone"
std::string runs_alone(const std::string& framework, const std::string& key, const std::string& text) {
  return fmt::format("{} runs {} {} alone", framework, key, fmt::join(words_in(text), " or "));
}

// Throws if the text of a framework's file has a word that is no value of a key, which is not searched.
void check_words(const std::string& path, const std::string& text, const std::string& where) {
  Request request;
  if (!key_at(path).is_of(request.job.model.family())) return;
  for (const std::string& word : words_in(text))
    if (word.find("..") == std::string::npos) set(request, path, {word, where});
}

// Whether the text of a framework's file, "bf16|fp32" or "1..64", has a value of a key that is not searched.
bool has_value(const std::string& text, const std::string& value) {
  for (const std::string& word : words_in(text)) {
    const size_t dots = word.find("..");
    if (word == value) return true;
    if (dots == std::string::npos) continue;
    const auto least = ir::read_number<double>(word.substr(0, dots)), number = ir::read_number<double>(value),
               most = ir::read_number<double>(word.substr(dots + 2));
    if (least && number && most && *least <= *number && *number <= *most) return true;
  }
  return false;
}

// Whether a job has a value of a searched key that a framework's file lists.
std::function<bool(const planner::Job&)> within(const search::Dimension& d, const Given& allowed) {
  const std::string path = "parallel." + d.name_in_file();
  if (const std::vector<std::string> words = words_in(allowed.text); words.size() > 1) {
    std::vector<std::function<bool(const planner::Job&)>> each;
    for (const std::string& word : words) each.push_back(within(d, {word, allowed.where}));
    return [each](const planner::Job& job) {
      return std::ranges::any_of(each, [&](const auto& is) { return is(job); });
    };
  }
  if (is_range(path, allowed))
    return [&d, limits = range_of(d, allowed)](const planner::Job& job) {
      const int value = number_of(d, job);
      return limits.first <= value && value <= limits.second;
    };
  Request request;
  set(request, path, allowed);
  return [&d, only = value_of(d, request.job)](const planner::Job& job) { return value_of(d, job) == only; };
}

// Replaces an open key by the value or range that the framework runs. Of several words, the key has to be
// one.
void restrict_key(const search::Dimension& d, const Given& allowed, const std::string& framework,
                  GivenKeys& given) {
  const std::string path = "parallel." + d.name_in_file();
  const std::vector<std::string> words = words_in(allowed.text);
  if (words.size() > 1) {
    const auto asked = given.find(path);
    if (asked == given.end()) return;
    Request request;
    if (!is_range(path, asked->second)) {
      set(request, path, asked->second);
      if (within(d, allowed)(request.job)) return;
    }
    throw Error::input(
        asked->second.where,
        fmt::format("{} ({})", runs_alone(framework, d.name_in_file(), allowed.text), allowed.where));
  }
  const auto [found, open] = given.try_emplace(path, allowed);
  if (open || found->second.text == allowed.text) return;
  if (is_range(path, allowed)) {
    const auto [least, most] = range_of(d, allowed);
    Given asked = found->second;
    if (!is_range(path, asked)) asked.text += ".." + asked.text;
    const auto [first, last] = range_of(d, asked);
    if (least <= first && last <= most) return;
  }
  throw Error::input(
      found->second.where,
      fmt::format("{} ({})", runs_alone(framework, d.name_in_file(), allowed.text), allowed.where));
}

// A rule for each key that `some` limits, for messages with the condition in words, "pp is 2 or more", and
// the flag, "--max-stack deepspeed".
std::vector<LimitWhere> limits_where(const std::string& condition, const backends::RunsWhere& some,
                                     const std::string& framework, const std::string& flag) {
  const std::string place = fmt::format("framework {}: runs_where: {}", framework, condition);
  LimitWhere limit;
  std::vector<std::function<bool(const planner::Job&)>> there;
  for (const auto& [path, text] : some.where) {
    const search::Dimension* const d = dimension_at(path, place);
    if (!d) {
      check_words(path, text, place);
      limit.where[path] = text;
      continue;
    }
    limit.rule.keys.push_back(d->key);
    there.push_back(within(*d, {text, place}));
  }
  std::vector<LimitWhere> all;
  for (const auto& [path, text] : some.runs) {
    const search::Dimension& d = searched_at(path, place);
    LimitWhere& one = all.emplace_back(limit);
    one.rule.keys.push_back(d.key);
    one.rule.law =
        fmt::format("{} where {} ({})", runs_alone(framework, d.name_in_file(), text), condition, flag);
    one.rule.holds = [there, keeps = within(d, {text, place})](const planner::Job& job) {
      return keeps(job) || !std::all_of(there.begin(), there.end(), [&](const auto& is) { return is(job); });
    };
  }
  return all;
}

// Megatron-LM, and frameworks like it.
search::Rule whole_groups(const std::string& framework, const std::string& flag) {
  return {{"virtual_stages", "pp", "dp", "micro_batch"},
          {},
          fmt::format("{} interleaves multiples of pp micro-batches alone ({})", framework, flag),
          [](const planner::Job& job) {
            const planner::Hints& h = job.parallel;
            return h.virtual_stages == 1 || job.global_batch / (int64_t{h.dp} * h.micro_batch) % h.pp == 0;
          }};
}

// PyTorch's DualPipeV.
search::Rule enough_for_dualpipe(const std::string& framework, const std::string& flag) {
  return {{"schedule", "pp", "dp", "micro_batch"},
          {},
          fmt::format("{} runs dualpipe-v with 2 x pp micro-batches or more alone ({})", framework, flag),
          [](const planner::Job& job) {
            const planner::Hints& h = job.parallel;
            return h.schedule != planner::Schedule::dualpipe_v ||
                   job.global_batch / (int64_t{h.dp} * h.micro_batch) >= 2 * h.pp;
          }};
}

// The framework's own value of a key, in a search; null: none.
const std::string* own_value(const backends::Framework& framework, const std::string& path) {
  for (const auto* values : {&framework.searched_as, &framework.defaults})
    if (const auto found = values->find(path); found != values->end()) return &found->second;
  return nullptr;
}

}  // namespace

std::map<std::string, std::pair<int, int>> take_ranges(GivenKeys& given) {
  std::set<std::string> numbers;
  std::map<std::string, std::pair<int, int>> ranges;
  for (const search::Dimension& d : search::dimensions()) {
    const auto found = given.find("parallel." + d.name_in_file());
    if (d.is_switch() && found != given.end() && found->second.text == "any") {
      ranges[d.key] = {0, 1};
      given.erase(found);
    }
    if (!d.is_number()) continue;
    numbers.insert(d.key);
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

FrameworkLimits restrict_to(const std::string& name, GivenKeys& given) {
  FrameworkLimits limits{framework_of_flag(name), {}, {}};
  const backends::Framework& framework = limits.framework;
  if (framework.runs.empty())
    throw Error::input(max_stack, fmt::format("framework {} does not say what it runs; those that do are {}",
                                              framework.name, fmt::join(frameworks_with_runs(), ", ")));
  const std::string flag = fmt::format("{} {}", max_stack, name);
  for (const auto& [path, text] : framework.runs) {
    const std::string place = fmt::format("framework {}: runs", framework.name);
    const search::Dimension* const searched = dimension_at(path, place);
    if (!searched) {
      check_words(path, text, place);
      limits.values[path] = text;
      continue;
    }
    restrict_key(*searched, {text, flag}, framework.name, given);
    if (const std::vector<std::string> words = words_in(text); words.size() > 1)
      limits.rules.push_back(
          {{},
           {{searched->key},
            {},
            fmt::format("{} ({})", runs_alone(framework.name, searched->name_in_file(), text), flag),
            within(*searched, {text, flag})}});
  }
  for (const auto& [condition, some] : framework.runs_where)
    std::ranges::move(limits_where(condition, some, framework.name, flag), std::back_inserter(limits.rules));
  limits.rules.push_back({{}, whole_groups(framework.name, flag)});
  limits.rules.push_back({{}, enough_for_dualpipe(framework.name, flag)});
  return limits;
}

std::vector<search::Rule> rules_of(const FrameworkLimits& limits, const Request& request) {
  std::vector<search::Rule> rules;
  for (const LimitWhere& limit : limits.rules) {
    const bool there = std::all_of(limit.where.begin(), limit.where.end(), [&](const auto& one) {
      const Key& key = key_at(one.first);
      return key.is_of(request.job.model.family()) && has_value(one.second, text_of(key, request));
    });
    if (there) rules.push_back(limit.rule);
  }
  return rules;
}

void check_values(const FrameworkLimits& limits, const GivenKeys& given, const Request& request) {
  const std::string& framework = limits.framework.name;
  for (const auto& [path, text] : limits.values) {
    const Key& key = key_at(path);
    if (!key.is_of(request.job.model.family())) continue;  // then the framework does not run the family
    const std::string value = text_of(key, request);
    if (has_value(text, value)) continue;
    const auto found = given.find(path), model = given.find("model.family");
    const std::string* const own = own_value(limits.framework, path);
    const bool by_default = found == given.end() && (own || key.section != "model" || model == given.end());
    const std::string& where = found != given.end() ? found->second.where
                               : by_default         ? path
                                                    : model->second.where;
    throw Error::input(
        where, fmt::format("{} {}{}; {} runs {} alone ({} {}){}", key.name, value,
                           by_default ? " (its default)" : "", framework, fmt::join(words_in(text), " or "),
                           max_stack, framework,
                           by_default && own ? fmt::format("; --stack {} has {}", framework, *own) : ""));
  }
}

}  // namespace boxcar::cli
