// boxcar export --chakra: the files read back, each with the others, with the plan's numbers, and run as
// ASTRA-sim runs them.
#include "sim/chakra/chakra.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/io/coded_stream.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <queue>
#include <set>
#include <sstream>

#include "bad_input.h"
#include "chakra.pb.h"
#include "ir/op.h"

namespace boxcar::cli::chakra_tests {
namespace {

namespace proto = ChakraProtoMsg;
using nlohmann::json;
using ::testing::HasSubstr;
using tests::Output;
using tests::Words;

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Trace {
  proto::GlobalMetadata metadata;
  std::vector<proto::Node> nodes;
};

Trace read_trace(const std::string& path) {
  const std::string text = text_of(path);
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(text.data()),
                                            static_cast<int>(text.size()));
  Trace trace;
  bool first = true;
  for (uint32_t size = 0; in.ReadVarint32(&size); first = false) {
    const auto limit = in.PushLimit(static_cast<int>(size));
    google::protobuf::MessageLite& message =
        first ? static_cast<google::protobuf::MessageLite&>(trace.metadata) : trace.nodes.emplace_back();
    EXPECT_TRUE(message.ParseFromCodedStream(&in)) << path;
    in.PopLimit(limit);
  }
  return trace;
}

const proto::AttributeProto& attr(const proto::Node& node, std::string_view name) {
  for (const proto::AttributeProto& one : node.attr())
    if (one.name() == name) return one;
  ADD_FAILURE() << node.name() << " has no " << name;
  return node.attr(0);
}

// A job's plan, its document of simulate, and its traces.
class Exported {
 public:
  explicit Exported(const Words& job) : folder_(tests::temporary_folder()) {
    Words words{"simulate", "--json", "--save-plan", plan_path()};
    words.insert(words.end(), job.begin(), job.end());
    const Output simulated = tests::run_program(words);
    EXPECT_EQ(simulated.exit_code, 0) << simulated.err;
    document = json::parse(simulated.out);
    plan = ir::parse_plan(text_of(plan_path()));
    const Output exported = tests::run_program({"export", plan_path(), "--chakra", "-o", traces()});
    EXPECT_EQ(exported.exit_code, 0) << exported.err;
    err = exported.err;
    groups = json::parse(text_of(traces() + "/step.groups.json"));
    for (int d = 0; d < plan.devices; ++d)
      devices.push_back(read_trace(fmt::format("{}/step.{}.et", traces(), d)));
  }
  ~Exported() { std::filesystem::remove_all(folder_); }
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;

  std::string plan_path() const { return folder_ + "/plan.txt"; }
  std::string traces() const { return folder_ + "/made/here"; }

  json document, groups;
  ir::Plan plan;
  std::string err;
  std::vector<Trace> devices;

