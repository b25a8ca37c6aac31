#include "planner/lowering/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ir/op.h"
#include "planner/local_attrs.h"
#include "planner/lowering/boxes.h"
#include "planner/lowering/exchanges.h"
#include "planner/lowering/overlap.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

using ir::ActorKind;
using ir::OpId;
using ir::TensorId;
using sbp::NdSbp;

namespace {

// On every queue, a stage sends values in the order in which it makes them, and pulls values in the order in
// which they are made, on any stage. So the pull whose value is made first never waits for another. Values
// read in another order have a separate queue: "net.pp.backward.2". The same holds for values of a chunk that
// several chunks read, and for a chunk that reads values of several chunks, as in a U-Net, because runs of
// chunks alternate on each side; and for chunks that read values of different stages, as in a V.
class PullQueues {
 public:
  // The queue for a value made by `producer` at `from` and read in `phase`.
  std::string queue(const std::string& name, OpId producer, const OpSite& from, int phase) {
    for (int beside = 1;; ++beside) {
      const std::string queue = beside == 1 ? name : fmt::format("{}.{}", name, beside);
      Pulled& pulled = pulled_[queue];
      if (!pulled.takes(producer, from, phase)) continue;
      pulled.add(producer, from, phase);
      return queue;
    }
  }

 private:
  class Pulled {
   public:
    bool takes(OpId producer, const OpSite& from, int phase) const {
      const auto last = last_.find(phase);
      if (last != last_.end() && producer < last->second) return false;
      const auto reader = readers_.find({from.stage, from.chunk});
      if (reader != readers_.end() && reader->second != phase) return false;
      for (const auto& [of, chunk] : chunks_) {
        const auto [stage, by] = of;
        if (stage == from.stage && by == phase && chunk != from.chunk) return false;
        if (stage != from.stage && by != phase) return false;
      }
      return true;
    }
    void add(OpId producer, const OpSite& from, int phase) {
      last_[phase] = producer;
      readers_[{from.stage, from.chunk}] = phase;
      chunks_[{from.stage, phase}] = from.chunk;
    }

   private:
    std::map<int, OpId> last_;  // by phase: the producer of the last pulled value
    // The only phase that reads a chunk's values, and the only chunk of a stage whose values a phase reads.
    std::map<std::pair<int, int>, int> readers_, chunks_;
  };
  std::map<std::string, Pulled> pulled_;
};

class Emitter {
 public:
  Emitter(const Stage& stage, const StageTasks& tasks)
      : stage_(stage),
        tasks_(tasks),
        out_{ProgramBuilder(stage.name, stage.in.pipeline, stage.index), {}, {}, {}, {}},
        builder_(out_.builder),
        registers_(stage, tasks, builder_),
        boxes_(stage, tasks, builder_, registers_, names_),
        exchanges_(stage, tasks, out_, registers_, names_),
        local_attrs_(stage.in.graph, stage.in.mesh, stage.places) {
    builder_.program.stage = stage.index;
  }

  StageProgram run() {
    for (const Task& task : tasks_.passes) emit(task);
    const size_t reduction = builder_.program.actors.size();
    for (const Task& task : tasks_.reductions) emit(task);
    if (!stage_.in.hints.overlap_grad)
      order_reduction_after_backward(builder_, reduction, stage_.in.pipeline.micro_batches);
    const size_t update = builder_.program.actors.size();
    for (const Task& task : tasks_.updates) emit(task);
    if (!stage_.in.hints.overlap_param) order_forward_after_gathers(builder_, update);
    for (ValueId v : tasks_.sent) out_.sent.push_back(v < 0 ? -1 : registers_.held(v).reg);
    out_.uneven = std::move(registers_.uneven);
    return std::move(out_);
  }

 private:
  const Value& value(ValueId v) const { return at(tasks_.values, v); }
  ir::Program& program() { return builder_.program; }

  void emit(const Task& task) {
    const size_t first = program().actors.size();
    switch (task.kind) {
      case TaskKind::kernel:
        emit_kernel(task);
        break;
      case TaskKind::alias:
        registers_.set(task.writes[0], registers_.held(task.reads[0]).reg,
                       registers_.held(task.reads[0]).ready);
        break;
      case TaskKind::box:
      case TaskKind::gather:
        boxes_.emit(task);
        break;
      case TaskKind::copy:
        emit_copy(task);
        break;
      case TaskKind::exchange:
        exchanges_.emit(task);
        break;
      case TaskKind::load:
        emit_load(task);
        break;
      case TaskKind::pull:
        emit_pull(task);
        break;
      case TaskKind::tied:
        emit_tied(task);
        break;
      case TaskKind::joint:
        emit_joint(task);
        break;
      case TaskKind::update_all:
        emit_update_all(task);
        break;
      case TaskKind::keep:
        emit_keep(task);
        break;
      case TaskKind::ahead:
        throw Error::fault(stage_.name, "an op still asks ahead");
    }
    order(task, first);
  }

