// The work of a queue's actors, read from the plan: operands, kernels, communicators, and receivers of
// messages.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/queue_thread.h"
#include "ir/op.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::actors {
namespace {

sbp::Reduction reduction_of(const ir::Attrs& attrs) {
  if (!attrs.contains("reduction")) return sbp::Reduction::sum;
  const std::string& name = ir::attr_text(attrs, "reduction");
  if (name == "sum") return sbp::Reduction::sum;
  return name == "max" ? sbp::Reduction::max : sbp::Reduction::min;
}

bool writes_in_place(const ir::Actor& actor) {
  return actor.attrs.contains("in_place") && ir::attr_bool(actor.attrs, "in_place");
}

}  // namespace

const ir::Register& QueueThread::reg(int index) const {
  return at(state_.layout.program(thread_.device).registers, index);
}

QueueThread::QueueThread(RunState& state, Pulls& pulls, Links& links, Turns& turns, Layout::Thread thread,
                         int spins)
    : state_(state),
      pulls_(pulls),
      links_(links),
      turns_(turns),
      thread_(std::move(thread)),
      address_(state.layout.address(thread_.device, thread_.actors[0])),
      ordered_(at(state.layout.program(thread_.device).queues, thread_.queue).ordered) {
  int64_t messages = 0;
  for (const int a : thread_.actors) {
    std::vector<InSpec> ins;
    std::vector<OutSpec> outs;
    works_.push_back(learn(a, ins, outs));
    table_.add(ins, outs);
    for (const InSpec& in : ins) messages += in.count;
    for (const OutSpec& out : outs) messages += int64_t{out.count} * out.consumers;
    for (const OutSpec& out : outs)
      if (out.count >= 1 << slot_bits)
        throw Error::input(works_.back().actor->name, fmt::format("{} slots in a register", out.count));
    if (std::max(ins.size(), outs.size()) >= size_t{1} << port_bits)
      throw Error::input(works_.back().actor->name, fmt::format("{} inputs", ins.size()));
  }
  target_.assign(works_.size(), 0);
  mailbox_ = std::make_unique<Mailbox>(messages, spins);
  if (state.options.chaos >= 0)
    random_.seed(static_cast<uint64_t>(state.options.chaos) * 1'000'003 + address_.bits);
}

