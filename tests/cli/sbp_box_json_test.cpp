// The output of `boxcar sbp box --json` suffices to execute a route: an interpreter that uses only that
// document, as docs/boxing.md describes it, runs on numbers.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "cli/sbp_command.h"
#include "sbp/apply.h"

namespace boxcar::cli {
namespace {

using nlohmann::json;
using Block = std::vector<std::pair<int64_t, int64_t>>;

struct Part {
  Block block;
  std::vector<double> values;
};
using Parts = std::map<std::string, std::vector<Part>>;  // by device

std::string box_json(const sbp::Layout& from, const sbp::Layout& to) {
  CLI::App app("", "boxcar");
  std::ostringstream out;
  add_sbp_command(app, out);
  const auto devices = [](const sbp::Layout& layout) {
    return fmt::format("{}", fmt::join(layout.placement.devices, ","));
  };
  const auto mesh = [](const sbp::Layout& layout) {
    return fmt::format("{}", fmt::join(layout.placement.mesh, "x"));
  };
  std::vector<std::string> words{
      "sbp",
      "box",
      "--json",
      "--shape",
      from.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(from.shape, "x")),
      "--from",
      sbp::to_text(from.sbp),
      "--from-devices",
      devices(from),
      "--from-mesh",
      mesh(from),
      "--to",
      sbp::to_text(to.sbp),
      "--to-devices",
      devices(to),
      "--to-mesh",
      mesh(to)};
  std::reverse(words.begin(), words.end());
  app.parse(std::move(words));
  return out.str();
}

double identity(const std::string& reduction) {
  if (reduction == "sum") return 0;
  const double infinity = std::numeric_limits<double>::infinity();
  return reduction == "max" ? -infinity : infinity;
}
double combined(const std::string& how, double now, double more) {
  if (how == "copy") return more;
  return how == "sum" ? now + more : how == "max" ? std::max(now, more) : std::min(now, more);
}

Block common(const Block& a, const Block& b) {
  Block result;
  for (size_t d = 0; d < a.size(); ++d)
    result.push_back({std::max(a[d].first, b[d].first), std::min(a[d].second, b[d].second)});
  return result;
}

// Indices of a block's elements in the array of a part.
std::vector<size_t> places(const Block& block, const Block& part) {
  std::vector<size_t> result{0};
  for (size_t d = 0; d < block.size(); ++d) {
    std::vector<size_t> next;
    for (const size_t place : result)
      for (int64_t i = block[d].first; i < block[d].second; ++i)
        next.push_back(place * static_cast<size_t>(part[d].second - part[d].first) +
                       static_cast<size_t>(i - part[d].first));
    result = std::move(next);
  }
  return result;
}

void put(Part& to, const Part& from, const Block& block, const std::string& how) {
  const auto mine = places(block, to.block), theirs = places(block, from.block);
  for (size_t i = 0; i < mine.size(); ++i)
    to.values[mine[i]] = combined(how, to.values[mine[i]], from.values[theirs[i]]);
}

Part& part_with(std::vector<Part>& parts, const Block& block) {
  for (Part& part : parts)
    if (common(part.block, block) == block) return part;
  throw std::runtime_error("no part holds the block");
}

// Devices' buffers before the first write: undefined (NaN here), or the identity of a reduction.
Parts empty_parts(const json& holds) {
  Parts parts;
  for (const auto& [device, pieces] : holds.items())
    for (const json& piece : pieces) {
      Part part{piece.at("block").get<Block>(), {}};
      size_t volume = 1;
      for (const auto& [begin, end] : part.block) volume *= static_cast<size_t>(end - begin);
      part.values.assign(volume, piece.contains("identity") ? identity(piece["identity"]) : std::nan(""));
      if (piece.contains("fills"))
        for (const json& fill : piece["fills"])
          for (const size_t place : places(fill.at("block").get<Block>(), part.block))
            part.values[place] = identity(fill.at("identity"));
      parts[device].push_back(std::move(part));
    }
  return parts;
}

Parts after(const json& step, Parts before) {
  Parts parts = empty_parts(step.at("holds"));
  if (step.contains("slices"))
    for (const json& slice : step["slices"]) {
      const Block block = slice.at("block").get<Block>();
      const auto device = [&](const char* end) { return std::to_string(slice.at(end).get<int>()); };
      put(part_with(parts.at(device("to")), block), part_with(before.at(device("from")), block), block,
          slice.at("how"));
    }
  if (!step.contains("groups")) return parts;
  const std::string kind = step.at("collective");
  for (const json& group : step["groups"])
    for (const json& taker : group) {
      const std::string to = std::to_string(taker.get<int>());
      if (!parts.contains(to)) continue;  // has no result
      Part& part = parts.at(to)[0];
      bool first = true;
      for (const json& giver : group) {
        const Part& from = before.at(std::to_string(giver.get<int>()))[0];
        const Block block = common(part.block, from.block);
        bool empty = false;
        for (const auto& [begin, end] : block) empty |= end <= begin;
        const std::string how = step.contains("reduction") && !first ? step["reduction"] : "copy";
        if (!empty) put(part, from, block, how);
        if (kind == "broadcast") break;  // all data come from the first
        first = false;
      }
    }
  return parts;
}

sbp::Held run(const json& route, const sbp::Held& held) {
  Parts parts = empty_parts(route.at("holds"));
  for (auto& [device, own] : parts) own.at(0).values = held.at(std::stoi(device)).at(0).values;
  for (const json& step : route.at("steps")) parts = after(step, std::move(parts));
  sbp::Held result;
  for (const auto& [device, own] : parts)
    for (const Part& part : own) {
      sbp::Piece piece{{}, part.values};
      for (const auto& [begin, end] : part.block) piece.at.push_back({begin, end});
      for (const double value : part.values)
        if (std::isnan(value)) throw std::runtime_error("device " + device + " holds what nobody wrote");
      result[std::stoi(device)].push_back(std::move(piece));
    }
  return result;
}

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  sbp::Shape shape() {
    sbp::Shape shape(static_cast<size_t>(number(0, 3)));
    for (int64_t& extent : shape) extent = number(1, 6);
    return shape;
  }
  sbp::Layout layout(const sbp::Shape& shape) {
    sbp::Layout layout{shape, {}, {}};
    int64_t devices = 1;
    for (int64_t d = number(1, 3); d > 0; --d) {
      layout.placement.mesh.push_back(number(1, 3));
      devices *= layout.placement.mesh.back();
      layout.sbp.push_back(entry(shape));
    }
    std::vector<int> ids(30);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
    if (number(0, 2) == 0) std::shuffle(ids.begin(), ids.end(), random_);
    const int64_t first = number(0, 3);
    layout.placement.devices.assign(ids.begin() + first, ids.begin() + first + devices);
    layout.sbp = sbp::canonical(layout.sbp);
    return layout;
  }

