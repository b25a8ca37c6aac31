// A plan shaped like a large transformer's, for benchmarks: stages of layers in 1F1B order, tensor-parallel
// collectives on their own queue, pulls with turns between stages, gradients summed over all micro-batches
// and reduced.
//
//   support::pipeline_plan({.stages = 8, .layers = 12, .micro_batches = 96})   // GPT-3 175B on 1,024 GPUs
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "sbp/at.h"

namespace boxcar::support {

struct PipelineShape {
  int stages = 8;
  int layers = 12;   // of one stage
  int kernels = 20;  // of one layer, forward; twice as many backward
  int micro_batches = 96;
  int devices = 128;  // of one stage
  int tensor_parallel = 8;
};

class PipelinePlan {
 public:
  explicit PipelinePlan(const PipelineShape& shape) : shape_(shape) {}

  ir::Plan make() {
    plan_.name = "pipeline";
    plan_.devices = shape_.stages * shape_.devices;
    plan_.micro_batches = shape_.micro_batches;
    ir::Comm tp{"tp", {}}, dp{"dp", {}};
    for (int d = 0; d < plan_.devices; d += shape_.tensor_parallel) {
      tp.groups.emplace_back();
      for (int i = 0; i < shape_.tensor_parallel; ++i) tp.groups.back().push_back(d + i);
    }
    for (int s = 0; s < shape_.stages; ++s) {
      for (int t = 0; t < shape_.tensor_parallel; ++t) {
        dp.groups.emplace_back();
        for (int d = t; d < shape_.devices; d += shape_.tensor_parallel) {
          dp.groups.back().push_back(s * shape_.devices + d);
        }
      }
    }
    plan_.comms = {tp, dp};
    for (int s = 0; s < shape_.stages; ++s) stage(s);
    return std::move(plan_);
  }

 private:
  ir::Program& program() { return plan_.programs.back(); }

  int reg(const std::string& name, ir::MemoryKind memory, int count = 1, int initial = 0, int every = 1) {
    program().registers.push_back({.name = name,
                                   .type = {{1024, 1024}, ir::DType::float16},
                                   .bytes = 2097152,
                                   .count = count,
                                   .initial = initial,
                                   .every = every,
                                   .memory = memory});
    return static_cast<int>(program().registers.size()) - 1;
  }

  ir::Actor& add(const std::string& name, std::vector<ir::Input> inputs, std::vector<int> outputs, int queue,
                 int phase) {
    ir::Actor actor;
    actor.name = name;
    actor.kind = ir::ActorKind::host;
    actor.op = "test";
    actor.attrs["seconds"] = 1e-4;
    actor.inputs = std::move(inputs);
    actor.outputs = outputs;
    actor.queue = queue;
    actor.phase = phase;
    for (int out : outputs) {
      at(program().registers, out).producer = static_cast<int>(program().actors.size());
    }
    program().actors.push_back(std::move(actor));
    return program().actors.back();
  }

  void collective(const std::string& name, ir::Input input, int output, int comm, int queue, int phase) {
    ir::Actor& actor = add(name, {input}, {output}, queue, phase);
    actor.kind = ir::ActorKind::collective;
    actor.op = "all_reduce";
    actor.collective = sbp::Collective::all_reduce;
    actor.comm = comm;
    actor.comm_bytes = 2097152;
  }

  int pull(const std::string& name, int from, int reg_index, int phase, int queue) {
    ir::Peers peers{name + std::to_string(plan_.programs.size()),
                    std::vector<int>(static_cast<size_t>(plan_.devices), -1)};
    int stage = static_cast<int>(plan_.programs.size()) - 1;
    for (int d = 0; d < shape_.devices; ++d) {
      at(peers.source, stage * shape_.devices + d) = from * shape_.devices + d;
    }
    plan_.peers.push_back(peers);
    int out = reg(name, ir::MemoryKind::activations, 2);
    ir::Actor& actor =
        add(name, {{reg_index, 1, from, static_cast<int>(plan_.peers.size()) - 1, {}}}, {out}, queue, phase);
    actor.kind = ir::ActorKind::pull;
    actor.op = "pull";
    actor.comm_bytes = 2097152;
    actor.source_queue = queue;
    return out;
  }

  void stage(int s) {
    plan_.programs.emplace_back();
    program().name = "stage" + std::to_string(s);
    program().phases = {"F", "B", "U"};
    program().schedule = order(s);
    const std::vector<std::string> queues = {"compute", "net.tp", "net.dp", "net.pp.forward",
                                             "net.pp.backward"};
    for (const std::string& q : queues) {
      program().queues.push_back({q, q == "compute" ? ir::QueueKind::compute : ir::QueueKind::network, true});
    }
    ir::RankClass cls{s, {}};
    for (int d = 0; d < shape_.devices; ++d) cls.devices.push_back(s * shape_.devices + d);
    plan_.classes.push_back(cls);
    kept_.clear();
    weights_.clear();
    forward(s);
    backward(s);
  }