QueueThread::Work QueueThread::learn(int index, std::vector<InSpec>& ins, std::vector<OutSpec>& outs) {
  const Layout& layout = state_.layout;
  const ir::Program& program = layout.program(thread_.device);
  const auto operand = [](int r, int port, int64_t bytes) {
    Operand result;
    result.reg = r, result.port = port, result.bytes = bytes;
    return result;
  };
  Work work;
  work.index = index;
  work.actor = &at(program.actors, index);
  work.name = fmt::format("device {}: {}", thread_.device, work.actor->name);
  work.acts_per_step = program.acts_per_step(index);
  for (const ir::PhaseRun& run : program.schedule)
    if (run.phase == work.actor->phase) work.micro_batches.push_back(run.micro_batch);
  const bool receives = Links::has(state_, thread_.device, index);
  for (size_t i = 0; i < work.actor->inputs.size() && !receives; ++i) {
    const ir::Input& input = work.actor->inputs[i];
    const int source = layout.source(thread_.device, input);
    const ir::Register& from = at(layout.program(source).registers, input.reg);
    const int port = layout.in_port(thread_.device, index, i);
    if (port >= 0) {
      ins.push_back({input.repeat, from.count});
      work.in_regs.push_back(input.reg);
      work.sources.push_back(source);
    }
    if (!is_control(from)) work.inputs.push_back(operand(input.reg, port, from.type.bytes()));
  }
  int64_t scratch = 0;
  for (size_t o = 0; o < work.actor->outputs.size(); ++o) {
    const int r = work.actor->outputs[o];
    const auto port = static_cast<int>(o);
    outs.push_back({reg(r).count, reg(r).initial, reg(r).every,
                    static_cast<int>(layout.readers(thread_.device, r).size())});
    work.out_regs.push_back(r);
    if (state_.hooks.watch.contains(reg(r).name) && !is_control(reg(r)) && state_.hooks.watched)
      work.watched = port;
    if (is_control(reg(r))) continue;
    const int64_t bytes = slot_bytes(reg(r));
    const int64_t arena = reg(r).host_bytes > 0 ? program.host_bytes : program.arena_bytes;
    if (bytes < reg(r).type.bytes() || reg(r).offset < 0 || reg(r).offset + bytes * reg(r).count > arena) {
      throw Error::input(fmt::format("{}: %{}", program.name, reg(r).name),
                         fmt::format("{} slots of {} bytes at {} do not hold {} in an arena of {} bytes",
                                     reg(r).count, bytes, reg(r).offset, ir::to_text(reg(r).type), arena));
    }
    Operand out = operand(r, port, reg(r).type.bytes());
    out.every = reg(r).every;
    out.scratch = scratch;
    if (out.every > 1) scratch += aligned(out.bytes);
    work.outputs.push_back(std::move(out));
  }
  work.does = receives ? Does::receive : what_it_does(*work.actor, work.outputs);
  if (work.does == Does::save) {
    if (work.inputs.size() != 1)
      throw Error::input(work.actor->name,
                         fmt::format("save with {} inputs, 1 expected", work.inputs.size()));
    work.behind = ir::attr_int(work.actor->attrs, "behind");
  }
  work.joint_scratch = scratch;
  if (work.does == Does::receive) scratch += aligned(1);
  if (work.does == Does::collective) learn_joint(work);
  if (work.does == Does::constant || work.actor->op == "parameter")
    work.keeps = reg(work.outputs[0].reg).count == 1 && reg(work.outputs[0].reg).initial == 1;
  if (work.does == Does::constant)
    scratch = std::max(scratch, aligned(8 * reg(work.outputs[0].reg).type.elements()) * 2);
  const auto host = [this](int64_t bytes) { return std::exchange(ring_bytes_, ring_bytes_ + bytes); };
  if (loads_from_host(work)) work.loads = host(2 * aligned(work.outputs[0].bytes));
  if (work.watched >= 0)  // those of two steps
    work.ring = host(2 * work.acts_per_step * aligned(reg(at(work.out_regs, work.watched)).type.bytes()));
  if (state_.options.graphs && staged_size(work) > 0) {
    work.staged = staged_bytes_;
    staged_bytes_ += work.acts_per_step * staged_size(work);
  }
  scratch_bytes_ =
      std::max(scratch_bytes_, aligned(scratch + (work.joint ? work.joint->scratch_bytes() : 0)));
  return work;
}

// Whether its acts load data from the host.
bool QueueThread::loads_from_host(const Work& work) {
  return (work.does == Does::load || work.does == Does::constant) && !work.keeps;
}

// Bytes of one act.
int64_t QueueThread::staged_size(const Work& work) const {
  if (loads_from_host(work)) return aligned(work.outputs[0].bytes);
  return work.watched >= 0 ? aligned(reg(at(work.out_regs, work.watched)).type.bytes()) : 0;
}

QueueThread::Does QueueThread::what_it_does(const ir::Actor& actor,
                                            const std::vector<Operand>& outputs) const {
  if (actor.kind == ir::ActorKind::collective) return Does::collective;
  if (actor.kind == ir::ActorKind::pull) return outputs.empty() ? Does::nothing : Does::pull;
  if (actor.is(ir::OpKind::copy)) return Does::copy;
  if (actor.is(ir::OpKind::save)) return Does::save;
  if (actor.is(ir::OpKind::write)) return Does::write;
  if (actor.is(ir::OpKind::read) || actor.is(ir::OpKind::decode)) return Does::prepare;
  const bool source =
      actor.is(ir::OpKind::load) || actor.is(ir::OpKind::parameter) || actor.is(ir::OpKind::constant);
  if (!source) return Does::kernel;
  if (outputs.size() != 1)
    throw Error::input(actor.name, fmt::format("{} with {} outputs, 1 expected", actor.op, outputs.size()));
  return actor.is(ir::OpKind::constant) ? Does::constant : Does::load;
}

