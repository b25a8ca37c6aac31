#include "experiments/search/table_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "planner/solve/stages.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::measured {
namespace {

constexpr int most_stages = 16, most_splits = 2;

bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

// Properties of ops that the tables' planner knows by name.
struct Kind {
  bool begins = false;  // a layer, whose input is kept when it is recomputed
  bool fixed = false;   // never recomputed
  bool tuned = false;   // may have other degrees than the op before it
  double kept = 1;      // times the table's value: not 1 for ops that share memory with the next
};

Kind kind_of(const std::string& name) {
  Kind kind;
  kind.begins = name == "enc-1st-layernorm" || has(name, "-conv1");
  kind.fixed = name == "encoder-embedding" || name == "gpt-post-process" || name == "conv1";
  kind.tuned = has(name, "conv") || has(name, "-downsample");
  if (name == "enc-attention-dropout") kind.kept = 1.5;
  if (name == "enc-attention-softmax" || name == "bn1" || has(name, "-bn3") ||
      (has(name, "-downsample") && !has(name, "0-0")))
    kind.kept = 0;
  return kind;
}

std::vector<Kind> kinds_of(const OpTable& table) {
  std::vector<Kind> kinds;
  for (const std::string& name : table.names()) kinds.push_back(kind_of(name));
  return kinds;
}

// Effect of recomputing some ops: MB freed of each micro-batch, and the most that is held at once.
struct Freed {
  double megabytes = 0, peak = 0;
};

template <typename Kept, typename Begins, typename Again>
Freed freed(int count, const Kept& kept, const Begins& begins, const Again& recomputed) {
  Freed result;
  double held = 0;
  for (int i = 0; i + 1 < count; ++i) {
    const bool both = recomputed(i) && recomputed(i + 1);
    if (both && !begins(i + 1)) result.megabytes += kept(i);
    if (both) held += kept(i);
    result.peak = std::max(result.peak, held);
    if (!both || begins(i + 1)) held = 0;
  }
  return result;
}

// Whole values in place of parts of a batch, so forward; in the backward pass, the other way round.
double other_degrees(const Links& links, const OpCost& cost, int tp_before, int tp) {
  if (tp_before == tp) return 0;
  return links.gather_seconds(cost.input, std::max(tp, tp_before) / std::min(tp, tp_before));
}

class Judge {
 public:
  Judge(const Task& task, const Links& links)
      : task_(task), links_(links), kinds_(kinds_of(*task.model.table)) {}

  Judged run(const Plan& plan) const {
    Judged result;
    double slowest = 0, sum = 0;
    int before = 0;
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      const Stage& stage = plan.stages[s];
      const bool from_other = before > 0 && before % task_.node_gpus == 0;
      before += stage.devices;
      const double seconds = seconds_of(stage, plan.samples, from_other, before % task_.node_gpus == 0);
      slowest = std::max(slowest, seconds);
      sum += seconds;
      result.memory.push_back(memory_of(stage, plan.samples, static_cast<int>(plan.stages.size() - s)));
    }
    result.seconds = slowest * (task_.global_batch / plan.samples - 1) + sum;
    return result;
  }

 private:
  const OpCost& cost(const Stage& stage, int samples, int i) const {
    const int op = at(task_.model.ops, stage.first + i);
    const int split = at(stage.split, i), tp = at(stage.tp, i), here = samples * tp / stage.devices;
    const OpCost* found = task_.model.table->find(op, here, tp, split);
    if (found == nullptr)
      throw Error::input(at(task_.model.table->names(), op),
                         fmt::format("was not measured with {} samples, tp {}, split {}", here, tp, split));
    return *found;
  }

  double seconds_of(const Stage& stage, int samples, bool from_other, bool to_other) const {
    const int count = stage.last - stage.first;
    double seconds = links_.seconds(cost(stage, samples, 0).input, from_other) +
                     links_.seconds(cost(stage, samples, count - 1).output, to_other);
    for (int i = 0; i < count; ++i) {
      const OpCost& op = cost(stage, samples, i);
      seconds += op.forward + op.backward + (at(stage.recomputed, i) != 0 ? op.forward : 0);
      if (i > 0) seconds += other_degrees(links_, op, at(stage.tp, i - 1), at(stage.tp, i));
    }
    return seconds;
  }

