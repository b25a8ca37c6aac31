// The acts of a simulation's last step, by class and actor, and the contents of its registers meanwhile.
//
//   Options options; options.timeline = true;
//   const Result result = simulate(plan, cluster, options);
//   const StepTimeline timeline(plan, result);
//   timeline.classes()[0].last[2]      the acts of actor 2 on the first class's device in that step
//
// Times are seconds of the simulation's clock. A trace and a report are drawn from it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ir/plan.h"
#include "sim/simulate.h"

namespace boxcar::sim {

// Every act of one class, and the number of acts in a step.
struct ClassTimeline {
  const ir::Program* program = nullptr;
  std::vector<std::span<const Act>> acts;  // by actor and index
  std::vector<std::span<const Act>> last;  // of the last step
  std::vector<int> per_step;               // acts of each actor in one step
};

// Bytes in registers, by kind of memory.
using HeldBytes = std::array<int64_t, ir::memory_kinds>;

class StepTimeline {
 public:
  // Both outlive it. `result` has a timeline.
  StepTimeline(const ir::Plan& plan, const Result& result);

  const std::vector<ClassTimeline>& classes() const { return classes_; }  // as of the result
  // Whether the acts of a class were kept (Options::timeline_acts).
  bool kept(size_t cls) const;
  bool all_kept() const { return all_kept_; }
  double begin() const { return begin_; }  // of the last step
  double end() const { return end_; }
  // Acts of the last step that run ahead (loads, gathers) may begin before the previous step ends.
  double first_start() const;
  bool in_last_step(size_t cls, const Act& act) const;

  // The class and register that an input of an actor of class `cls` reads.
  struct Source {
    size_t cls = 0;
    const ir::Register* reg = nullptr;
  };
  Source source_of(size_t cls, const ir::Input& input) const;
  // The class that members of `cls` pull from by these peers; -1: none.
  int peer_class(size_t cls, const ir::Peers& peers) const;
  // The act that published the slot read by a reader's act `index`; nullptr if the slot was there from the
  // start.
  const Act* writer_of(const Source& source, const ir::Input& input, int index) const;

  // Calls `held` for each slot of each register of a class with its interval: from the start of the act that
  // first writes it to the end of the last act that reads it. `for_later`: only acts after the last step will
  // read it, and `to` is the end of the act that wrote it.
  using Held = std::function<void(const ir::Register& reg, double from, double to, bool for_later)>;
  void each_holding(size_t cls, const Held& held) const;

  // Bytes that one device of the class holds, in each of `windows` equal parts of the last step, at the peak
  // of that part. States that are updated in place are held throughout.
  std::vector<HeldBytes> held_over_time(size_t cls, int windows) const;

 private:
  const ir::Plan& plan_;
  const Result& result_;
  std::vector<ClassTimeline> classes_;
  std::vector<int> class_of_;  // by device
  int steps_ = 0;
  double begin_ = 0, end_ = 0;
  bool all_kept_ = true;
};

// Whether an actor updates this input in place: it reads the value that its own previous act left there.
bool is_own(const ir::Actor& actor, const ir::Input& input);

}  // namespace boxcar::sim
