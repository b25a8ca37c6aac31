#include "sim/product_rings.h"

#include <map>
#include <utility>
#include <vector>

#include "ir/product_role.h"
#include "sbp/at.h"
#include "sim/models/kernel_time.h"

namespace boxcar::sim {
namespace {

bool is_product_of_rows(const ir::Actor& actor) {
  if (!actor.is(ir::OpKind::product) && !actor.is(ir::OpKind::product_with_epilogue)) return false;
  return ir::role_of(ir::op(actor.op), actor.attrs) != ir::ProductRole::weight_grad;
}

// By actor: the one before and after it on its queue in its phase, -1: none.
struct Neighbours {
  explicit Neighbours(const ir::Program& program)
      : before(program.actors.size(), -1), after(program.actors.size(), -1) {
    std::map<std::pair<int, int>, int> last;  // by phase and queue
    for (size_t a = 0; a < program.actors.size(); ++a) {
      const ir::Actor& actor = program.actors[a];
      const auto [found, first] = last.try_emplace({actor.phase, actor.queue}, -1);
      before[a] = found->second;
      if (found->second >= 0) at(after, found->second) = static_cast<int>(a);
      found->second = static_cast<int>(a);
    }
  }
  std::vector<int> before, after;
};

// The gather of a product's rows that begins when the act before the product has ended; -1: none.
int gather_of(const ir::Program& program, size_t product, int before) {
  const ir::Input& rows = program.actors[product].inputs.at(0);
  if (rows.program >= 0 || before < 0) return -1;
  const int gather = at(program.registers, rows.reg).producer;
  if (gather < 0 || !is_exchange(at(program.actors, gather), sbp::Collective::all_gather)) return -1;
  return reads_from(program, at(program.actors, gather), static_cast<size_t>(before)) ? gather : -1;
}

// The reduce-scatter of a product's result that the act after the product waits for; -1: none.
int scatter_of(const ir::Program& program, size_t product, int after) {
  if (after < 0) return -1;
  for (const ir::Input& input : at(program.actors, after).inputs) {
    if (input.program >= 0) continue;
    const int scatter = at(program.registers, input.reg).producer;
    if (scatter >= 0 && is_exchange(at(program.actors, scatter), sbp::Collective::reduce_scatter) &&
        reads_from(program, at(program.actors, scatter), product))
      return scatter;
  }
  return -1;
}

}  // namespace

void add_product_rings(const ir::Program& program, KernelRings& rings) {
  const Neighbours neighbours(program);
  for (size_t a = 0; a < program.actors.size(); ++a) {
    if (!is_product_of_rows(program.actors[a])) continue;
    const int gather = gather_of(program, a, neighbours.before[a]),
              scatter = scatter_of(program, a, neighbours.after[a]);
    const int exchange = gather >= 0 ? gather : scatter;
    if (exchange < 0 || at(rings.of_actor, exchange) >= 0) continue;
    rings.add({a, {static_cast<size_t>(exchange)}, at(program.actors, exchange).comm});
  }
}

double chunk_sum_seconds(const backends::DeviceProfile& device, int ranks, const ir::TensorType& chunk) {
  const ir::OpDef& sum = ir::op("sum");
  return kernel_seconds(device, sum, ir::Types(static_cast<size_t>(ranks), chunk), {chunk},
                        ir::complete(sum, {}));
}

void take_chunk(int ranks, ir::Types& inputs, ir::Types& outputs) {
  const ir::Shape whole = outputs.at(0).shape;
  const auto cut = [&](ir::TensorType& type) {
    int64_t& rows = type.shape.at(type.shape.size() - 2);
    rows = (rows + ranks - 1) / ranks;
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (i == 0 || (i > 1 && inputs[i].shape == whole))
      cut(inputs[i]);  // what an epilogue adds has the result's rows
  for (ir::TensorType& type : outputs)
    if (type.shape == whole) cut(type);
}

}  // namespace boxcar::sim