  double memory_of(const Stage& stage, int samples, int in_flight) const {
    const int count = stage.last - stage.first;
    const auto kind = [&](int i) { return at(kinds_, at(task_.model.ops, stage.first + i)); };
    const auto kept = [&](int i) { return kind(i).kept * cost(stage, samples, i).kept; };
    double weights = 0, all = cost(stage, samples, 0).input, forward = 0, backward = 0;
    for (int i = 0; i < count; ++i) {
      const OpCost& op = cost(stage, samples, i);
      weights += op.weights;
      all += kept(i);
      if (i + 1 == count) break;
      forward = std::max(forward, op.reserved_forward);
      backward = std::max(backward, op.reserved_backward);
    }
    const Freed recomputed = freed(
        count, kept, [&](int i) { return kind(i).begins; },
        [&](int i) { return at(stage.recomputed, i) != 0; });
    return task_.model.states * weights + std::max(forward + backward, weights) + recomputed.peak +
           (all - recomputed.megabytes) * in_flight;
  }

  const Task& task_;
  const Links& links_;
  std::vector<Kind> kinds_;
};

// --- the search

// Some recomputed ops of a layer, and the effect.
struct Pattern {
  std::vector<char> recomputed;
  double seconds = 0;
  Freed freed;
};
using Patterns = std::vector<Pattern>;  // from none on: more and more is freed, at a growing price

// The whole model on this many devices, its degrees and splits chosen by one rule.
struct Chain {
  int devices = 1;
  std::vector<int> tp, split;        // by op
  std::vector<const OpCost*> costs;  // by op
  friend bool operator==(const Chain&, const Chain&) = default;
};

// The best pattern of `count` ops from `first` for every price of a MB.
Patterns patterns_of(const Chain& chain, const Model& model, const std::vector<Kind>& kinds, int first,
                     int count) {
  const auto kind = [&](int i) { return at(kinds, at(model.ops, first + i)); };
  const auto kept = [&](int i) { return kind(i).kept * at(chain.costs, first + i)->kept; };
  Patterns patterns{{std::vector<char>(static_cast<size_t>(count)), 0, {}}};
  for (double price = 1e-8; price < 1; price *= 1.3) {
    // By op and whether it is recomputed: the least of seconds less the worth of its savings.
    std::vector<std::pair<double, double>> least(static_cast<size_t>(count));  // once, again
    std::vector<char> came(static_cast<size_t>(count) * 2);
    for (int i = 0; i < count; ++i) {
      const double seconds =
          kind(i).fixed ? std::numeric_limits<double>::infinity() : at(chain.costs, first + i)->forward;
      if (i == 0) {
        least[0] = {0, seconds};
        continue;
      }
      const auto [once, recomputed] = at(least, i - 1);
      const double both = recomputed - price * kept(i - 1);
      came[static_cast<size_t>(i) * 2] = recomputed < once;
      came[static_cast<size_t>(i) * 2 + 1] = both < once;
      at(least, i) = {std::min(once, recomputed), std::min(once, both) + seconds};
    }
    Pattern pattern{std::vector<char>(static_cast<size_t>(count)), 0, {}};
    char recomputed = at(least, count - 1).second < at(least, count - 1).first;
    for (int i = count - 1; i >= 0; --i) {
      at(pattern.recomputed, i) = recomputed;
      if (recomputed != 0) pattern.seconds += at(chain.costs, first + i)->forward;
      recomputed = came[static_cast<size_t>(i) * 2 + static_cast<size_t>(recomputed)];
    }
    pattern.freed = freed(
        count, kept, [](int) { return false; }, [&](int i) { return at(pattern.recomputed, i) != 0; });
    if (pattern.freed.megabytes > patterns.back().freed.megabytes) patterns.push_back(std::move(pattern));
  }
  return patterns;
}

// A layer, or the part of one that is in a stage; `count` of them are alike.
struct Part {
  const Patterns* patterns = nullptr;
  int count = 0;
  int level = 0, more = 0;  // all have pattern `level`, the first `more` of them the next
};

// One way to run a stage.
struct Way {
  search::StageOption option;
  const Chain* chain = nullptr;
  std::vector<Part> parts;
};

