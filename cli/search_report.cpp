#include "cli/search_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/keys.h"
#include "planner/resolve.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;
using planner::Hints;
using search::Candidate;
using search::price_of;

// What a search decides, by key, in the order of a job file.
std::vector<std::pair<const Key*, std::string>> decided(const planner::Job& job) {
  constexpr const char* names[] = {
      "dp",       "tp",          "pp",   "context_parallel",  "ep",        "virtual_stages",   "stage_layers",
      "schedule", "micro_batch", "zero", "sequence_parallel", "recompute", "recompute_layers", "mesh_order"};
  Request request;
  request.job = job;
  std::vector<std::pair<const Key*, std::string>> result;
  for (const char* name : names) {
    const Key* key = find_key("parallel", name);
    if (key->name == "recompute_layers" && job.train.recompute_layers < 0) continue;
    result.emplace_back(key, get(*key, request));
  }
  return result;
}

// The best plan's degrees with layouts of every op that were looked for; null where none were.
const Candidate* laid_out(const search::Outcome& outcome) {
  const std::string flags = flags_of(outcome.best.front().job);
  for (const Candidate& c : outcome.best)
    if (c.layouts && flags_of(c.job) == flags) return &c;
  return nullptr;
}

// What was chosen for every op, and what is proved of it.
std::string layouts_text(const SearchReport& r) {
  const Candidate& best = r.outcome.best.front();
  const Candidate* const laid = laid_out(r.outcome);
  if (!laid) return "";
  const search::FoundLayouts& f = laid->found;
  std::string text = fmt::format(
      "  layout of every op: {}{}{}; kernels {}, collectives {}, of states {}\n",
      best.layouts ? ""
                   : "that of the degrees, for what was found takes no less in the simulation; found is ",
      f.optimal() ? std::string("optimal within this space by the time models") +
                        (f.weights.memory > 0 ? ", with no more memory" : "")
                  : fmt::format("at most {:.2g} % over the optimum of this space by the time models",
                                100 * (f.value / f.lower - 1)),
      f.alike ? ", equal layers alike" : "", format_seconds(f.cost[search::kernels]),
      format_seconds(f.cost[search::collectives]), format_seconds(f.cost[search::states]));
  if (r.partial_seconds > 0)
    text += fmt::format("  no partial values: with them the step takes {}, {:.1f} % less\n",
                        format_seconds(r.partial_seconds), 100 * (1 - r.partial_seconds / best.seconds));
  return text;
}

ordered_json candidate_json(const Candidate& c) {
  ordered_json doc;
  for (const auto& [key, text] : decided(c.job)) doc[key->name] = text;
  doc["step_time_s"] = c.seconds;
  doc["estimated_step_time_s"] = c.estimated_seconds;
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

// What the fewest slots that keep the period save.
std::string slots_text(const SearchReport& r) {
  const search::PlanSlots& s = r.outcome.best.front().slots;
  if (s.changes.empty()) return "";
  return fmt::format("  {} registers with fewer slots: {} less on all devices, {} of the period {}\n",
                     s.changes.size(), format_bytes(s.saved_bytes),
                     s.optimal ? "the least" : "not proved the least", format_seconds(s.period));
}

// Where more is asked than the least time: what, and what the best comes to.
std::string objective_text(const SearchReport& r) {
  const Candidate& best = r.outcome.best.front();
  const std::string limit = r.max_step_seconds < search::infinity
                                ? fmt::format(", of steps of at most {}", format_seconds(r.max_step_seconds))
                                : "";
  switch (r.goal) {
    case search::Goal::memory:
      return fmt::format("  least memory of a device{}: {}\n", limit,
                         format_bytes(static_cast<double>(best.peak_bytes)));
    case search::Goal::cost:
      return fmt::format("  least cost{}: {:.4g} a step, on {} GPUs at {:g} an hour\n", limit,
                         price_of(best.job, best.seconds), best.job.gpus,
                         best.job.cluster.price_per_gpu_hour);
    case search::Goal::time:
      break;
  }
  return "";
}

}  // namespace

