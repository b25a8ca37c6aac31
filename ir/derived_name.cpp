#include "ir/derived_name.h"

#include <fmt/format.h>

#include <array>

namespace boxcar::ir {
namespace {

constexpr std::array<std::string_view, 6> endings = {".grad", ".half",       ".sum",
                                                     ".next", ".recomputed", ".replica"};

}  // namespace

std::string derived_name(std::string_view of, Derived what) {
  return fmt::format("{}{}", of, endings.at(static_cast<size_t>(what)));
}

std::string derived_name(std::string_view of, Derived what, int number) {
  return fmt::format("{}{}", derived_name(of, what), number);
}

std::string_view base_name(std::string_view name) {
  const auto strip = [&] {
    std::string_view left = name;
    while (!left.empty() && left.back() >= '0' && left.back() <= '9') left.remove_suffix(1);
    for (const std::string_view ending : endings)
      if (left.ends_with(ending)) {
        name = left.substr(0, left.size() - ending.size());
        return true;
      }
    if (!left.ends_with('.') || left.size() == name.size()) return false;  // no part's number
    name = left.substr(0, left.size() - 1);
    return true;
  };
  while (strip()) {
  }
  return name;
}

}  // namespace boxcar::ir