 private:
  sbp::Sbp entry(const sbp::Shape& shape) {
    const int64_t kind = number(0, 3);
    if (kind == 0) return sbp::Sbp::P(static_cast<sbp::Reduction>(number(0, 2)));
    if (kind == 1 || shape.empty()) return sbp::Sbp::B();
    return sbp::Sbp::S(static_cast<int>(number(0, static_cast<int64_t>(shape.size()) - 1)),
                       static_cast<int>(number(0, 1)));
  }
  std::mt19937 random_;
};

void check(unsigned first, unsigned rounds) {
  for (unsigned seed = first; seed < first + rounds && !testing::Test::HasFailure(); ++seed) {
    Draw draw(seed);
    const sbp::Shape shape = draw.shape();
    const sbp::Layout from = draw.layout(shape), to = draw.layout(shape);
    SCOPED_TRACE(fmt::format("seed {}: {} to {}", seed, sbp::to_text(from), sbp::to_text(to)));
    std::vector<double> global;
    int64_t elements = 1;
    for (const int64_t extent : shape) elements *= extent;
    for (int64_t x = 1; x <= elements; ++x) global.push_back(static_cast<double>(x));
    const sbp::Held held = sbp::lay_out(global, from, seed);
    const std::string text = box_json(from, to);
    SCOPED_TRACE(text);
    try {
      const sbp::Held result = run(json::parse(text), held);
      EXPECT_EQ(result, sbp::apply(sbp::box(from, to), from, held));
      EXPECT_EQ(sbp::assemble(to, result), global);
    } catch (const std::exception& error) {
      FAIL() << error.what();
    }
  }
}

TEST(SbpBoxJson, ExampleOfTheDocumentation) {
  std::ifstream file(BOXCAR_SOURCE_DIR "/docs/boxing.md");
  std::stringstream text;
  text << file.rdbuf();
  const size_t begin = text.str().rfind("    {\"schema_version\"");
  ASSERT_NE(begin, std::string::npos);
  const auto line = [](const char* sbp, const char* devices) {
    return sbp::Layout{{4, 2}, sbp::parse_nd_sbp(sbp), sbp::parse_placement(devices)};
  };
  EXPECT_EQ(json::parse(box_json(line("S(0)", "0-1"), line("P(max)", "1-2"))),
            json::parse(text.str().substr(begin)));
}

TEST(SbpBoxJson, SaysAllThatCarriesARouteOut) { check(1, 400); }
TEST(SbpBoxJson, LongSaysAllThatCarriesARouteOut) { check(10001, 20000); }

}  // namespace
}  // namespace boxcar::cli
