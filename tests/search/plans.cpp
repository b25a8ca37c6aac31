#include "search/plans.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "backends/machines/cluster.h"
#include "planner/step_view.h"
#include "sbp/at.h"
#include "sim/simulate.h"
#include "support/mean_step.h"

namespace boxcar::search {
namespace {

enum Phase { forward, backward, update };
enum Queue { compute, ahead, back };

class PipelineBuilder {
 public:
  explicit PipelineBuilder(const PipelineShape& shape)
      : shape_(shape), count_(static_cast<int>(shape.stages.size())) {}

  ir::Plan build() {
    plan_.name = "pipeline";
    plan_.micro_batches = shape_.micro_batches;
    plan_.devices = count_;
    for (int s = 0; s < count_; ++s) {
      plan_.classes.push_back({s, {s}});
      plan_.programs.emplace_back();
      declare(s);
    }
    for (int s = 0; s < count_; ++s) connect(s);
    place_registers(plan_);
    return std::move(plan_);
  }

 private:
  // All stages number their registers alike, so that neighbours know them.
  enum Register { weight, saved, sent, gradient, sent_back, taken, taken_back };

  ir::Program& program(int s) { return at(plan_.programs, s); }

  void declare(int s) {
    ir::Program& p = program(s);
    p.name = "stage" + std::to_string(s);
    p.phases = {"F", "B", "U"};
    p.queues = {{"compute", ir::QueueKind::compute, true},
                {"ahead", ir::QueueKind::network, true},
                {"back", ir::QueueKind::network, true}};
    int m = shape_.micro_batches, lead = std::min(at(shape_.in_flight, s), m);
    for (int i = 0; i < lead; ++i) p.schedule.push_back({forward, i});
    for (int i = 0; i < m; ++i) {
      p.schedule.push_back({backward, i});
      if (i + lead < m) p.schedule.push_back({forward, i + lead});
    }
    p.schedule.push_back({update, 0});
    const char* names[] = {"weight", "saved", "sent", "gradient", "sent_back", "taken", "taken_back"};
    for (const char* name : names) {
      int64_t bytes = name == std::string("saved") ? shape_.saved_bytes : shape_.sent_bytes;
      ir::Register reg;
      reg.name = name;
      reg.type = {{bytes / 4}, ir::DType::float32};
      reg.bytes = bytes;
      reg.count = shape_.slots;
      p.registers.push_back(reg);
    }
    p.registers[weight].count = p.registers[weight].initial = 1;
    p.registers[gradient].every = m;
  }

  int add(int s, const std::string& name, double seconds, Phase phase, Queue queue,
          std::vector<ir::Input> inputs, std::vector<int> outputs) {
    ir::Actor actor;
    actor.name = name;
    actor.kind = ir::ActorKind::host;
    actor.op = "test";
    actor.attrs["seconds"] = seconds;
    actor.phase = phase;
    actor.queue = queue;
    actor.inputs = std::move(inputs);
    actor.outputs = std::move(outputs);
    for (int r : actor.outputs)
      at(program(s).registers, r).producer = static_cast<int>(program(s).actors.size());
    program(s).actors.push_back(std::move(actor));
    return static_cast<int>(program(s).actors.size()) - 1;
  }

  void pull(int s, int from, Register what, Register into, double seconds, Phase phase, Queue queue) {
    ir::Peers peers{"p" + std::to_string(plan_.peers.size()),
                    std::vector<int>(static_cast<size_t>(count_), -1)};
    at(peers.source, s) = from;
    plan_.peers.push_back(peers);
    ir::Input input{what, 1, from, static_cast<int>(plan_.peers.size()) - 1, {}};
    int a = add(s, "pull" + std::to_string(from), seconds, phase, queue, {input}, {into});
    at(program(s).actors, a).kind = ir::ActorKind::pull;
    at(program(s).actors, a).op = "pull";
    at(program(s).actors, a).comm_bytes = shape_.sent_bytes;
  }

  void connect(int s) {
    const PipelineStage& stage = at(shape_.stages, s);
    int m = shape_.micro_batches;
    bool first = s == 0, last = s + 1 == count_;
    if (!first) pull(s, s - 1, sent, taken, at(shape_.stages, s - 1).send, forward, ahead);
    std::vector<ir::Input> reads{{weight, m, -1, -1, {}}};
    if (!first) reads.push_back({taken, 1, -1, -1, {}});
    add(s, "forward", stage.forward, forward, compute, reads, {saved, sent});
    if (!last) pull(s, s + 1, sent_back, taken_back, at(shape_.stages, s + 1).send_back, backward, back);
    reads = {{saved, 1, -1, -1, {}}};
    if (!last) reads.push_back({taken_back, 1, -1, -1, {}});
    add(s, "backward", stage.backward, backward, compute, reads, {sent_back, gradient});
    add(s, "update", 0.5, update, compute, {{gradient, 1, -1, -1, {}}, {weight, 1, -1, -1, {}}}, {weight});
    // Drops registers that have no producer.
    if (first) drop(s, taken);
    if (last) drop(s, taken_back);
  }

  void drop(int s, Register reg) {
    auto& registers = program(s).registers;
    size_t place = reg == taken || registers.size() <= static_cast<size_t>(taken_back)
                       ? static_cast<size_t>(taken)
                       : static_cast<size_t>(taken_back);
    registers.erase(registers.begin() + static_cast<std::ptrdiff_t>(place));
    auto shift = [&](int& r) { r -= r > static_cast<int>(place); };
    for (ir::Actor& actor : program(s).actors) {
      for (ir::Input& input : actor.inputs) {
        if (input.program < 0) shift(input.reg);
      }
      for (int& output : actor.outputs) shift(output);
    }
  }

  const PipelineShape& shape_;
  int count_;
  ir::Plan plan_;
};

}  // namespace

ir::Plan pipeline_plan(const PipelineShape& shape) { return PipelineBuilder(shape).build(); }

void place_registers(ir::Plan& plan) {
  for (ir::Program& program : plan.programs) {
    int64_t offset = 0;
    for (ir::Register& reg : program.registers) {
      reg.offset = offset;
      offset += reg.bytes * reg.count;
    }
    program.arena_bytes = offset;
  }
}

std::vector<double> seconds_of(const ir::Plan& plan) {
  planner::StepView view = planner::view_of_devices(plan, false);
  std::vector<double> seconds;
  for (size_t n = 0; n < view.nodes.size(); ++n) {
    seconds.push_back(ir::attr_float(view.actor_of(static_cast<int>(n)).attrs, "seconds"));
  }
  return seconds;
}

double simulated_period(const ir::Plan& plan, int steps) {
  backends::Cluster cluster;
  cluster.name = "test";
  cluster.nodes = 1;
  cluster.node.gpus = plan.devices;
  sim::Options options;
  options.steps = steps;
  return support::mean_step(sim::simulate(plan, cluster, options).step_ends);
}

}  // namespace boxcar::search