class Searcher {
 public:
  Searcher(const Task& task, const Links& links, int samples)
      : task_(task), links_(links), samples_(samples), kinds_(kinds_of(*task.model.table)) {
    const int count = static_cast<int>(task.model.ops.size());
    for (int devices = 1; devices <= task.gpus; devices *= 2) meshes_.push_back(devices);
    for (const int devices : meshes_) {
      for (int tp = 1; tp <= std::min(task.node_gpus, devices); tp *= 2)
        for (const bool reserved : {false, true}) add_chain(devices, {tp}, reserved, 0);
      if (devices > task.node_gpus) continue;
      std::vector<int> degrees;
      for (int tp = 1; tp <= devices; tp *= 2) degrees.push_back(tp);
      for (double price = 1e-7; price < 1e-2; price *= 2) add_chain(devices, degrees, false, price);
    }
    for (int i = 0; i < count; ++i)
      if (i == 0 || may_cut(i)) cuts_.push_back(i);
    cuts_.push_back(count);
  }

  Plan run() {
    search::StageProblem problem;
    problem.blocks = static_cast<int>(cuts_.size()) - 1;
    problem.devices = task_.gpus;
    problem.meshes = meshes_;
    problem.micro_batches = task_.global_batch / samples_;
    problem.memory = task_.memory;
    problem.most_stages = std::min(most_stages, task_.gpus);
    problem.in_flight = [](int after) { return after + 1; };
    problem.options = [&](int first, int last, int mesh) {
      std::vector<search::StageOption> options;
      for (const Way& way : ways(first, last, mesh)) options.push_back(way.option);
      return options;
    };
    Plan plan;
    plan.samples = samples_;
    for (const auto& stage : search::cut_into_stages(problem).stages) plan.stages.push_back(stage_of(stage));
    return plan;
  }

 private:
  using KindOfPart = std::pair<const Chain*, std::vector<int>>;  // its ops

  const Kind& kind(int i) const { return at(kinds_, at(task_.model.ops, i)); }

  // Before ops whose input is not much larger than a layer's.
  bool may_cut(int i) const {
    const OpTable& table = *task_.model.table;
    const auto input = [&](int j) {
      const OpCost* cost = table.find(at(task_.model.ops, j), task_.samples[0], 1, 0);
      if (cost == nullptr)
        throw Error::input("tables",
                           fmt::format("have no {} of {} samples on one device",
                                       at(table.names(), at(task_.model.ops, j)), task_.samples[0]));
      return cost->input;
    };
    int layer = i;
    while (layer > 0 && !kind(layer).begins) --layer;
    return input(i) <= 2 * input(layer);
  }

  struct Choice {
    const OpCost* cost = nullptr;
    int tp = 1, split = 0;
    double worth = 0;  // its seconds and the price of what it holds
  };

  // If there are two kinds of split, the faster one, or the one for which less is reserved.
  Choice choice(int op, int devices, int tp, bool reserved, double price) const {
    Choice best;
    if (samples_ * tp % devices != 0) return best;
    for (int split = 0; split < most_splits; ++split) {
      const OpCost* cost = task_.model.table->find(op, samples_ * tp / devices, tp, split);
      if (cost == nullptr || (split > 0 && !at(kinds_, op).tuned)) continue;
      const double held = task_.model.states * cost->weights + at(kinds_, op).kept * cost->kept;
      const double worth = reserved ? cost->reserved_forward + cost->reserved_backward
                                    : cost->forward + cost->backward + price * held;
      if (best.cost == nullptr || worth < best.worth) best = {cost, tp, split, worth};
    }
    return best;
  }

  // The chain of degrees with the least sum of seconds and price x MB, including changes of degree.
  void add_chain(int devices, const std::vector<int>& degrees, bool reserved, double price) {
    struct State {
      Choice choice;
      double worth = 0;
      size_t before = 0;
    };
    std::vector<std::vector<State>> states;  // by op and degree
    for (size_t i = 0; i < task_.model.ops.size(); ++i) {
      const int op = task_.model.ops[i];
      std::vector<State> now;
      for (size_t d = 0; d < degrees.size(); ++d) {
        State state{choice(op, devices, degrees[d], reserved, price), 0, d};
        if (state.choice.cost == nullptr) state.worth = std::numeric_limits<double>::infinity();
        if (i > 0 && state.choice.cost != nullptr) {
          const auto from = [&](size_t b) {
            return states[i - 1][b].worth + other_degrees(links_, *state.choice.cost, degrees[b], degrees[d]);
          };
          for (size_t b = 0; at(kinds_, op).tuned && b < degrees.size(); ++b)
            if (from(b) < from(state.before)) state.before = b;
          state.worth = from(state.before);
        }
        state.worth += state.choice.worth;
        now.push_back(state);
      }
      states.push_back(std::move(now));
    }
    const auto best = std::min_element(states.back().begin(), states.back().end(),
                                       [](const State& a, const State& b) { return a.worth < b.worth; });
    if (best->worth == std::numeric_limits<double>::infinity()) return;
    auto d = static_cast<size_t>(best - states.back().begin());
    auto chain = std::make_unique<Chain>();
    chain->devices = devices;
    for (size_t i = states.size(); i-- > 0; d = states[i][d].before) {
      chain->costs.push_back(states[i][d].choice.cost);
      chain->tp.push_back(states[i][d].choice.tp);
      chain->split.push_back(states[i][d].choice.split);
    }
    std::reverse(chain->costs.begin(), chain->costs.end());
    std::reverse(chain->tp.begin(), chain->tp.end());
    std::reverse(chain->split.begin(), chain->split.end());
    for (const auto& known : chains_)
      if (*known == *chain) return;
    chains_.push_back(std::move(chain));
  }

