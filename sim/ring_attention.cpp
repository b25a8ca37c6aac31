#include "sim/ring_attention.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "backends/machines/device_profile.h"
#include "ir/ops/attention_work.h"
#include "sbp/at.h"
#include "sim/models/kernel_time.h"

namespace boxcar::sim {
namespace {

bool is_backward(const ir::Actor& actor) { return actor.is(ir::OpKind::attention_grad); }

// Whether an input of an attention is keys or values: those come after dy and q, or after q.
bool is_key_or_value(const ir::Actor& actor, size_t input) {
  const size_t keys = is_backward(actor) ? 2 : 1;
  return input == keys || input == keys + 1;
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

}  // namespace

bool is_attention(const ir::Actor& actor) { return actor.is(ir::OpKind::attention) || is_backward(actor); }

void add_attention_rings(const ir::Program& program, KernelRings& rings) {
  for (size_t a = 0; a < program.actors.size(); ++a) {
    const ir::Actor& attention = program.actors[a];
    if (!is_attention(attention)) continue;
    KernelRing ring{a, gathers_of(program, attention), -1};
    if (ring.exchanges.empty()) continue;
    ring.comm = program.actors[ring.exchanges[0]].comm;
    for (size_t b = a + 1; is_backward(attention) && b < program.actors.size(); ++b)
      if (is_exchange(program.actors[b], sbp::Collective::reduce_scatter) &&
          program.actors[b].comm == ring.comm && reads_from(program, program.actors[b], a))
        ring.exchanges.push_back(b);
    rings.add(std::move(ring));
  }
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
  const int64_t keys = inputs.at(is_backward(attention) ? 2 : 1).shape.at(2);
  const auto ends_inside = [keys](int64_t seen) { return seen > 0 && seen < keys; };
  const bool sees_part = ends_inside(ir::window_of(attrs)) || ends_inside(ir::document_of(attrs));
  const double all = sees_part ? kernel_seconds(device, def, inputs, outputs, attrs) : 0;
  take_part(is_backward(attention), ranks, inputs, outputs);
  const double own = kernel_seconds(device, def, inputs, outputs, attrs);
  if (sees_part) return {own, std::max(0.0, all - own)};  // parts that no query sees are left out
  const auto causal = attrs.find("causal");
  if (causal == attrs.end() || !std::get<bool>(causal->second)) return {own, (ranks - 1) * own};
  causal->second = false;
  return {own, (ranks - 1) * kernel_seconds(device, def, inputs, outputs, attrs) / 2};
}

}  // namespace boxcar::sim
