#include "cli/search_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "backends/machines/framework.h"
#include "cli/alike.h"
#include "cli/effects.h"
#include "cli/job.h"
#include "cli/keys.h"
#include "cli/search_sensitivity.h"
#include "cli/verdict.h"
#include "ir/units.h"
#include "planner/estimate/slow_stages.h"
#include "planner/resolve.h"
#include "planner/search/dimensions.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;
using planner::Hints;
using search::Candidate;
using search::price_of;

const Key* key_of(const search::Dimension& d) { return find_key("parallel", d.name_in_file()); }

struct Decided {
  const search::Dimension* dimension;
  const Key* key;
  std::string text;
};

// Keys that a search decides, in the order of a job file; empty lists are left out.
std::vector<Decided> decided(const planner::Job& job) {
  Request request;
  request.job = job;
  std::vector<Decided> result;
  for (const search::Dimension& d : search::dimensions()) {
    const search::Value value = value_of(d, job);
    const auto* const list = std::get_if<std::vector<int>>(&value);
    if (!list || !list->empty()) result.push_back({&d, key_of(d), text_of(*key_of(d), request)});
  }
  return result;
}

// "1x94,0,0"
std::string in_runs(const std::vector<int>& list) {
  std::vector<std::string> runs;
  for (auto from = list.begin(), to = from; from != list.end(); from = to) {
    to = std::find_if(from, list.end(), [&](int number) { return number != *from; });
    if (to - from > 3)
      runs.push_back(fmt::format("{}x{}", *from, to - from));
    else
      std::transform(from, to, std::back_inserter(runs),
                     [](int number) { return fmt::format("{}", number); });
  }
  return fmt::format("{}", fmt::join(runs, ","));
}

// "8" as a number, "[4, 4]" as a list, "1f1b" unchanged.
ordered_json typed(const std::string& text) {
  ordered_json value = ordered_json::parse(text, nullptr, false);
  return value.is_discarded() ? ordered_json(text) : value;
}

// The best plan's degrees with searched layouts of every op; null if none were searched.
const Candidate* laid_out(const search::Outcome& outcome) {
  const std::string flags = flags_of(outcome.best.front().job, true);
  for (const Candidate& c : outcome.best)
    if (c.layouts && flags_of(c.job, true) == flags) return &c;
  return nullptr;
}

// The open dimension of a mesh of several: ", tp open, dp and cp as degrees have them".
std::string open_text(const planner::Mesh& mesh, const search::FoundLayouts& found) {
  const char* others = mesh.dims() == 2 ? "the other" : "the others";
  if (found.apart) return fmt::format(", each of {} given {}", fmt::join(mesh.names, " and "), others);
  if (!found.dimension) return "";
  std::vector<std::string> fixed = mesh.names;
  fixed.erase(fixed.begin() + static_cast<int64_t>(*found.dimension));
  return fmt::format(", {} open, {} as degrees have {}", mesh.names[*found.dimension],
                     fmt::join(fixed, " and "), fixed.size() > 1 ? "them" : "it");
}

// The layouts chosen for all ops, and their proof.
std::string layouts_text(const SearchReport& r) {
  const Candidate& best = r.outcome.best.front();
  const Candidate* const laid = laid_out(r.outcome);
  if (!laid) {
    const std::string& why = r.outcome.no_layouts;
    return why.empty() ? ""
                       : fmt::format("  layout of every op: that of the degrees; none was found: {}\n", why);
  }
  const search::FoundLayouts& f = laid->found;
  std::string text = fmt::format(
      "  layout of every op: {}{}{}; {}kernels {}, collectives {}, of states {}\n",
      best.layouts ? ""
                   : "that of the degrees, for what was found takes no less in the simulation; found is ",
      f.optimal() ? std::string("optimal within this space by the time models") +
                        (f.weights.memory > 0 ? ", of those that take no more memory" : "")
                  : fmt::format("at most {:.2g} % over the optimum of this space by the time models",
                                100 * (f.value / f.lower - 1)),
      (f.alike ? ", equal layers alike" : "") + open_text(planner::mesh_of(best.job.parallel), f),
      best.job.parallel.pp > 1 ? "of all stages " : "", ir::format_seconds(f.cost[search::kernels]),
      ir::format_seconds(f.cost[search::collectives]), ir::format_seconds(f.cost[search::states]));
  if (best.layouts) text += "  the flags alone do not give these layouts; -o FILE keeps the plan\n";
  if (r.partial_seconds > 0)
    text +=
        fmt::format("  no partial values: with them, at these degrees, the step takes {}, {:.1f} % less\n",
                    ir::format_seconds(r.partial_seconds), 100 * (1 - r.partial_seconds / best.seconds));
  return text;
}

