#include "sbp/transfer.h"

#include <algorithm>
#include <utility>

#include "sbp/at.h"
#include "sbp/grid.h"

namespace boxcar::sbp {
namespace {

// A device's part in a layout: the block, the copy of its partials, and the partial in it.
struct Holding {
  int device = 0, block = 0, copy = 0, label = 0;
};

// Devices that hold, or together need, the same block.
struct CellBlock {
  Grid::Cells cells;
  std::vector<Holding> members;  // of a source: by copy, then label; of a target: in mesh order
};

const Sbp* partial_of(const Layout& layout) {
  for (size_t d = 0; d < layout.sbp.size(); ++d)
    if (layout.sbp[d].is_partial() && layout.placement.mesh[d] > 1) return &layout.sbp[d];
  return nullptr;
}

// The reductions of a layout from the outside, with the number of partials of each. Adjacent ones of one kind
// are one level.
struct Level {
  Reduction reduction = Reduction::sum;
  int partials = 1;
};
std::vector<Level> levels_of(const Layout& layout) {
  std::vector<Level> levels;
  for (size_t d = 0; d < layout.sbp.size(); ++d) {
    const auto extent = static_cast<int>(layout.placement.mesh[d]);
    if (!layout.sbp[d].is_partial() || extent == 1) continue;
    if (levels.empty() || levels.back().reduction != layout.sbp[d].reduction)
      levels.push_back({layout.sbp[d].reduction, 1});
    levels.back().partials *= extent;
  }
  return levels;
}

int64_t partials_of(const Layout& layout) {
  int64_t product = 1;
  for (size_t d = 0; d < layout.sbp.size(); ++d)
    if (layout.sbp[d].is_partial()) product *= layout.placement.mesh[d];
  return product;
}

// The devices of a layout by block. A source's block has all copies and partials of its cells; a target's
// block has only the partials, since each copy has to be sent separately.
std::vector<CellBlock> blocks_of(const Layout& layout, const Grid& grid, bool source) {
  std::vector<CellBlock> result;
  const Shape& mesh = layout.placement.mesh;
  for (size_t i = 0; i < layout.placement.devices.size(); ++i) {
    Holding holding{layout.placement.devices[i]};
    auto index = static_cast<int64_t>(i), below = static_cast<int64_t>(layout.placement.devices.size());
    for (size_t d = 0; d < mesh.size(); ++d) {
      below /= mesh[d];
      const Sbp sbp = layout.sbp[d];
      int& coordinate = sbp.is_partial()               ? holding.label
                        : sbp.is_broadcast() && source ? holding.copy
                                                       : holding.block;
      coordinate = coordinate * static_cast<int>(mesh[d]) + static_cast<int>(index / below % mesh[d]);
    }
    const auto b = static_cast<size_t>(holding.block);
    if (b >= result.size()) result.resize(b + 1);
    if (result[b].members.empty())
      result[b].cells = grid.cells(local_ranges(layout.shape, layout.sbp, mesh, index));
    result[b].members.push_back(holding);
  }
  for (CellBlock& block : result)
    if (source)
      std::sort(block.members.begin(), block.members.end(), [](const Holding& a, const Holding& b) {
        return std::pair(a.copy, a.label) < std::pair(b.copy, b.label);
      });
  return result;
}

class Transfer {
 public:
  Transfer(const Layout& from, const Layout& to)
      : from_(from), to_(to), grid_(from, to), partials_(static_cast<int>(partials_of(from))) {
    lay();
  }

  int64_t elements() const {
    const Prices prices = price();
    return mergeable() ? std::min(prices.direct, prices.rooted) : prices.rooted;
  }

  std::vector<Step> steps() {
    if (partials_ == 1 || (mergeable() && price().direct <= price().rooted)) return {direct()};
    grid_.refine(partials_);
    lay();
    return rooted();
  }

 private:
  // Whether the target may hold the source's partials unreduced.
  bool mergeable() const {
    const Sbp *f = partial_of(from_), *t = partial_of(to_);
    return levels_of(from_).size() <= 1 && (!f || !t || f->reduction == t->reduction) &&
           (!f || levels_of(to_).size() <= 1);
  }