  const Patterns& patterns(const Chain& chain, int first, int count) {
    const auto from = task_.model.ops.begin() + first;
    const auto [found, is_new] = patterns_.try_emplace({&chain, {from, from + count}});
    if (is_new) found->second = patterns_of(chain, task_.model, kinds_, first, count);
    return found->second;
  }

  // The parts of a range, equal ones together; and for each part of the range, its place among these.
  std::vector<Part> parts_of(const Chain& chain, int first, int last, std::vector<size_t>* which = nullptr) {
    std::vector<Part> parts;
    for (int from = first; from < last;) {
      int to = from + 1;
      while (to < last && !kind(to).begins) ++to;
      const Patterns* of = &patterns(chain, from, to - from);
      const auto found =
          std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.patterns == of; });
      if (which != nullptr) which->push_back(static_cast<size_t>(found - parts.begin()));
      if (found == parts.end())
        parts.push_back({of, 1});
      else
        ++found->count;
      from = to;
    }
    return parts;
  }

  // Fastest first: with more in flight more is recomputed.
  void add_ways(const Chain& chain, int first, int last, std::vector<Way>& ways) {
    const double all = task_.memory;
    double seconds = 0, weights = 0, kept = at(chain.costs, first)->input, forward = 0, backward = 0;
    for (int i = first; i < last; ++i) {
      const OpCost& op = *at(chain.costs, i);
      seconds += op.forward + op.backward;
      if (i > first) seconds += other_degrees(links_, op, at(chain.tp, i - 1), at(chain.tp, i));
      weights += op.weights;
      kept += kind(i).kept * op.kept;
      if (i + 1 == last) break;
      forward = std::max(forward, op.reserved_forward);
      backward = std::max(backward, op.reserved_backward);
    }
    // Stages that fill nodes have transfers between nodes, and the last one ends a node.
    const bool fills = chain.devices >= task_.node_gpus,
               ends = last == static_cast<int>(task_.model.ops.size());
    seconds += links_.seconds(at(chain.costs, first)->input, fills && first > 0) +
               links_.seconds(at(chain.costs, last - 1)->output, fills || ends);
    const double stays = task_.model.states * weights + std::max(forward + backward, weights);
    if (stays > all) return;
    std::vector<Part> parts = parts_of(chain, first, last);
    struct Step {
      double worth;
      size_t part;
      int level;
    };
    std::vector<Step> steps;
    for (size_t p = 0; p < parts.size(); ++p)
      for (size_t l = 1; l < parts[p].patterns->size(); ++l) {
        const Pattern &less = (*parts[p].patterns)[l - 1], &more = (*parts[p].patterns)[l];
        steps.push_back({(more.freed.megabytes - less.freed.megabytes) / (more.seconds - less.seconds), p,
                         static_cast<int>(l)});
      }
    std::stable_sort(steps.begin(), steps.end(),
                     [](const Step& a, const Step& b) { return a.worth > b.worth; });
    double peak = 0;
    int after = 0;
    const auto add = [&] {
      const int before = after;
      while (after < most_stages && stays + peak + kept * (after + 1) <= all) ++after;
      if (after > before) ways.push_back({{seconds, 0, stays + peak, kept}, &chain, parts});
      return after < most_stages;
    };
    if (!add()) return;
    for (const Step& step : steps) {
      Part& part = parts[step.part];
      const Pattern &less = at(*part.patterns, step.level - 1), &more = at(*part.patterns, step.level);
      peak = std::max(peak, more.freed.peak);
      for (part.more = 0; part.more < part.count;) {
        ++part.more;
        seconds += more.seconds - less.seconds;
        kept -= more.freed.megabytes - less.freed.megabytes;
        if (!add()) return;
      }
      part.level = step.level;
      part.more = 0;
    }
  }

  // The ways that are the fastest for some number in flight.
  std::vector<Way> ways(int first, int last, int mesh) {
    std::vector<Way> all, kept;
    for (const auto& chain : chains_)
      if (chain->devices == at(meshes_, mesh)) add_ways(*chain, at(cuts_, first), at(cuts_, last), all);
    std::vector<char> used(all.size());
    for (int in_flight = 1; in_flight <= most_stages; ++in_flight) {
      std::optional<size_t> best;
      for (size_t w = 0; w < all.size(); ++w) {
        const search::StageOption& option = all[w].option;
        if (option.bytes + option.bytes_in_flight * in_flight > task_.memory) continue;
        if (!best || option.seconds < all[*best].option.seconds) best = w;
      }
      if (best && used[*best] == 0) used[*best] = 1, kept.push_back(all[*best]);
    }
    return kept;
  }

  Stage stage_of(const search::StagePlan::Stage& cut) {
    for (const Way& way : ways(cut.first, cut.last, cut.mesh)) {
      if (way.option.seconds != cut.option.seconds ||
          way.option.bytes_in_flight != cut.option.bytes_in_flight)
        continue;
      const int first = at(cuts_, cut.first), last = at(cuts_, cut.last);
      const auto range = [&](const std::vector<int>& all) {
        return std::vector<int>(all.begin() + first, all.begin() + last);
      };
      Stage stage{first, last, way.chain->devices, {}, range(way.chain->tp), range(way.chain->split)};
      std::vector<size_t> which;
      parts_of(*way.chain, first, last, &which);
      std::vector<Part> left = way.parts;
      for (const size_t w : which) {
        const int level = left[w].level + (left[w].more-- > 0 ? 1 : 0);
        const std::vector<char>& recomputed = at((*left[w].patterns), level).recomputed;
        stage.recomputed.insert(stage.recomputed.end(), recomputed.begin(), recomputed.end());
      }
      return stage;
    }
    throw Error::fault("search", "a stage has an option that none was offered");
  }

  const Task& task_;
  const Links& links_;
  int samples_;
  std::vector<Kind> kinds_;
  std::vector<int> meshes_, cuts_;
  std::vector<std::unique_ptr<Chain>> chains_;
  std::map<KindOfPart, Patterns> patterns_;
};

