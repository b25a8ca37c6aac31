// Small plans and clusters written by hand, for the simulator's tests.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backends/machines/cluster.h"
#include "ir/plan.h"
#include "sbp/at.h"

namespace boxcar::sim::test {

// One program, built actor by actor. Registers are named after their producer.
//
//   ProgramBuilder p("stage0", {"F"});
//   int a = p.actor("a", 1.0);
//   p.link(a, p.actor("b", 2.0), 2);     // a register with 2 slots from a to b
struct ProgramBuilder {
  ir::Program program;

  explicit ProgramBuilder(std::string name, std::vector<ir::PlanPhase> phases = {"F"},
                          int micro_batches = 1) {
    program.name = std::move(name);
    program.phases = std::move(phases);
    program.queues.push_back({"compute", ir::QueueKind::compute, true});
    for (int m = 0; m < micro_batches; ++m) {
      for (int phase = 0; phase < static_cast<int>(program.phases.size()); ++phase)
        program.schedule.push_back({phase, m});
    }
  }
  int queue(std::string name, ir::QueueKind kind, bool ordered = true) {
    program.queues.push_back({std::move(name), kind, ordered});
    return static_cast<int>(program.queues.size()) - 1;
  }
  int actor(std::string name, double seconds, int queue = 0, int phase = 0) {
    ir::Actor actor;
    actor.name = std::move(name);
    actor.op = "test";
    actor.queue = queue;
    actor.phase = phase;
    if (seconds >= 0) actor.attrs["seconds"] = seconds;
    program.actors.push_back(std::move(actor));
    return static_cast<int>(program.actors.size()) - 1;
  }
  int output(int producer, int count = 1, int64_t bytes = 0) {
    ir::Register reg;
    const ir::Actor& from = at(program.actors, producer);
    reg.name = from.name + ".out" + std::to_string(from.outputs.size());
    reg.count = count;
    reg.bytes = bytes;
    reg.producer = producer;
    program.registers.push_back(std::move(reg));
    int index = static_cast<int>(program.registers.size()) - 1;
    at(program.actors, producer).outputs.push_back(index);
    return index;
  }
  void read(int consumer, int reg, int repeat = 1) {
    at(program.actors, consumer).inputs.push_back({reg, repeat, -1, -1, {}});
  }
  int link(int producer, int consumer, int count = 1, int64_t bytes = 0) {
    int reg = output(producer, count, bytes);
    read(consumer, reg);
    return reg;
  }
  int collective(std::string name, int comm, int64_t bytes, int queue, int phase = 0) {
    int index = actor(std::move(name), -1, queue, phase);
    ir::Actor& act = program.actors.back();
    act.kind = ir::ActorKind::collective;
    act.collective = sbp::Collective::all_reduce;
    act.op = "all_reduce";
    act.comm = comm;
    act.comm_bytes = bytes;
    return index;
  }
  int pull(std::string name, int from_program, int reg, int peers, int64_t bytes, int queue, int phase = 0,
           int source_queue = -1) {
    int index = actor(std::move(name), -1, queue, phase);
    ir::Actor& act = program.actors.back();
    act.kind = ir::ActorKind::pull;
    act.op = "pull";
    act.inputs.push_back({reg, 1, from_program, peers, {}});
    act.comm_bytes = bytes;
    act.source_queue = source_queue;
    return index;
  }
  ir::Register& reg(int index) { return at(program.registers, index); }
  ir::Actor& act(int index) { return at(program.actors, index); }
};

// Programs in order, each with its devices.
inline ir::Plan make_plan(std::vector<std::pair<ProgramBuilder, std::vector<int>>> parts) {
  ir::Plan plan;
  plan.name = "test";
  for (auto& [builder, devices] : parts) {
    plan.classes.push_back({static_cast<int>(plan.programs.size()), devices});
    plan.programs.push_back(builder.program);
    plan.devices += static_cast<int>(devices.size());
  }
  return plan;
}

// The schedule of stage `stage` of `stages` in 1F1B: phases F = 0, B = 1, U = 2.
inline std::vector<ir::PhaseRun> one_f_one_b(int stage, int stages, int micro_batches) {
  std::vector<ir::PhaseRun> schedule;
  int warmup = std::min(stages - stage - 1, micro_batches);
  for (int m = 0; m < warmup; ++m) schedule.push_back({0, m});
  for (int m = warmup; m < micro_batches; ++m) {
    schedule.push_back({0, m});
    schedule.push_back({1, m - warmup});
  }
  for (int m = micro_batches - warmup; m < micro_batches; ++m) schedule.push_back({1, m});
  schedule.push_back({2, 0});
  return schedule;
}

struct GptShape {
  int stages = 8, dp = 16, tp = 8;
  int layers = 12;   // of a stage
  int kernels = 12;  // of a layer, forward; the same number backward
  int micro_batches = 96;
};

// The program of one transformer stage: a chain of kernels with two all-reduces over tp per layer, forward
// and backward. Every kernel's output is kept for its backward kernel. Gradients are accumulated and reduced
// over dp.
inline ProgramBuilder gpt_stage(const GptShape& shape, int stage) {
  ProgramBuilder p("stage" + std::to_string(stage), {"F", "B", "U"});
  p.program.schedule = one_f_one_b(stage, shape.stages, shape.micro_batches);
  int net_tp = p.queue("net.tp", ir::QueueKind::network), net_dp = p.queue("net.dp", ir::QueueKind::network);
  int net_f = p.queue("net.pp.forward", ir::QueueKind::network);
  int net_b = p.queue("net.pp.backward", ir::QueueKind::network);
  int kept = shape.stages - stage;
  std::vector<int>
      forward_out;  // register 0: the last kernel's output, which the next stage pulls; 1: the gradient
  p.program.registers.resize(2);
  int last = stage > 0 ? p.pull("pull.f", stage - 1, 0, 0, 50331648, net_f) : -1;
  int steps = shape.layers * shape.kernels;
  for (int k = 0; k < steps; ++k) {
    int kernel = p.actor("f" + std::to_string(k), 1e-4 + 1e-6 * (k % 7));
    if (last >= 0) p.link(last, kernel, 1, 1024);
    if (k + 1 < steps) {
      forward_out.push_back(p.output(kernel, kept, 1024));
    } else {
      p.reg(0) = {.name = "forward.out", .type = {}, .bytes = 1024, .count = kept, .producer = kernel};
      p.act(kernel).outputs.push_back(0);
      forward_out.push_back(0);
    }
    last = kernel;
    if (k % (shape.kernels / 2) == shape.kernels / 2 - 1 && k + 1 < steps) {
      int reduce = p.collective("f.reduce" + std::to_string(k), 0, 50331648, net_tp);
      p.link(kernel, reduce, 1, 1024);
      last = reduce;
    }
  }
  last = stage + 1 < shape.stages ? p.pull("pull.b", stage + 1, 1, 1, 50331648, net_b, 1) : -1;
  int update = -1;
  for (int k = steps - 1; k >= 0; --k) {
    int kernel = p.actor("b" + std::to_string(k), 2e-4 + 1e-6 * (k % 5), 0, 1);
    if (last >= 0) p.link(last, kernel, 1, 1024);
    p.read(kernel, at(forward_out, k));
    last = kernel;
    if (k % (shape.kernels / 2) == 0 && k > 0) {
      int reduce = p.collective("b.reduce" + std::to_string(k), 0, 50331648, net_tp, 1);
      p.link(kernel, reduce, 1, 1024);
      last = reduce;
    }
    if (k % shape.kernels == 0) {
      int gradient = p.collective("g.reduce" + std::to_string(k), 1, 452984832, net_dp, 2);
      p.reg(p.link(kernel, gradient, 1, 1024)).every = shape.micro_batches;
      update = p.actor("update" + std::to_string(k), 1e-3, 0, 2);
      p.link(gradient, update, 1, 1024);
    }
  }
  p.reg(1) = {.name = "backward.out", .type = {}, .bytes = 1024, .count = 2, .producer = last};
  p.act(last).outputs.push_back(1);
  return p;
}

// Stages of dp x tp devices one after the other, tp innermost.
inline ir::Plan gpt_like(const GptShape& shape) {
  std::vector<std::pair<ProgramBuilder, std::vector<int>>> parts;
  int per_stage = shape.dp * shape.tp;
  ir::Comm tp{"tp", {}}, dp{"dp", {}};
  ir::Peers previous{"previous", {}}, next{"next", {}};
  for (int s = 0; s < shape.stages; ++s) {
    std::vector<int> devices;
    for (int d = 0; d < per_stage; ++d) devices.push_back(s * per_stage + d);
    parts.emplace_back(gpt_stage(shape, s), devices);
    for (int d = 0; d < shape.dp; ++d) {
      tp.groups.emplace_back();
      for (int t = 0; t < shape.tp; ++t) tp.groups.back().push_back(s * per_stage + d * shape.tp + t);
    }
    for (int t = 0; t < shape.tp; ++t) {
      dp.groups.emplace_back();
      for (int d = 0; d < shape.dp; ++d) dp.groups.back().push_back(s * per_stage + d * shape.tp + t);
    }
    for (int device : devices) {
      previous.source.push_back(s > 0 ? device - per_stage : -1);
      next.source.push_back(s + 1 < shape.stages ? device + per_stage : -1);
    }
  }
  ir::Plan plan = make_plan(std::move(parts));
  plan.comms = {tp, dp};
  plan.peers = {previous, next};
  plan.micro_batches = shape.micro_batches;
  return plan;
}

// Nodes of `gpus` GPUs with 100 GB/s ports, and NICs of 10 GB/s.
inline backends::Cluster make_cluster(int nodes, int gpus, int nics) {
  backends::Cluster cluster;
  cluster.name = "test";
  cluster.nodes = nodes;
  cluster.node.gpus = gpus;
  cluster.node.link_bandwidth = 100e9;
  cluster.node.link_latency = 1e-6;
  cluster.node.nics = nics;
  cluster.node.nic_bandwidth = 10e9;
  cluster.node.nic_latency = 5e-6;
  return cluster;
}

}  // namespace boxcar::sim::test
