// Jobs at random over every key of a job file, as a person would give them.
//
//   RandomJob job{{{"model.family", "llama"}, {"parallel.tp", "2"}, {"train.global_batch", "x4"}}};
//   arguments(job)   --model=llama --tp=2 --global-batch=4 --layers=2 ...
//   given_of(job)    what a job file with these keys says
//
// A value is the key's text, or a word for text that follows from other keys: "x4" are four micro-batches. A
// dimension is a key, or what no key says: how tensors are laid out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/job.h"

namespace boxcar::tests {

struct Dimension {
  std::string path;                 // "parallel.tp"
  std::vector<std::string> values;  // the first is the one that a job has where it does not say
};

// In the order in which they are drawn.
const std::vector<Dimension>& dimensions();
const Dimension& dimension(const std::string& path);
// Keys of the table that no dimension varies, each with the reason.
const std::map<std::string, std::string>& fixed_keys();

// Where layouts come from: "hints", "found" by the search, or "random".
inline constexpr const char* layouts_dimension = "plan.layouts";

struct RandomJob {
  std::map<std::string, std::string> values;  // by dimension, none that is the first of its dimension

  const std::string& value(const std::string& path) const;
  // The same with one value otherwise.
  RandomJob with(const std::string& path, const std::string& value) const;
  friend bool operator==(const RandomJob&, const RandomJob&) = default;
};

// "model.family=llama parallel.tp=2": one line, which reads back.
std::string to_text(const RandomJob& job);
RandomJob parse_random_job(const std::string& text);

// Keys of the sections that make a plan, and with `run` those of training too.
cli::GivenKeys given_of(const RandomJob& job, bool run = false);
// The same as flags.
std::vector<std::string> arguments(const RandomJob& job, bool run = false);

}  // namespace boxcar::tests
