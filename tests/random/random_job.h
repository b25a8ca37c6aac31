// Random jobs over every key of a job file, as a user would write them.
//
//   RandomJob job{{{"model.family", "llama"}, {"parallel.tp", "2"}, {"train.global_batch", "x4"}}};
//   arguments(job)   --model=llama --tp=2 --global-batch=4 --layers=2 ...
//   given_of(job)    the keys as a job file gives them
//
// A value is the key's text, or a word whose text follows from other keys: "x4" is four micro-batches. A
// dimension is a key, or tensor layout, which no key sets.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/job.h"

namespace boxcar::tests {

struct Dimension {
  std::string path;                 // "parallel.tp"
  std::vector<std::string> values;  // the first is the default
};

// In drawing order.
const std::vector<Dimension>& dimensions();
const Dimension& dimension(const std::string& path);
// Keys of the table that no dimension varies, each with its reason.
const std::map<std::string, std::string>& fixed_keys();
// Words of keys that a dimension varies without them, "train.optimizer=lion", each with its reason.
const std::map<std::string, std::string>& fixed_words();

// The source of layouts: "hints", "found" by the search, or "random".
inline constexpr const char* layouts_dimension = "plan.layouts";

struct RandomJob {
  std::map<std::string, std::string> values;  // by dimension, without defaults

  const std::string& value(const std::string& path) const;
  // The same job with one value changed.
  RandomJob with(const std::string& path, const std::string& value) const;
  friend bool operator==(const RandomJob&, const RandomJob&) = default;
};

// "model.family=llama parallel.tp=2": one line, which reads back.
std::string to_text(const RandomJob& job);
RandomJob parse_random_job(const std::string& text);

// Keys of the sections that make a plan; with `run`, those of training too.
cli::GivenKeys given_of(const RandomJob& job, bool run = false);
// The same as flags.
std::vector<std::string> arguments(const RandomJob& job, bool run = false);

}  // namespace boxcar::tests
