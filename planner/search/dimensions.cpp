#include "planner/search/dimensions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "sbp/words.h"

namespace boxcar::search {
namespace {

using planner::Job;

template <typename T>
constexpr bool is_list = std::is_same_v<T, std::vector<int>>;
template <typename T>
constexpr bool is_numeric =
    std::is_same_v<T, int> || std::is_same_v<T, bool> || std::is_same_v<T, ir::Recompute>;

[[noreturn]] void refuse(const Dimension& d) { throw std::logic_error(d.key + " is no number"); }

}  // namespace

const Dimension& dimension(std::string_view key) {
  const std::vector<Dimension>& all = dimensions();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Dimension& d) { return d.key == key; });
  if (found == all.end()) throw std::logic_error(fmt::format("{} is no dimension of the search", key));
  return *found;
}

std::vector<const Dimension*> ordered_by(int Dimension::*column) {
  std::vector<const Dimension*> rows;
  for (const Dimension& d : dimensions())
    if (d.*column > 0) rows.push_back(&d);
  std::ranges::stable_sort(rows, {}, [&](const Dimension* d) { return d->*column; });
  return rows;
}

Value value_of(const Dimension& d, const Job& job) {
  return std::visit([&](auto member) { return Value(field(job, member)); }, d.field);
}

std::string text_of(const Dimension& d, const Job& job) {
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (is_list<T>)
          return fmt::format("{}", fmt::join(value, ","));
        else if constexpr (std::is_enum_v<T>)
          return word(value);
        else if constexpr (requires { to_text(value); })
          return to_text(value);
        else
          return fmt::format("{}", value);
      },
      value_of(d, job));
}

int number_of(const Dimension& d, const Job& job) {
  return std::visit(
      [&](const auto& value) -> int {
        if constexpr (is_numeric<std::decay_t<decltype(value)>>) return static_cast<int>(value);
        refuse(d);
      },
      value_of(d, job));
}

void set_number(const Dimension& d, Job& job, int value) {
  std::visit(
      [&](auto member) {
        using T = std::decay_t<decltype(field(job, member))>;
        if constexpr (is_numeric<T>)
          field(job, member) = static_cast<T>(value);
        else
          refuse(d);
      },
      d.field);
}

void copy_value(const Dimension& d, const Job& from, Job& to) {
  std::visit([&](auto member) { field(to, member) = field(from, member); }, d.field);
}

void set_default(const Dimension& d, Job& job) { copy_value(d, Job(), job); }

Job undecided(Job job) {
  for (const Dimension& d : dimensions()) set_default(d, job);
  return job;
}

}  // namespace boxcar::search
