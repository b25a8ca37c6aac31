// Law 3 against mistakes of every kind: a plan that differs in one thing from the compiled one is refused by
// name, or it runs. An accepted plan ends under every drawn order of messages, never writes memory in use,
// and leaves the same numbers in every order; they are the good plan's numbers if no number depends on that
// kind of mistake. (A changed attribute or operand makes another program, and only its author knows whether
// that was intended.)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <ostream>
#include <set>
#include <utility>
#include <vector>

#include "backends/random.h"
#include "mutations.h"
#include "plan_runner.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "small_jobs.h"
#include "support/chaos.h"

namespace boxcar::planner {
namespace {

struct Case {
  const char* name;
  std::function<void(Job&)> change;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

void llama(Job& j) {
  j.model->family = "llama", j.model->bias = j.model->tied = false, j.model->kv_heads = 2, j.model->ffn = 24;
}

const Case cases[] = {
    {"dp", [](Job& j) { j.parallel.dp = 2; }},
    {"tp", [](Job& j) { j.parallel.tp = 2; }},
    {"pp_tied", [](Job& j) { j.parallel.pp = 2, j.model->layers = 2, j.model->tied = true; }},
    {"interleaved",
     [](Job& j) { llama(j), j.parallel.pp = 2, j.parallel.virtual_stages = 2, j.model->layers = 4; }},
    {"zero1", [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 1; }},
    {"zero2", [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 2; }},
    {"zero3", [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 3; }},
    {"context_parallel", [](Job& j) { llama(j), j.parallel.cp = 2; }},
    {"experts",
     [](Job& j) { llama(j), j.model->experts = 2, j.model->top_k = 1, j.parallel.dp = j.parallel.ep = 2; }},
    {"no_clip", [](Job& j) { j.parallel.dp = 2, j.train.clip_norm = 0; }},
    {"zb_h1", [](Job& j) { j.parallel.pp = 2, j.model->layers = 2, j.parallel.schedule = Schedule::zb_h1; }},
    {"hybrid",
     [](Job& j) {
       j.parallel.dp = j.parallel.tp = j.parallel.pp = 2, j.model->layers = 2, j.model->tied = true;
       j.model->vocab = 10, j.model->pad_vocab_to = 1, j.parallel.zero = 1;
     }},
    {"offloaded", [](Job& j) { j.model->layers = 3, j.parallel.offload_activations = true; }},
    {"updated_on_host",
     [](Job& j) { j.train.precision = ir::Precision::bf16, j.parallel.offload_optimizer = true; }},
    {"servers", [](Job& j) { j.parallel.dp = j.parallel.servers = 2; }},
    {"servers_add_up",
     [](Job& j) { j.parallel.dp = j.parallel.servers = 2, j.parallel.servers_update = false; }},
    {"unet", [](Job& j) { j.model = ir::models::ConvNet{"unet", 3, 2, 1, 4, 3}, j.parallel.pp = 2; }},
};

ir::Plan compiled(const Case& c) {
  Job job = small_job(1, 1, 1, 1);
  job.model->hidden = 8, job.model->heads = 2, job.model->seq = 4, job.model->vocab = 16,
  job.model->dropout = 0.1;
  job.parallel.dp = 1;
  c.change(job);
  const Hints& h = job.parallel;
  job.gpus = h.dp * h.tp * h.pp * h.cp;
  job.global_batch = int64_t{2} * h.dp;
  return compile(resolve(job));
}

// A register's value before the step, or the value that an act loads: small and positive, token numbers for
// indices.
class Sources {
 public:
  explicit Sources(const ir::Plan& plan) : plan_(plan) {}

