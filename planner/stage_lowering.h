// Lowers what one class of ranks of one pipeline stage does into a program: local shapes, kernels, boxing,
// pulls.
//
// A tensor has values on a rank: registers that hold it in one layout. Its *stored* layout is the one it is
// produced in, or pinned to. Who wants another one gets a boxing op, made once and shared:
// - out of a partial value, or as small as what it is made of (as context parallelism exchanges heads for
//   sequence): for all readers of the step;
// - of state: once per step, after the update;
// - else: once in the forward pass of a chunk and again in its backward pass,
//   so that nothing gathered is kept (as Megatron's sequence parallelism
//   and ZeRO-3 do it); the second time one kernel ahead of its reader.
//
//   compute:  gelu.grad | fc1.grad_x         | fc1.grad_w          | ln2.grad
//   net.tp:               ln2.all_gather.2     ln2.grad.reduce_scatter
//
// A reshape is no kernel: its readers see the same register in another shape.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "planner/comms.h"
#include "planner/deduce.h"
#include "planner/local_attrs.h"
#include "planner/program_builder.h"
#include "planner/routes.h"
#include "planner/sharding.h"
#include "planner/stages.h"

namespace boxcar::planner {

// Gradients of a parameter's replicas, the parameter's own first: summed between their stages.
struct TiedGradient {
  std::vector<ir::TensorId> gradients = {};
  std::vector<int> stages = {};
};

struct LoweringInput {
  const ir::Graph& graph;
  const Hints& hints;
  Sharding sharding;
  const Mesh& mesh;
  const Pipeline& pipeline;
  const std::vector<OpSite>& sites;
  const Pins& pins;
  const Deduction& layouts;
  const std::vector<std::vector<ir::OpId>>& readers;  // by tensor
  std::vector<TiedGradient> tied;
  CommTable& comms;
  RouteTable& routes;
};

// A pull whose producer's register is not known yet.
struct Link {
  int actor = 0;
  ir::TensorId tensor = -1;
  int stage = 0;  // the producer's
  std::string source_queue;
};

// Shapes in layouts that do not cut them evenly: ranks hold parts of different sizes.
using UnevenParts = std::set<std::pair<sbp::Shape, sbp::NdSbp>>;
bool is_even(const sbp::Shape& shape, const sbp::NdSbp& layout, const Mesh& mesh);

class StageLowering {
 public:
  // `places`: the row-major mesh indices of the ranks of the class; the first stands for all.
  StageLowering(const LoweringInput& input, int stage, std::vector<int> places, std::string name);

  void run();
  int sent_register(ir::TensorId t) const;  // for those who pull it

  ProgramBuilder builder;
  std::vector<Link> links;
  UnevenParts uneven;  // that ranks of the class were taken to have alike

 private:
  struct Value {
    sbp::NdSbp layout;
    int scope = -1;  // the phase that may read it, -1: all
    int reg = -1;
    sbp::Shape shape;  // as its readers see it
    int ready = -1;    // control register: written over in place, whole once this is there
  };
  struct Item {  // one tensor to be boxed
    ir::TensorId t = -1;
    Value from;
    sbp::NdSbp to;
    int out = -1;  // register made beforehand, -1: none
  };
  using Bucket = std::vector<Item>;
  struct Label {  // of collectives: their names begin with `name`
    std::string name;
    int layer = -1;          // ir::Actor::layer
    std::string moves = {};  // ir::Actor::moves
  };

  const ir::Tensor& tensor(ir::TensorId t) const { return in_.graph.tensor(t); }
  const ir::Op& op_of(ir::OpId o) const { return in_.graph.ops[static_cast<size_t>(o)]; }
  const OpSite& site(ir::OpId o) const { return in_.sites[static_cast<size_t>(o)]; }
  const OpLayout& layout(ir::OpId o) const { return in_.layouts.ops[static_cast<size_t>(o)]; }
  const sbp::NdSbp& stored(ir::TensorId t) const { return in_.layouts.stored[static_cast<size_t>(t)]; }
  std::vector<Value>& values(ir::TensorId t) { return values_[static_cast<size_t>(t)]; }
  int phase(ir::OpId o) const;
  int layer(ir::OpId o) const { return in_.graph.in_layer(op_of(o)) ? op_of(o).layer : -1; }
  Label label(ir::TensorId t) const;
  bool here(ir::OpId o) const { return site(o).stage == stage_ || site(o).stage < 0; }