  // Adds control edges of a task, whose actors are those from `first` on.
  void order(const Task& task, size_t first) {
    const size_t end = program().actors.size();
    std::vector<int> own;  // its kernel, or its collectives
    for (size_t a = first; a < end; ++a)
      if (task.buckets.empty() || program().actors[a].kind == ActorKind::collective)
        own.push_back(static_cast<int>(a));
    for (int actor : own)
      for (TaskId before : task.after)
        for (int other : actors_of_.at(before)) builder_.control(other, actor);
    if (task.id >= 0) actors_of_[task.id] = own;
    if (task.hold == Hold::first_step && !own.empty() && own[0] == static_cast<int>(first)) hold_back(own[0]);
    if (task.hold == Hold::every_collective)
      for (int actor : own) hold_back(actor);
  }

  void hold_back(int actor) {
    for (int a = actor; a-- > 0;) {
      const ir::Actor& before = at(program().actors, a);
      if (before.kind == ActorKind::kernel && before.phase == at(program().actors, actor).phase)
        return builder_.control(a, actor);
    }
  }

  void emit_kernel(const Task& task) {
    const ir::Op& op = stage_.op(task.ops[0]);
    ir::Actor actor;
    actor.kind = ActorKind::kernel;
    actor.op = op.type;
    actor.attrs = local_attrs_.of(op, stage_.layout(task.ops[0]));
    actor.queue = queue_of(task);
    actor.phase = task.phase;
    actor.layer = stage_.layer(task.ops[0]);
    registers_.add_inputs(actor, task.reads);
    actor.name = names_.unique(op.name);
    registers_.add_outputs(actor, task.writes);
    builder_.add_actor(std::move(actor));
    if (op.is(ir::OpKind::accumulate))
      for (int reg : program().actors.back().outputs)
        builder_.set_every(reg, stage_.in.pipeline.micro_batches);
  }

  // The queue of a kernel.
  int queue_of(const Task& task) {
    const bool on_host = any_of(task.writes, [&](ValueId v) { return value(v).on_host; });
    return builder_.queue(on_host ? "update" : "compute");
  }

  void emit_update_all(const Task& task) {
    const ir::Op& first = stage_.op(task.ops[0]);
    ir::Actor actor;
    const bool alone = task.ops.size() == 1;
    actor.name = names_.unique(alone ? first.name : first.type + "_all");
    if (alone) actor.layer = stage_.layer(task.ops[0]);
    actor.op = first.type + "_all";
    actor.queue = queue_of(task);
    actor.phase = task.phase;
    registers_.add_inputs(actor, task.reads);
    registers_.add_outputs(actor, task.writes);
    ir::Attrs attrs = first.attrs;
    attrs["tensors"] = static_cast<int64_t>(task.ops.size());
    attrs["copies"] = task.update_of_copy;
    if (!task.casts.empty()) attrs["to"] = stage_.op(task.casts[0]).attrs.at("to");
    if (!task.copies.empty()) attrs["to"] = ir::to_text(stage_.tensor(value(task.copies[0]).t).type.dtype);
    actor.attrs = ir::complete(ir::op(actor.op), attrs);
    builder_.add_actor(std::move(actor));
  }

  void emit_copy(const Task& task) {
    ir::Actor actor;
    actor.name = names_.unique(task.label.name);
    actor.kind = ActorKind::copy;
    actor.op = "copy";
    actor.queue = builder_.queue(value(task.writes[0]).on_host ? "offload" : "fetch");
    actor.phase = task.phase;
    actor.layer = task.label.layer;
    registers_.add_inputs(actor, task.reads);
    for (ir::Input& input : actor.inputs) input.view = {};
    for (size_t i = 0; i < task.reads.size(); ++i) {
      const int source = registers_.held(task.reads[i]).reg;
      actor.comm_bytes += slot_bytes(at(program().registers, source));
      actor.outputs.push_back(registers_.copy_to(task.writes[i], source));
    }
    builder_.add_actor(std::move(actor));
  }

  void emit_load(const Task& task) {
    const ir::Tensor& tensor = stage_.tensor(task.t);
    const bool input = tensor.role == ir::Role::input;
    registers_.make_for(task.writes[0]);
    ir::Actor actor;
    actor.name = names_.unique(tensor.name);
    actor.kind = input ? ActorKind::copy : ActorKind::host;
    actor.op = input ? "load" : "constant";
    actor.attrs = stage_.op(tensor.producer).attrs;
    if (!input) actor.attrs["seconds"] = 0.0;
    actor.queue = builder_.queue(input ? "copy_in" : "host");
    actor.phase = task.phase;
    actor.layer = stage_.layer_of(task.t);
    actor.comm_bytes = input ? registers_.local_type(task.t, value(task.writes[0]).layout).bytes() : 0;
    actor.outputs = {registers_.held(task.writes[0]).reg};
    builder_.add_actor(std::move(actor));
  }