std::vector<int> in_order(int from, int to) {
  std::vector<int> ops(static_cast<size_t>(to - from));
  std::iota(ops.begin(), ops.end(), from);
  return ops;
}

}  // namespace

Model gpt(const OpTable& table, int layers) {
  const int count = static_cast<int>(table.names().size());
  Model model{&table, {0}, 8};
  const std::vector<int> layer = in_order(1, count - 2), ends = in_order(count - 2, count);
  for (int l = 0; l < layers; ++l) model.ops.insert(model.ops.end(), layer.begin(), layer.end());
  model.ops.insert(model.ops.end(), ends.begin(), ends.end());
  return model;
}

Model resnet(const OpTable& table) {
  return {&table, in_order(0, static_cast<int>(table.names().size())), 4};
}

Judged judge(const Task& task, const Links& links, const Plan& plan) { return Judge(task, links).run(plan); }

Plan best(const Task& task, const Links& links) {
  Plan best;
  double least = std::numeric_limits<double>::infinity();
  for (const int samples : task.samples) {
    Plan plan = Searcher(task, links, samples).run();
    if (plan.stages.empty()) continue;
    const Judged judged = judge(task, links, plan);
    const bool fits = *std::max_element(judged.memory.begin(), judged.memory.end()) <= task.memory;
    if (fits && judged.seconds < least) least = judged.seconds, best = std::move(plan);
  }
  return best;
}

std::string to_text(const Plan& plan) {
  std::string text = fmt::format("{} samples", plan.samples);
  for (const Stage& stage : plan.stages) {
    const auto [least, most] = std::minmax_element(stage.tp.begin(), stage.tp.end());
    text += fmt::format("; {} ops on {}, tp {}", stage.last - stage.first, stage.devices, *least);
    if (*most > *least) text += fmt::format(" to {}", *most);
    const auto recomputed =
        std::count_if(stage.recomputed.begin(), stage.recomputed.end(), [](char a) { return a != 0; });
    if (recomputed > 0) text += fmt::format(", {} again", recomputed);
  }
  return text;
}

}  // namespace boxcar::measured