bool is_estimated(const Candidate& c) { return c.estimated_seconds > 0; }

ordered_json candidate_json(const Candidate& c) {
  ordered_json doc;
  for (const Decided& d : decided(c.job)) doc[d.key->name] = typed(d.text);
  Request request;
  request.job = c.job;
  doc["precision"] = text_of(*find_key("train", "precision"), request);
  doc["step_time_s"] = c.seconds;
  doc["estimated_step_time_s"] = is_estimated(c) ? ordered_json(c.estimated_seconds) : ordered_json(nullptr);
  doc["peak_memory_bytes"] = c.peak_bytes;
  if (c.job.cluster.price_per_gpu_hour > 0) {
    doc["gpus"] = c.job.gpus;
    doc["price_per_step"] = price_of(c.job, c.seconds);
  }
  doc["layouts"] = c.layouts ? "found" : "hints";
  if (c.layouts) doc["layouts_optimal"] = c.found.optimal();
  return doc;
}

const char* name_of(search::Goal goal) {
  switch (goal) {
    case search::Goal::memory:
      return "memory";
    case search::Goal::cost:
      return "cost";
    case search::Goal::time:
      break;
  }
  return "time";
}

// Memory saved by the fewest slots that keep the period.
std::string slots_text(const SearchReport& r) {
  const search::PlanSlots& s = r.outcome.best.front().slots;
  if (s.changes.empty()) return "";
  return fmt::format("  {} registers with fewer slots: {} less on all devices, {} of the period {}\n",
                     s.changes.size(), ir::format_bytes(s.saved_bytes),
                     s.optimal ? "the least" : "not proved the least", ir::format_seconds(s.period));
}

// The objective if it is not only the least time, and the best plan's value.
std::string objective_text(const SearchReport& r) {
  const Candidate& best = r.outcome.best.front();
  const std::string limit =
      r.max_step_seconds < search::infinity
          ? fmt::format(", of steps of at most {}", ir::format_seconds(r.max_step_seconds))
          : "";
  switch (r.goal) {
    case search::Goal::memory:
      return fmt::format("  least memory of a device{}: {}\n", limit,
                         ir::format_bytes(static_cast<double>(best.peak_bytes)));
    case search::Goal::cost:
      return fmt::format("  least cost{}: ${:.4g} a step, on {} GPU{} at ${:g} an hour\n", limit,
                         price_of(best.job, best.seconds), best.job.gpus, best.job.gpus > 1 ? "s" : "",
                         best.job.cluster.price_per_gpu_hour);
    case search::Goal::time:
      break;
  }
  return "";
}

// How much better a point that was not simulated may be, in parts of the best; nothing if unknown.
std::optional<double> gap(const SearchReport& r) {
  const search::Outcome& o = r.outcome;
  if (!o.least) return std::nullopt;
  const Candidate& best = o.best.front();
  const double value = r.goal == search::Goal::cost ? price_of(best.job, best.seconds) : best.seconds;
  return std::max(0.0, 1 - *o.least / value);
}

// Time and gain of each move, and its proposals.
std::string moves_text(const SearchReport& r) {
  std::string text =
      fmt::format("\nmoves\n  {:<18} {:>5} {:>9} {:>7}  proposes\n", "move", "plans", "time", "gained");
  const auto add = [&](const char* name, const search::MoveUse& use, const std::string& what) {
    text += fmt::format("  {:<18} {:>5} {:>9} {:>7}  {}\n", name, use.plans,
                        use.plans > 0 ? ir::format_seconds(use.seconds) : "-",
                        use.left < 1 ? fmt::format("{:.1f} %", 100 * (1 - use.left)) : "-", what);
  };
  search::MoveUses uses = r.outcome.moves;
  add("points", use_of(uses, nullptr), "the best by estimate");
  for (const search::Move& move : search::moves())
    add(move.name, use_of(uses, &move),
        fmt::format("{} ({}); where: {}", move.proposes, move.costs, move.when));
  return text;
}

ordered_json moves_json(const SearchReport& r) {
  ordered_json all = ordered_json::array();
  search::MoveUses uses = r.outcome.moves;
  const auto add = [&](const char* name, const search::MoveUse& use) {
    all.push_back({{"name", name}, {"plans", use.plans}, {"wall_s", use.seconds}, {"gained", 1 - use.left}});
  };
  add("points", use_of(uses, nullptr));
  for (const search::Move& move : search::moves()) add(move.name, use_of(uses, &move));
  return all;
}

