#include "sim/ring_attention.h"

#include <algorithm>
#include <variant>

#include "backends/machines/device_profile.h"
#include "sbp/at.h"
#include "sim/models/kernel_time.h"

namespace boxcar::sim {
namespace {

bool is_backward(const ir::Actor& actor) { return actor.is(ir::OpKind::attention_grad); }
bool is_attention(const ir::Actor& actor) { return actor.is(ir::OpKind::attention) || is_backward(actor); }

// Whether an input of an attention is keys or values: those come after dy and q, or after q.
bool is_key_or_value(const ir::Actor& actor, size_t input) {
  const size_t keys = is_backward(actor) ? 2 : 1;
  return input == keys || input == keys + 1;
}

bool is_exchange(const ir::Actor& actor, sbp::Collective collective) {
  return actor.kind == ir::ActorKind::collective && actor.comm >= 0 && actor.collective == collective;
}

std::vector<size_t> gathers_of(const ir::Program& program, const ir::Actor& attention) {
  std::vector<size_t> found;
  for (size_t i = 0; i < attention.inputs.size(); ++i) {
    const ir::Input& input = attention.inputs[i];
    if (input.program >= 0 || !is_key_or_value(attention, i)) continue;
    const auto from = static_cast<size_t>(at(program.registers, input.reg).producer);
    if (is_exchange(program.actors[from], sbp::Collective::all_gather) &&
        std::find(found.begin(), found.end(), from) == found.end())
      found.push_back(from);
  }
  return found;
}

bool reads_from(const ir::Program& program, const ir::Actor& actor, size_t producer) {
  return std::any_of(actor.inputs.begin(), actor.inputs.end(), [&](const ir::Input& input) {
    return input.program < 0 && at(program.registers, input.reg).producer == static_cast<int>(producer);
  });
}

}  // namespace

AttentionRings attention_rings(const ir::Program& program) {
  AttentionRings found{{}, std::vector<int>(program.actors.size(), -1)};
  for (size_t a = 0; a < program.actors.size(); ++a) {
    const ir::Actor& attention = program.actors[a];
    if (!is_attention(attention)) continue;
    AttentionRing ring{a, gathers_of(program, attention), -1};
    if (ring.exchanges.empty()) continue;
    ring.comm = program.actors[ring.exchanges[0]].comm;
    for (size_t b = a + 1; is_backward(attention) && b < program.actors.size(); ++b)
      if (is_exchange(program.actors[b], sbp::Collective::reduce_scatter) &&
          program.actors[b].comm == ring.comm && reads_from(program, program.actors[b], a))
        ring.exchanges.push_back(b);
    for (size_t exchange : ring.exchanges) found.of_actor[exchange] = static_cast<int>(found.rings.size());
    found.of_actor[a] = static_cast<int>(found.rings.size());
    found.rings.push_back(std::move(ring));
  }
  return found;
}

void take_part(bool backward, int ranks, ir::Types& inputs, ir::Types& outputs) {
  const auto cut = [&](ir::TensorType& type) {
    int64_t& keys = type.shape[type.shape.size() - 2];  // [batch, heads, keys, width]
    keys = (keys + ranks - 1) / ranks;
  };
  const size_t keys = backward ? 2 : 1;
  for (size_t i = keys; i < keys + 2; ++i) cut(inputs.at(i));
  if (backward)
    for (size_t o = 1; o < 3; ++o) cut(outputs.at(o));
}

PartSeconds part_seconds(const backends::DeviceProfile& device, const ir::Actor& attention, int ranks,
                         ir::Types inputs, ir::Types outputs) {
  const ir::OpDef& def = ir::op(attention.op);
  ir::Attrs attrs = attention.attrs;
  const bool has_window = attention_window(attrs) > 0;
  const double all = has_window ? kernel_seconds(device, def, inputs, outputs, attrs) : 0;
  take_part(is_backward(attention), ranks, inputs, outputs);
  const double own = kernel_seconds(device, def, inputs, outputs, attrs);
  if (has_window) return {own, std::max(0.0, all - own)};  // parts beyond the window are left out
  const auto causal = attrs.find("causal");
  if (causal == attrs.end() || !std::get<bool>(causal->second)) return {own, (ranks - 1) * own};
  causal->second = false;
  return {own, (ranks - 1) * kernel_seconds(device, def, inputs, outputs, attrs) / 2};
}

double shown_share(double exchanges, double others) {
  return exchanges > 0 ? std::max(0.0, 1 - others / exchanges) : 1;
}

}  // namespace boxcar::sim