 private:
  std::string folder_;
};

// Attention is unfused, since results count the flops of a fused backward pass as publications do
// (planner/facts.h) and traces those of its kernel.
Words gpt(Words more) {
  Words words{"--model=gpt",   "--layers=4",        "--hidden=256",       "--heads=4",
              "--seq=128",     "--vocab=1024",      "--cluster=dgx-h100", "--gpus=8",
              "--dropout=0.1", "--global-batch=16", "--micro-batch=1",    "--attention=unfused"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

struct Job {
  const char* name;
  Words words;
};
void PrintTo(const Job& job, std::ostream* out) { *out << job.name; }

std::vector<Job> jobs() {
  return {
      {"Parallel3d", gpt({"--dp=2", "--tp=2", "--pp=2", "--zero=1"})},
      {"Zero3", gpt({"--dp=8", "--zero=3"})},
      {"Interleaved", gpt({"--pp=2", "--tp=4", "--virtual-stages=2", "--sequence-parallel"})},
      {"ZeroBubble", gpt({"--pp=4", "--dp=2", "--schedule=zb-h1"})},
      {"Experts", gpt({"--dp=8", "--ep=4", "--experts=4", "--top-k=2"})},
      {"Context", gpt({"--context-parallel=2", "--tp=2", "--dp=2", "--zero=2"})},
      {"Unordered", {"--model=resnet50", "--cluster=dgx-h100", "--gpus=2", "--dp=2", "--global-batch=8"}}};
}

class Chakra : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(Of, Chakra, ::testing::ValuesIn(jobs()),
                         [](const auto& named) { return std::string(named.param.name); });

void expect_earlier_nodes(const Trace& trace) {
  EXPECT_EQ(trace.metadata.version(), "0.0.4");
  for (size_t n = 0; n < trace.nodes.size(); ++n) {
    const proto::Node& node = trace.nodes[n];
    ASSERT_EQ(node.id(), n);
    EXPECT_NE(node.type(), proto::INVALID_NODE) << node.name();
    for (const uint64_t from : node.data_deps()) ASSERT_LT(from, n) << node.name();
    for (const uint64_t from : node.ctrl_deps()) ASSERT_LT(from, n) << node.name();
  }
}

// (source, puller, tag) -> bytes.
using Transfers = std::map<std::tuple<int, int, int>, int64_t>;

Transfers transfers(const Exported& e, proto::NodeType type) {
  Transfers all;
  for (size_t d = 0; d < e.devices.size(); ++d)
    for (const proto::Node& node : e.devices[d].nodes) {
      if (node.type() != type) continue;
      const int from = attr(node, "comm_src").int32_val(), to = attr(node, "comm_dst").int32_val();
      EXPECT_EQ(type == proto::COMM_SEND_NODE ? from : to, static_cast<int>(d));
      const bool is_new =
          all.try_emplace({from, to, attr(node, "comm_tag").int32_val()}, attr(node, "comm_size").int64_val())
              .second;
      EXPECT_TRUE(is_new) << node.name() << " has a tag that another one has";
    }
  return all;
}

// By group, what a device does in it, in order.
using Acts = std::map<std::string, std::vector<std::tuple<int64_t, int64_t, std::string>>>;

Acts collectives(const Trace& trace) {
  Acts acts;
  for (const proto::Node& node : trace.nodes)
    if (node.type() == proto::COMM_COLL_NODE)
      acts[attr(node, "pg_name").string_val()].emplace_back(attr(node, "comm_type").int64_val(),
                                                            attr(node, "comm_size").int64_val(),
                                                            attr(node, "pg_desc").string_val());
  return acts;
}

TEST_P(Chakra, HasEveryEndOfEveryTransfer) {
  const Exported e(GetParam().words);
  for (const Trace& trace : e.devices) expect_earlier_nodes(trace);
  EXPECT_EQ(transfers(e, proto::COMM_SEND_NODE), transfers(e, proto::COMM_RECV_NODE));
  std::map<std::string, Acts::mapped_type> by_group;
  for (size_t d = 0; d < e.devices.size(); ++d)
    for (const auto& [group, acts] : collectives(e.devices[d])) {
      const auto members = e.groups.at(group).get<std::vector<int>>();
      EXPECT_TRUE(std::count(members.begin(), members.end(), static_cast<int>(d)));
      for (const int other : members)
        EXPECT_EQ(collectives(e.devices[static_cast<size_t>(other)])[group], acts) << group;
      by_group[group] = acts;
    }
  EXPECT_EQ(by_group.size(), e.groups.size());
}

// Bytes that the devices of a group send, as the document counts them (sbp::sent_bytes).
double sent(int64_t type, double size, double ranks) {
  if (type == proto::ALL_REDUCE) return 2 * size * (ranks - 1) / ranks;
  if (type == proto::ALL_GATHER) return size * (ranks - 1);
  return size * (ranks - 1) / ranks;
}

TEST_P(Chakra, SumsAreThoseOfTheSimulation) {
  const Exported e(GetParam().words);
  const std::map<int64_t, const char*> names{{proto::ALL_REDUCE, "all_reduce"},
                                             {proto::ALL_GATHER, "all_gather"},
                                             {proto::REDUCE_SCATTER, "reduce_scatter"},
                                             {proto::ALL_TO_ALL, "all_to_all"}};
  std::map<std::string, double> bytes;
  double flops = 0;
  for (const Trace& trace : e.devices) {
    std::map<std::string, const ir::OpDef*> ops;  // by actor
    const std::string& program_name = trace.metadata.attr(2).string_val();
    for (const ir::Program& program : e.plan.programs)
      for (const ir::Actor& actor : program.actors)
        if (program.name == program_name && ir::has_op(actor.op)) ops[actor.name] = &ir::op(actor.op);
    for (const proto::Node& node : trace.nodes) {
      if (node.type() == proto::COMM_COLL_NODE) {
        const int64_t type = attr(node, "comm_type").int64_val();
        const auto ranks = static_cast<double>(e.groups.at(attr(node, "pg_name").string_val()).size());
        bytes[names.at(type)] += sent(type, static_cast<double>(attr(node, "comm_size").int64_val()), ranks);
      }
      if (node.type() == proto::COMM_RECV_NODE)
        bytes["pull"] += static_cast<double>(attr(node, "comm_size").int64_val());
      const auto op = ops.find(node.name().substr(0, node.name().rfind(' ')));
      if (node.type() != proto::COMP_NODE || op == ops.end()) continue;
      const ir::Family family = op->second->family;
      EXPECT_EQ(attr(node, "tensor_size").uint64_val() > 0, attr(node, "num_ops").int64_val() > 0);
      if (family != ir::Family::memory && family != ir::Family::none)
        flops += static_cast<double>(attr(node, "num_ops").int64_val());
    }
  }
  for (const auto& [name, expected] : e.document["comm_bytes"].items())
    EXPECT_NEAR(bytes[name], expected.get<double>(), 1e-6 * expected.get<double>()) << name;
  EXPECT_EQ(bytes.size(), e.document["comm_bytes"].size());
  const double expected = e.document["hardware_tflops_per_gpu"].get<double>() * 1e12 * e.plan.devices *
                          e.document["step_time_s"].get<double>();
  EXPECT_NEAR(flops, expected, 1e-6 * expected);
}

// Runs traces as ASTRA-sim does (astra-sim/workload/Workload.cc and HardwareResource.cc, commit 0383c20): of
// the nodes that wait for nothing, the lowest number first; one kernel, one act of the host, and one
// collective, send or copy at a time on a device. Here communication takes a microsecond.
class Replay {
 public:
  explicit Replay(const Exported& e) : e_(e), devices_(e.devices.size()) {
    for (size_t d = 0; d < devices_.size(); ++d) {
      Device& device = devices_[d];
      const auto& nodes = e.devices[d].nodes;
      device.waits.resize(nodes.size());
      device.next.resize(nodes.size());
      for (size_t n = 0; n < nodes.size(); ++n) {
        for (const uint64_t from : nodes[n].data_deps()) device.next[from].push_back(n);
        for (const uint64_t from : nodes[n].ctrl_deps()) device.next[from].push_back(n);
        device.waits[n] = nodes[n].data_deps_size() + nodes[n].ctrl_deps_size();
        if (device.waits[n] == 0) device.ready.insert(n);
      }
    }
  }

  // How many nodes never ran.
  size_t run() {
    for (size_t d = 0; d < devices_.size(); ++d) issue(d);
    while (!events_.empty()) {
      const auto [when, d, n] = events_.top();
      events_.pop();
      now_ = when;
      finish(d, n);
    }
    size_t left = 0;
    for (size_t d = 0; d < devices_.size(); ++d) left += e_.devices[d].nodes.size() - devices_[d].done;
    return left;
  }

 private:
  struct Device {
    std::vector<int> waits;
    std::vector<std::vector<size_t>> next;
    std::set<size_t> ready;
    std::array<bool, 3> busy{};  // kernels, host, communication
    size_t done = 0;
  };

  const proto::Node& node(size_t d, size_t n) const { return e_.devices[d].nodes[n]; }

  static int slot(const proto::Node& node) {
    if (attr(node, "is_cpu_op").bool_val()) return 1;
    if (node.type() == proto::COMP_NODE) return 0;
    return node.type() == proto::COMM_RECV_NODE ? -1 : 2;
  }

  void issue(size_t d) {
    const std::set<size_t> ready = devices_[d].ready;
    for (const size_t n : ready) {
      const int taken = slot(node(d, n));
      if (taken >= 0 && std::exchange(devices_[d].busy.at(static_cast<size_t>(taken)), true)) continue;
      devices_[d].ready.erase(n);
      start(d, n);
    }
  }

  void start(size_t d, size_t n) {
    const proto::Node& started = node(d, n);
    if (started.type() == proto::COMM_COLL_NODE) {
      const std::string& group = attr(started, "pg_name").string_val();
      auto& together = joint_[{group, acts_[{group, d}]++}];
      together.emplace_back(d, n);
      if (together.size() == e_.groups.at(group).size())
        for (const auto& [member, act] : together) events_.emplace(now_ + 1, member, act);
    } else if (started.type() == proto::COMM_SEND_NODE || started.type() == proto::COMM_RECV_NODE) {
      const bool sends = started.type() == proto::COMM_SEND_NODE;
      auto& ends = transfers_[{attr(started, "comm_src").int32_val(), attr(started, "comm_dst").int32_val(),
                               attr(started, "comm_tag").int32_val()}];
      if (sends) events_.emplace(now_ + 1, d, n);
      ends.emplace_back(d, n);
      if (ends.size() == 2) {
        const auto& receiver = sends ? ends[0] : ends[1];
        events_.emplace(now_ + 1, receiver.first, receiver.second);
      }
    } else {
      events_.emplace(now_ + started.duration_micros(), d, n);
    }
  }

  void finish(size_t d, size_t n) {
    Device& device = devices_[d];
    const int taken = slot(node(d, n));
    if (taken >= 0) device.busy.at(static_cast<size_t>(taken)) = false;
    ++device.done;
    for (const size_t to : device.next[n])
      if (--device.waits[to] == 0) device.ready.insert(to);
    issue(d);
  }

  using Event = std::tuple<uint64_t, size_t, size_t>;
  const Exported& e_;
  std::vector<Device> devices_;
  std::map<std::pair<std::string, size_t>, int> acts_;
  std::map<std::pair<std::string, int>, std::vector<std::pair<size_t, size_t>>> joint_;
  std::map<std::tuple<int, int, int>, std::vector<std::pair<size_t, size_t>>> transfers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t now_ = 0;
};

TEST_P(Chakra, RunsToItsEndAsAstraSimRunsIt) {
  const Exported e(GetParam().words);
  EXPECT_EQ(Replay(e).run(), 0u);
}

// Kernels of a device's queue, each rounded to microseconds, take what the simulator says.
TEST(ChakraTraces, TakeTheTimeOfTheModels) {
  const Exported e(gpt({"--dp=2", "--tp=2", "--pp=2"}));
  const json explained = json::parse(tests::run_program({"explain", e.plan_path(), "--json"}).out);
  double micros = 0;
  for (const proto::Node& node : e.devices[0].nodes)
    if (node.type() == proto::COMP_NODE) micros += static_cast<double>(node.duration_micros());
  const double busy = explained["stages"][0]["busy_s"];
  EXPECT_NEAR(micros * 1e-6, busy, 3e-6);
}

TEST(ChakraTraces, AreWrittenForSomeRanks) {
  const Exported e(gpt({"--dp=2", "--tp=2", "--pp=2"}));
  const std::string folder = e.traces() + "/some";
  const Output output =
      tests::run_program({"export", e.plan_path(), "--chakra", "--ranks", "5,0-1,1", "-o", folder});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    names.insert(name);
    EXPECT_EQ(text_of(file.path().string()), text_of(e.traces() + "/" + name)) << name;
  }
  EXPECT_EQ(names, (std::set<std::string>{"step.0.et", "step.1.et", "step.5.et", "step.groups.json"}));
}

TEST(ChakraTraces, AreThoseOfTheJob) {
  const Exported e(gpt({"--dp=2", "--tp=2", "--pp=2"}));
  Words words = gpt({"--dp=2", "--tp=2", "--pp=2", "--chakra", "-o", e.traces() + "/job"});
  words.insert(words.begin(), "export");
  EXPECT_EQ(tests::run_program(words).exit_code, 0);
  EXPECT_EQ(text_of(e.traces() + "/job/step.3.et"), text_of(e.traces() + "/step.3.et"));
}

TEST(ChakraTraces, SayWhatTheyCannotSay) {
  const Exported e(gpt({"--pp=4", "--dp=2"}));
  EXPECT_THAT(e.err, HasSubstr("boxcar: cannot be said in chakra: pulls: a receiver whose slots are full "
                               "does not hold its sender back there; every block is sent as soon as it is "
                               "made\n"));
  const Output strict =
      tests::run_program({"export", e.plan_path(), "--chakra", "--strict", "-o", e.traces() + "/strict"});
  EXPECT_EQ(strict.exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(e.traces() + "/strict"));
}

}  // namespace
}  // namespace boxcar::cli::chakra_tests