std::string against(search::Goal goal, const Candidate& other, const Candidate& best) {
  switch (goal) {
    case search::Goal::memory: {
      const auto bytes = static_cast<double>(other.peak_bytes), least = static_cast<double>(best.peak_bytes);
      return fmt::format("{}, {:.1f} % more memory", format_bytes(bytes), 100 * (bytes / least - 1));
    }
    case search::Goal::cost: {
      const double price = price_of(other.job, other.seconds), least = price_of(best.job, best.seconds);
      return fmt::format("{:.4g} a step, {:.1f} % dearer", price, 100 * (price / least - 1));
    }
    case search::Goal::time:
      break;
  }
  return fmt::format("{}, {:.1f} % slower", format_seconds(other.seconds),
                     100 * (other.seconds / best.seconds - 1));
}

std::string flags_of(const planner::Job& job) {
  const Hints& h = job.parallel;
  const bool balanced = h.stage_layers == planner::balanced_layers(job.model.layers, h.pp * h.virtual_stages);
  std::string text;
  for (const auto& [key, value] : decided(job)) {
    const bool degree = key->name == "dp" || key->name == "tp" || key->name == "pp";
    if (!degree && value == get(*key, Request{})) continue;  // the default
    if (key->name == "stage_layers" && balanced) continue;
    std::string plain = value;
    std::erase_if(plain, [](char c) { return c == '[' || c == ']' || c == ' '; });
    text += fmt::format("{}{} {}", text.empty() ? "" : " ", key->flag, plain);
  }
  return text;
}

std::string to_table(const SearchReport& r) {
  const search::Outcome& o = r.outcome;
  std::string text = fmt::format(
      "searched\n  {} points, {} of them over {} of memory by estimate; {} compiled, {} simulated, {}{}\n\n",
      o.points, o.over_memory, format_bytes(static_cast<double>(r.memory_limit_bytes)), o.compiled,
      o.best.size(), format_seconds(r.wall_seconds), o.ended ? "" : "; ended early");
  text += fmt::format("  {:>9} {:>9} {:>9} {:<7}  {}\n", "step", "estimate", "peak", "layouts", "plan");
  for (const Candidate& c : o.best)
    text += fmt::format("  {:>9} {:>9} {:>9} {:<7}  {}\n", format_seconds(c.seconds),
                        format_seconds(c.estimated_seconds), format_bytes(static_cast<double>(c.peak_bytes)),
                        c.layouts ? "found" : "hints", flags_of(c.job));
  text += fmt::format("\nbest\n  {}\n{}{}\n", flags_of(o.best.front().job), objective_text(r),
                      layouts_text(r) + slots_text(r));
  return text + to_table(r.best);
}

std::string to_json(const SearchReport& r) {
  ordered_json doc;
  doc["schema_version"] = 1;
  doc["search"] = {{"points", r.outcome.points},     {"over_memory", r.outcome.over_memory},
                   {"compiled", r.outcome.compiled}, {"simulated", r.outcome.best.size()},
                   {"ended", r.outcome.ended},       {"memory_limit_bytes", r.memory_limit_bytes},
                   {"wall_s", r.wall_seconds}};
  doc["objective"] = name_of(r.goal);
  if (r.max_step_seconds < search::infinity) doc["max_step_time_s"] = r.max_step_seconds;
  doc["flags"] = flags_of(r.outcome.best.front().job);
  doc["step_time_s"] = r.outcome.best.front().seconds;
  if (r.partial_seconds > 0) doc["step_time_with_partial_s"] = r.partial_seconds;
  ordered_json candidates = ordered_json::array();
  for (const Candidate& c : r.outcome.best) candidates.push_back(candidate_json(c));
  doc["candidates"] = candidates;
  doc["best"] = ordered_json::parse(to_json(r.best));
  return doc.dump(2) + "\n";
}

}  // namespace boxcar::cli
