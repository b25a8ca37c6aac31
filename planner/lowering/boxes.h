// Boxes as actors: the collectives and local steps of their routes, all tensors of a bucket in one
// collective.
//
//   {w.grad, b.grad: P -> S(0) on dp}       one reduce-scatter of two operands
//   {x: B -> S(0) on tp}                    a slice on each rank
//   {x: (S(0), S(1)) -> B on (dp, tp)}      two all-gathers; between them the value has its own register
#pragma once

#include "planner/lowering/registers.h"

namespace boxcar::planner {

// Where a rank's part in layout `to` lies in its part in layout `from`: attributes of a slice.
ir::Attrs slice_attrs(const Stage& stage, const sbp::Shape& shape, const sbp::NdSbp& from,
                      const sbp::NdSbp& to);

class BoxEmitter {
 public:
  BoxEmitter(const Stage& stage, const StageTasks& tasks, ProgramBuilder& builder, Registers& registers,
             Names& actor_names)
      : stage_(stage), tasks_(tasks), builder_(builder), registers_(registers), names_(actor_names) {}

  void emit(const Task& task);

 private:
  // The present state of a tensor of a bucket on its route.
  struct Moving {
    sbp::NdSbp layout;
    Held held;
  };
  using Routes = std::vector<const sbp::MeshRoute*>;

  void emit_bucket(const Task& task, const Bucket& bucket);
  void emit_collective(const Task& task, const Bucket& bucket, const Routes& routes, size_t step,
                       std::vector<Moving>& now);
  ir::Actor collective(const Task& task, const Routes& routes, size_t step);
  Moving emit_local_step(const Task& task, const Boxed& boxed, const sbp::MeshRoute& route, size_t step,
                         const Moving& from);
  int step_register(const Boxed& boxed, const sbp::MeshRoute& route, size_t step, const std::string& suffix);

  const Stage& stage_;
  const StageTasks& tasks_;
  ProgramBuilder& builder_;
  Registers& registers_;
  Names& names_;
};

}  // namespace boxcar::planner