std::vector<ir::TensorType> QueueThread::types(int device, const ir::Actor& actor, bool outputs) const {
  std::vector<ir::TensorType> result;
  const ir::Program& program = state_.layout.program(device);
  if (outputs)
    for (const int r : actor.outputs)
      if (!is_control(at(program.registers, r))) result.push_back(at(program.registers, r).type);
  if (!outputs)
    for (const ir::Input& in : actor.inputs)
      if (!is_control(at(program.registers, in.reg)))
        result.push_back(ir::input_type(at(program.registers, in.reg), in));
  return result;
}

// A collective of only control registers is a barrier.
void QueueThread::learn_joint(Work& work) {
  const ir::Actor& actor = *work.actor;
  JointSpec spec;
  spec.name = actor.name;
  spec.collective = actor.collective;
  spec.reduction = reduction_of(actor.attrs);
  if (actor.attrs.contains("axes")) spec.axes = ir::attr_ints(actor.attrs, "axes");
  if (actor.attrs.contains("axes2")) spec.axes2 = ir::attr_ints(actor.attrs, "axes2");
  work.in_place_results = writes_in_place(actor);
  bool tensors = false;
  for (const auto& [member, a] : state_.layout.members(thread_.device, actor)) {
    if (member == thread_.device) spec.rank = static_cast<int>(spec.inputs.size());
    const ir::Actor& other = at(state_.layout.program(member).actors, a);
    spec.inputs.push_back(types(member, other, false));
    spec.outputs.push_back(types(member, other, !writes_in_place(other)));
    tensors = tensors || !spec.inputs.back().empty() || !spec.outputs.back().empty();
  }
  if (tensors) work.joint = std::make_unique<Joint>(spec);
}

void QueueThread::prepare(std::byte* scratch, int recordings) {
  scratch_ = scratch;
  backends::Device& device = state_.backend.device(thread_.device);
  host_ = device.host_memory(ring_bytes_ + recordings * staged_bytes_);
  queue_ = device.queue(at(state_.layout.program(thread_.device).queues, thread_.queue).kind);
  launches_ = queue_->mark() != nullptr;
  queue_->expect_marks(most_marks());
  for (Work& work : works_) {
    const ir::Actor& actor = *work.actor;
    for (std::vector<Operand>* operands : {&work.inputs, &work.outputs})
      for (Operand& operand : *operands) {
        if (operand.bytes == 0 || (operands == &work.inputs && actor.kind == ir::ActorKind::pull)) continue;
        operand.base = state_.slot(thread_.device, operand.reg, 0);
        operand.stride = slot_bytes(reg(operand.reg));
      }
    try {
      if (work.does == Does::kernel && !device.computes_on_host() &&
          runs_on_host(state_.layout.program(thread_.device), actor))
        throw Error::input(
            "",
            "this backend has no kernels of the host (--backend cpu has, for offload_optimizer and servers)");
      if (work.does == Does::kernel)
        work.kernel =
            device.prepare({actor.op, types(thread_.device, actor, false), types(thread_.device, actor, true),
                            state_.layout.attrs(thread_.device, actor)},
                           *queue_);
      for (Operand& out : work.outputs) {
        const ir::TensorType& type = reg(out.reg).type;
        if (out.every > 1)
          out.add = device.prepare({"add", {type, type}, {type}, ir::complete(ir::op("add"), {})}, *queue_);
      }
      if (work.does == Does::constant) make_constant(work, scratch);
    } catch (const Error& error) {
      throw named(static_cast<int>(&work - works_.data()), error);
    }
    if (work.does == Does::receive)
      links_.prepare(thread_.device, work.index, *queue_, scratch_ + work.joint_scratch);
    if (work.does != Does::collective) continue;
    const std::string name = state_.layout.communicator(thread_.device, actor);
    auto known = std::find_if(communicators_.begin(), communicators_.end(),
                              [&](const auto& c) { return c.first == name; });
    if (known == communicators_.end()) {
      std::vector<int> group;
      for (const auto& [member, a] : state_.layout.members(thread_.device, actor)) group.push_back(member);
      communicators_.emplace_back(name, state_.backend.communicator(name, group, thread_.device, *queue_));
      known = std::prev(communicators_.end());
    }
    work.communicator = known->second.get();
  }
}

