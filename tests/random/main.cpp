// random_jobs: checks random jobs against the laws.
//
//   random_jobs --jobs 300 --seed 7                  draws, checks, shrinks failures
//   random_jobs --hours 2 --record jobs.txt          and records passing jobs
//   random_jobs --law training --job "parallel.tp=2" one job, one law
//   random_jobs --coverage jobs.txt more.txt         pairs of values that no job of these files has
//
// Exit codes: 0 all hold, 1 a law is broken or a legal pair has not run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "soak.h"

namespace {

using namespace boxcar::tests;

int one_job(const std::string& text, const std::set<std::string>& laws) {
  const RandomJob job = parse_random_job(text);
  if (const auto why = refusal(job)) {
    fmt::print("refused: {}: {}\n", why->where, why->message);
    return 0;
  }
  std::map<std::string, int64_t> checks;
  const std::vector<Failure> failures = check(job, laws, &checks);
  for (const Failure& failure : failures) fmt::print("{}\n", to_text(failure));
  for (const auto& [law, count] : checks) fmt::print("{}: {}\n", law, count);
  return failures.empty() ? 0 : 1;
}

// Legal pairs that have not run; if there are none, the refusals of the illegal ones.
int print_coverage(const std::vector<std::string>& files, uint64_t seed) {
  Coverage coverage;
  int64_t jobs = 0;
  for (const std::string& file : files) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line); ++jobs) coverage.add(parse_random_job(line));
  }
  Drawer drawer(seed);
  int64_t legal = 0;
  std::map<std::string, int64_t> reasons;
  for (const Pair& pair : coverage.all()) {
    if (coverage.has(pair)) continue;
    if (const auto job = drawer.draw(pair)) {
      ++legal;
      fmt::print("not run: {}, as in {}\n", to_text(pair), to_text(*job));
    } else {
      fmt::print("no legal job: {} ({})\n", to_text(pair), drawer.failed().at(pair));
    }
  }
  fmt::print("{} jobs: {} of {} pairs have run, {} could and have not, {} have no legal job that was found\n",
             jobs, coverage.covered(), coverage.pairs(), legal,
             static_cast<int64_t>(coverage.pairs() - coverage.covered()) - legal);
  return legal == 0 ? 0 : 1;
}

int print_soak(const SoakOptions& options) {
  Coverage coverage;
  const SoakResult result = soak(options, coverage);
  for (const auto& [law, count] : result.checks) fmt::print("{}: {}\n", law, count);
  for (const Failure& failure : result.failures) fmt::print("\n{}\n", to_text(failure));
  fmt::print("{} jobs, {} of {} pairs of values, {} kinds of failures\n", result.jobs, result.covered,
             result.pairs, result.failures.size());
  return result.failures.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  CLI::App app("holds jobs drawn at random to the laws", "random_jobs");
  SoakOptions options;
  double hours = 0;
  std::string job;
  std::vector<std::string> laws, coverage;
  bool given = false;
  app.add_option("--hours", hours, "how long");
  app.add_option("--jobs", options.jobs, "how many");
  app.add_option("--seed", options.seed, "of what is drawn");
  app.add_option("--law", laws, "these alone");
  app.add_option("--record", options.record, "a file that gets a line for each job that held");
  app.add_option("--job", job, "one job: PATH=VALUE ...")->each([&](const std::string&) { given = true; });
  app.add_option("--coverage", coverage, "prints which pairs of values no job of these files has");
  CLI11_PARSE(app, argc, argv);
  options.laws = {laws.begin(), laws.end()};
  options.seconds = hours * 3600;
  options.progress = &std::cout;
  try {
    if (!coverage.empty()) return print_coverage(coverage, options.seed);
    if (given) return one_job(job, options.laws);
  } catch (const std::invalid_argument& wrong) {
    fmt::print(stderr, "random_jobs: {}\n", wrong.what());
    return 2;
  }
  if (options.jobs == 0 && hours == 0) options.jobs = 300;
  return print_soak(options);
}
