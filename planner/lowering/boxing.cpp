#include "planner/lowering/boxing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "ir/ops/updates.h"
#include "planner/lowering/buckets.h"
#include "planner/lowering/gradients.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {

using ir::OpId;
using ir::TensorId;
using sbp::NdSbp;

namespace {

// The number of parts into which a layout cuts a tensor. It is the same on every rank, even if the parts are
// uneven.
int64_t parts_of(const NdSbp& layout, const Mesh& mesh) {
  int64_t result = 1;
  for (size_t d = 0; d < layout.size(); ++d)
    if (layout[d].is_split()) result *= mesh.extents[d];
  return result;
}

class Boxer {
 public:
  Boxer(const Stage& stage, StageTasks& tasks)
      : stage_(stage),
        tasks_(tasks),
        groups_(tasks.states.groups),
        readable_(stage.in.graph.tensors.size()),
        made_(stage.in.graph.tensors.size(), -1) {}

  void run() {
    for (ValueId v = 0; v < tasks_.declared; ++v) values_of(value(v).t).push_back(v);
    for (std::vector<Task>* part : tasks_.parts()) {
      std::vector<Task> tasks = std::exchange(*part, {});
      out_ = part;
      out_->reserve(tasks.size());
      for (Task& task : tasks) insert(std::move(task));
    }
    tasks_.sent.assign(readable_.size(), -1);
    for (TensorId t = 0; t < static_cast<TensorId>(readable_.size()); ++t)
      if (stage_.here(stage_.tensor(t).producer) && stage_.read_elsewhere(t))
        at(tasks_.sent, t) = find(t, stage_.sent(t));
  }

 private:
  Value& value(ValueId v) { return at(tasks_.values, v); }
  std::vector<ValueId>& values_of(TensorId t) { return at(readable_, t); }

  ValueId add_value(Value v) {
    values_of(v.t).push_back(static_cast<ValueId>(tasks_.values.size()));
    tasks_.values.push_back(std::move(v));
    return values_of(tasks_.values.back().t).back();
  }

  // The value in this layout that every phase may read, -1: none.
  ValueId find(TensorId t, const NdSbp& layout) {
    for (ValueId v : values_of(t))
      if (value(v).scope < 0 && value(v).layout == layout) return v;
    return -1;
  }

  ValueId find_stored(TensorId t) {
    if (const ValueId v = find(t, stage_.stored(t)); v >= 0) return v;
    throw Error::fault(stage_.name, fmt::format("nothing holds {}", stage_.tensor(t).name));
  }

  void insert(Task task) {
    if (!task.ops.empty()) layer_ = stage_.op(task.ops.back()).layer;
    switch (task.kind) {
      case TaskKind::kernel:
        return insert_kernel(std::move(task));
      case TaskKind::alias:
        return insert_alias(std::move(task));
      case TaskKind::ahead:
        return read_ahead(task);
      case TaskKind::box:
        return insert_box(std::move(task));
      case TaskKind::tied:
        return insert_tied(std::move(task));
      case TaskKind::joint:
        return insert_joint(std::move(task));
      case TaskKind::update_all:
        return insert_update_all(std::move(task));
      case TaskKind::keep:
        task.writes = {find_stored(task.t)};
        break;
      default:
        throw Error::fault(stage_.name, "a task is boxed that boxing makes");
    }
    out_->push_back(std::move(task));
  }

  void insert_kernel(Task task) {
    const OpId o = task.ops[0];
    const int phase = task.phase;
    task.reads = operands(o, phase);
    write(o, task);
    const std::vector<ValueId> made = task.writes;
    out_->push_back(std::move(task));
    for (size_t i = 0; i < made.size(); ++i) box_result(o, i, made[i], phase);
    if (phase == stage_.phases.update())
      for (ValueId v : made) note_sum(v);
  }

  void insert_alias(Task task) {
    const OpId o = task.ops[0];
    const TensorId t = stage_.op(o).outputs[0];
    const int phase = task.phase;
    task.reads = {value_in(stage_.op(o).inputs[0], stage_.layout(o).inputs[0], phase)};
    task.writes = {add_value({t, stage_.layout(o).outputs[0], -1, task.reads[0]})};
    const ValueId made = task.writes[0];
    out_->push_back(std::move(task));
    box_result(o, 0, made, phase);
  }

  void read_ahead(const Task& task) {
    const ir::Op& next = stage_.op(task.ops[0]);
    for (size_t i = 0; i < next.inputs.size(); ++i)
      if (stage_.kept_from_forward(next.inputs[i], task.phase))
        value_in(next.inputs[i], stage_.layout(task.ops[0]).inputs[i], task.phase);
  }

