// Registers of one program, by value: their local types and names, and the register in which readers find
// each value.
//
//   Registers registers(stage, tasks, builder);
//   registers.make_for(v);             // "h0.ln2", float16[1, 16, 64] on this rank
//   registers.held(v)                  // {register, the shape that readers see, -1}
//   registers.add_inputs(actor, {v});  // an input, with a view if the register has another shape
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "planner/lowering/stage.h"
#include "planner/lowering/tasks.h"
#include "planner/program_builder.h"
#include "sbp/at.h"

namespace boxcar::planner {

// Shapes with layouts that do not cut them evenly, so that ranks hold parts of different sizes.
using UnevenParts = std::set<std::pair<sbp::Shape, sbp::NdSbp>>;
bool is_even(const sbp::Shape& shape, const sbp::NdSbp& layout, const Mesh& mesh);

// Names of one kind in a program: "slice", then "slice.2".
class Names {
 public:
  std::string unique(const std::string& name);

 private:
  std::unordered_map<std::string, int> counts_;
};

// A value as its readers see it.
struct Held {
  int reg = -1;
  sbp::Shape shape;
  int ready = -1;  // control register: the value is overwritten in place, and complete once this is ready
};

class Registers {
 public:
  Registers(const Stage& stage, const StageTasks& tasks, ProgramBuilder& builder);

  const Held& held(ValueId v) const { return at(held_, v); }
  void set(ValueId v, Held held) { at(held_, v) = std::move(held); }
  // Records that the value is in this register, in its own shape.
  void set(ValueId v, int reg, int ready = -1);
  int make_for(ValueId v);
  int make(ir::TensorId t, const sbp::NdSbp& layout, const std::string& suffix);
  int make_on_host(ir::TensorId t, const ir::TensorType& type, const std::string& suffix);
  int make_control(const std::string& actor);
  // The register for a copy of what `source` holds. A new one has as many bytes.
  int copy_to(ValueId v, int source);
  ir::TensorType local_type(ir::TensorId t, const sbp::NdSbp& layout);

  void add_inputs(ir::Actor& actor, const std::vector<ValueId>& values) const;
  // Adds operands first, then the control registers that show that they are complete.
  void add_inputs(ir::Actor& actor, const std::vector<Held>& operands) const;
  // Writes over another value's register, into one that exists from the start, or into a new one.
  void add_outputs(ir::Actor& actor, const std::vector<ValueId>& values);

  UnevenParts uneven;  // shapes treated as equal on all ranks of the class

 private:
  const Value& value(ValueId v) const { return at(tasks_.values, v); }
  void place(ValueId v);
  double kept_beside(ir::TensorId t, const std::string& suffix) const;

  const Stage& stage_;
  const StageTasks& tasks_;
  ProgramBuilder& builder_;
  std::vector<Held> held_;  // by value
  Names names_;
};

}  // namespace boxcar::planner