  HostTensor operator()(const ir::Register& reg, int p, int device) {
    const ir::Program& program = at(plan_.programs, p);
    const ir::Actor& producer = at(program.actors, reg.producer);
    uint64_t hash = backends::mix(static_cast<uint64_t>(device));
    if (producer.op == "load") hash = backends::mix(hash + micro_batch(program, reg, producer.phase, device));
    for (const char c : reg.name) hash = backends::mix(hash ^ static_cast<uint64_t>(c));
    HostTensor value = backends::cpu::zeros(reg.type);
    for (size_t i = 0; i < value.data.size(); ++i) {
      const uint64_t drawn = backends::mix(hash ^ i);
      value.data[i] = ir::is_float(reg.type.dtype) ? 0.1 + 0.4 * static_cast<double>(drawn >> 40) * 0x1p-24
                                                   : static_cast<double>(drawn % 10);
    }
    return value;
  }

 private:
  // The micro-batch of this load, and its step: a phase's loads come in order.
  uint64_t micro_batch(const ir::Program& program, const ir::Register& reg, int phase, int device) {
    std::vector<uint64_t> runs;
    for (const ir::PhaseRun& run : program.schedule)
      if (run.phase == phase) runs.push_back(static_cast<uint64_t>(run.micro_batch));
    const size_t act = acts_[{device, reg.name}]++;
    return act / runs.size() * 1000 + runs[act % runs.size()];
  }

  const ir::Plan& plan_;
  std::map<std::pair<int, std::string>, size_t> acts_;
};

constexpr int steps = 2;

// Values of all registers after some steps, by device and name.
using Numbers = std::map<std::pair<int, std::string>, HostTensor>;
struct Run {
  std::string fault;  // empty: none
  Numbers numbers;
};

Run run(const ir::Plan& plan, unsigned seed) {
  Run result;
  try {
    support::Chaos chaos(plan, seed);
    PlanRunner runner(plan, Sources(plan));
    chaos.ended = [&](int device, int actor) { runner.act(device, actor); };
    if (!chaos.steps(steps)) return {"hangs", {}};
    if (!chaos.overlap().empty()) return {"writes " + chaos.overlap(), {}};
    for (int d = 0; d < plan.devices; ++d) {
      const auto& registers = at(plan.programs, runner.program_of(d)).registers;
      for (size_t r = 0; r < registers.size(); ++r)
        if (const HostTensor* value = runner.value_after(steps, static_cast<int>(r), d);
            value && !ir::is_control(registers[r]))
          result.numbers[{d, registers[r].name}] = *value;
    }
  } catch (const std::exception& error) {
    result.fault = fmt::format("throws {}", error.what());
  }
  return result;
}

// The first register of both runs whose numbers differ: exactly (`exact`), or beyond rounding.
std::string difference(const Numbers& a, const Numbers& b, bool exact) {
  for (const auto& [place, value] : a) {
    const auto found = b.find(place);
    if (found == b.end()) continue;
    const std::string where = fmt::format("%{} on device {}", place.second, place.first);
    if (value.data.size() != found->second.data.size()) return where + " in size";
    for (size_t i = 0; i < value.data.size(); ++i) {
      const double x = value.data[i], y = found->second.data[i];
      const double allowed = exact ? 0 : 1e-9 * std::max(1.0, std::abs(x));
      if (!(std::abs(x - y) <= allowed) && !(std::isnan(x) && std::isnan(y)) && x != y)
        return fmt::format("{} element {}: {} and {}", where, i, x, y);
    }
  }
  return "";
}

// Weights, moments and the loss.
Numbers states(const ir::Plan& plan, const Numbers& all) {
  std::set<std::string> names{"loss"};
  for (const ir::Program& program : plan.programs)
    for (const ir::Register& reg : program.registers)
      if (reg.memory == ir::MemoryKind::parameters || reg.memory == ir::MemoryKind::optimizer)
        names.insert(reg.name);
  Numbers result;
  for (const auto& [place, value] : all)
    if (names.contains(place.second)) result.insert({place, value});
  return result;
}

// Empty: accepted.
std::string refusal(const ir::Plan& plan) {
  try {
    ir::check(plan);
    ir::check_types(plan);
    verify(plan);
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == Exit::bad_input || error.code() == Exit::cannot_run) << error.what();
    return *error.what() ? error.what() : "an error without words";
  }
  return "";
}

// Whether some act's computation is unknown.
bool has_unknown_ops(const ir::Plan& plan) {
  for (const ir::Program& program : plan.programs)
    for (const ir::Actor& actor : program.actors) {
      const bool kernel = actor.kind != ir::ActorKind::collective && actor.kind != ir::ActorKind::pull;
      const bool source = actor.op == "load" || actor.op == "parameter" || actor.op == "constant";
      if (kernel && !source && !ir::has_op(actor.op)) return true;
    }
  return false;
}

class Judge {
 public:
  explicit Judge(ir::Plan good) : good_(std::move(good)) {
    const std::string why = refusal(good_);
    EXPECT_EQ(why, "");
    const Run first = run(good_, 1);
    EXPECT_EQ(first.fault, "");
    numbers_ = states(good_, first.numbers);
    EXPECT_FALSE(numbers_.empty());
  }