  void insert_box(Task task) {
    for (Bucket& bucket : task.buckets)
      for (Boxed& boxed : bucket) {
        if (boxed.source < 0) boxed.source = at(made_, boxed.t);
        if (boxed.result < 0) boxed.result = add_value({boxed.t, boxed.to});
      }
    out_->push_back(std::move(task));
  }

  void insert_tied(Task task) {
    const ValueId own = value_in(task.t, stage_.stored(task.t), task.phase);
    task.reads = {own};
    values_of(task.t).clear();
    task.writes = {add_value({task.t, value(own).layout, value(own).scope, own})};
    out_->push_back(std::move(task));
  }

  // Each stage sums its own values, then all stages sum.
  void insert_joint(Task task) {
    const ir::Op& op = stage_.op(task.ops[0]);
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (stage_.site(stage_.tensor(op.inputs[i]).producer).stage == stage_.index)
        task.reads.push_back(value_in(op.inputs[i], stage_.layout(task.ops[0]).inputs[i], task.phase));
    if (task.reads.empty())
      throw Error::fault(op.name, fmt::format("stage {} has no part in it", stage_.index));
    task.writes = {add_value({op.outputs[0], broadcast(stage_.in.mesh)})};
    out_->push_back(std::move(task));
  }

  // Reads the operands of the first, of the second, and so on, then those that all of them read.
  void insert_update_all(Task task) {
    const ir::Op& first = stage_.op(task.ops[0]);
    const auto own = static_cast<std::ptrdiff_t>(ir::updates_of(first.type, first.attrs)->operands);
    std::vector<ValueId> scalars;
    for (OpId o : task.ops) {
      const std::vector<ValueId> all = operands(o, task.phase);
      task.reads.insert(task.reads.end(), all.begin(), all.begin() + own);
      scalars.assign(all.begin() + own, all.end());
      write(o, task);
    }
    task.reads.insert(task.reads.end(), scalars.begin(), scalars.end());
    for (OpId cast : task.casts) write(cast, task);
    task.writes.insert(task.writes.end(), task.copies.begin(), task.copies.end());
    for (ValueId copy : task.copies) values_of(value(copy).t) = {copy};
    out_->push_back(std::move(task));
  }

  std::vector<ValueId> operands(OpId o, int phase) {
    std::vector<ValueId> values;
    for (size_t i = 0; i < stage_.op(o).inputs.size(); ++i)
      values.push_back(value_in(stage_.op(o).inputs[i], stage_.layout(o).inputs[i], phase));
    return values;
  }

  // Outputs that are the next value of a state overwrite it.
  void write(OpId o, Task& task) {
    const std::vector<TensorId>& outputs = stage_.op(o).outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const NdSbp& made = stage_.layout(o).outputs[i];
      const TensorId state = at(tasks_.states.updated_state, outputs[i]);
      const ValueId declared = find(outputs[i], made);
      if (declared >= 0)
        task.writes.push_back(declared);
      else
        task.writes.push_back(add_value({outputs[i], made, -1, state < 0 ? -1 : find_stored(state)}));
    }
  }

  // Boxes tensors that are made in a layout other than the stored one: now, or at the time chosen by the pass
  // reduce_gradients.
  void box_result(OpId o, size_t output, ValueId made, int phase) {
    const TensorId t = value(made).t;
    if (stage_.in.mesh.devices() == 1) value(made).layout = stage_.stored(t);
    const NdSbp& layout = stage_.layout(o).outputs[output];
    const Reduced when = when_reduced(stage_, o, t);
    at(made_, t) = made;
    if (when == Reduced::with_layer) values_of(t).clear();
    if (when == Reduced::now) add_box(t, made, layout, stage_.stored(t), phase);
    box_sent_part(t, phase);
  }

  // Boxes the part of a tensor that other stages pull, if it is not kept as that part.
  void box_sent_part(TensorId t, int phase) {
    if (!stage_.read_elsewhere(t) || values_of(t).empty()) return;
    const NdSbp sent = stage_.sent(t);
    const ValueId kept = values_of(t).back();
    if (value(kept).layout == stage_.stored(t) && sent != stage_.stored(t))
      add_box(t, kept, stage_.stored(t), sent, phase);
  }

  ValueId add_box(TensorId t, ValueId source, const NdSbp& from, const NdSbp& to, int phase) {
    Task task{TaskKind::box, phase};
    task.label = {stage_.tensor(t).name, stage_.layer_of(t), ir::name_in_layer(stage_.in.graph, t)};
    const ValueId result = add_value({t, to});
    task.buckets = {{{t, from, to, source, result}}};
    out_->push_back(std::move(task));
    return result;
  }

