// Exchanges between the hosts of parameter servers (servers.h) as actors. A rank pulls from the same rank of
// every other server, on a queue for each: all at once, so that no server waits while others are busy.
// Kernels of the host join what arrives, in the order of the servers.
//
//   server 1 of 3, a push:  w.grad.slice, w.grad.push2, w.grad.push0, then w.grad.sum of 0, 1 and 2
//                a pull:    w.pull2, w.pull0, then w.concat
#pragma once

#include "planner/lowering/emit.h"
#include "planner/lowering/registers.h"

namespace boxcar::planner {

class ExchangeEmitter {
 public:
  ExchangeEmitter(const Stage& stage, const StageTasks& tasks, StageProgram& out, Registers& registers,
                  Names& actor_names);

  void emit(const Task& task);

 private:
  void push(const Task& task, const Boxed& boxed);
  void pull(const Task& task, const Boxed& boxed);
  // What this rank pulls from the server `offset` places on, as a value of this type.
  Held pulled(const Task& task, const Boxed& boxed, int offset, ir::TensorType type, ir::Attrs block);
  ir::Actor kernel(const Task& task, const Boxed& boxed, const char* op, ir::Attrs attrs);
  int place(int server) const { return stage_.places[0] + (server - own_) * stride_; }
  ir::TensorType type_at(const Boxed& boxed, const sbp::NdSbp& layout, int place) const;

  const Stage& stage_;
  const StageTasks& tasks_;
  StageProgram& out_;
  Registers& registers_;
  Names& names_;
  int servers_ = 1, stride_ = 1, own_ = 0;
};

}  // namespace boxcar::planner
