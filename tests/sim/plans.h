// Small plans and clusters written by hand, for the simulator's tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backends/cluster.h"
#include "ir/plan.h"

namespace boxcar::sim::test {

// One program, built up actor by actor. Registers are named after their producer.
//
//   ProgramBuilder p("stage0", {"F"});
//   int a = p.actor("a", 1.0);
//   p.link(a, p.actor("b", 2.0), 2);     // a register with 2 slots from a to b
struct ProgramBuilder {
  ir::Program program;

  explicit ProgramBuilder(std::string name, std::vector<std::string> phases = {"F"}, int micro_batches = 1) {
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
    reg.name = program.actors[static_cast<size_t>(producer)].name + ".out";
    reg.count = count;
    reg.bytes = bytes;
    reg.producer = producer;
    program.registers.push_back(std::move(reg));
    int index = static_cast<int>(program.registers.size()) - 1;
    program.actors[static_cast<size_t>(producer)].outputs.push_back(index);
    return index;
  }
  void read(int consumer, int reg, int repeat = 1) {
    program.actors[static_cast<size_t>(consumer)].inputs.push_back({reg, repeat, -1, -1, {}});
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
  ir::Register& reg(int index) { return program.registers[static_cast<size_t>(index)]; }
  ir::Actor& act(int index) { return program.actors[static_cast<size_t>(index)]; }
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
