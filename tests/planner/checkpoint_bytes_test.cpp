// The bytes of a checkpoint against the places from which checkpoints are written.
#include "planner/checkpoint_bytes.h"

#include <gtest/gtest.h>

#include <map>

#include "planner/places.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

int64_t bytes_in_places(const ResolvedJob& job) {
  std::map<std::string, int64_t> bytes;  // by tensor
  for (const Place& place : places_of(job).places)
    if (is_state(place)) bytes[place.tensor] = place.type.bytes();
  int64_t all = 0;
  for (const auto& [tensor, of_it] : bytes) all += of_it;
  return all;
}

TEST(CheckpointBytes, AreThoseOfWeightsAndMoments) {
  for (const ir::Optimizer optimizer : {ir::Optimizer::sgd, ir::Optimizer::momentum, ir::Optimizer::adam})
    for (const ir::Precision precision : {ir::Precision::fp32, ir::Precision::fp16, ir::Precision::fp64})
      for (const int pp : {1, 4})
        for (const int zero : {0, 3}) {
          Job job = small_job(2, 2, pp, 4);
          job.train.optimizer = optimizer, job.train.precision = precision;
          job.parallel.zero = zero;
          const ResolvedJob resolved = resolve(job);
          EXPECT_EQ(checkpoint_bytes(resolved), bytes_in_places(resolved)) << pp << " " << zero;
        }
}

TEST(CheckpointBytes, AreTwelveForAParameterWithAdam) {
  const ResolvedJob job = resolve(small_job(1, 1, 1));  // its vocabulary needs no padding
  const auto parameters = static_cast<int64_t>(compile(job).facts.at("parameters"));
  EXPECT_EQ(checkpoint_bytes(job), 12 * parameters);
}

}  // namespace
}  // namespace boxcar::planner
