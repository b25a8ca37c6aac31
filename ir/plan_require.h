// Errors of a plan's checks: the place, then the value found and the expected value.
//
//   require(r.every >= 1, {program, r.name, "%"}, "every {}, at least 1", r.every);
//   throws Error (bad input): "stage0: %x: every 0, at least 1"
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "ir/plan.h"
#include "sbp/error.h"

namespace boxcar::ir {

// Subject of an error. Its text is built only when an error is thrown.
struct PlanPlace {
  PlanPlace(const std::string& whole) : first(whole) {}
  PlanPlace(const char* whole) : first(whole) {}
  PlanPlace(const Program& program, std::string_view name, const char* mark = "")
      : first(program.name), second(name), mark(mark) {}
  std::string_view first, second;
  const char* mark = "";

  std::string text() const {
    return second.empty() ? std::string(first) : fmt::format("{}: {}{}", first, mark, second);
  }
};

template <typename... Args>
void require(bool holds, const PlanPlace& where, fmt::format_string<Args...> message, Args&&... args) {
  if (!holds) throw Error::input(where.text(), fmt::format(message, std::forward<Args>(args)...));
}

}  // namespace boxcar::ir