// Makes the constant in the type of its register, with the backend's own rounding.
void QueueThread::make_constant(Work& work, std::byte* scratch) {
  backends::Device& device = state_.backend.device(thread_.device);
  const ir::TensorType& type = reg(work.outputs[0].reg).type;
  const std::vector<double> wide(static_cast<size_t>(type.elements()),
                                 ir::attr_float(work.actor->attrs, "value"));
  const int64_t bytes = 8 * type.elements();
  device.from_host(scratch, wide.data(), bytes);
  std::byte* result = scratch;
  if (type.dtype != ir::DType::float64 && type.elements() > 0) {
    result = scratch + aligned(bytes);
    const ir::Attrs to{{"to", std::string(ir::to_text(type.dtype))}};
    const void* in = scratch;
    void* out = result;
    device
        .prepare({"cast", {{type.shape, ir::DType::float64}}, {type}, ir::complete(ir::op("cast"), to)},
                 *queue_)
        ->run({&in, 1}, {&out, 1}, {});
    queue_->finish();
  }
  work.value.resize(static_cast<size_t>(type.bytes()));
  device.to_host(work.value.data(), result, type.bytes());
}

// Uses slots that all acts write before they read them, or that fill_initial() fills.
void QueueThread::rehearse() {
  const backends::Moment moment{.micro_batches = state_.layout.plan().micro_batches,
                                .seed = state_.options.seed};
  std::byte* const arena = state_.backend.device(thread_.device).arena();
  if (state_.layout.program(thread_.device).arena_bytes >= aligned(1))
    queue_->copy(arena + 16, arena, {2, 1, 4, 4});  // copies of rows may be kernels too
  for (Work& work : works_) {
    if (work.does == Does::copy) continue;
    in_addresses_.clear();
    out_addresses_.clear();
    for (const Operand& in : work.inputs) {
      if (in.base) queue_->fill_zero(in.base, in.bytes);
      in_addresses_.push_back(in.base);
    }
    for (const Operand& out : work.outputs) out_addresses_.push_back(out.base);
    try {
      if (work.kernel) work.kernel->run(in_addresses_, out_addresses_, moment);
      for (const Operand& out : work.outputs) {
        if (!out.add || !out.base) continue;
        void* sum = out.base;
        const void* terms[] = {sum, scratch_ + out.scratch};
        out.add->run(terms, {&sum, 1}, moment);
      }
      queue_->finish();
    } catch (const Error& error) {
      throw named(static_cast<int>(&work - works_.data()), error);
    }
  }
}

void QueueThread::clear(int64_t bytes) {
  queue_->fill_zero(state_.backend.device(thread_.device).arena(), bytes);
  queue_->finish();
}

void QueueThread::fill_initial() {
  backends::Device& device = state_.backend.device(thread_.device);
  for (const Work& work : works_)
    for (const Operand& out : work.outputs) {
      const ir::Register& r = reg(out.reg);
      const int slots = state_.layout.in_place(thread_.device, out.reg) ? 1 : r.initial;
      if (slots == 0 || out.bytes == 0) continue;
      std::vector<std::byte> value = work.value;
      if (work.does != Does::constant) {
        value.assign(static_cast<size_t>(out.bytes), std::byte{0});
        state_.hooks.fill(thread_.device, r,
                          {.micro_batches = state_.layout.plan().micro_batches, .seed = state_.options.seed},
                          value);
      }
      for (int s = 0; s < slots; ++s)
        device.from_host(state_.slot(thread_.device, out.reg, s), value.data(), out.bytes);
    }
}