// Plans, a line each, with dollars if a price is known. Of plans with the same flags, step and memory the
// first is shown: found layouts that change nothing are not news.
std::string plans_text(const std::vector<Candidate>& all, bool estimates, bool precisions) {
  const bool priced = all.front().job.cluster.price_per_gpu_hour > 0;
  std::string text = fmt::format("  {}{:>9} {}{:>9} {:<7}  {}\n", priced ? "   $/step  GPUs " : "", "step",
                                 estimates ? " estimate " : "", "peak", "layouts", "plan");
  const auto step = [](const Candidate& c) { return ir::format_seconds(c.seconds); };
  const auto peak = [](const Candidate& c) { return ir::format_bytes(static_cast<double>(c.peak_bytes)); };
  const auto flags = [&](const Candidate& c) { return flags_of(c.job, precisions); };
  std::vector<Candidate> plans;
  std::set<std::array<std::string, 3>> seen;
  for (const Candidate& c : all)
    if (seen.insert({step(c), peak(c), flags(c)}).second) plans.push_back(c);
  const std::vector<std::string> apart = differences(plans);
  for (size_t i = 0; i < plans.size(); ++i) {
    const Candidate& c = plans[i];
    const std::string estimate = is_estimated(c) ? ir::format_seconds(c.estimated_seconds) : "-";
    text += fmt::format("  {}{:>9} {}{:>9} {:<7}  {}{}\n",
                        priced ? fmt::format("{:>9.4g} {:>5} ", price_of(c.job, c.seconds), c.job.gpus) : "",
                        step(c), estimates ? fmt::format("{:>9} ", estimate) : "", peak(c),
                        c.layouts ? "found" : "hints", flags(c),
                        apart[i].empty() ? "" : fmt::format(" ({})", apart[i]));
  }
  return text;
}

// The Pareto front, a plan a line.
std::string front_text(const SearchReport& r) {
  if (r.front.empty()) return "";
  std::vector<std::string> names;
  for (search::Goal goal : r.front_goals) names.emplace_back(name_of(goal));
  return fmt::format(
      "\nof the plans simulated, none beats one of these in {} without losing in another{}\n{}",
      fmt::join(names, " and "), r.front_ended ? "" : "; ended early, so better ones may be missing",
      plans_text(r.front, false, r.precisions));
}

// For given recomputation, if all fits without it.
std::string recompute_text(const SearchReport& r) {
  const planner::Job& best = r.outcome.best.front().job;
  if (!r.recompute_given || best.train.recompute == ir::Recompute::none || recomputes_anything(best))
    return "";
  Request request;
  request.job = best;
  return fmt::format(
      "  recompute {}: no layer has to for the plan to fit, so none does (--recompute-layers all makes "
      "all)\n",
      text_of(*find_key("parallel", "recompute"), request));
}

// The bound proved for the degrees.
std::string bound_text(const SearchReport& r) {
  const std::optional<double> less = gap(r);
  if (!less) return fmt::format("  degrees: no bound, for {}\n", r.outcome.unknown_least);
  return fmt::format(
      "  degrees: with whole backward passes and the layouts of its degrees, no other point that fits by "
      "estimate is {}better (bound: kernels and the collectives between them)\n",
      *less == 0 ? "" : fmt::format("more than {:.2g} % ", 100 * *less));
}

ordered_json left_out_json(const search::Dropped& dropped) {
  ordered_json all = ordered_json::array();
  for (const auto& [why, count] : dropped) all.push_back({{"count", count}, {"why", why}});
  return all;
}

ordered_json search_json(const SearchReport& r) {
  const search::Outcome& o = r.outcome;
  ordered_json doc{{"points", o.points},           {"without_estimate", left_out_json(o.dropped)},
                   {"over_memory", o.over_memory}, {"over_time", o.over_time},
                   {"compiled", o.compiled},       {"without_plan", left_out_json(o.unmade)},
                   {"simulated", o.best.size()},   {"ended", o.ended && r.front_ended && r.sensitivity_ended},
                   {"by_estimate", o.by_estimate}, {"memory_limit_bytes", r.memory_limit_bytes},
                   {"wall_s", r.wall_seconds}};
  if (o.best.empty()) return doc;
  if (const std::optional<double> less = gap(r))
    doc["gap_of_degrees"] = *less;
  else
    doc["gap_of_degrees"] = nullptr, doc["gap_unknown"] = o.unknown_least;
  return doc;
}

}  // namespace

