#include "sim/durations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sim/act_view.h"
#include "sim/float8_operands.h"
#include "sim/framework_effects.h"
#include "sim/host_time.h"
#include "sim/models/kernel_time.h"
#include "sim/models/slowest.h"
#include "sim/product_rings.h"
#include "sim/ring_attention.h"
#include "sim/routing.h"
#include "sim/simulate.h"

namespace boxcar::sim {
namespace {

double slowdown_of(const backends::Cluster& cluster, int device) {
  auto found = cluster.slowdown.find(device);
  return found == cluster.slowdown.end() ? 1.0 : found->second;
}

double copy_seconds(const ir::Program& program, const ir::Actor& actor, const backends::Cluster& cluster) {
  if (cluster.node.pcie_bandwidth <= 0) return 0;
  double bytes = 0;
  for (int output : actor.outputs) {
    bytes += static_cast<double>(slot_bytes(at(program.registers, output)));
  }
  return bytes / cluster.node.pcie_bandwidth;
}

// A kernel of the host. It reads and writes memory that the node's devices share; if they are cores of the
// host, it is one of theirs.
double host_seconds(const ir::Program& program, const ir::Actor& actor, const backends::Cluster& cluster) {
  const ir::OpDef& def = ir::op(actor.op);
  const ir::Types in = input_types(program, actor), out = output_types(program, actor);
  if (cluster.node.cores > 0) return kernel_seconds(cluster.device, def, in, out, actor.attrs);
  return ir::work(def, in, out, actor.attrs).bytes / host_bandwidth(cluster);
}

// A batch is prepared by its node's host on its way to the device. A phase's loads (tokens, labels) come from
// the same samples.
double prepare_seconds(const ir::Plan& plan, const ir::Program& program, const ir::Actor& actor,
                       const backends::Node& node) {
  if (node.load_rate <= 0 || !actor.is(ir::OpKind::load)) return 0;
  const ir::Types loaded = output_types(program, actor);
  if (loaded.empty() || loaded[0].shape.empty()) return 0;
  const auto loads = std::count_if(program.actors.begin(), program.actors.end(), [&](const ir::Actor& other) {
    return other.is(ir::OpKind::load) && other.phase == actor.phase;
  });
  const double devices = std::min(plan.devices, node.gpus);
  return static_cast<double>(loaded[0].shape[0]) * devices / node.load_rate / static_cast<double>(loads);
}

bool is_modelled_collective(const ir::Actor& actor) {
  return actor.kind == ir::ActorKind::collective && actor.comm >= 0 && !actor.attrs.contains("seconds");
}

bool is_bound_by_compute(const ir::OpDef& def) {
  return def.family == ir::Family::matmul || def.family == ir::Family::attention ||
         def.family == ir::Family::convolution;
}

}  // namespace

ActCosts::ActCosts(const ir::Plan& plan, const backends::Cluster& cluster)
    : plan_(plan),
      cluster_(cluster),
      straggler_factor_(1 + cluster.device->speed_spread * slowest_of(std::max(1, plan.devices))) {}

std::vector<ActCost> ActCosts::of(int program_index, int device) {
  const ir::Program& program = at(plan_.programs, program_index);
  const std::vector<Fixed>& known = fixed(program_index);
  double slow = slowdown_of(cluster_, device);
  std::map<int, Span> spans;  // by comm
  std::vector<ActCost> costs(program.actors.size());
  for (size_t a = 0; a < costs.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    costs[a].seconds = known[a].seconds * (known[a].kernel ? slow : 1);
    if (known[a].seconds > 0 || actor.attrs.contains("seconds")) continue;
    if (actor.kind == ir::ActorKind::pull) costs[a].comm = pull(program, actor, device);
    if (is_modelled_collective(actor))
      costs[a].comm = shown(program_index, a, span(spans, actor.comm, device), known);
    costs[a].comm.bytes_on_link *= known[a].times;
  }
  return costs;
}

const std::vector<ActCosts::Fixed>& ActCosts::fixed(int program_index) {
  auto [known, made] = fixed_.try_emplace(program_index);
  if (!made) return known->second;
  const ir::Program& program = at(plan_.programs, program_index);
  const std::vector<double> times = routing_times(plan_, program);
  const double launch = cluster_.device->launch_latency + cluster_.device->kernel_floor;
  for (size_t a = 0; a < times.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    const RunAct run = ran_by_framework(cluster_, program, actor);
    const bool kernel = actor.kind == ir::ActorKind::kernel && !actor.attrs.contains("seconds") &&
                        !runs_on_host(program, actor);
    double seconds = 0;
    if (const int of = rings(program_index).of_actor[a]; kernel && of >= 0) {
      const PartSeconds parts = ring_seconds(program, at(rings(program_index).rings, of), run);
      seconds = parts.own + parts.others;
    } else {
      seconds = fixed_seconds(program, actor, run);
    }
    if (kernel) seconds += (times[a] - 1) * std::max(0.0, seconds - launch);
    known->second.push_back({seconds, kernel, times[a], run});
  }
  if (cluster_.framework->exchanges_beside_passes) run_beside_passes(program_index, known->second);
  wait_for_host(program_index, known->second);
  return known->second;
}

void ActCosts::run_beside_passes(int program_index, std::vector<Fixed>& known) {
  const ir::Program& program = at(plan_.programs, program_index);
  const int device = first_device(program_index);
  std::map<int, Span> spans;  // by comm
  std::vector<PassSeconds> passes(program.phases.size());
  for (size_t a = 0; a < known.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    PassSeconds& pass = at(passes, actor.phase);
    if (known[a].kernel) pass.kernels += known[a].seconds;
    if (!known[a].run.beside_passes) continue;
    const CommTime& time = collective(known[a].run, span(spans, actor.comm, device));
    pass.exchanges += time.latency + (time.seconds() - time.latency) * known[a].times;
  }
  const double exchanges = cluster_.framework->exchange_multiprocessors,
               all = cluster_.device->multiprocessors;
  const bool any = std::ranges::any_of(passes, [](const PassSeconds& pass) { return pass.exchanges > 0; });
  if (any && exchanges > 0 && exchanges >= all)
    throw Error::input(
        "framework.exchange_multiprocessors",
        fmt::format("{} of {} multiprocessors of {} are for exchanges; kernels beside them need some",
                    exchanges, all, cluster_.device->name));
  std::vector<BesidePass>& beside = beside_[program_index];
  beside = beside_passes(program, passes, any && exchanges > 0 ? exchanges / all : 0);
  for (size_t a = 0; a < known.size(); ++a)
    if (known[a].kernel) known[a].seconds *= at(beside, program.actors[a].phase).slowdown;
}

// A device that runs the program: it stands for all.
int ActCosts::first_device(int program_index) const {
  const auto runs = [&](const ir::RankClass& cls) { return cls.program == program_index; };
  return std::find_if(plan_.classes.begin(), plan_.classes.end(), runs)->devices.front();
}

void ActCosts::wait_for_host(int program_index, std::vector<Fixed>& known) {
  if (cluster_.node.host_per_op <= 0) return;
  const ir::Program& program = at(plan_.programs, program_index);
  std::vector<HostAct> acts(known.size());
  for (size_t a = 0; a < known.size(); ++a) {
    const RunAct& run = known[a].run;
    acts[a].delays = known[a].kernel && known[a].seconds > 0;
    // A kernel inside its producer makes the producer's call as long as two.
    if (acts[a].delays || run.in_producer) acts[a].launches = run.launches;
    if (program.actors[a].kind == ir::ActorKind::collective) acts[a].launches = 1;
    acts[a].waits = run.waits;
  }
  const int turns = cluster_.framework->one_process ? std::min(plan_.devices, cluster_.node.gpus) : 1;
  const auto delayed = [&known](const std::vector<double>& delays) {
    std::vector<Fixed> later = known;
    for (size_t a = 0; a < later.size(); ++a) later[a].seconds += delays[a];
    return later;
  };
  known = delayed(host_delays(program, cluster_, acts, turns, [&](const std::vector<double>& delays) {
    return advances(program_index, delayed(delays));
  }));
}

// How much longer each act makes the device's own time for its phase, if nothing outside the phase is waited
// for: acts in the order of their queues, each after the acts of the phase whose results it reads. A
// collective that no act of its phase reads, such as a reduction of gradients, makes nothing wait.
std::vector<double> ActCosts::advances(int program_index, const std::vector<Fixed>& known) {
  const ir::Program& program = at(plan_.programs, program_index);
  const int device = first_device(program_index);
  std::map<int, Span> spans;                    // by comm
  std::map<std::pair<int, int>, double> queue;  // by phase, queue: the end of its last act
  std::vector<double> end(program.actors.size()), pass(program.phases.size()), by(program.actors.size());
  std::vector<bool> read(program.actors.size());
  for (const ir::Actor& actor : program.actors)
    for (const size_t from : read_in_phase(program, actor)) read[from] = true;
  for (size_t a = 0; a < end.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    double& last = queue[{actor.phase, actor.queue}];
    for (const size_t from : read_in_phase(program, actor))
      if (from < a) last = std::max(last, end[from]);
    last += known[a].seconds;
    if (is_modelled_collective(actor))
      last += shown(program_index, a, span(spans, actor.comm, device), known).seconds();
    end[a] = last;
    if (is_modelled_collective(actor) && !read[a]) continue;
    double& whole = at(pass, actor.phase);
    by[a] = std::max(0.0, last - whole);
    whole = std::max(whole, last);
  }
  return by;
}

double ActCosts::fixed_seconds(const ir::Program& program, const ir::Actor& actor, const RunAct& run) const {
  if (actor.attrs.contains("seconds")) return ir::attr_float(actor.attrs, "seconds");
  if (actor.kind == ir::ActorKind::copy)
    return std::max(copy_seconds(program, actor, cluster_),
                    prepare_seconds(plan_, program, actor, cluster_.node));
  if (actor.kind != ir::ActorKind::kernel || !ir::has_op(actor.op) || run.in_producer) return 0;
  if (runs_on_host(program, actor)) return host_seconds(program, actor, cluster_);
  return kernel_run_seconds(program, actor, run, input_types(program, actor), output_types(program, actor));
}

double ActCosts::kernel_run_seconds(const ir::Program& program, const ir::Actor& actor, const RunAct& run,
                                    const ir::Types& inputs, const ir::Types& outputs) const {
  const ir::OpDef& def = ir::op(actor.op);
  const double alone = (runs_in_float8(cluster_, program, actor) ? float8_product_seconds : kernel_seconds)(
      cluster_.device, def, inputs, outputs, actor.attrs);
  const double own = is_bound_by_compute(def) ? alone * straggler_factor_ : alone;
  const double seconds = (own + run.more_seconds) * run.factor;
  const double launch = cluster_.device->launch_latency + cluster_.device->kernel_floor;
  return run.in_shared_kernel ? std::max(0.0, seconds - launch) : seconds;
}

const KernelRings& ActCosts::rings(int program_index) {
  const ir::Program& program = at(plan_.programs, program_index);
  auto [known, made] = rings_.try_emplace(program_index, program);
  if (made && cluster_.framework->ring_attention) add_attention_rings(program, known->second);
  if (made && cluster_.framework->products_in_chunks) add_product_rings(program, known->second);
  return known->second;
}

PartSeconds ActCosts::ring_seconds(const ir::Program& program, const KernelRing& ring,
                                   const RunAct& run) const {
  const ir::Actor& kernel = program.actors[ring.kernel];
  const auto ranks = static_cast<int>(at(plan_.comms, ring.comm).groups.at(0).size());
  ir::Types inputs = input_types(program, kernel), outputs = output_types(program, kernel);
  if (is_attention(kernel)) {
    const PartSeconds parts =
        part_seconds(cluster_.device, kernel, ranks, std::move(inputs), std::move(outputs));
    return {parts.own * straggler_factor_, parts.others * straggler_factor_};
  }
  const double whole = kernel_run_seconds(program, kernel, run, inputs, outputs);
  take_chunk(ranks, inputs, outputs);
  RunAct part = run;
  part.more_seconds /= ranks;
  const double chunk = std::max(kernel_run_seconds(program, kernel, part, inputs, outputs), whole / ranks);
  const bool scatters = is_exchange(program.actors[ring.exchanges.at(0)], sbp::Collective::reduce_scatter);
  const double sum = scatters ? chunk_sum_seconds(cluster_.device, ranks, outputs.at(0)) : 0;
  return {chunk + sum, (ranks - 1) * chunk};
}

// The exposed part of a collective: all of it, except for a ring's and for one beside another pass.
CommTime ActCosts::shown(int program_index, size_t a, const Span& span, const std::vector<Fixed>& known) {
  const ir::Program& program = at(plan_.programs, program_index);
  CommTime time = collective(known[a].run, span);
  time.latency += known[a].run.more_latency;
  double share = 1;
  if (const int of = rings(program_index).of_actor[a]; of >= 0) {
    const KernelRing& ring = at(rings(program_index).rings, of);
    double all = 0;
    for (size_t exchange : ring.exchanges) all += collective(known[exchange].run, span).seconds();
    share = shown_share(all, ring_seconds(program, ring, known[ring.kernel].run).others);
  } else if (known[a].run.beside_passes) {
    share = at(at(beside_, program_index), program.actors[a].phase).shown;
  }
  time.latency *= share;
  time.bytes_on_link *= share;
  return time;
}

const Span& ActCosts::span(std::map<int, Span>& spans, int comm, int device) const {
  auto [span, made] = spans.try_emplace(comm);
  if (made) span->second = span_of(cluster_, group_of(at(plan_.comms, comm), device));
  return span->second;
}

const CommTime& ActCosts::collective(const RunAct& run, const Span& span) {
  auto [time, made] = collectives_.try_emplace(
      {static_cast<int>(run.collective), run.bytes, span, run.separate_tensors, run.times, run.by_node});
  if (!made) return time->second;
  time->second = run.by_node ? exchange_time(cluster_, bytes_by_node(*run.by_node, run.bytes, span), span)
                             : collective_time(cluster_, run.collective, run.bytes, span);
  time->second.latency *= run.times;
  time->second.bytes_on_link *= run.times;
  if (run.separate_tensors > 0)
    time->second = one_by_one(time->second, run.separate_tensors, span.ranks, run.piece_seconds);
  return time->second;
}

CommTime ActCosts::pull(const ir::Program& program, const ir::Actor& actor, int device) const {
  const bool on_host = std::any_of(actor.outputs.begin(), actor.outputs.end(),
                                   [&](int reg) { return at(program.registers, reg).host_bytes > 0; });
  for (const ir::Input& input : actor.inputs) {
    if (input.peers < 0) continue;
    int from = at(at(plan_.peers, input.peers).source, device);
    return (on_host ? host_transfer_time : transfer_time)(cluster_, actor.comm_bytes, from, device);
  }
  return {};
}

std::vector<int> group_of(const ir::Comm& comm, int device) {
  for (const auto& group : comm.groups) {
    if (std::find(group.begin(), group.end(), device) != group.end()) return group;
  }
  return {device};
}

bool is_communication(const ir::Actor& actor) {
  return actor.kind == ir::ActorKind::collective || actor.kind == ir::ActorKind::pull ||
         actor.kind == ir::ActorKind::copy;
}

MovedBytes moved_bytes(const ir::Plan& plan, const backends::Cluster& cluster, const ir::Program& program,
                       const ir::Actor& actor, int device) {
  const auto planned = static_cast<double>(actor.comm_bytes);
  if (actor.kind != ir::ActorKind::collective) return {planned, planned};
  if (actor.comm < 0) return {planned, 0};
  const RunAct run = ran_by_framework(cluster, program, actor);
  const std::vector<int> group = group_of(at(plan.comms, actor.comm), device);
  const double size = run.times * static_cast<double>(run.bytes);
  if (!run.by_node) return {size, sbp::sent_bytes(run.collective, size, static_cast<double>(group.size()))};
  const ExchangedBytes sent = bytes_by_node(*run.by_node, size, span_of(cluster, group));
  return {sent.between_nodes > 0 ? sent.between_nodes : sent.in_node, sent.between_nodes + sent.in_node};
}

std::vector<double> act_seconds(const ir::Plan& plan, const backends::Cluster& cluster, int cls,
                                const Beside& others) {
  const ir::RankClass& members = at(plan.classes, cls);
  std::vector<double> seconds;
  for (const ActCost& cost : ActCosts(plan, cluster).of(members.program, members.devices.front()))
    seconds.push_back(cost.seconds + seconds_beside(cluster, cost.comm, others));
  return seconds;
}

}  // namespace boxcar::sim