  ValueId value_in(TensorId t, const NdSbp& want, int phase) {
    if (!is_there_for(t, phase)) fetch(t, phase);
    if (stage_.in.mesh.devices() == 1) return values_of(t).back();  // every layout is the whole tensor
    const auto [found, base] = look_up(t, want, phase);
    if (found >= 0) return found;
    if (base < 0)
      throw Error::fault(stage_.name, fmt::format("{} is read before it is there", stage_.tensor(t).name));
    if (gather_group(t, phase) || box_sums(t, phase)) return value_in(t, want, phase);
    const NdSbp from = value(base).layout;
    const ValueId boxed = add_box(t, base, from, want, phase);
    value(boxed).scope = is_for_all(t, from, want, phase) ? -1 : phase;
    return boxed;
  }

  // A constant is made again in each phase that reads it.
  bool is_there_for(TensorId t, int phase) {
    const ir::Op& producer = stage_.op(stage_.tensor(t).producer);
    return !values_of(t).empty() &&
           (!producer.is(ir::OpKind::constant) || value(values_of(t).back()).scope == phase);
  }

  // The value that a phase reads in this layout, and the one from which it may be boxed.
  std::pair<ValueId, ValueId> look_up(TensorId t, const NdSbp& want, int phase) {
    const auto& used = stage_.used(t);
    // The shard from which the kept value was gathered may be newer.
    const bool gathered = stage_.phases.per_micro_batch(phase) && used && find(t, *used) >= 0;
    ValueId base = -1;
    for (ValueId v : values_of(t)) {
      const Value& candidate = value(v);
      if (candidate.scope >= 0 && candidate.scope != phase) continue;
      if (gathered && candidate.scope < 0 && candidate.layout != *used) continue;
      if (candidate.layout == want) return {v, v};
      const bool better = base < 0 || value(base).layout != used;
      if (candidate.layout == used || (candidate.layout == stage_.stored(t) && better)) base = v;
    }
    return {-1, base};
  }

  // Whether this box's result is kept for every phase that may need it.
  bool is_for_all(TensorId t, const NdSbp& from, const NdSbp& to, int phase) const {
    const Mesh& mesh = stage_.in.mesh;
    const bool partial = any_of(from, [](sbp::Sbp s) { return s.is_partial(); });
    const bool no_larger = !at(stage_.in.from_states, t) && parts_of(to, mesh) >= parts_of(from, mesh);
    // If a framework keeps gathered activations, its backward pass does not gather them again.
    const bool kept = stage_.in.hints.gathered_stay && stage_.phases.is_forward(phase) &&
                      stage_.tensor(t).role == ir::Role::activation;
    return partial || no_larger || kept;
  }

  // Gathers all parameters of a layer together for one pass.
  bool gather_group(TensorId t, int phase) {
    if (!at(stage_.in.from_states, t)) return false;
    const auto group = groups_.find({phase, layer_});
    if (group == groups_.end()) return false;
    Bucket all;
    for (TensorId member : group->second) {
      const NdSbp& to = *stage_.used(member);
      all.push_back({member, stage_.stored(member), to, find_stored(member), add_value({member, to, phase})});
    }
    groups_.erase(group);
    Task task{TaskKind::gather, phase};
    task.buckets = buckets_of(stage_, all, false);
    task.label.name = (layer_ < 0 ? "embedding" : ir::layer_name(layer_)) + ".parameters";
    task.label.layer = layer_ < stage_.in.graph.layers ? layer_ : -1;
    out_->push_back(std::move(task));
    return true;
  }

  // Notes a partial result of the update that its kernels read in another layout.
  void note_sum(ValueId made) {
    const TensorId t = value(made).t;
    if (values_of(t).empty()) return;
    if (!any_of(value(made).layout, [](sbp::Sbp s) { return s.is_partial(); })) return;
    for (OpId reader : stage_.readers(t))
      for (size_t i = 0; i < stage_.op(reader).inputs.size(); ++i)
        if (const NdSbp& want = stage_.layout(reader).inputs[i];
            stage_.op(reader).inputs[i] == t && want != value(made).layout)
          return sums_.push_back({t, value(made).layout, want, made});
  }

