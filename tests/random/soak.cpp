#include "soak.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <fstream>

#include "apart.h"
#include "laws.h"
#include "program.h"
#include "shrink.h"

namespace boxcar::tests {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Messages that differ only in numbers are of one kind.
std::string without_digits(const std::string& message) {
  std::string kind;
  for (const char c : message.substr(0, 200))
    if (!std::isdigit(static_cast<unsigned char>(c))) kind += c;
  return kind;
}

Failure smallest(const RandomJob& job, const Law& law, const std::string& message) {
  std::string last = message;
  const RandomJob least = shrink(job, [&](const RandomJob& less) {
    if (!law.is_for(less)) return false;
    const std::string failed = failure_of([&] { law.check(less); }, law.seconds);
    if (without_digits(failed) != without_digits(message)) return false;
    last = failed;
    return true;
  });
  return {least, law.name, last};
}

}  // namespace

std::string to_text(const Failure& failure) {
  return fmt::format("{}: {}\n  boxcar {} {}\n  random_jobs --law {} --job \"{}\"", failure.law,
                     failure.message,
                     failure.law == "shortcuts" ? "simulate" : "train --data=random --steps=2",
                     fmt::join(arguments(failure.job), " "), failure.law, to_text(failure.job));
}

std::vector<Failure> check(const RandomJob& job, const std::set<std::string>& only,
                           std::map<std::string, int64_t>* checks) {
  std::vector<Failure> failures;
  for (const Law& law : laws()) {
    if ((!only.empty() && !only.contains(law.name)) || !law.is_for(job)) continue;
    if (checks) ++(*checks)[law.name];
    const std::string message = failure_of([&] { law.check(job); }, law.seconds);
    if (!message.empty()) failures.push_back({job, law.name, message});
  }
  return failures;
}

SoakResult soak(const SoakOptions& options, Coverage& coverage) {
  const Clock::time_point start = Clock::now();
  SoakResult result;
  Drawer drawer(options.seed);
  std::set<std::string> kinds;
  std::ofstream record;
  if (!options.record.empty()) record.open(options.record, std::ios::app);
  while ((options.jobs == 0 || result.jobs < options.jobs) &&
         (options.seconds == 0 || since(start) < options.seconds)) {
    const auto job = drawer.draw(coverage);
    if (!job) {
      ++result.refused;
      continue;
    }
    std::vector<Failure> failures = check(*job, options.laws, &result.checks);
    ++result.jobs;
    coverage.add(*job);
    if (failures.empty() && record.is_open()) record << to_text(*job) << std::endl;
    for (const Failure& failure : failures) {
      if (options.progress) *options.progress << "fails: " << to_text(failure) << std::endl;
      if (!kinds.insert(failure.law + without_digits(failure.message)).second) continue;
      const auto law =
          std::find_if(laws().begin(), laws().end(), [&](const Law& one) { return one.name == failure.law; });
      result.failures.push_back(smallest(failure.job, *law, failure.message));
      if (options.progress) *options.progress << "smallest: " << to_text(result.failures.back()) << std::endl;
    }
    if (options.progress && result.jobs % 100 == 0)
      *options.progress << fmt::format("{} jobs in {:.0f} s, {} of {} pairs, {} failures of {} kinds",
                                       result.jobs, since(start), coverage.covered(), coverage.pairs(),
                                       kinds.size(), result.failures.size())
                        << std::endl;
  }
  result.covered = coverage.covered(), result.pairs = coverage.pairs();
  result.illegal = drawer.failed().size();
  return result;
}

}  // namespace boxcar::tests