  std::vector<ir::PhaseRun> order(int s) const {
    std::vector<ir::PhaseRun> runs;
    int warm = std::min(shape_.stages - s, shape_.micro_batches), next = 0;
    while (next < warm) runs.push_back({0, next++});
    for (int b = 0; b < shape_.micro_batches; ++b) {
      runs.push_back({1, b});
      if (next < shape_.micro_batches) runs.push_back({0, next++});
    }
    runs.push_back({2, 0});
    return runs;
  }

  void forward(int s) {
    int in_flight = std::min(shape_.stages - s, shape_.micro_batches);
    int x = s == 0 ? -1 : pull("x", s - 1, sent_, 0, 3);
    for (int l = 0; l < shape_.layers; ++l) {
      std::string layer = "h" + std::to_string(l) + ".";
      for (int k = 0; k < shape_.kernels; ++k) {
        std::string name = layer + "f" + std::to_string(k);
        bool keeps = k % 3 == 0;  // for the backward pass
        int y = reg(name, ir::MemoryKind::activations, keeps ? in_flight : 1);
        int w = k % 4 != 0 ? -1 : reg(name + ".w", ir::MemoryKind::parameters, 1, 1);
        std::vector<ir::Input> ins;
        if (x >= 0) ins.push_back({x, 1, -1, -1, {}});
        if (w >= 0) {
          ins.push_back({w, shape_.micro_batches, -1, -1, {}});
          weights_.push_back(w);
        }
        add(name, ins, {y}, 0, 0);
        if (keeps) kept_.push_back(y);
        x = y;
        if (k % (shape_.kernels / 2) != shape_.kernels / 2 - 1) continue;
        int reduced = reg(name + ".ar", ir::MemoryKind::activations);
        collective(name + ".ar", {x, 1, -1, -1, {}}, reduced, 0, 1, 0);
        x = reduced;
      }
    }
    int out = reg("out", ir::MemoryKind::activations, 2);
    add("out", {{x, 1, -1, -1, {}}}, {out}, 0, 0);
    sent_ = out;
    outs_.push_back(out);
  }

  void backward(int s) {
    bool last = s + 1 == shape_.stages;
    // The gradient comes from the next stage, whose program is made later: its number is known, and its
    // register is filled in then.
    int dy = last ? outs_.back() : gradient(s);
    for (int l = shape_.layers - 1; l >= 0; --l) {
      std::string layer = "h" + std::to_string(l) + ".";
      for (int k = 2 * shape_.kernels - 1; k >= 0; --k) {
        std::string name = layer + "b" + std::to_string(k);
        int dx = reg(name, ir::MemoryKind::gradients);
        std::vector<ir::Input> ins{{dy, 1, -1, -1, {}}};
        if (k % 6 == 0 && !kept_.empty()) {
          ins.push_back({kept_.back(), 1, -1, -1, {}});
          kept_.pop_back();
        }
        add(name, ins, {dx}, 0, 1);
        dy = dx;
        if (k % shape_.kernels == 0) {
          int reduced = reg(name + ".ar", ir::MemoryKind::gradients);
          collective(name + ".ar", {dy, 1, -1, -1, {}}, reduced, 0, 1, 1);
          dy = reduced;
        }
      }
      update(layer, dy);
    }
    int out = s == 0 ? -1 : reg("dx", ir::MemoryKind::gradients, 2);
    add("dx", {{dy, 1, -1, -1, {}}}, out < 0 ? std::vector<int>{} : std::vector<int>{out}, 0, 1);
    if (out < 0) return;
    // Now the stage before can name the register that it pulls.
    ir::Program& before = at(plan_.programs, s - 1);
    for (ir::Actor& actor : before.actors) {
      if (actor.name == "dy") actor.inputs[0].reg = out;
    }
  }

  int gradient(int s) {
    int out = pull("dy", s + 1, 0, 1, 4);
    return out;
  }

  // A layer's gradients are summed over the micro-batches, reduced, and applied to its weights in place.
  void update(const std::string& layer, int dy) {
    int sum = reg(layer + "sum", ir::MemoryKind::gradients, 1, 0, shape_.micro_batches);
    add(layer + "sum", {{dy, 1, -1, -1, {}}}, {sum}, 0, 1);
    int reduced = reg(layer + "dp", ir::MemoryKind::gradients);
    collective(layer + "dp", {sum, 1, -1, -1, {}}, reduced, 1, 2, 2);
    std::vector<ir::Input> ins{{reduced, 1, -1, -1, {}}};
    std::vector<int> outs;
    for (int w : weights_) {
      if (at(program().registers, w).name.rfind(layer, 0) != 0) continue;
      ins.push_back({w, 1, -1, -1, {}});
      outs.push_back(w);
    }
    add(layer + "adam", ins, outs, 0, 2);
  }

  // Pulls of the backward pass name the next stage's peers before it exists; all stages have as many devices.
  PipelineShape shape_;
  ir::Plan plan_;
  std::vector<int> kept_, weights_, outs_;
  int sent_ = -1;
};

inline ir::Plan pipeline_plan(const PipelineShape& shape) { return PipelinePlan(shape).make(); }

}  // namespace boxcar::support
