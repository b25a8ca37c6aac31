// Law 2, the price: no path over intermediate layouts moves fewer elements than box().
//
// A path's legs are direct moves: every device that needs an element receives all the partials that its set
// lacks, or, from a layout without partials, one copy. Every collective is a path of such legs (an all-reduce
// goes through a split). Partials along a mesh dimension may stay in place: then each is a separate tensor
// that moves like any other, so sums inside maxima are reduced alone. The test counts each leg's price
// element by element; Floyd-Warshall finds the cheapest path.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sbp/apply.h"
#include "sbp/at.h"
#include "sbp/layouts.h"

namespace boxcar::sbp {
namespace {

constexpr int64_t never = int64_t{1} << 40;

// For every element and set of partials: its holders. Sets differ in their coordinates other than those of P.
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
      at(devices, label) = device;
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

// Mesh dimensions as bits.
using Bits = unsigned;
bool in(Bits bits, size_t d) { return (bits >> d & 1) != 0; }

Bits partials(const Layout& layout) {
  Bits bits = 0;
  for (size_t d = 0; d < layout.sbp.size(); ++d) bits |= Bits{layout.sbp[d].is_partial()} << d;
  return bits;
}

// The remaining layouts of a layout, by coordinate along `kept`: each of these partials is a separate tensor.
std::vector<Layout> apart(const Layout& layout, Bits kept) {
  const Shape& mesh = layout.placement.mesh;
  std::map<std::vector<int64_t>, Layout> result;
  for (size_t i = 0; i < layout.placement.devices.size(); ++i) {
    std::vector<int64_t> key(mesh.size());
    auto rest = static_cast<int64_t>(i);
    for (size_t d = mesh.size(); d-- > 0; rest /= mesh[d]) key[d] = in(kept, d) ? rest % mesh[d] : 0;
    result[key].shape = layout.shape;
    result[key].placement.devices.push_back(layout.placement.devices[i]);
  }
  std::vector<Layout> layouts;
  for (auto& [key, part] : result) {
    for (size_t d = 0; d < mesh.size(); ++d) {
      if (in(kept, d)) continue;
      part.placement.mesh.push_back(mesh[d]);
      part.sbp.push_back(layout.sbp[d]);
    }
    layouts.push_back(std::move(part));
  }
  return layouts;
}

// Whether partials of `from` that are not kept may be reduced, and those of `to` filled, while those along
// `kept` stay. Inner reductions come first: none happens outside a kept reduction. Partials passed on have
// one reduction, with no other inside or between.
bool legal(const Layout& from, const Layout& to, Bits kept) {
  const Bits gone = partials(from) & ~kept, made = partials(to) & ~kept;
  std::set<Reduction> kinds;
  for (size_t d = 0; d < 32; ++d) {
    if (in(gone, d)) kinds.insert(from.sbp[d].reduction);
    if (in(made, d)) kinds.insert(to.sbp[d].reduction);
  }
  for (size_t e = 0; e < from.sbp.size(); ++e) {
    if (!in(kept, e)) continue;
    for (size_t d = 0; d < e; ++d) {
      if (in(gone, d) && from.sbp[d] != from.sbp[e]) return false;
      if (gone != 0 && in(made, d) && to.sbp[d] != from.sbp[e]) return false;
    }
  }
  return gone == 0 || made == 0 || kinds.size() == 1;
}

int64_t leg(const Layout& from, const Layout& to) {
  Bits common = 0;
  if (from.placement == to.placement)
    for (size_t d = 0; d < from.sbp.size(); ++d)
      common |= Bits{from.sbp[d].is_partial() && from.sbp[d] == to.sbp[d]} << d;
  int64_t best = never;
  for (Bits kept = common;; kept = (kept - 1) & common) {
    if (legal(from, to, kept)) {
      const auto sources = apart(from, kept), targets = apart(to, kept);
      int64_t moved = 0;
      for (size_t k = 0; k < sources.size(); ++k)
        if (!sources[k].sbp.empty()) moved += leg(Sets(sources[k]), Sets(targets[k]));
      best = std::min(best, moved);
    }
    if (kept == 0) return best;
  }
}

// Checks box() against all paths between layouts of `shape` on `placements`; compares each pair on the first
// two.
void expect_cheapest(const Shape& shape, const std::vector<Placement>& placements,
                     const std::vector<Reduction>& reductions = {Reduction::sum}) {
  std::vector<Layout> layouts;
  size_t ends = 0;
  for (size_t p = 0; p < placements.size(); ++p)
    for (const NdSbp& sbp : all_layouts(shape.size(), placements[p].mesh.size(), reductions)) {
      layouts.push_back({shape, sbp, placements[p]});
      if (p < 2) ends = layouts.size();
    }
  const size_t n = layouts.size();
  std::vector<std::vector<int64_t>> price(n, std::vector<int64_t>(n, never));
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) price[i][j] = leg(layouts[i], layouts[j]);
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

const std::vector<Reduction> mixed{Reduction::sum, Reduction::max};

TEST(Law2, NoPathIsCheaperForMixedReductions) {
  for (const Shape& shape : {Shape{4, 4}, Shape{5, 3}, Shape{6}, Shape{}})
    for (const char* mesh : {"0-3", "0-3:2x2", "0-5:2x3", "0-5:3x2"})
      expect_cheapest(shape, placements({mesh, mesh, "0", "0-3"}), mixed);
  for (const Shape& shape : {Shape{4, 4}, Shape{5, 3}, Shape{}})
    for (const char* other : {"0-3", "2-5:2x2", "4-7:2x2", "0,2,1,3:2x2", "1-3", "5", "2"}) {
      SCOPED_TRACE(std::string("0-3:2x2 and ") + other);
      expect_cheapest(shape, placements({"0-3:2x2", other, "0", "2-3"}), mixed);
    }
}

TEST(Law2, NoPathIsCheaperForMixedReductionsInThreeDimensions) {
  for (const Shape& shape : {Shape{8}, Shape{5}})
    expect_cheapest(shape, placements({"0-7:2x2x2", "0-7"}), mixed);
}

TEST(Law2, NoPathIsCheaperInThreeDimensions) {
  for (const Shape& shape : {Shape{8}, Shape{5}, Shape{4, 4}, Shape{3, 5}}) {
    expect_cheapest(shape, placements({"0-7:2x2x2", "0-7:2x2x2", "0-7:4x2", "0-7"}));
    expect_cheapest(shape, placements({"0-7:2x2x2", "0-7:4x2", "0-7"}));
  }
}

}  // namespace
}  // namespace boxcar::sbp
