#include "planner/lowering/passes.h"

#include <fmt/format.h>

#include <utility>

#include "planner/lowering/boxing.h"
#include "planner/lowering/gradients.h"
#include "planner/lowering/host_updates.h"
#include "planner/lowering/offload.h"
#include "planner/lowering/order.h"
#include "planner/lowering/overlap.h"
#include "planner/lowering/servers.h"
#include "planner/lowering/states.h"
#include "sbp/error.h"

namespace boxcar::planner {

namespace {

struct Pass {
  const char* name;
  void (*run)(const Stage&, StageTasks&);
  void (*check)(const Stage&, const StageTasks&);
};
constexpr Pass passes[] = {{"shard_states", shard_states, check_states},
                           {"order_ops", order_ops, check_order},
                           {"reduce_gradients", reduce_gradients, check_gradients},
                           {"insert_boxing", insert_boxing, check_boxing},
                           {"offload", offload, check_offload},
                           {"serve", serve, check_servers},
                           {"update_on_host", update_on_host, check_host_updates},
                           {"overlap", overlap, check_overlap}};

}  // namespace

StageProgram lower_stage(const LoweringInput& input, int index, std::vector<int> places, std::string name) {
  const Stage stage(input, index, std::move(places), std::move(name));
  StageTasks tasks;
  for (const Pass& pass : passes) {
    pass.run(stage, tasks);
    try {
      pass.check(stage, tasks);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("after pass {}", pass.name), error.what());
    }
  }
  return emit(stage, tasks);
}

}  // namespace boxcar::planner
