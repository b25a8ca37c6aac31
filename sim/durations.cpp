#include "sim/durations.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/stack.h"
#include "sim/models/kernel_time.h"
#include "sim/models/slowest.h"
#include "sim/routing.h"
#include "sim/simulate.h"

namespace boxcar::sim {
namespace {

double slowdown_of(const backends::Cluster& cluster, int device) {
  auto found = cluster.slowdown.find(device);
  return found == cluster.slowdown.end() ? 1.0 : found->second;
}

// A register without bytes although its type has elements is a control edge, no operand.
bool is_operand(const ir::Register& reg) { return reg.bytes > 0 || reg.type.elements() == 0; }

ir::Types input_types(const ir::Program& program, const ir::Actor& actor) {
  ir::Types types;
  types.reserve(actor.inputs.size());
  for (const ir::Input& input : actor.inputs) {
    const auto& reg = program.registers[static_cast<size_t>(input.reg)];
    if (is_operand(reg)) types.push_back(ir::input_type(reg, input));
  }
  return types;
}

ir::Types output_types(const ir::Program& program, const ir::Actor& actor) {
  ir::Types types;
  types.reserve(actor.outputs.size());
  for (int output : actor.outputs) {
    const auto& reg = program.registers[static_cast<size_t>(output)];
    if (is_operand(reg)) types.push_back(reg.type);
  }
  return types;
}

double copy_seconds(const ir::Program& program, const ir::Actor& actor, const backends::Cluster& cluster) {
  if (cluster.node.pcie_bandwidth <= 0) return 0;
  double bytes = 0;
  for (int output : actor.outputs) {
    bytes += static_cast<double>(program.registers[static_cast<size_t>(output)].bytes);
  }
  return bytes / cluster.node.pcie_bandwidth;
}

// A batch is prepared by its node's host while it makes its way to the device. What a phase loads (tokens,
// labels) comes from the same samples.
double prepare_seconds(const ir::Plan& plan, const ir::Program& program, const ir::Actor& actor,
                       const backends::Node& node) {
  if (node.load_rate <= 0 || actor.op != "load") return 0;
  const ir::Types loaded = output_types(program, actor);
  if (loaded.empty() || loaded[0].shape.empty()) return 0;
  const auto loads = std::count_if(program.actors.begin(), program.actors.end(), [&](const ir::Actor& other) {
    return other.op == "load" && other.phase == actor.phase;
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

bool is_update(const ir::PlanPhase& phase) { return phase.kind == ir::PhaseKind::update; }

// How many tensors a gather or scatter moves one by one, where the stack does: those of `least` elements on.
// Parameters after an update (ZeRO 1 and 2) are one flat buffer.
int tensors_apart(const ir::Program& program, const ir::Actor& actor, int64_t least) {
  const bool gather = actor.collective == sbp::Collective::all_gather;
  if (least == 0 || is_update(program.phase_of(actor)) ||
      (!gather && actor.collective != sbp::Collective::reduce_scatter))
    return 0;
  int64_t count = 0;
  const auto large = [&](int reg) {
    return program.registers[static_cast<size_t>(reg)].type.elements() >= least;
  };
  if (gather)
    count = std::count_if(actor.outputs.begin(), actor.outputs.end(), large);
  else
    count = std::count_if(actor.inputs.begin(), actor.inputs.end(),
                          [&](const ir::Input& input) { return large(input.reg); });
  return static_cast<int>(std::max<int64_t>(1, count));
}

// Of a name "h3.attn.qkv": 3; -1 outside of layers.
int layer_of(const std::string& name) {
  if (name[0] != 'h' || name.size() < 2 || !std::isdigit(static_cast<unsigned char>(name[1]))) return -1;
  return std::atoi(name.c_str() + 1);
}

// Whether the stack's one kernel for the softmax of attention does not take this one.
bool falls_back(const ir::Program& program, const ir::Actor& actor, const backends::Stack& stack) {
  const backends::FusedSoftmax& fused = stack.fused_softmax;
  if (fused.multiple == 0 || !actor.op.starts_with("scale_mask_softmax")) return false;
  const ir::TensorType scores = output_types(program, actor).at(0);  // [sequences, heads, queries, keys]
  const size_t rank = scores.shape.size();
  const int64_t squares = scores.elements() / (scores.shape[rank - 1] * scores.shape[rank - 2]);
  return squares % fused.multiple != 0 || scores.shape[rank - 1] > fused.longest;
}

double launches_of(const ir::Program& program, const ir::Actor& actor, const backends::Stack& stack) {
  if (falls_back(program, actor, stack)) return stack.fused_softmax.kernels;
  const auto found = stack.op_launches.find(actor.op);
  return found == stack.op_launches.end() ? 1 : found->second;
}

// Of an accumulate, or a cast, whether the product before it adds to the sum, in float32, itself.
bool sums_in_product(const ir::Program& program, const ir::Actor& actor, const backends::Stack& stack) {
  const bool sums = actor.op == "accumulate" || actor.op == "cast";
  if (!stack.sums_in_products || !sums || actor.inputs.empty()) return false;
  const ir::Input& input = actor.inputs[0];
  if (input.program >= 0 || output_types(program, actor).at(0).dtype != ir::DType::float32) return false;
  const int producer = program.registers[static_cast<size_t>(input.reg)].producer;
  return program.actors[static_cast<size_t>(producer)].op == "matmul_weight_grad";
}

// Gradients of sharded states that the stack reduces whole.
bool reduces_whole(const ir::Program& program, const ir::Actor& actor, const backends::Stack& stack) {
  return stack.reduce_whole && actor.collective == sbp::Collective::reduce_scatter &&
         program.phase_of(actor).kind == ir::PhaseKind::reduce;
}

// What an actor reads, in float32.
int64_t float_bytes(const ir::Program& program, const ir::Actor& actor) {
  int64_t elements = 0;
  for (const ir::TensorType& type : input_types(program, actor)) elements += type.elements();
  return elements * ir::size_of(ir::DType::float32);
}

// "h3.ln2.grad.all_reduce" is looked up as ln2.grad.
double times_reduced(const ir::Actor& actor, const backends::Stack& stack) {
  if (stack.all_reduces.empty() || actor.collective != sbp::Collective::all_reduce ||
      layer_of(actor.name) < 0)
    return 1;
  const size_t from = actor.name.find('.') + 1, to = actor.name.rfind('.');
  const auto found = stack.all_reduces.find(actor.name.substr(from, to - from));
  return found == stack.all_reduces.end() ? 1 : found->second;
}

// Of as many copies of so many bytes, each of which is read and written.
double copying_seconds(const backends::DeviceProfile& device, double copies, double bytes) {
  const double moved = 2 * bytes;
  const double one = moved / (device.memory_bandwidth * device.memory_efficiency.at(moved));
  return copies * (one + device.launch_latency + device.kernel_floor);
}

double bytes_of(const ir::Types& types) {
  double bytes = 0;
  for (const ir::TensorType& type : types) bytes += static_cast<double>(type.bytes());
  return bytes;
}

// Results [sequences, ...] of more than one sequence, where the stack's kernels want another order.
double batch_copy_seconds(const ir::Program& program, const ir::Actor& actor,
                          const backends::Cluster& cluster) {
  const auto found = cluster.stack->batch_copies.find(actor.op);
  if (found == cluster.stack->batch_copies.end()) return 0;
  const ir::Types results = output_types(program, actor);
  if (results.empty() || results[0].shape.empty() || results[0].shape[0] < 2) return 0;
  return copying_seconds(cluster.device, found->second, bytes_of(results));
}

// "head.all_gather" is looked up as head.
double gather_copy_seconds(const ir::Program& program, const ir::Actor& actor,
                           const backends::Cluster& cluster) {
  if (cluster.stack->gather_copies.empty() || actor.collective != sbp::Collective::all_gather) return 0;
  const auto found = cluster.stack->gather_copies.find(actor.name.substr(0, actor.name.rfind('.')));
  if (found == cluster.stack->gather_copies.end()) return 0;
  return copying_seconds(cluster.device, found->second, bytes_of(output_types(program, actor)));
}

}  // namespace

Costing::Costing(const ir::Plan& plan, const backends::Cluster& cluster)
    : plan_(plan),
      cluster_(cluster),
      behind_(1 + cluster.device->speed_spread * slowest_of(std::max(1, plan.devices))) {}

std::vector<ActCost> Costing::of(int program_index, int device) {
  const ir::Program& program = plan_.programs[static_cast<size_t>(program_index)];
  const std::vector<Fixed>& known = fixed(program_index);
  double slow = slowdown_of(cluster_, device);
  std::map<int, Span> spans;  // by comm
  std::vector<ActCost> costs(program.actors.size());
  for (size_t a = 0; a < costs.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    costs[a].seconds = known[a].seconds * (known[a].kernel ? slow : 1);
    if (known[a].seconds > 0 || actor.attrs.contains("seconds")) continue;
    if (actor.kind == ir::ActorKind::pull) costs[a].comm = pull(actor, device);
    if (is_modelled_collective(actor))
      costs[a].comm = shown(program_index, a, span(spans, actor.comm, device));
    costs[a].comm.bytes_on_link *= known[a].times;
  }
  return costs;
}

const std::vector<Costing::Fixed>& Costing::fixed(int program_index) {
  auto [known, made] = fixed_.try_emplace(program_index);
  if (!made) return known->second;
  const ir::Program& program = plan_.programs[static_cast<size_t>(program_index)];
  const std::vector<double> times = routing_times(plan_, program);
  const double launch = cluster_.device->launch_latency + cluster_.device->kernel_floor;
  for (size_t a = 0; a < times.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    const bool kernel = actor.kind == ir::ActorKind::kernel && !actor.attrs.contains("seconds");
    double seconds = 0;
    if (const int of = rings(program_index).of_actor[a]; kernel && of >= 0) {
      const PartSeconds parts = ring_seconds(program, rings(program_index).rings[static_cast<size_t>(of)]);
      seconds = parts.own + parts.others;
    } else {
      seconds = fixed_seconds(program, actor);
    }
    if (kernel) seconds += (times[a] - 1) * std::max(0.0, seconds - launch);
    known->second.push_back({seconds, kernel, times[a]});
  }
  wait_for_host(program_index, known->second);
  return known->second;
}

// By how much each act makes the device's own time for its phase longer, where nothing outside of it is
// waited for: acts in the order of their queues, each after what it reads of the phase.
std::vector<double> Costing::advances(int program_index, const std::vector<Fixed>& known) {
  const ir::Program& program = plan_.programs[static_cast<size_t>(program_index)];
  int device = 0;  // the first that runs the program stands for all
  for (auto cls = plan_.classes.rbegin(); cls != plan_.classes.rend(); ++cls)
    if (cls->program == program_index) device = cls->devices.front();
  std::map<int, Span> spans;                    // by comm
  std::map<std::pair<int, int>, double> queue;  // by phase, queue: the end of its last act
  std::vector<double> end(program.actors.size()), pass(program.phases.size()), by(program.actors.size());
  for (size_t a = 0; a < end.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    double& last = queue[{actor.phase, actor.queue}];
    for (const ir::Input& input : actor.inputs) {
      if (input.program >= 0) continue;
      const auto from = static_cast<size_t>(program.registers[static_cast<size_t>(input.reg)].producer);
      if (from < a && program.actors[from].phase == actor.phase) last = std::max(last, end[from]);
    }
    last += known[a].seconds;
    if (is_modelled_collective(actor))
      last += shown(program_index, a, span(spans, actor.comm, device)).seconds();
    end[a] = last;
    double& whole = pass[static_cast<size_t>(actor.phase)];
    by[a] = std::max(0.0, last - whole);
    whole = std::max(whole, last);
  }
  return by;
}

// An eager host runs ahead of the device as long as the device has work or waits for its links; where the
// launches of a layer's pass, collectives among them, take longer than that, each kernel ends later by its
// share of the difference. What the framework does once a pass comes with the layer that has its first
// kernel; in a pipeline it has waited for a transfer before, and has no lead then. A lead that it won before,
// in the head say, is not counted on: published layers that are launch-bound take as long behind long kernels
// as behind short ones.
void Costing::wait_for_host(int program_index, std::vector<Fixed>& known) {
  const int turns = cluster_.stack->one_process ? std::min(plan_.devices, cluster_.node.gpus) : 1;
  const double launch = turns * cluster_.node.host_per_op / cluster_.node.host_speed;
  if (launch <= 0) return;
  const ir::Program& program = plan_.programs[static_cast<size_t>(program_index)];
  struct Part {
    int kernels = 0;
    double launches = 0, busy = 0;
  };
  const std::vector<double> by = advances(program_index, known);
  std::map<std::pair<int, int>, Part> parts;  // by phase, layer
  auto waits = [&](size_t a) { return known[a].kernel && known[a].seconds > 0; };
  auto of_tensors = [&](const ir::PlanPhase& phase) {
    return is_update(phase) && cluster_.stack->one_process && !cluster_.stack->update_in_one;
  };
  auto part = [&](size_t a) -> Part& {
    return parts[{program.actors[a].phase, layer_of(program.actors[a].name)}];
  };
  const bool in_pipeline =
      std::any_of(program.actors.begin(), program.actors.end(), [&](const ir::Actor& actor) {
        return actor.kind == ir::ActorKind::pull && program.phase_of(actor).is_pass();
      });
  std::map<int, size_t> begun;  // by phase: its first kernel
  for (size_t a = 0; a < known.size(); ++a) {
    const ir::Actor& actor = program.actors[a];
    part(a).busy += by[a];
    if (waits(a) && begun.emplace(actor.phase, a).second && !in_pipeline)
      part(a).launches += cluster_.stack->pass_launches;
    if (waits(a)) ++part(a).kernels;
    if (waits(a) ||
        sums_in_product(program, actor, cluster_.stack))  // whose product's call is as long as two
      part(a).launches += launches_of(program, actor, cluster_.stack);
    if (actor.kind == ir::ActorKind::collective) ++part(a).launches;
  }
  for (size_t a = 0; a < known.size(); ++a) {
    const ir::PlanPhase& phase = program.phase_of(program.actors[a]);
    if (!waits(a) || !(phase.is_pass() || of_tensors(phase))) continue;
    const Part& mine = part(a);
    known[a].seconds += std::max(0.0, mine.launches * launch - mine.busy) / mine.kernels;
    const auto asked = cluster_.stack->op_waits.find(program.actors[a].op);
    if (asked != cluster_.stack->op_waits.end()) known[a].seconds += asked->second * launch;
  }
  if (!in_pipeline) return;
  for (const auto& [index, first] : begun)  // but in the pass that no stage waits for
    if (const ir::PlanPhase& phase = program.phases[static_cast<size_t>(index)];
        phase.is_pass() && phase.kind != ir::PhaseKind::weight)
      known[first].seconds += cluster_.stack->pass_launches * launch;
}

double Costing::fixed_seconds(const ir::Program& program, const ir::Actor& actor) const {
  if (actor.attrs.contains("seconds")) return ir::attr_float(actor.attrs, "seconds");
  if (actor.kind == ir::ActorKind::copy)
    return std::max(copy_seconds(program, actor, cluster_),
                    prepare_seconds(plan_, program, actor, cluster_.node));
  if (actor.kind != ir::ActorKind::kernel || !ir::has_op(actor.op)) return 0;
  if (sums_in_product(program, actor, cluster_.stack)) return 0;
  const ir::OpDef& def = ir::op(actor.op);
  const bool float8 = cluster_.device->float8_products && def.family == ir::Family::matmul &&
                      def.name != "batch_matmul" && layer_of(actor.name) >= 0;
  const double alone = (float8 ? float8_product_seconds : kernel_seconds)(
      cluster_.device, def, input_types(program, actor), output_types(program, actor), actor.attrs);
  const double seconds =
      (is_bound_by_compute(def) ? alone * behind_ : alone) + batch_copy_seconds(program, actor, cluster_);
  if (falls_back(program, actor, cluster_.stack)) {
    const backends::FusedSoftmax& fused = cluster_.stack->fused_softmax;
    return seconds * (actor.op.ends_with("_grad") ? fused.backward : fused.forward);
  }
  const bool in_one = cluster_.stack->update_in_one && is_update(program.phase_of(actor));
  const double launch = cluster_.device->launch_latency + cluster_.device->kernel_floor;
  return in_one ? std::max(0.0, seconds - launch) : seconds;
}

const AttentionRings& Costing::rings(int program_index) {
  auto [known, made] = rings_.try_emplace(program_index);
  const ir::Program& program = plan_.programs[static_cast<size_t>(program_index)];
  if (made && cluster_.stack->ring_attention) known->second = attention_rings(program);
  if (made) known->second.of_actor.resize(program.actors.size(), -1);
  return known->second;
}

PartSeconds Costing::ring_seconds(const ir::Program& program, const AttentionRing& ring) const {
  const ir::Actor& attention = program.actors[ring.attention];
  const auto ranks = static_cast<int>(plan_.comms[static_cast<size_t>(ring.comm)].groups.at(0).size());
  const PartSeconds parts = part_seconds(cluster_.device, attention, ranks, input_types(program, attention),
                                         output_types(program, attention));
  return {parts.own * behind_, parts.others * behind_};
}

// What of a collective is waited for; all of it, but for a ring's.
CommTime Costing::shown(int program_index, size_t a, const Span& span) {
  const ir::Program& program = plan_.programs[static_cast<size_t>(program_index)];
  CommTime time = collective(program, program.actors[a], span);
  time.latency += gather_copy_seconds(program, program.actors[a], cluster_);
  const int of = rings(program_index).of_actor[a];
  if (of < 0) return time;
  const AttentionRing& ring = rings(program_index).rings[static_cast<size_t>(of)];
  double all = 0;
  for (size_t exchange : ring.exchanges) all += collective(program, program.actors[exchange], span).seconds();
  const double share = shown_share(all, ring_seconds(program, ring).others);
  time.latency *= share;
  time.bytes_on_link *= share;
  return time;
}

const Span& Costing::span(std::map<int, Span>& spans, int comm, int device) const {
  auto [span, made] = spans.try_emplace(comm);
  if (made) span->second = span_of(cluster_, group_of(plan_.comms[static_cast<size_t>(comm)], device));
  return span->second;
}

// Where tensors go apart, each waits for its own latency, and its pieces are copied rank by rank.
const CommTime& Costing::collective(const ir::Program& program, const ir::Actor& actor, const Span& span) {
  const bool broadcast = cluster_.stack->gather_by_broadcast &&
                         actor.collective == sbp::Collective::all_gather &&
                         is_update(program.phase_of(actor));
  const bool whole = reduces_whole(program, actor, cluster_.stack);
  const sbp::Collective kind = broadcast ? sbp::Collective::broadcast
                               : whole   ? sbp::Collective::all_reduce
                                         : actor.collective;
  const int64_t bytes =
      whole && cluster_.stack->reduce_in_float32 ? float_bytes(program, actor) : actor.comm_bytes;
  const int apart = broadcast ? static_cast<int>(actor.outputs.size())
                              : tensors_apart(program, actor, cluster_.stack->apart_elements);
  const double times = times_reduced(actor, cluster_.stack);
  auto [time, made] = collectives_.try_emplace({static_cast<int>(kind), bytes, span, apart, times});
  if (!made) return time->second;
  time->second = collective_time(cluster_, kind, bytes, span);
  time->second.latency *= times;
  time->second.bytes_on_link *= times;
  const double pieces = broadcast ? 0 : span.ranks * cluster_.stack->piece_seconds;
  if (apart > 0) time->second.latency = apart * (time->second.latency + pieces);
  return time->second;
}

CommTime Costing::pull(const ir::Actor& actor, int device) const {
  for (const ir::Input& input : actor.inputs) {
    if (input.peers < 0) continue;
    int from = plan_.peers[static_cast<size_t>(input.peers)].source[static_cast<size_t>(device)];
    return transfer_time(cluster_, actor.comm_bytes, from, device);
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

std::vector<double> act_seconds(const ir::Plan& plan, const backends::Cluster& cluster, int cls) {
  const ir::RankClass& members = plan.classes[static_cast<size_t>(cls)];
  std::vector<double> seconds;
  for (const ActCost& cost : Costing(plan, cluster).of(members.program, members.devices.front()))
    seconds.push_back(cost.total());
  return seconds;
}

}  // namespace boxcar::sim
