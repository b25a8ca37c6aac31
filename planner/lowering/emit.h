// The last step of lowering: tasks as the actors of one program, with local shapes, registers, names, queues
// and communicators.
//
//   task                                     actors                   registers
//   kernel F0 fc1, reads 2 1, writes 3       fc1                      fc1
//   box F0 {ln2: S(1) -> B}                  ln2.all_gather           ln2.all_gather
//   box G {w.grad.sum, b.grad.sum: P -> B}   gradients.all_reduce     gradients.all_reduce.done, of no bytes:
//                                                                     gradients are reduced in place
//   pull F1 h3.out                           h3.out.pull, and a link  h3.out
//
// A link names the tensor that a pull reads, because the register of another stage's program is not known
// yet. Rates, credits and initial tokens follow from the readers of each register and their phases
// (ProgramBuilder::finish).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/lowering/registers.h"
#include "planner/program_builder.h"

namespace boxcar::planner {

// A pull whose producer's register is not known yet.
struct Link {
  int actor = 0;
  ir::TensorId tensor = -1;
  int stage = 0;             // the producer's
  std::string source_queue;  // on which the pull takes a turn; empty: none
  ValueId value = -1;        // of an exchange between hosts: what it pulls, and the place of the producer
  int place = -1;            // for the first rank of the class
};

struct StageProgram {
  ProgramBuilder builder;  // not finished: other programs may read its registers
  std::vector<Link> links;
  std::vector<int> sent;             // by tensor: the register that other stages pull, -1
  std::map<ValueId, int> exchanged;  // registers that other hosts pull
  UnevenParts uneven;                // shapes treated as equal on all ranks of the class
};

StageProgram emit(const Stage& stage, const StageTasks& tasks);

}  // namespace boxcar::planner
