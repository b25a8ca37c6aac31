// Choice of recomputed layers and stage cuts, compared with every cut and every number.
#include "planner/estimate/fewest_recomputed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "planner/estimate/fewest_recomputed.h"
#include "planner/resolve.h"
#include "planner/search/candidates.h"
#include "sbp/at.h"
#include "search/jobs.h"
#include "search/simulating.h"

namespace boxcar::search {
namespace {

using planner::Job;

// 8 micro-batches of two sequences.
Job pipeline(int layers, int pp, int virtual_stages) {
  Job job = small_gpt(pp);
  job.model->layers = layers;
  job.parallel.pp = pp, job.parallel.virtual_stages = virtual_stages, job.parallel.micro_batch = 2;
  job.train.recompute = ir::Recompute::full;
  return planner::resolve(job);
}

struct Costs {
  ModelCost again, others;
  explicit Costs(const Job& job) : again(measured(job, job.train.recompute)), others(measured(job, {})) {}
  KindCosts both() const { return {again, others}; }
  static ModelCost measured(Job job, ir::Recompute kind) {
    job.train.recompute = kind;
    return measure(job, oracle().act_seconds);
  }
};

double most(const std::vector<double>& of) { return *std::max_element(of.begin(), of.end()); }

std::vector<double> bytes_of(const Job& job, const KindCosts& costs) {
  return bytes_by_stage(job, costs, in_flight_of(job));
}

// Limits between the memory of all layers recomputed and of none.
std::vector<double> limits(Job job, const KindCosts& costs) {
  job.train.recompute_layers = {0};
  const double none = most(bytes_of(job, costs));
  job.train.recompute_layers = {};
  const double all = most(bytes_of(job, costs));
  EXPECT_GT(none, 1.2 * all);
  std::vector<double> result;
  for (int i = 0; i <= 8; ++i) result.push_back(all + i * (none - all) / 8);
  return result;
}

// Calls `visit` with every list of `size` numbers from `least` to `most`.
void each_list(int size, int least, int most, const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> list(static_cast<size_t>(size), least);
  for (size_t i = 0; i < list.size();) {
    visit(list);
    for (i = 0; i < list.size() && list[i] == most; ++i) list[i] = least;
    if (i < list.size()) ++list[i];
  }
}

TEST(FewestAgain, NoStageHasOneTooMany) {
  for (const int virtual_stages : {1, 3}) {
    const Job job = pipeline(6, 2, virtual_stages);
    const Costs costs(job);
    std::set<std::vector<int>> found;
    for (const double limit : limits(job, costs.both())) {
      const auto fewest = with_fewest_recomputed(job, costs.both(), in_flight_of(job), {limit, limit});
      ASSERT_TRUE(fewest);
      EXPECT_LE(most(bytes_of(*fewest, costs.both())), limit);
      const std::vector<int>& counts = fewest->train.recompute_layers;
      found.insert(counts);
      for (size_t v = 0; v < counts.size(); ++v) {
        // One recomputed layer fewer, in the stage's last ones.
        Job fewer = *fewest;
        if (counts[v] == 0 || (v + 2 < counts.size() && counts[v + 2] > 0)) continue;
        --fewer.train.recompute_layers[v];
        EXPECT_GT(bytes_of(fewer, costs.both())[v % 2], limit);
      }
    }
    EXPECT_GE(found.size(), 4u);
    EXPECT_FALSE(with_fewest_recomputed(job, costs.both(), in_flight_of(job), {1, 1e12}));
  }
}

TEST(FewestAgain, NoCutAndNoNumbersHaveAFasterSlowestStage) {
  const Job job = pipeline(8, 3, 1);
  const Costs costs(job);
  const InFlight in_flight = in_flight_of(job);
  const auto slowest = [&](const Job& cut) {
    double seconds = 0;
    for (int s = 0; s < 3; ++s) {
      const int layers = at(cut.parallel.stage_layers, s);
      const int again = recomputed_layers(cut.train, static_cast<size_t>(s), layers);
      seconds = std::max(seconds, needs_of(cut, costs.both(), in_flight, s, layers, again, 1).seconds);
    }
    return seconds;
  };
  std::set<std::vector<int>> cuts;
  for (const double limit : limits(job, costs.both())) {
    const std::vector<double> bytes(3, limit);
    Job best = job;
    best.parallel.stage_layers = level_layers(job, costs.both(), in_flight, bytes);
    ASSERT_EQ(best.parallel.stage_layers.size(), 3u);
    cuts.insert(best.parallel.stage_layers);
    const auto found = with_fewest_recomputed(best, costs.both(), in_flight, bytes);
    ASSERT_TRUE(found);
    int fit = 0;
    Job other = job;
    each_list(3, 1, 6, [&](const std::vector<int>& cut) {
      if (std::accumulate(cut.begin(), cut.end(), 0) != 8) return;
      other.parallel.stage_layers = cut;
      each_list(3, 0, 6, [&](const std::vector<int>& counts) {
        other.train.recompute_layers = counts;
        if (most(bytes_of(other, costs.both())) > limit) return;
        EXPECT_GE(slowest(other), slowest(*found) * (1 - 1e-9));
        ++fit;
      });
    });
    EXPECT_GT(fit, 0);
  }
  EXPECT_GE(cuts.size(), 2u);
}

// Memory that a plan needs beyond its estimate is left free, on its stage.
TEST(FewestAgain, GoesByHowFarOffEstimatesWere) {
  const Job job = pipeline(8, 2, 1);
  const Costs costs(job);
  const double limit = limits(job, costs.both())[4];
  const SearchOptions options{.pinned = {"stage_layers", "recompute_others"}};
  Candidates points(options, limit, oracle().act_seconds);
  const auto again = [&](const Candidate& tried) {
    const auto fewest = points.with_fewest_recomputed(tried);
    EXPECT_TRUE(fewest);
    return fewest ? *fewest : tried;
  };
  const auto count = [](const Candidate& c, size_t stage) {
    return recomputed_layers(c.job.train, stage, c.job.parallel.stage_layers[stage]);
  };
  const Candidate by_estimate = again(Candidate{job});
  Candidate tried = by_estimate;
  tried.stage_bytes = bytes_of(tried.job, costs.both());
  EXPECT_EQ(count(again(tried), 0), count(by_estimate, 0));
  tried.stage_bytes[0] += 0.1 * limit;
  EXPECT_GT(count(again(tried), 0), count(by_estimate, 0));
  EXPECT_EQ(count(again(tried), 1), count(by_estimate, 1));
  tried.stage_bytes[0] -= 0.2 * limit;
  EXPECT_LT(count(again(tried), 0), count(by_estimate, 0));
}

// All layers alike on all stages, as before.
TEST(FewestAgain, OnEachStageMakesASearchFasterThanAnyKindForAllLayers) {
  Job job = small_gpt(4);
  job.model->layers = 16, job.model->seq = 1024;
  job.parallel.pp = 4, job.parallel.micro_batch = 2;
  const Job whole = planner::resolve(job);
  SearchOptions options{.pinned = {"tp", "pp", "dp", "micro_batch", "virtual_stages"}};
  job.parallel.dp = 1;
  options.memory_bytes = peak_of(planner::compile(planner::resolve(whole))) * 6 / 10;
  const Outcome some = search(job, options, oracle());
  options.pinned.insert("recompute_layers");
  const Outcome all = search(job, options, oracle());
  ASSERT_FALSE(all.best.empty() || some.best.empty());
  EXPECT_NE(all.best.front().job.train.recompute, ir::Recompute::none);
  EXPECT_LT(some.best.front().seconds, 0.97 * all.best.front().seconds);
  EXPECT_LE(some.best.front().peak_bytes, options.memory_bytes);
  const std::vector<int>& counts = some.best.front().job.train.recompute_layers;
  ASSERT_EQ(counts.size(), 4u);
  EXPECT_TRUE(std::is_sorted(counts.rbegin(), counts.rend()));
  EXPECT_LT(counts.back(), counts.front());
}

}  // namespace
}  // namespace boxcar::search
