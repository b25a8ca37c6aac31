#include "cli/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "backends/machines/cluster.h"
#include "backends/machines/constant_unit.h"
#include "backends/machines/named_constants.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

using backends::Cluster;
using backends::NamedConstant;

// The whole of `text` as a number.
bool read(std::string_view text, double& value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && rest == text.data() + text.size() && std::isfinite(value);
}

struct Setting {
  std::string name, value;
};

Setting split(const std::string& text, const char* option, const char* expected) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw Error::input(option, fmt::format("got \"{}\", expected {}", text, expected));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<NamedConstant> find(Cluster& cluster, const std::string& name) {
  std::vector<NamedConstant> found = backends::find_constants(cluster, name);
  if (!found.empty()) return found;
  std::vector<std::string> known = backends::constant_names(cluster);
  for (const std::string& shorter : backends::short_constant_names()) known.push_back(shorter);
  throw Error::input("--what-if", fmt::format("unknown constant \"{}\"{}; docs/clusters.md lists them", name,
                                              did_you_mean(name, known)));
}

}  // namespace

void change(Cluster& cluster, const std::string& text) {
  const Setting set = split(text, "--what-if", "NAME=NUMBER or NAME=FACTORx, as bandwidth.network=2x");
  const std::vector<NamedConstant> constants = find(cluster, set.name);
  const std::string where = "--what-if " + set.name;
  const bool factor = set.value.back() == 'x';
  const std::optional<double> read =
      backends::read_constant(factor ? "" : constants.front().name,
                              std::string_view(set.value).substr(0, set.value.size() - (factor ? 1 : 0)));
  const ir::Unit unit = backends::unit_of(constants.front().name);
  if (!read || *read < 0) {
    throw Error::input(where,
                       fmt::format("got \"{}\", expected a number{}, or a factor as 2x{}", set.value,
                                   unit == ir::Unit::none ? "" : fmt::format(" as {}", example_of(unit)),
                                   ir::units_hint(set.value, unit)));
  }
  const double number = *read;
  if (!factor && constants.size() != 1)
    throw Error::input(where, fmt::format("stands for {} numbers; give a factor as 2x", constants.size()));
  if (factor &&
      std::all_of(constants.begin(), constants.end(), [](const NamedConstant& c) { return c.value() == 0; }))
    throw Error::input(where, "is 0, which no factor changes; give a number");
  for (const NamedConstant& constant : constants) {
    if (factor && constant.value() == 0) continue;
    const double next = factor ? constant.value() * number : number;
    if (next < constant.least || next > constant.most)
      throw Error::input(
          where,
          fmt::format(
              "{}would be {:g}, expected {:g} to {:g}{}", constants.size() > 1 ? constant.name + " " : "",
              next, constant.least, constant.most,
              factor || unit == ir::Unit::none ? "" : fmt::format(", or a unit as in {}", example_of(unit))));
    constant.set(next);
  }
}

void slow_down(Cluster& cluster, const std::string& text) {
  constexpr const char* expected = "rank=NUMBER,slowdown=FACTOR, as rank=17,slowdown=1.3";
  const size_t comma = text.find(',');
  if (comma == std::string::npos)
    throw Error::input("--straggler", fmt::format("got \"{}\", expected {}", text, expected));
  double rank = -1, factor = 0;
  for (const std::string& part : {text.substr(0, comma), text.substr(comma + 1)}) {
    const Setting set = split(part, "--straggler", expected);
    double* to = set.name == "rank" ? &rank : set.name == "slowdown" ? &factor : nullptr;
    if (!to || !read(set.value, *to))
      throw Error::input("--straggler", fmt::format("got \"{}\", expected {}", text, expected));
  }
  const int devices = cluster.devices();
  if (rank < 0 || rank >= devices || rank != std::floor(rank))
    throw Error::input("--straggler",
                       fmt::format("rank {:g} is not there; ranks are 0 to {}", rank, devices - 1));
  if (factor < 1 || factor > 1000)
    throw Error::input("--straggler", fmt::format("slowdown {:g} is outside 1 to 1000", factor));
  cluster.slowdown[static_cast<int>(rank)] = factor;
}

}  // namespace boxcar::cli