std::string against(search::Goal goal, const Candidate& other, const Candidate& best) {
  switch (goal) {
    case search::Goal::memory: {
      const auto bytes = static_cast<double>(other.peak_bytes), least = static_cast<double>(best.peak_bytes);
      return fmt::format("{}, {:.1f} % more memory", ir::format_bytes(bytes), 100 * (bytes / least - 1));
    }
    case search::Goal::cost: {
      const double price = price_of(other.job, other.seconds), least = price_of(best.job, best.seconds);
      return fmt::format("${:.4g} a step, {:.1f} % dearer", price, 100 * (price / least - 1));
    }
    case search::Goal::time:
      break;
  }
  return fmt::format("{}, {:.1f} % slower", ir::format_seconds(other.seconds),
                     100 * (other.seconds / best.seconds - 1));
}

std::string flags_of(const planner::Job& job, bool precision) {
  const Hints& h = job.parallel;
  const bool balanced =
      h.stage_layers == planner::balanced_layers(job.model.layers(), h.pp * h.virtual_stages);
  Request request;
  request.job = job;
  Request usual;  // the defaults, or with --stack those of the framework
  usual.job.model = job.model;
  set_defaults(job.cluster.framework, usual);
  const bool idle = job.train.recompute != ir::Recompute::none && !recomputes_anything(job);
  std::string text;
  for (const auto& [d, key, value] : decided(job)) {
    if (idle && d->recomputes) {
      if (d->key == "recompute") text += " --recompute none";
      continue;
    }
    if (!d->always && value == text_of(*key, usual)) continue;
    if (d->key == "stage_layers" && balanced) continue;
    const search::Value plain = value_of(*d, job);
    const auto* const list = std::get_if<std::vector<int>>(&plain);
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", key->flag, list ? in_runs(*list) : value);
  }
  for (const auto& [path, as] : job.cluster.framework->searched_as)
    if (const std::string value = text_of(key_at(path), request); value == as)
      text += fmt::format(" {} {}", key_at(path).flag, value);  // beside --stack, whose default is another
  if (!precision) return text;
  return text + " --precision " + text_of(*find_key("train", "precision"), request);
}

std::vector<std::string> searched_keys() {
  std::vector<std::string> paths;
  for (const search::Dimension& d : search::dimensions()) paths.push_back("parallel." + d.name_in_file());
  return paths;
}

std::string slow_stages_text(const Hints& hints, const backends::Cluster& cluster) {
  const std::vector<double> slowness = search::slowness_by_stage(hints, cluster);
  const std::vector<int> layers = planner::layers_by_stage(hints);
  std::vector<int> others;
  std::vector<std::string> slow;
  for (size_t s = 0; s < slowness.size(); ++s)
    if (slowness[s] > 1)
      slow.push_back(fmt::format("stage {} with {} layer{} ({:g} times as long)", s, layers[s],
                                 layers[s] == 1 ? "" : "s", slowness[s]));
    else
      others.push_back(layers[s]);
  if (slow.empty()) return "";
  std::string text = fmt::format("  on slow devices: {}", fmt::join(slow, ", "));
  if (!others.empty()) {
    const auto [least, most] = std::minmax_element(others.begin(), others.end());
    text +=
        fmt::format("; elsewhere {}{} a stage", *least, *least < *most ? fmt::format(" to {}", *most) : "");
  }
  return text + "\n";
}

std::vector<std::string> change_flags(const search::Alternative& change) {
  Request request;
  request.job = change.candidate.job;
  std::vector<std::string> flags;
  if (change.fused_attention) flags.push_back("--attention flash");
  for (const std::string& name : change.without) {
    const search::Dimension& d = search::dimension(name);
    const Key& key = *key_of(d);
    const std::string value = text_of(key, request);
    flags.push_back(fmt::format("{} {}", key.flag, value == "[]" ? d.flag.fallback : value));
  }
  return flags;
}

std::string change_text(const search::Alternative& change) {
  const std::vector<std::string> flags = change_flags(change);
  const std::string keys = flags.empty() ? "" : fmt::format("with {}", fmt::join(flags, " "));
  if (change.gpus == 0) return keys;
  return fmt::format("{}{}on {} GPUs", keys, keys.empty() ? "" : " ", change.gpus);
}

