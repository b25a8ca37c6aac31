#include "sim/framework_effects.h"

#include <algorithm>

#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "ir/plan_roles.h"
#include "sbp/at.h"
#include "sim/act_view.h"
#include "sim/expert_exchanges.h"
#include "sim/float8_operands.h"

namespace boxcar::sim {
namespace {

using sbp::Collective;

struct Subject {
  const backends::Cluster& cluster;
  const backends::Framework& framework;
  const ir::Program& program;
  const ir::Actor& actor;
  ir::PhaseKind phase() const { return program.phase_of(actor).kind; }
  bool is_kernel() const { return actor.kind == ir::ActorKind::kernel; }
  bool updates() const { return phase() == ir::PhaseKind::update; }
  bool gathers() const { return actor.collective == Collective::all_gather; }
  bool scatters() const { return actor.collective == Collective::reduce_scatter; }
};

double named(const std::map<std::string, double>& numbers, const std::string& name, double otherwise) {
  const auto found = numbers.find(name);
  return found == numbers.end() ? otherwise : found->second;
}

// Seconds of `copies` copies of `types`, each of which is read and written.
double copying_seconds(const backends::DeviceProfile& device, double copies, const ir::Types& types) {
  if (copies <= 0) return 0;
  double bytes = 0;
  for (const ir::TensorType& type : types) bytes += static_cast<double>(type.bytes());
  const double moved = 2 * bytes;
  const double one = moved / (device.memory_bandwidth * device.memory_efficiency.at(moved));
  return copies * (one + device.launch_latency + device.kernel_floor);
}

void op_launches(const Subject& s, RunAct& run) {
  run.launches = named(s.framework.op_launches, s.actor.op, run.launches);
}

void op_waits(const Subject& s, RunAct& run) { run.waits = named(s.framework.op_waits, s.actor.op, 0); }

// Softmaxes of attention that the framework's fused kernel does not take run as several kernels.
void fused_softmax(const Subject& s, RunAct& run) {
  const backends::FusedSoftmax& fused = s.framework.fused_softmax;
  const bool forward = s.actor.is(ir::OpKind::softmax), backward = s.actor.is(ir::OpKind::softmax_grad);
  if (fused.multiple == 0 || !(forward || backward)) return;
  const ir::TensorType scores = output_types(s.program, s.actor).at(0);  // [sequences, heads, queries, keys]
  const size_t rank = scores.shape.size();
  const int64_t squares = scores.elements() / (scores.shape[rank - 1] * scores.shape[rank - 2]);
  if (squares % fused.multiple == 0 && scores.shape[rank - 1] <= fused.longest) return;
  run.factor = backward ? fused.backward : fused.forward;
  run.launches = fused.kernels;
}

// The product of a weight's gradient adds to the sum itself (in 16 bits only if sums_half_in_products), so
// the accumulate or the cast that reads the gradient has no kernel of its own.
void sums_in_products(const Subject& s, RunAct& run) {
  const bool sums = s.actor.is(ir::OpKind::accumulate) || s.actor.is(ir::OpKind::cast);
  if (!s.framework.sums_in_products || !sums || s.actor.inputs.empty()) return;
  const ir::Input& input = s.actor.inputs[0];
  if (input.program >= 0) return;
  const bool full = output_types(s.program, s.actor).at(0).dtype == ir::DType::float32;
  if (!full && !(s.framework.sums_half_in_products && s.actor.is(ir::OpKind::accumulate))) return;
  const int producer = at(s.program.registers, input.reg).producer;
  run.in_producer = at(s.program.actors, producer).is(ir::OpKind::weight_grad);
}

// Results [sequences, ...] of more than one sequence, if the framework's kernels need another order.
void batch_copies(const Subject& s, RunAct& run) {
  const double copies = named(s.framework.batch_copies, s.actor.op, 0);
  if (copies <= 0) return;
  const ir::Types results = output_types(s.program, s.actor);
  if (results.empty() || results[0].shape.empty() || results[0].shape[0] < 2) return;
  run.more_seconds = copying_seconds(s.cluster.device, copies, results);
}

void casts_to_float8(const Subject& s, RunAct& run) {
  if (!runs_in_float8(s.cluster, s.program, s.actor)) return;
  const auto operands = float8_operands(s.framework, s.program, s.actor);
  const Float8Casts casts =
      float8_casts(s.cluster.device, ir::role_of(ir::op(s.actor.op), s.actor.attrs), operands);
  run.more_seconds += casts.seconds;
  run.launches += casts.launches;
}

void update_in_one(const Subject& s, RunAct& run) {
  run.in_shared_kernel = s.framework.update_in_one && s.is_kernel() && s.updates();
}

// Tensors that are cast before they are gathered travel in 8 of their 16 bits.
void gathers_of_float8(const Subject& s, RunAct& run) {
  if (gathers_in_float8(s.cluster, s.program, s.actor)) run.bytes /= 2;
}

// With a float32 scale for every 128 elements (DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.3).
int64_t bytes_in_float8(int64_t half_bytes) { return half_bytes / 2 * (128 + 4) / 128; }

void exchanges_of_experts(const Subject& s, RunAct& run) {
  const backends::Framework& f = s.framework;
  if (!f.experts_by_node && !f.float8_dispatch && !f.exchanges_beside_passes) return;
  const std::optional<ExpertExchange> exchange = expert_exchange(s.program, s.actor);
  if (!exchange) return;
  if (f.experts_by_node) run.by_node = exchange->choice;
  run.beside_passes = f.exchanges_beside_passes;
  const auto in_float8 = [&](const ir::Actor& reader) {
    return runs_in_float8(s.cluster, s.program, reader) &&
           ir::producer_of(s.program, reader.inputs[0]) == &s.actor;
  };
  if (f.float8_dispatch && exchange->to_experts &&
      std::any_of(s.program.actors.begin(), s.program.actors.end(), in_float8))
    run.bytes = bytes_in_float8(run.bytes);
}

void reduce_whole(const Subject& s, RunAct& run) {
  if (!s.framework.reduce_whole || !s.scatters() || s.phase() != ir::PhaseKind::reduce) return;
  run.collective = Collective::all_reduce;
  if (!s.framework.reduce_in_float32) return;
  run.bytes = 0;
  for (const ir::TensorType& type : input_types(s.program, s.actor))
    run.bytes += type.elements() * ir::size_of(ir::DType::float32);
}

// Not after an update (ZeRO 1 and 2): there all parameters are one flat buffer.
void apart_elements(const Subject& s, RunAct& run) {
  const int64_t least = s.framework.apart_elements;
  if (least == 0 || s.updates() || !(s.gathers() || s.scatters())) return;
  const auto large = [&](int reg) { return at(s.program.registers, reg).type.elements() >= least; };
  const ir::Actor& actor = s.actor;
  const auto count = s.gathers() ? std::count_if(actor.outputs.begin(), actor.outputs.end(), large)
                                 : std::count_if(actor.inputs.begin(), actor.inputs.end(),
                                                 [&](const ir::Input& input) { return large(input.reg); });
  run.separate_tensors = static_cast<int>(std::max<std::ptrdiff_t>(1, count));
}

void piece_seconds(const Subject& s, RunAct& run) { run.piece_seconds = s.framework.piece_seconds; }

// After an update, the rank that owns a tensor sends it to all, one tensor after the other.
void gather_by_broadcast(const Subject& s, RunAct& run) {
  if (!s.framework.gather_by_broadcast || !s.gathers() || !s.updates()) return;
  run.collective = Collective::broadcast;
  run.separate_tensors = static_cast<int>(s.actor.outputs.size());
  run.piece_seconds = 0;
}

void all_reduces(const Subject& s, RunAct& run) {
  if (s.actor.collective == Collective::all_reduce && s.actor.layer >= 0)
    run.times = named(s.framework.all_reduces, s.actor.moves, 1);
}

void gather_copies(const Subject& s, RunAct& run) {
  if (s.gathers())
    run.more_latency = copying_seconds(s.cluster.device, named(s.framework.gather_copies, s.actor.moves, 0),
                                       output_types(s.program, s.actor));
}

// Applied in this order: an effect sees those before it, and may overwrite them.
struct Effect {
  const char* field;
  void (*apply)(const Subject&, RunAct&);
};
constexpr Effect of_kernels[] = {
    {"op_launches", op_launches},
    {"op_waits", op_waits},
    {"fused_softmax", fused_softmax},
    {"sums_in_products", sums_in_products},
    {"batch_copies", batch_copies},
    {"update_in_one", update_in_one},
    {"float8_fuses, float8_weights_stay", casts_to_float8},
};
constexpr Effect of_collectives[] = {
    {"float8_fuses, float8_weights_stay", gathers_of_float8},
    {"experts_by_node, float8_dispatch, exchanges_beside_passes", exchanges_of_experts},
    {"reduce_whole, reduce_in_float32", reduce_whole},
    {"apart_elements", apart_elements},
    {"piece_seconds", piece_seconds},
    {"gather_by_broadcast", gather_by_broadcast},
    {"all_reduces", all_reduces},
    {"gather_copies", gather_copies},
};

}  // namespace

RunAct ran_by_framework(const backends::Cluster& cluster, const ir::Program& program,
                        const ir::Actor& actor) {
  const Subject subject{cluster, cluster.framework, program, actor};
  RunAct run;
  run.collective = actor.collective;
  run.bytes = actor.comm_bytes;
  if (actor.kind == ir::ActorKind::collective)
    for (const Effect& effect : of_collectives) effect.apply(subject, run);
  else
    for (const Effect& effect : of_kernels) effect.apply(subject, run);
  return run;
}

}  // namespace boxcar::sim