  const ir::Plan& good() const { return good_; }

  // Empty: refused or harmless.
  std::string hole(const ir::Plan& plan, bool keeps_numbers, unsigned seed) {
    if (!refusal(plan).empty()) {
      ++refused;
      return "";
    }
    ++accepted;
    if (has_unknown_ops(plan)) return "";
    const Run first = run(plan, seed);
    if (!first.fault.empty()) return first.fault;
    for (unsigned order = 1; order < 3; ++order) {
      const Run again = run(plan, seed + 1000 * order);
      if (!again.fault.empty()) return again.fault;
      if (std::string other = difference(first.numbers, again.numbers, true); !other.empty())
        return "differs from order to order: " + other;
    }
    if (keeps_numbers) {
      if (std::string other = difference(numbers_, first.numbers, false); !other.empty())
        return "is not the good plan's: " + other;
    }
    return "";
  }

  int refused = 0, accepted = 0;

 private:
  ir::Plan good_;
  Numbers numbers_;
};

class Mutants : public testing::TestWithParam<Case> {};

// Every kind of mistake `each` times.
void check_mutants(const Case& c, unsigned first, unsigned each) {
  Judge judge(compiled(c));
  for (const Mutation& kind : mutations())
    for (unsigned seed = first; seed < first + each; ++seed) {
      Random random(seed * 7919 + static_cast<unsigned>(&kind - mutations().data()));
      ir::Plan plan = judge.good();
      bool changed = false;
      for (int tries = 0; tries < 20 && !changed; ++tries) changed = kind.change(plan, random);
      if (!changed) continue;
      const std::string hole = judge.hole(plan, kind.keeps_numbers, seed);
      EXPECT_EQ(hole, "") << c.name << ": " << kind.name << ", seed " << seed;
    }
  EXPECT_GT(judge.refused, 0);
  EXPECT_GT(judge.accepted, 0);
  testing::Test::RecordProperty("refused", judge.refused);
  testing::Test::RecordProperty("accepted", judge.accepted);
}

void check_texts(const Case& c, unsigned first, unsigned rounds) {
  Judge judge(compiled(c));
  const std::string text = ir::to_text(judge.good());
  for (unsigned seed = first; seed < first + rounds; ++seed) {
    Random random(seed);
    ir::Plan plan;
    try {
      plan = ir::parse_plan(mutated_text(text, random));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Exit::bad_input) << error.what();
      continue;
    }
    EXPECT_EQ(judge.hole(plan, false, seed), "") << c.name << ": text, seed " << seed;
  }
}

TEST_P(Mutants, AreRefusedOrHarmless) { check_mutants(GetParam(), 1, 1); }
TEST_P(Mutants, LongAreRefusedOrHarmless) { check_mutants(GetParam(), 1001, 40); }
TEST_P(Mutants, OfTheTextAreRefusedOrHarmless) { check_texts(GetParam(), 1, 30); }
TEST_P(Mutants, LongOfTheTextAreRefusedOrHarmless) { check_texts(GetParam(), 1001, 1500); }

INSTANTIATE_TEST_SUITE_P(Jobs, Mutants, testing::ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace boxcar::planner