  void emit_pull(const Task& task) {
    const ir::Tensor& tensor = stage_.tensor(task.t);
    const OpSite& from = stage_.site(tensor.producer);
    const int stages = stage_.in.pipeline.stages, index = stage_.index;
    const bool forward = from.run == Run::forward;
    int offset = from.stage - index;
    if ((from.stage + 1) % stages == index && (forward || stages > 2)) offset = -1;
    if ((index + 1) % stages == from.stage && (!forward || stages > 2)) offset = 1;
    const std::string queue =
        pull_queues_.queue(forward ? "net.pp.forward" : "net.pp.backward", tensor.producer, from, task.phase);
    const NdSbp& part = value(task.writes[0]).layout;
    registers_.make_for(task.writes[0]);
    ir::Actor actor;
    actor.name = names_.unique(tensor.name + ".pull");
    actor.kind = ActorKind::pull;
    actor.op = "pull";
    actor.queue = builder_.queue(queue);
    actor.phase = task.phase;
    actor.layer = stage_.layer_of(task.t);
    actor.moves = ir::name_in_layer(stage_.in.graph, task.t);
    actor.comm_bytes = registers_.local_type(task.t, part).bytes();
    actor.inputs.push_back({-1, 1, -1, stage_.in.comms.peers(offset), {}});
    actor.outputs = {registers_.held(task.writes[0]).reg};
    out_.links.push_back({builder_.add_actor(std::move(actor)), task.t, from.stage, queue + ".out"});
  }

  void emit_keep(const Task& task) {
    ir::Actor actor;
    actor.name = names_.unique(stage_.tensor(task.t).name);
    actor.kind = ActorKind::host;
    actor.op = "parameter";
    actor.attrs["seconds"] = 0.0;
    actor.queue = builder_.queue("host");
    actor.phase = task.phase;
    actor.outputs = {registers_.held(task.writes[0]).reg};
    builder_.add_actor(std::move(actor));
  }

  // In place: readers of the gradient also wait for a control register.
  void emit_tied(const Task& task) {
    const auto tied =
        std::find_if(stage_.in.tied.begin(), stage_.in.tied.end(), [&](const TiedGradient& tied) {
          return std::find(tied.gradients.begin(), tied.gradients.end(), task.t) != tied.gradients.end();
        });
    ir::Actor actor = all_reduce(task, task.t, stage_.in.comms.between(tied->stages));
    actor.joint = stage_.tensor(tied->gradients[0]).name + ".tied";
    actor.attrs["in_place"] = true;
    actor.comm_bytes = registers_.local_type(task.t, stage_.stored(task.t)).bytes();
    registers_.add_inputs(actor, task.reads);
    const int ready = registers_.make_control(actor.name);
    actor.outputs = {ready};
    builder_.add_actor(std::move(actor));
    registers_.set(task.writes[0], registers_.held(task.reads[0]).reg, ready);
  }

  // A sum over all stages: each sums its own values, then all of them are summed.
  void emit_joint(const Task& task) {
    const OpId o = task.ops[0];
    const ir::Op& op = stage_.op(o);
    const TensorId t = op.outputs[0];
    std::vector<int> partial;
    for (size_t d = 0; d < stage_.in.mesh.dims(); ++d)
      if (stage_.layout(o).outputs[0][d].is_partial()) partial.push_back(static_cast<int>(d));
    const NdSbp whole = broadcast(stage_.in.mesh);
    ir::Actor part;
    part.name = names_.unique(op.name + ".stage");
    part.op = op.type;
    part.attrs = op.attrs;
    part.phase = task.phase;
    part.layer = stage_.layer(o);
    registers_.add_inputs(part, task.reads);
    const int local = registers_.make(t, whole, ".stage");
    part.outputs = {local};
    builder_.add_actor(std::move(part));

    registers_.make_for(task.writes[0]);
    ir::Actor all = all_reduce(task, t, stage_.in.comms.across_stages(partial));
    all.comm_bytes = stage_.tensor(t).type.bytes();
    all.inputs.push_back({local, 1, -1, -1, {}});
    all.outputs = {registers_.held(task.writes[0]).reg};
    builder_.add_actor(std::move(all));
  }

  ir::Actor all_reduce(const Task& task, TensorId t, int comm) {
    ir::Actor actor;
    actor.name = names_.unique(stage_.tensor(t).name + ".all_reduce");
    actor.kind = ActorKind::collective;
    actor.op = "all_reduce";
    actor.collective = sbp::Collective::all_reduce;
    actor.comm = comm;
    actor.queue = builder_.queue(stage_.in.comms.queue(comm));
    actor.phase = task.phase;
    actor.layer = stage_.layer_of(t);
    actor.moves = ir::name_in_layer(stage_.in.graph, t);
    return actor;
  }

  const Stage& stage_;
  const StageTasks& tasks_;
  StageProgram out_;
  ProgramBuilder& builder_;
  Names names_;  // of actors
  Registers registers_;
  BoxEmitter boxes_;
  ExchangeEmitter exchanges_;
  LocalAttrs local_attrs_;
  std::map<TaskId, std::vector<int>> actors_of_;  // only of tasks that others wait for
  PullQueues pull_queues_;
};

}  // namespace

StageProgram emit(const Stage& stage, const StageTasks& tasks) { return Emitter(stage, tasks).run(); }

}  // namespace boxcar::planner
