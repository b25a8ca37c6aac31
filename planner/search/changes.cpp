#include "planner/search/changes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "planner/search/dimensions.h"

namespace boxcar::search {
namespace {

using planner::Job;

constexpr int most_times_larger = 64, most_gpus = 1 << 20;  // limits of the GPUs tried
constexpr int most_changes = 3, most_counts = 64;           // of them
constexpr int most_counts_together = 16;                    // if a key changes too

class Changes {
 public:
  Changes(const Job& job, const backends::Cluster& described, const Fixed& fixed, const FastestOf& fastest_of)
      : job_(job), described_(described), fixed_(fixed), fastest_of_(fastest_of) {}

  std::vector<Alternative> run() {
    const std::vector<const Dimension*> rows = ordered_by(&Dimension::change);
    for (const Dimension* d : rows)
      if (found_.size() < most_changes) try_without({d->key});
    for (size_t a = 0; a < rows.size(); ++a)
      for (size_t b = a + 1; b < rows.size(); ++b)
        if (found_.empty()) try_without({rows[a]->key, rows[b]->key});
    const bool by_keys = !found_.empty();
    std::optional<Candidate> enough =
        on_fewest_gpus(fixed_, most_times_larger * int64_t{job_.gpus}, most_counts);
    if (!by_keys) try_both(rows, enough ? enough->job.gpus - 1 : most_times_larger * int64_t{job_.gpus});
    if (enough) found_.push_back(on_more_gpus({}, std::move(*enough)));
    return std::move(found_);
  }

 private:
  // The given keys without some of them; nothing if those are not given.
  std::optional<Fixed> without(const std::vector<std::string>& keys) const {
    Fixed free = fixed_;
    for (const std::string& key : keys)
      if (free.pinned.erase(key) + free.ranges.erase(key) == 0) return std::nullopt;
    return free;
  }

  void try_without(std::vector<std::string> given) {
    const std::optional<Fixed> free = without(given);
    if (!free) return;
    if (std::optional<Candidate> one = fastest_of_(job_, *free))
      found_.push_back({.without = std::move(given), .candidate = std::move(*one)});
  }

  static Alternative on_more_gpus(std::vector<std::string> without, Candidate candidate) {
    const int gpus = candidate.job.gpus;
    return {.without = std::move(without), .candidate = std::move(candidate), .gpus = gpus};
  }

  // One key with more GPUs, at most `most`: the key that needs the fewest.
  void try_both(const std::vector<const Dimension*>& rows, int64_t most) {
    std::optional<Alternative> fewest;
    for (const Dimension* d : rows) {
      const std::optional<Fixed> free = without({d->key});
      std::optional<Candidate> one = free ? on_fewest_gpus(*free, most, most_counts_together) : std::nullopt;
      if (!one) continue;
      most = one->job.gpus - 1;
      fewest = on_more_gpus({d->key}, std::move(*one));
    }
    if (fewest) found_.push_back(std::move(*fewest));
  }

  // A part of a node, or a number of whole nodes.
  int countable(int64_t gpus) const {
    const int64_t node = described_.node.gpus;
    return static_cast<int>(gpus <= node ? gpus : (gpus + node - 1) / node * node);
  }

  std::optional<Candidate> on_gpus_of(int gpus, const Fixed& fixed) const {
    return fastest_of_(on_gpus(job_, described_, gpus), fixed);
  }

  // The fastest on the fewest sufficient GPUs, more than the job's and at most `most`.
  std::optional<Candidate> on_fewest_gpus(const Fixed& fixed, int64_t most, int counts) const {
    const int64_t limit = std::min<int64_t>(most, most_gpus), node = described_.node.gpus,
                  last = limit <= node ? limit : limit / node * node;
    int least = job_.gpus;
    for (int64_t doubled = 2 * int64_t{least}; least < limit; doubled *= 2) {
      const int next = static_cast<int>(std::min<int64_t>(countable(std::min(doubled, limit)), last));
      if (next <= least) return std::nullopt;
      std::optional<Candidate> enough = on_gpus_of(next, fixed);
      if (!enough) {
        least = next;
        continue;
      }
      const int apart = (next - least) / counts + 1;
      for (int gpus = countable(least + apart); gpus < next; gpus = countable(gpus + apart))
        if (std::optional<Candidate> fewer = on_gpus_of(gpus, fixed)) return fewer;
      return enough;
    }
    return std::nullopt;
  }

  const Job& job_;
  const backends::Cluster& described_;
  const Fixed& fixed_;
  const FastestOf& fastest_of_;
  std::vector<Alternative> found_;
};

}  // namespace

Job on_gpus(Job job, const backends::Cluster& described, int gpus) {
  job.gpus = gpus;
  job.cluster = described;
  backends::resize(job.cluster, gpus);
  return job;
}

std::vector<Alternative> changes_that_do(const Job& job, const backends::Cluster& described,
                                         const Fixed& fixed, const FastestOf& fastest_of) {
  return Changes(job, described, fixed, fastest_of).run();
}

}  // namespace boxcar::search
