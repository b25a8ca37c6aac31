#include "planner/search/changes.h"

#include <string>
#include <utility>

#include "planner/search/dimensions.h"

namespace boxcar::search {
namespace {

using planner::Job;

constexpr int most_times_larger = 64, most_gpus = 1 << 20;  // that are tried
constexpr int most_changes = 3, most_counts = 64;           // of them

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
    more_gpus();
    return std::move(found_);
  }

 private:
  void try_without(std::vector<std::string> given) {
    Fixed free = fixed_;
    for (const std::string& key : given)
      if (free.pinned.erase(key) + free.ranges.erase(key) == 0) return;
    if (std::optional<Candidate> one = fastest_of_(job_, free))
      found_.push_back({.without = std::move(given), .candidate = std::move(*one)});
  }

  // Parts of a node, or whole ones.
  int countable(int gpus) const {
    const int node = described_.node.gpus;
    return gpus <= node ? gpus : (gpus + node - 1) / node * node;
  }

  void more_gpus() {
    int least = job_.gpus;
    for (int times = 2; times <= most_times_larger && times <= most_gpus / job_.gpus; times *= 2) {
      const int most = countable(times * job_.gpus);
      std::optional<Candidate> enough = fastest_of_(on_gpus(job_, described_, most), fixed_);
      if (!enough) {
        least = most;
        continue;
      }
      const int apart = (most - least) / most_counts + 1;
      for (int gpus = countable(least + apart); gpus < most; gpus = countable(gpus + apart))
        if (std::optional<Candidate> fewer = fastest_of_(on_gpus(job_, described_, gpus), fixed_)) {
          enough = std::move(fewer);
          break;
        }
      const int gpus = enough->job.gpus;
      found_.push_back({.candidate = std::move(*enough), .gpus = gpus});
      return;
    }
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
