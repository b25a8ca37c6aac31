#include "planner/estimate/layout_labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::search {
namespace {

constexpr const char* section = "search.layouts.";

constexpr const char* open_names[] = {"one", "each", "both"};  // by Open

Open open_of(const std::string& key, const std::string& text) {
  const auto* const found = std::find(std::begin(open_names), std::end(open_names), text);
  if (found == std::end(open_names))
    throw Error::input("label " + key,
                       fmt::format("got \"{}\", expected {}", text, fmt::join(open_names, ", ")));
  return static_cast<Open>(found - std::begin(open_names));
}

double number(const std::string& key, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0))
    throw Error::input("label " + key, fmt::format("got \"{}\", expected a number from 0 on", text));
  return value;
}

}  // namespace

void add_labels(const LayoutRequest& request, std::map<std::string, std::string>& labels) {
  const std::string prefix = section;
  labels[prefix + "partial"] = request.partial ? "true" : "false";
  labels[prefix + "open"] = at(open_names, request.open);
  labels[prefix + "states"] = fmt::format("{}", request.weights.states);
  labels[prefix + "memory"] = fmt::format("{}", request.weights.memory);
  for (size_t i = 0; i < request.pins.size(); ++i)
    labels[fmt::format("{}pin.{}", section, i + 1)] = to_text(request.pins[i]);
}

std::optional<LayoutRequest> layouts_of(const std::map<std::string, std::string>& labels) {
  std::optional<LayoutRequest> request;
  for (const auto& [key, text] : labels) {
    if (!key.starts_with(section)) continue;
    if (!request) request.emplace();
    const std::string name = key.substr(std::string(section).size());
    if (name == "partial") request->partial = text == "true";
    if (name == "open") request->open = open_of(key, text);
    if (name == "states") request->weights.states = number(key, text);
    if (name == "memory") request->weights.memory = number(key, text);
    if (name.starts_with("pin.")) request->pins.push_back(parse_pin(text));
  }
  return request;
}

}  // namespace boxcar::search