  void lay() {
    sources_ = blocks_of(from_, grid_, true);
    targets_ = blocks_of(to_, grid_, false);
    source_of_.assign(static_cast<size_t>(grid_.count()), -1);
    holdings_.clear();
    for (size_t s = 0; s < sources_.size(); ++s) {
      grid_.each(sources_[s].cells,
                 [&](size_t cell, const auto&) { source_of_[cell] = static_cast<int>(s); });
      holdings_.insert(holdings_.end(), sources_[s].members.begin(), sources_[s].members.end());
    }
    const auto by_device = [](const Holding& a, const Holding& b) { return a.device < b.device; };
    std::sort(holdings_.begin(), holdings_.end(), by_device);
    held_.assign(targets_.size(), {});
    for (size_t t = 0; t < targets_.size(); ++t)
      for (const Holding& member : targets_[t].members) {
        const auto found = std::lower_bound(holdings_.begin(), holdings_.end(), member, by_device);
        if (found != holdings_.end() && found->device == member.device) held_[t].push_back(*found);
      }
  }

  // The copy of source block `source` of which target t holds the most partials, else the next in turn.
  // Partials of different copies do not mix.
  int best_copy(size_t t, int source, int64_t* count) const {
    const int copies = static_cast<int>(at(sources_, source).members.size()) / partials_;
    int best = static_cast<int>(t) % copies;
    int64_t most = 0;
    for (const Holding& held : held_[t]) {
      if (held.block != source) continue;
      const auto same = std::count_if(held_[t].begin(), held_[t].end(), [&](const Holding& other) {
        return other.block == source && other.copy == held.copy;
      });
      if (same <= most) continue;
      most = same;
      best = held.copy;
    }
    *count = most;
    return best;
  }

  const Holding& source(int block, int copy, int label) const {
    return at(at(sources_, block).members, copy * partials_ + label);
  }

  // Elements moved if every target gets each partial, and if a root per cell reduces them first.
  struct Prices {
    int64_t direct = 0, rooted = 0;
  };

  Prices price() const {
    Prices prices;
    std::vector<char> met(source_of_.size());
    for (size_t t = 0; t < targets_.size(); ++t)
      grid_.each(targets_[t].cells, [&](size_t cell, const auto& at) {
        int64_t there = 0;
        best_copy(t, source_of_[cell], &there);
        const int64_t volume = grid_.volume(at);
        prices.direct += volume * (partials_ - there);
        prices.rooted += volume;
        if (there == 0 || met[cell]) return;
        met[cell] = 1;
        prices.rooted -= volume;
      });
    grid_.each(grid_.all(),
               [&](size_t, const auto& at) { prices.rooted += grid_.volume(at) * (partials_ - 1); });
    return prices;
  }

  static Step transfer_step(Reduction reduction) {
    Step step;
    step.collective = Collective::transfer;
    step.reduction = reduction;
    step.latency_steps = 1;
    return step;
  }

  void send(Step& step, int from, int to, const Grid::Indices& at, bool add) const {
    step.slices.push_back({from, to, grid_.block(at), add});
    if (from != to) step.elements_moved += grid_.volume(at);
  }

  // For a set of partials with several reductions that has a cell at `holder`, one of its members: fills the
  // cell on every other member with the identity of the outermost reduction between that member and `holder`.
  void fill(Step& step, const CellBlock& target, int holder, const Grid::Indices& at) const {
    if (levels_of(to_).size() <= 1) return;
    const auto own = std::find_if(target.members.begin(), target.members.end(),
                                  [&](const Holding& member) { return member.device == holder; });
    for (const Holding& member : target.members) {
      if (member.device == holder) continue;
      auto below = static_cast<int>(partials_of(to_));
      for (size_t d = 0; d < to_.sbp.size(); ++d) {
        if (!to_.sbp[d].is_partial()) continue;
        below /= static_cast<int>(to_.placement.mesh[d]);
        if (member.label / below == own->label / below) continue;
        step.fills.push_back({member.device, grid_.block(at), to_.sbp[d].reduction});
        break;
      }
    }
  }