std::string left_out_text(const search::Outcome& outcome) {
  constexpr int most_reasons = 3;  // JSON has all
  std::string text;
  const auto add = [&](const search::Dropped& dropped, const char* what) {
    int reasons = 0;
    int64_t others = 0;
    for (const auto& [why, count] : dropped)
      if (++reasons > most_reasons)
        others += count;
      else
        text += fmt::format("  {} {}: {}\n", count, what, why);
    if (others > 0)
      text += fmt::format("  {} {}, for {} other reasons\n", others, what, reasons - most_reasons);
  };
  add(outcome.dropped, "of the points without an estimate");
  add(outcome.unmade, "of those compiled without a plan");
  return text;
}

std::string to_table(const SearchReport& r) {
  const search::Outcome& o = r.outcome;
  std::string text =
      "verdict\n" + verdict_text(r.best) +
      fmt::format(
          "\nsearched\n  {} points, {} of them over {} of memory by estimate; {} compiled, {} simulated, "
          "{}{}\n{}\n",
          o.points, o.over_memory, ir::format_bytes(static_cast<double>(r.memory_limit_bytes)), o.compiled,
          o.best.size(), ir::format_seconds(r.wall_seconds),
          o.by_estimate ? "; ended before any was simulated: the best by estimate"
          : o.spent     ? "; ended by --effort"
          : o.ended     ? ""
                        : "; ended early",
          left_out_text(o));
  text += plans_text(o.best, true, r.precisions);
  const planner::Job& best = o.best.front().job;
  text += fmt::format("\nbest\n  {}\n{}{}", flags_of(best, r.precisions), objective_text(r),
                      recompute_text(r) + bound_text(r) + layouts_text(r) + slots_text(r) +
                          slow_stages_text(best.parallel, best.cluster));
  text += front_text(r);
  if (!r.sensitivity.empty() || !r.sensitivity_ended)
    text += fmt::format("\nsensitivity, the range of each constant in which this plan stays the best{}\n{}",
                        r.sensitivity_ended ? "" : "; ended early, so constants are missing",
                        to_text(r.sensitivity, r.outcome.best.front().job));
  return text + numbers_text(r.best) + (r.explain_moves ? moves_text(r) : "") + configuration_text(r.best);
}

std::string to_json(const SearchReport& r) {
  ordered_json doc;
  doc["schema_version"] = 1;
  doc["fits"] = true;
  doc["search"] = search_json(r);
  doc["objective"] = name_of(r.goal);
  if (r.max_step_seconds < search::infinity) doc["max_step_time_s"] = r.max_step_seconds;
  doc["flags"] = flags_of(r.outcome.best.front().job, r.precisions);
  doc["step_time_s"] = r.outcome.best.front().seconds;
  if (r.partial_seconds > 0) doc["step_time_with_partial_s"] = r.partial_seconds;
  ordered_json candidates = ordered_json::array();
  for (const Candidate& c : r.outcome.best) candidates.push_back(candidate_json(c));
  doc["candidates"] = candidates;
  if (!r.front.empty()) {
    doc["pareto"] = ordered_json::array();
    for (const Candidate& c : r.front) doc["pareto"].push_back(candidate_json(c));
  }
  if (!r.sensitivity.empty()) doc["sensitivity"] = to_json(r.sensitivity, r.outcome.best.front().job);
  if (r.explain_moves) doc["moves"] = moves_json(r);
  doc["best"] = ordered_json::parse(to_json(r.best));
  return doc.dump(2) + "\n";
}

std::string to_json(const SearchReport& r, const std::string& why) {
  const search::Outcome& o = r.outcome;
  ordered_json doc;
  doc["schema_version"] = 1;
  doc["fits"] = false;
  doc["why"] = why;
  doc["search"] = search_json(r);
  doc["objective"] = name_of(r.goal);
  if (r.max_step_seconds < search::infinity) doc["max_step_time_s"] = r.max_step_seconds;
  const auto estimate = [](const Candidate& c) -> ordered_json {
    return {{"flags", flags_of(c.job)},
            {"gpus", c.job.gpus},
            {"estimated_step_time_s", c.estimated_seconds},
            {"estimated_memory_bytes", static_cast<int64_t>(c.estimated_bytes)},
            {"fullest_stage", c.fullest_stage}};
  };
  if (o.smallest.estimated_bytes < search::infinity) doc["smallest"] = estimate(o.smallest);
  if (o.fastest) doc["fastest"] = estimate(*o.fastest);
  doc["would_do"] = ordered_json::array();
  for (const search::Alternative& change : o.alternatives) {
    ordered_json one = estimate(change.candidate);
    one["change"] = change_text(change);
    doc["would_do"].push_back(std::move(one));
  }
  return doc.dump(2) + "\n";
}

}  // namespace boxcar::cli