void QueueThread::add_connections(std::vector<Connection>& all) const {
  for (const auto& [name, communicator] : communicators_) {
    const auto is_pairwise = [&c = *communicator](const Work& work) {
      return work.communicator == &c && work.actor->collective == sbp::Collective::all_to_all;
    };
    const bool pairs = std::any_of(works_.begin(), works_.end(), is_pairwise);
    all.push_back({thread_.device, name, [&c = *communicator, pairs] { c.connect(pairs); }});
  }
}

// The most marks that its acts have set and that others may still read, including the newest one.
int64_t QueueThread::most_marks() const {
  int64_t marks = 1;
  for (const Work& work : works_) {
    for (size_t i = 0; i < work.in_marks.size(); ++i)
      if (work.in_marks[i].slots) marks += std::ssize(*work.in_marks[i].slots);
    for (const Work::Marked& out : work.out_marks)
      if (out.slots) marks += std::ssize(*out.slots);
    if (loads_from_host(work)) marks += std::ssize(work.loaded);
    if (work.watched >= 0) marks += 2 * work.acts_per_step;
  }
  return marks;
}

QueueThread::Target QueueThread::target(const Layout::Place& place,
                                        const std::vector<std::unique_ptr<QueueThread>>& threads) const {
  Target result{state_.layout.address(place.device, place.actor), place.port, Route::local, nullptr};
  result.route = route(address_, result.to);
  if (result.route == Route::shared) result.mailbox = &at(threads, result.to.thread())->mailbox();
  return result;
}

void QueueThread::connect(const std::vector<std::unique_ptr<QueueThread>>& threads) {
  const Layout& layout = state_.layout;
  for (Work& work : works_) {
    for (const int r : work.out_regs) {
      work.readers.emplace_back();
      for (const Layout::Place& reader : layout.readers(thread_.device, r)) {
        Target to;
        if (Links::has(state_, reader.device, reader.actor)) {
          to.sender = links_.sender(reader.device, reader.actor);
          to.sender->heard_by(*mailbox_, layout.address(thread_.device, work.index).actor(),
                              static_cast<int>(work.readers.size()) - 1);
          to.route = Route::shared;
        } else {
          to = target(reader, threads);
        }
        work.readers.back().push_back(to);
      }
    }
    for (size_t i = 0; i < work.actor->inputs.size() && work.does != Does::receive; ++i)
      if (layout.in_port(thread_.device, work.index, i) >= 0)
        work.producers.push_back(target(layout.producer(thread_.device, work.index, i), threads));
    connect_marks(work);
  }
}

// Marks order acts on queues of this process. Other processes are told of an act when it is done, and so are
// readers of memory on the host.
void QueueThread::connect_marks(Work& work) {
  const Layout& layout = state_.layout;
  const auto is = [](Route route) { return [route](const Target& target) { return target.route == route; }; };
  const auto marks = [&](int device, int reg) { return &at(at(state_.marks, device), reg); };
  bool abroad = std::any_of(work.producers.begin(), work.producers.end(), is(Route::network));
  work.on_host = work.does == Does::pull && abroad;
  work.on_host |= work.does == Does::save;
  for (size_t i = 0; i < work.producers.size(); ++i) {
    work.in_marks.emplace_back();
    if (work.producers[i].route != Route::shared) continue;
    const int source = at(work.sources, static_cast<int>(i)), reg = at(work.in_regs, static_cast<int>(i));
    work.in_marks.back() = {marks(source, reg),
                            layout.reader(source, reg, {thread_.device, work.index, static_cast<int>(i)})};
  }
  for (size_t o = 0; o < work.readers.size(); ++o) {
    const std::vector<Target>& readers = work.readers[o];
    work.out_marks.emplace_back();
    abroad |= std::any_of(readers.begin(), readers.end(), is(Route::network));
    if (std::any_of(readers.begin(), readers.end(), is(Route::shared)))
      work.out_marks.back().slots = marks(thread_.device, at(work.out_regs, static_cast<int>(o)));
  }
  work.finishes = !state_.ordered || abroad;
}

}  // namespace boxcar::actors
