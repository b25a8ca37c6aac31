#include "planner/search/contradiction.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "planner/search/dimensions.h"
#include "planner/search/points.h"

namespace boxcar::search {
namespace {

using planner::Job;
using Keys = std::vector<std::string>;
using Rules = std::vector<const Rule*>;

constexpr int most_uses = 1024;  // values of a key that are tried for a message
constexpr size_t most_named = 10;

std::string named_value(const Job& job, const Fixed& fixed, const std::string& key) {
  const Dimension& d = dimension(key);
  if (const auto range = fixed.ranges.find(key); range != fixed.ranges.end())
    return fmt::format("{} {}..{}", d.name_in_file(), range->second.first, range->second.second);
  const std::string text = text_of(d, job);
  return fmt::format("{} {}", d.name_in_file(), text.empty() ? d.flag.fallback : text);
}

// The same with only some of the keys given.
struct Some {
  Job job;
  Fixed fixed;
  Some(const Job& whole, const Fixed& given, const Keys& keys) : job(whole) {
    fixed.layouts = given.layouts, fixed.rules = given.rules;
    for (const std::string& key : keys) {
      if (given.is_pinned(key)) fixed.pinned.insert(key);
      if (const auto range = given.ranges.find(key); range != given.ranges.end()) fixed.ranges.insert(*range);
    }
    for (const Dimension& d : dimensions())
      if (d.named > 0 && !d.values && !fixed.is_pinned(d.key)) set_default(d, job);
  }
  bool is_possible() const {
    bool any = false;
    each_point(job, fixed, [&](const Job&) { return any = true; });
    return any;
  }
};

// The first of one, two or three keys with which there is no point although all others are free; else all.
Keys in_the_way(const Job& job, const Fixed& fixed) {
  Keys given;
  for (const Dimension* d : ordered_by(&Dimension::named))
    if (fixed.is_given(d->key)) given.push_back(d->key);
  const auto rules_out = [&](const Keys& keys) { return !Some(job, fixed, keys).is_possible(); };
  if (rules_out({})) return {};
  for (const std::string& a : given)
    if (rules_out({a})) return {a};
  for (size_t a = 0; a < given.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      if (rules_out({given[a], given[b]})) return {given[a], given[b]};
  for (size_t a = 0; a < given.size(); ++a)
    for (size_t b = 0; b < a; ++b)
      for (size_t c = 0; c < b; ++c)
        if (rules_out({given[a], given[b], given[c]})) return {given[a], given[b], given[c]};
  return given;
}

// A minimal set of rules that cannot be kept together: without any one of them, there is a point.
Rules core(const Some& some, const std::vector<Rule>& all) {
  Rules rules;
  for (const Rule& rule : all) rules.push_back(&rule);
  for (size_t r = rules.size(); r-- > 0;) {
    Rules fewer = rules;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(r));
    if (!any_point(some.job, some.fixed, fewer)) rules = std::move(fewer);
  }
  return rules;
}

// "1, 2 or 4"
std::string either(const Keys& all) {
  const Keys first(all.begin(), all.end() - 1);
  return first.empty() ? all.back() : fmt::format("{} or {}", fmt::join(first, ", "), all.back());
}

// " (use 1, 2 or 4)": values of the key that are legal with all other given keys.
std::string uses(const Job& job, const Fixed& fixed, const std::string& key) {
  const Dimension& d = dimension(key);
  if (!d.is_number()) return "";
  const std::vector<Rule> rules = rules_of(job, fixed);
  Rules all;
  for (const Rule& rule : rules) all.push_back(&rule);
  Fixed with = fixed;
  with.ranges.erase(key);
  with.pinned.insert(key);
  Keys values;
  for (int v = d.least; v <= most_uses && values.size() < most_named; ++v) {
    Job one = job;
    set_number(d, one, v);
    if (any_point(one, with, all)) values.push_back(fmt::format("{}", v));
  }
  return values.empty() ? "" : fmt::format(" (use {})", either(values));
}

}  // namespace

std::string contradiction(const Job& job, const Fixed& fixed) {
  const Keys keys = in_the_way(job, fixed);
  const Some some(job, fixed, keys);
  const std::vector<Rule> rules = rules_of(some.job, some.fixed);
  Keys facts, laws, names;
  const auto add = [](Keys& list, const std::string& text) {
    if (std::count(list.begin(), list.end(), text) == 0) list.push_back(text);
  };
  for (const Rule* rule : core(some, rules)) {
    for (const std::string& fact : rule->facts) add(facts, fact);
    add(laws, rule->law);
  }
  for (const std::string& key : keys) names.push_back(named_value(job, fixed, key));
  const std::string why = fmt::format("{}", fmt::join(laws, ", and "));
  const std::string with = facts.empty() ? "" : fmt::format(" with {}", fmt::join(facts, ", "));
  switch (names.size()) {
    case 0:
      return fmt::format("no combination of degrees is legal{}: {}", with, why);
    case 1:
      return fmt::format(
          "{} {}: {}{}", names[0],
          facts.empty() ? "is not possible" : fmt::format("contradicts {}", fmt::join(facts, " and ")), why,
          uses(job, fixed, keys[0]));
    case 2:
      return fmt::format("{} contradicts {}{}: {}", names[0], names[1], with, why);
    default:
      return fmt::format("{} contradict each other{}: {}", fmt::join(names, ", "), with, why);
  }
}

}  // namespace boxcar::search
