// A plan simulated and run, compared by traces and documents: every queue of every device has the same acts
// in the same order, and memory use matches the plan to the byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/run_program.h"

namespace boxcar::tests {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

// "act index" by device and queue, by start.
struct Slice {
  double start = 0;
  std::string act;
};
using Tracks = std::map<std::string, std::vector<Slice>>;

Tracks tracks_of(const std::string& path) {
  std::ifstream in(path);
  const json events = json::parse(in).at("traceEvents");
  std::map<int, std::string> devices;
  std::map<std::pair<int, int>, std::string> queues;
  Tracks tracks;
  for (const json& e : events) {
    if (e.at("name") == "process_name") devices[e.at("pid")] = e.at("args").at("name");
    if (e.at("name") == "thread_name") queues[{e.at("pid"), e.at("tid")}] = e.at("args").at("name");
  }
  for (const json& e : events) {
    if (e.at("ph") != "X") continue;
    const std::string act = e.at("name").get<std::string>() + " " + e.at("args").at("act").dump();
    tracks[devices.at(e.at("pid")) + ", " + queues.at({e.at("pid"), e.at("tid")})].push_back(
        {e.at("ts"), act});
  }
  return tracks;
}

// Sorted by time; acts that start at one instant in the order of `like`.
Words order_of(std::vector<Slice> slices, const Words& like) {
  const auto place = [&](const Slice& s) {
    return std::find(like.begin(), like.end(), s.act) - like.begin();
  };
  std::sort(slices.begin(), slices.end(), [&](const Slice& a, const Slice& b) {
    return a.start != b.start ? a.start < b.start : place(a) < place(b);
  });
  Words acts;
  for (const Slice& slice : slices) acts.push_back(slice.act);
  return acts;
}

class SimulatedRun : public ::testing::TestWithParam<Words> {};

TEST_P(SimulatedRun, HasTheOrderAndTheMemoryOfTheRealOne) {
  const TemporaryFile text("text.txt", std::string(4000, 'a') + "b");
  const std::string folder = std::filesystem::path(text.path()).parent_path();
  const std::string simulated = folder + "/simulated.json", trained = folder + "/trained.json";
  Words job{"--model=gpt", "--layers=4",      "--hidden=16",      "--heads=4",        "--seq=16",
            "--vocab=256", "--cluster=local", "--precision=fp32", "--global-batch=8", "--pad-vocab=1"};
  job.insert(job.end(), GetParam().begin(), GetParam().end());
  Words simulate{"simulate", "--json", "--no-fold", "--trace=" + simulated};
  Words train{"train", "--json", "--probe", "--steps=5", "--data=" + text.path(), "--trace=" + trained};
  simulate.insert(simulate.end(), job.begin(), job.end());
  train.insert(train.end(), job.begin(), job.end());
  const Output prediction = run_program(simulate), run = run_program(train);
  ASSERT_EQ(prediction.exit_code, 0) << prediction.err;
  ASSERT_EQ(run.exit_code, 0) << run.err;

  const Tracks expected = tracks_of(simulated), seen = tracks_of(trained);
  size_t acts = 0;
  for (const auto& [track, slices] : seen) {
    ASSERT_TRUE(expected.contains(track)) << track;
    const Words order = order_of(slices, {});
    EXPECT_EQ(order_of(expected.at(track), order), order) << track;
    acts += order.size();
  }
  EXPECT_EQ(expected.size(), seen.size());
  EXPECT_GT(acts, 100u);

  std::vector<json> documents;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) documents.push_back(json::parse(line));
  const json &start = documents.front(), &end = documents.back();
  EXPECT_EQ(start.at("peak_memory_bytes"), end.at("peak_memory_bytes"));
  const json stages = json::parse(prediction.out).at("peak_memory_bytes");
  const size_t per_stage = start.at("peak_memory_bytes").size() / stages.size();
  for (size_t device = 0; device < start.at("peak_memory_bytes").size(); ++device) {
    EXPECT_EQ(end.at("peak_memory_bytes")[device], stages[device / per_stage]) << device;
    EXPECT_LE(end.at("held_memory_bytes")[device], end.at("peak_memory_bytes")[device]) << device;
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, SimulatedRun,
                         ::testing::Values(Words{"--dp=1", "--micro-batch=2", "--recompute=full"},
                                           Words{"--dp=2", "--micro-batch=2"}, Words{"--dp=2", "--zero=1"},
                                           Words{"--dp=2", "--zero=3", "--micro-batch=2"},
                                           Words{"--dp=1", "--tp=2", "--sequence-parallel"},
                                           Words{"--dp=1", "--pp=2", "--virtual-stages=2"},
                                           Words{"--dp=1", "--pp=4", "--schedule=gpipe", "--micro-batch=2"},
                                           Words{"--dp=1", "--pp=4", "--schedule=zb-h1", "--micro-batch=2"},
                                           Words{"--dp=2", "--tp=2", "--pp=2", "--recompute=selective"}));

}  // namespace
}  // namespace boxcar::tests