  // state_lowering.cpp: what lives from step to step
  void find_state();
  bool depends_on_state_alone(ir::OpId o) const;
  void declare_state(ir::OpId o);
  void declare_copies(ir::OpId o);
  void after_update(ir::TensorId state, const std::vector<ir::OpId>& made = {});
  void emit_updates();
  void update_together(const std::vector<ir::OpId>& ops);
  ir::OpId cast_of(ir::TensorId state);
  void emit_holder(ir::TensorId t);
  void emit_joint(ir::OpId o);

  // stage_lowering.cpp: kernels and values
  void emit_passes();
  void gather_ahead(ir::OpId next, int in_phase);
  bool read_again(ir::TensorId t, int in_phase) const;
  void hold_back(size_t actor);
  void emit(ir::OpId o);
  void emit_alias(ir::OpId o);
  int emit_kernel(ir::OpId o, int in_phase);
  int add_kernel(ir::Actor actor);
  void add_outputs(ir::OpId o, ir::Actor& actor);
  void box_to_stored(ir::TensorId t, ir::OpId o, const sbp::NdSbp& produced, int in_phase);
  sbp::NdSbp sent(ir::TensorId t) const;
  void cut_for_others(ir::TensorId t, int in_phase);
  int stored_register(ir::TensorId t) const;
  Value value_in(ir::TensorId t, const sbp::NdSbp& want, int in_phase);
  void fetch(ir::TensorId t, int in_phase);
  void load(ir::TensorId t, int in_phase);
  void pull(ir::TensorId t, int in_phase);
  std::string pull_queue(const std::string& name, ir::TensorId t, int in_phase);
  void add_inputs(ir::Actor& actor, const std::vector<Value>& values) const;
  int control_register(const std::string& actor);
  ir::TensorType local_type(ir::TensorId t, const sbp::NdSbp& layout);
  double kept_beside(ir::TensorId t, const std::string& suffix) const;
  int make_register(ir::TensorId t, const sbp::NdSbp& layout, const std::string& suffix);
  static std::string unique(std::unordered_map<std::string, int>& names, const std::string& name);
  std::string actor_name(const std::string& name) { return unique(actor_names_, name); }

  // boxing_lowering.cpp: collectives and local steps between layouts
  Value box(const Item& item, int in_phase);
  std::vector<Value> box_all(const Bucket& bucket, int in_phase, const Label& label);
  Value local_step(const Item& item, const sbp::MeshStep& step, const Value& from, int in_phase, int out);
  int collective_step(const Bucket& bucket, const std::vector<const sbp::MeshRoute*>& routes, size_t step,
                      std::vector<Value>& now, int in_phase, const Label& label);
  std::string bucket_key(const Item& item) const;
  void box_in_buckets(const std::vector<Item>& items, int in_phase, const Label& label, bool split_by_size);
  bool gather_group(ir::TensorId t, int in_phase);

  // gradient_lowering.cpp
  void reduce_gradients();
  void sum_tied(const TiedGradient& tied);
  void flush_layer();
  void order_reduction_after_backward(size_t first_actor);
  void order_forward_after_gathers(size_t first_actor);

  const LoweringInput& in_;
  std::set<std::string> recomputed_;  // ops of which a recomputation follows
  int stage_;
  std::vector<int> places_;
  int64_t place_;
  std::vector<std::vector<Value>> values_;                // by tensor
  std::vector<ir::TensorId> state_of_next_;               // by tensor: the state that it becomes, -1
  std::vector<bool> from_state_;                          // by tensor
  std::map<ir::TensorId, std::vector<ir::OpId>> copies_;  // by state: ops that depend on state alone
  std::vector<Item> step_gathers_;  // of state: once per step, by the time they are ready
  std::vector<Item> reductions_;    // of gradients, once per step
  // zero 2 and 3: reduced every micro-batch, a layer at a time, and added up a layer later
  std::vector<Item> layer_reductions_;
  std::vector<ir::OpId> layer_sums_, late_sums_;
  // ... or, where one micro-batch leaves nothing to add up, waited for a layer later: collectives of the last
  // layer, and those that the next kernel waits for, so that their gradients' memory is free
  std::vector<int> layer_reduced_, awaited_;
  std::pair<int, int> at_layer_{-1, -1};  // phase and layer of the op before
  // zero 3: parameters gathered together, by (phase, layer); by phase: the kernel that first read the last
  // group
  std::map<std::pair<int, int>, std::vector<ir::TensorId>> groups_;
  std::map<int, int> first_reader_;
  // By queue and phase: the producer of what was pulled last.
  std::map<std::pair<std::string, int>, ir::OpId> last_pulled_;
  std::map<int, bool> waiting_for_reader_;
  std::unordered_map<std::string, int> actor_names_, register_names_;
};

}  // namespace boxcar::planner
