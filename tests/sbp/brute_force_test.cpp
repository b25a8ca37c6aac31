// Law 2, the price: no path over intermediate layouts moves fewer elements than box() does.
//
// A path's legs are direct moves: to every device that needs an element go all the partials that its set
// lacks, or, from a layout without partials, one copy. Every collective is a path of such legs (an all-reduce
// goes through a split). The price of each leg is counted element by element here, the cheapest path is
// Floyd's and Warshall's.
#include <gtest/gtest.h>

#include <map>

#include "sbp/apply.h"
#include "sbp/layouts.h"

namespace boxcar::sbp {
namespace {

constexpr int64_t never = int64_t{1} << 40;

// For every element and set of partials, who holds which; sets differ in their coordinates other than those
// of P.
struct Sets {
  int64_t partials = 1;
  std::vector<std::map<int, std::vector<int>>> of_element;  // set -> device of each partial

  explicit Sets(const Layout& layout) : of_element(counting(layout.shape).size()) {
    const auto& placement = layout.placement;
    for (size_t i = 0; i < placement.devices.size(); ++i) {
      int64_t set = 0, label = 0, index = static_cast<int64_t>(i),
              below = static_cast<int64_t>(placement.devices.size());
      partials = 1;
      for (size_t d = 0; d < layout.sbp.size(); ++d) {
        below /= placement.mesh[d];
        int64_t& coordinate = layout.sbp[d].is_partial() ? label : set;
        coordinate = coordinate * placement.mesh[d] + index / below % placement.mesh[d];
        if (layout.sbp[d].is_partial()) partials *= placement.mesh[d];
      }
      add(layout, index, static_cast<int>(set), static_cast<int>(label), placement.devices[i]);
    }
  }

 private:
  void add(const Layout& layout, int64_t index, int set, int label, int device) {
    const auto block = local_ranges(layout.shape, layout.sbp, layout.placement.mesh, index);
    for (size_t x = 0; x < of_element.size(); ++x) {
      auto rest = static_cast<int64_t>(x);
      bool inside = true;
      for (size_t axis = layout.shape.size(); axis-- > 0; rest /= layout.shape[axis]) {
        const int64_t at = rest % layout.shape[axis];
        inside &= block[axis].begin <= at && at < block[axis].end;
      }
      if (!inside) continue;
      auto& devices = of_element[x][set];
      if (static_cast<int>(devices.size()) <= label) devices.resize(static_cast<size_t>(label) + 1, -1);
      devices[static_cast<size_t>(label)] = device;
    }
  }
};

int64_t leg(const Sets& from, const Sets& to) {
  int64_t moved = 0;
  for (size_t x = 0; x < from.of_element.size(); ++x)
    for (const auto& [set, devices] : to.of_element[x]) {
      int64_t most = 0;
      for (const auto& [copy, partials] : from.of_element[x]) {
        int64_t here = 0;
        for (const int device : partials) here += std::count(devices.begin(), devices.end(), device) > 0;
        most = std::max(most, here);
      }
      moved += from.partials - most;
    }
  return moved;
}

// Holds box() against all paths between layouts of `shape` on `placements`; compares each pair on the first
// two.
void expect_cheapest(const Shape& shape, const std::vector<Placement>& placements) {
  std::vector<Layout> layouts;
  std::vector<Sets> sets;
  size_t ends = 0;
  for (size_t p = 0; p < placements.size(); ++p)
    for (const NdSbp& sbp : all_layouts(shape.size(), placements[p].mesh.size(), {Reduction::sum})) {
      layouts.push_back({shape, sbp, placements[p]});
      sets.emplace_back(layouts.back());
      if (p < 2) ends = layouts.size();
    }
  const size_t n = layouts.size();
  std::vector<std::vector<int64_t>> price(n, std::vector<int64_t>(n, never));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) price[i][j] = leg(sets[i], sets[j]);
  for (size_t k = 0; k < n; ++k)
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) price[i][j] = std::min(price[i][j], price[i][k] + price[k][j]);
  int failures = 0;
  for (size_t i = 0; i < ends; ++i)
    for (size_t j = 0; j < ends && failures < 10; ++j) {
      const Route route = box(layouts[i], layouts[j]);
      failures += route.elements_moved > price[i][j];
      EXPECT_LE(route.elements_moved, price[i][j])
          << to_text(layouts[i]) << " to " << to_text(layouts[j]) << " by " << to_text(route);
    }
}

std::vector<Placement> placements(std::initializer_list<const char*> texts) {
  std::vector<Placement> result;
  for (const char* text : texts) result.push_back(parse_placement(text));
  return result;
}

TEST(Law2, NoPathIsCheaperOnOneMesh) {
  for (const Shape& shape : {Shape{4, 4}, Shape{5, 3}, Shape{6}, Shape{}})
    for (const char* mesh : {"0-3", "0-3:2x2", "0-5:2x3", "0-5:3x2"})
      expect_cheapest(shape, placements({mesh, mesh, "0", "0-3"}));
}

TEST(Law2, NoPathIsCheaperAcrossMeshes) {
  const std::pair<const char*, const char*> pairs[] = {
      {"0-3:2x2", "0-3"},         {"0-3:2x2", "2-5:2x2"}, {"0-3:2x2", "4-7:2x2"}, {"0-5:2x3", "0-5:3x2"},
      {"0-3:2x2", "0,2,1,3:2x2"}, {"0-3:2x2", "1-3"},     {"0-3:2x2", "5"},       {"0-3:2x2", "2"}};
  for (const Shape& shape : {Shape{4, 4}, Shape{5, 3}, Shape{}})
    for (const auto& [a, b] : pairs) {
      SCOPED_TRACE(std::string(a) + " and " + b);
      expect_cheapest(shape, placements({a, b, "0", "2-3"}));
    }
}

TEST(Law2, NoPathIsCheaperInOneDimension) {
  for (const Shape& shape : {Shape{12, 12}, Shape{5, 3}, Shape{}})
    for (const char* a : {"0-1", "0-2", "0-3"})
      for (const char* b : {"0-1", "0-2", "0-3", "3,1,0,2", "1-4", "4-6"})
        expect_cheapest(shape, placements({a, b, "1-2"}));
}

TEST(Law2, NoPathIsCheaperInThreeDimensions) {
  for (const Shape& shape : {Shape{8}, Shape{5}, Shape{4, 4}, Shape{3, 5}}) {
    expect_cheapest(shape, placements({"0-7:2x2x2", "0-7:2x2x2", "0-7:4x2", "0-7"}));
    expect_cheapest(shape, placements({"0-7:2x2x2", "0-7:4x2", "0-7"}));
  }
}

}  // namespace
}  // namespace boxcar::sbp
