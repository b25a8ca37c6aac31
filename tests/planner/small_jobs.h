// Small training jobs, and short text of a plan's communication.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <initializer_list>
#include <ostream>
#include <random>
#include <string>

#include "ir/plan.h"
#include "planner/planner.h"
#include "sbp/at.h"

namespace boxcar::planner {

inline ir::models::Transformer small_model(int layers) {
  ir::models::Transformer m = ir::models::defaults("gpt");
  m.layers = layers, m.hidden = 16, m.heads = 4, m.seq = 8, m.vocab = 64, m.pad_vocab_to = 8;
  return m;
}

// A job on dp x tp x pp GPUs with `micro_batches` micro-batches.
inline Job small_job(int dp, int tp, int pp, int layers = 1, int micro_batches = 1) {
  Job job;
  job.model = small_model(layers);
  job.gpus = dp * tp * pp;
  job.parallel.dp = dp, job.parallel.tp = tp, job.parallel.pp = pp;
  job.global_batch = int64_t{dp} * micro_batches;
  return job;
}

// A change to a job, by name.
struct NamedChange {
  const char* name;
  std::function<void(Job&)> change;
};
inline std::ostream& operator<<(std::ostream& out, const NamedChange& layout) { return out << layout.name; }

template <typename T>
T pick(std::mt19937& random, std::initializer_list<T> from) {
  return *(from.begin() + std::uniform_int_distribution<size_t>(0, from.size() - 1)(random));
}

// One line per act of communication in a phase: "h0.attn.proj.all_reduce tp 256". Copies from the host are
// left out.
inline std::string communication(const ir::Plan& plan, size_t program, const std::string& phase) {
  const ir::Program& p = plan.programs[program];
  std::string result;
  for (const ir::Actor& actor : p.actors) {
    if (p.phase_of(actor).name != phase) continue;
    if (actor.kind == ir::ActorKind::collective)
      result += fmt::format("{} {} {}\n", actor.name, at(plan.comms, actor.comm).name, actor.comm_bytes);
    if (actor.kind == ir::ActorKind::pull) result += fmt::format("{} {}\n", actor.name, actor.comm_bytes);
  }
  return result;
}

inline const ir::Register* find_register(const ir::Program& program, const std::string& name) {
  for (const ir::Register& reg : program.registers)
    if (reg.name == name) return &reg;
  return nullptr;
}

}  // namespace boxcar::planner