  Step direct() const {
    const Sbp *f = partial_of(from_), *t = partial_of(to_);
    Step step = transfer_step(f ? f->reduction : t ? t->reduction : Reduction::sum);
    for (size_t o = 0; o < targets_.size(); ++o) {
      const auto& members = targets_[o].members;
      grid_.each(targets_[o].cells, [&](size_t cell, const auto& at) {
        int64_t there = 0;
        const int block = source_of_[cell], copy = best_copy(o, block, &there);
        for (int label = 0; label < partials_; ++label) {
          const Holding& sender = source(block, copy, label);
          const bool own =
              there > 0 && std::any_of(members.begin(), members.end(),
                                       [&](const Holding& member) { return member.device == sender.device; });
          const auto turn = static_cast<size_t>(label) % members.size();
          const int receiver = own ? sender.device : members[turn].device;
          send(step, sender.device, receiver, at, partials_ > 1);
          fill(step, targets_[o], receiver, at);
        }
      });
    }
    step.result = to_;
    return step;
  }

  // The devices that hold a partial of a cell and need the cell. Roots are chosen among them, or among all
  // holders if there are none.
  std::vector<std::vector<Holding>> candidates() const {
    std::vector<std::vector<Holding>> result(source_of_.size());
    for (size_t t = 0; t < targets_.size(); ++t)
      grid_.each(targets_[t].cells, [&](size_t cell, const auto&) {
        for (const Holding& held : held_[t])
          if (held.block == source_of_[cell]) result[cell].push_back(held);
      });
    return result;
  }

  // One step for each kind of reduction, from the inside, brings partials to their roots. The last step
  // brings the results from there to all devices that need them.
  std::vector<Step> rooted() const {
    const auto levels = levels_of(from_);
    std::vector<Step> steps;
    for (auto level = levels.rbegin(); level != levels.rend(); ++level)
      steps.push_back(transfer_step(level->reduction));
    const Sbp* t = partial_of(to_);
    Step spread = transfer_step(t ? t->reduction : Reduction::sum);
    std::vector<int> roots(source_of_.size());
    const auto needing = candidates();
    std::vector<std::vector<int>> holders(steps.size());  // by step: the devices that hold something after it
    grid_.each(grid_.all(), [&](size_t cell, const auto& place) {
      const auto& choice = needing[cell].empty() ? at(sources_, source_of_[cell]).members : needing[cell];
      const Holding& root = choice[cell % choice.size()];
      roots[cell] = root.device;
      int inside = 1;  // partials that are already reduced together
      for (size_t k = 0; k < steps.size(); ++k) {
        const int outside = inside * levels[levels.size() - 1 - k].partials;
        for (int label = 0; label < partials_; label += inside) {
          const int from = root_of(root, label, inside, cell), to = root_of(root, label, outside, cell);
          send(steps[k], from, to, place, true);
          holders[k].push_back(to);
        }
        inside = outside;
      }
    });
    for (const CellBlock& target : targets_)
      grid_.each(target.cells, [&](size_t cell, const auto& at) {
        const bool own = std::any_of(target.members.begin(), target.members.end(),
                                     [&](const Holding& member) { return member.device == roots[cell]; });
        const int receiver = own ? roots[cell] : target.members.front().device;
        send(spread, roots[cell], receiver, at, false);
        fill(spread, target, receiver, at);
      });
    for (size_t k = 0; k < steps.size(); ++k) {
      std::sort(holders[k].begin(), holders[k].end());
      holders[k].erase(std::unique(holders[k].begin(), holders[k].end()), holders[k].end());
      steps[k].result = {from_.shape, {}, {{}, std::move(holders[k])}};
    }
    spread.result = to_;
    steps.push_back(std::move(spread));
    return steps;
  }

  // The device where the `count` partials that include `label` meet: the root of all if it is one of them,
  // else the next in turn.
  int root_of(const Holding& root, int label, int count, size_t cell) const {
    const int first = label / count * count;
    const bool own = first <= root.label && root.label < first + count;
    const int at = own ? root.label : first + static_cast<int>(cell % static_cast<size_t>(count));
    return source(root.block, root.copy, at).device;
  }

  const Layout &from_, &to_;
  Grid grid_;
  int partials_;
  std::vector<CellBlock> sources_, targets_;
  std::vector<int> source_of_;              // by cell: the source block
  std::vector<Holding> holdings_;           // of the sources, sorted by device
  std::vector<std::vector<Holding>> held_;  // by target: what its members already hold
};

}  // namespace

std::vector<Step> transfer(const Layout& from, const Layout& to) { return Transfer(from, to).steps(); }

int64_t transfer_elements(const Layout& from, const Layout& to) { return Transfer(from, to).elements(); }

}  // namespace boxcar::sbp
