#include "cli/sbp_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ir/read_number.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

constexpr int64_t most_elements = int64_t{1} << 48;
constexpr size_t most_devices = 1024;  // a route names every group and slice

// Puts `place` before the error that `read` reports.
template <typename Read>
auto named(const std::string& place, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error::input(place, error.what());
  }
}

// 12 in two dimensions: {3, 4}; 8: {2, 4}; 5: {1, 5}.
sbp::Shape squarest_mesh(int64_t devices, size_t dims) {
  sbp::Shape mesh;
  for (; dims > 1; --dims) {
    const double root = std::pow(static_cast<double>(devices), 1.0 / static_cast<double>(dims));
    auto extent = static_cast<int64_t>(root + 1e-9);
    while (devices % extent != 0) --extent;
    mesh.push_back(extent);
    devices /= extent;
  }
  mesh.push_back(devices);
  return mesh;
}

}  // namespace

sbp::Shape read_shape(const std::string& place, const std::string& text) {
  if (text == "scalar") return {};
  const auto wrong = [&](const std::string& problem) {
    return Error::input(place, fmt::format("\"{}\" {}", text, problem));
  };
  sbp::Shape shape;
  int64_t elements = 1;
  for (const char *next = text.data(), *end = next + text.size();; ++next) {
    int64_t extent = 0;
    const auto [stop, error] = std::from_chars(next, end, extent);
    if (error == std::errc::invalid_argument || (stop != end && *stop != 'x'))
      throw wrong("is no shape; expected extents such as 4x6, or scalar");
    if (error == std::errc() && extent < 1)
      throw wrong(fmt::format("has extent {}; expected 1 or more", extent));
    if (error != std::errc() || extent > most_elements / elements) throw wrong("has more than 2^48 elements");
    elements *= extent;
    shape.push_back(extent);
    next = stop;
    if (stop == end) break;
  }
  return shape;
}

int64_t read_count(const std::string& place, const std::string& text, int64_t most) {
  const auto count = ir::read_number<int64_t>(text);
  if (!count || *count < 1 || *count > most)
    throw Error::input(place, fmt::format("\"{}\" is not a whole number of 1 to {}", text, most));
  return *count;
}

ir::DType read_dtype(const std::string& place, const std::string& text) {
  return named(place, [&] { return ir::parse_dtype(text == "bool" ? "boolean" : text); });
}

ir::Attrs read_attrs(const std::vector<std::string>& texts) {
  ir::Attrs attrs;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      throw Error::input("--attr",
                         fmt::format("\"{}\" is no attribute; expected name=value, such as axis=1", text));
    const std::string name = text.substr(0, equals);
    if (attrs.count(name)) throw Error::input("--attr", fmt::format("{} is given twice", name));
    attrs[name] = named("--attr " + name, [&] { return ir::parse_attr(text.substr(equals + 1)); });
  }
  return attrs;
}

sbp::Layout read_layout(const End& end, const sbp::Shape& shape, const sbp::Layout* other) {
  const std::string flag = "--" + end.name;
  sbp::Layout layout{shape, named(flag, [&] { return sbp::parse_nd_sbp(end.sbp); }), {}};
  layout.placement = named(flag + "-devices", [&] { return sbp::parse_placement(end.devices); });
  const size_t devices = layout.placement.devices.size();
  if (devices > most_devices)
    throw Error::input(flag + "-devices", fmt::format("{} devices; a route is worked out for at most {}",
                                                      devices, most_devices));
  if (!end.mesh.empty()) {
    layout.placement.mesh = named(flag + "-mesh", [&] { return sbp::parse_mesh(end.mesh); });
    named(flag + "-mesh", [&] { sbp::check_placement(layout.placement); });
  } else if (layout.placement.mesh.size() == 1 && layout.sbp.size() > 1) {
    const bool same =
        other && other->sbp.size() == layout.sbp.size() && other->placement.devices.size() == devices;
    layout.placement.mesh =
        same ? other->placement.mesh : squarest_mesh(static_cast<int64_t>(devices), layout.sbp.size());
  }
  named(flag, [&] { sbp::check_layout(layout.shape, layout.sbp, layout.placement.mesh); });
  return layout;
}

}  // namespace boxcar::cli