  // All existing sums are boxed together when the first is needed.
  bool box_sums(TensorId t, int phase) {
    if (!any_of(sums_, [&](const Boxed& sum) { return sum.t == t; })) return false;
    Bucket all = std::exchange(sums_, {});
    if (all.size() == 1) return false;
    for (Boxed& sum : all) sum.result = add_value({sum.t, sum.to});
    Task task{TaskKind::box, phase};
    task.buckets = buckets_of(stage_, all, false);
    task.label.name = "norms";
    out_->push_back(std::move(task));
    return true;
  }

  void fetch(TensorId t, int phase) {
    const OpId producer = stage_.tensor(t).producer;
    const bool source = is_source(stage_.op(producer));
    if (!source && stage_.site(producer).stage == stage_.index)
      throw Error::fault(stage_.name, fmt::format("{} is read before it is there", stage_.tensor(t).name));
    Task task{source ? TaskKind::load : TaskKind::pull, phase};
    task.t = t;
    if (source) {
      const bool input = stage_.tensor(t).role == ir::Role::input;
      task.writes = {add_value({t, stage_.stored(t), input ? -1 : phase})};
      out_->push_back(std::move(task));
      return;
    }
    const NdSbp part = stage_.sent(t);
    const ValueId pulled = add_value({t, part});
    task.writes = {pulled};
    out_->push_back(std::move(task));
    if (part == stage_.stored(t)) return;
    values_of(t).clear();  // whole from now on
    add_box(t, pulled, part, stage_.stored(t), phase);
  }

  const Stage& stage_;
  StageTasks& tasks_;
  std::map<std::pair<int, int>, std::vector<TensorId>> groups_;  // not gathered yet
  std::vector<std::vector<ValueId>> readable_;                   // by tensor: its values that may be read
  std::vector<ValueId> made_;                                    // by tensor: the value made by its op
  Bucket sums_;                                                  // sums of the update that are not boxed yet
  std::vector<Task>* out_ = nullptr;
  int layer_ = -1;  // of the task being inserted
};

class Checker {
 public:
  Checker(const Stage& stage, const StageTasks& tasks)
      : stage_(stage), tasks_(tasks), there_(tasks.values.size()) {}

  void run() {
    std::fill(there_.begin(), there_.begin() + tasks_.declared, true);
    for (const auto* part : tasks_.parts())
      for (const Task& task : *part) check(task);
  }

 private:
  const Value& value(ValueId v) const { return at(tasks_.values, v); }
  [[noreturn]] void fail(ValueId v, const char* what) const {
    throw Error::fault(
        fmt::format("{}: {} {}", stage_.name, stage_.tensor(value(v).t).name, sbp::to_text(value(v).layout)),
        what);
  }

  void check(const Task& task) {
    if (task.kind == TaskKind::ahead) throw Error::fault(stage_.name, "an op still asks ahead");
    for (ValueId v : task.reads) read(v, task.phase);
    for (const Bucket& bucket : task.buckets)
      for (const Boxed& boxed : bucket) {
        read(boxed.source, task.phase);
        if (stage_.in.mesh.devices() > 1 &&
            (value(boxed.source).layout != boxed.from || value(boxed.result).layout != boxed.to))
          fail(boxed.source, "is not in the layout that it is boxed from, or to");
      }
    if (task.kind == TaskKind::kernel) check_operands(task);
    for (ValueId v : task.writes) write(v);
    for (const Bucket& bucket : task.buckets)
      for (const Boxed& boxed : bucket) write(boxed.result);
  }

  void read(ValueId v, int phase) const {
    if (!at(there_, v)) fail(v, "is read before it is there");
    if (value(v).scope >= 0 && value(v).scope != phase) fail(v, "is read in another phase than it is for");
  }

  void check_operands(const Task& task) const {
    const OpLayout& layout = stage_.layout(task.ops[0]);
    for (size_t i = 0; i < task.reads.size(); ++i) {
      if (value(task.reads[i]).t != stage_.op(task.ops[0]).inputs[i]) fail(task.reads[i], "is no operand");
      if (stage_.in.mesh.devices() > 1 && value(task.reads[i]).layout != layout.inputs[i])
        fail(task.reads[i], "is not in the layout that its reader wants");
    }
  }

  void write(ValueId v) {
    if (v >= tasks_.declared && at(there_, v)) fail(v, "is made twice");
    at(there_, v) = true;
  }

  const Stage& stage_;
  const StageTasks& tasks_;
  std::vector<bool> there_;  // by value
};

}  // namespace

void insert_boxing(const Stage& stage, StageTasks& tasks) { Boxer(stage, tasks).run(); }

void check_boxing(const Stage& stage, const StageTasks& tasks) { Checker(stage, tasks).run(); }

}  // namespace boxcar::planner
