#include "cli/campaign_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/quantities.h"
#include "cli/verdict.h"
#include "ir/units.h"

namespace boxcar::cli {
namespace {

using campaign::Cost;
using nlohmann::ordered_json;

std::vector<const CampaignRow*> fitting(const CampaignReport& r) {
  std::vector<const CampaignRow*> rows;
  for (const CampaignRow& row : r.rows)
    if (row.why_not.empty()) rows.push_back(&row);
  return rows;
}

bool counts_failures(const CampaignReport& r) { return r.mtbf_seconds > 0; }

using Number = std::function<std::optional<double>(const Cost&)>;

// The units of a column, largest first, and the unit and decimals of all its cells.
using Units = std::vector<std::pair<std::string, double>>;

struct Scale {
  std::string unit;
  double factor = 1;
  int decimals = 0;
};

// For three digits of the least number of the column.
Scale scale_of(const CampaignReport& r, const Number& number, const Units& units) {
  double least = 0;
  for (const CampaignRow* row : fitting(r))
    for (const Cost* cost : {&row->cost.low, &row->cost.estimate, &row->cost.high})
      if (const auto n = number(*cost); n && *n > 0 && (least == 0 || *n < least)) least = *n;
  const auto fits = [&](const auto& unit) { return least >= unit.second; };
  const auto found = std::find_if(units.begin(), units.end(), fits);
  const auto& [unit, factor] = found == units.end() ? units.back() : *found;
  const double shown = least / factor;
  const int decimals = shown == 0 ? 0 : 2 - static_cast<int>(std::floor(std::log10(shown)));
  return {unit, factor, std::clamp(decimals, 0, 3)};
}

std::string digits(double number, const Scale& scale) {
  return std::isfinite(number) ? fmt::format("{:.{}f}", number / scale.factor, scale.decimals) : "endless";
}

// A column of results: an estimate, and its range below it.
struct Column {
  std::string title;
  std::function<std::string(const CampaignRow&, const Cost&)> text;
};

// `form` has a place for the digits and one for the unit.
Column numbers(const CampaignReport& r, const std::string& title, const char* form, const Number& number,
               const Units& units) {
  const Scale scale = scale_of(r, number, units);
  return {title, [=](const CampaignRow&, const Cost& cost) {
            const auto n = number(cost);
            return n ? fmt::format(fmt::runtime(form), digits(*n, scale), scale.unit) : std::string("-");
          }};
}

const Units of_steps = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}};
const Units of_times = {{"days", 86400}, {"hours", 3600}, {"minutes", 60}, {"seconds", 1}};
const Units of_energy = {{"TWh", 1e6}, {"GWh", 1e3}, {"MWh", 1}, {"kWh", 1e-3}};
const Units of_counts = {{"T", 1e12}, {"B", 1e9}, {"M", 1e6}, {"k", 1e3}, {"", 1}};

std::string interval_text(const CampaignRow& row, const Cost& cost, const std::string& text) {
  return cost.steps_between_checkpoints >= row.run.steps ? "never" : text;
}

bool any(const CampaignReport& r, const Number& number) {
  const std::vector<const CampaignRow*> rows = fitting(r);
  return std::any_of(rows.begin(), rows.end(),
                     [&](const CampaignRow* row) { return number(row->cost.estimate).has_value(); });
}

// Without columns for which nobody gave numbers.
std::vector<Column> columns_of(const CampaignReport& r) {
  const Number days = [](const Cost&c) { return c.seconds; },
               lost = [](const Cost&c) { return c.lost_seconds; },
               price = [](const Cost&c) { return c.price; }, mwh = [](const Cost&c) { return c.mwh; };
  const std::string time = scale_of(r, days, of_times).unit, energy = scale_of(r, mwh, of_energy).unit;
  std::vector<Column> columns{numbers(
                                  r, "step", "{} {}", [](const Cost& c) { return c.step_seconds; }, of_steps),
                              numbers(r, time, "{}", days, of_times)};
  if (counts_failures(r)) {
    const auto same =
        std::find_if(of_times.begin(), of_times.end(), [&](auto& u) { return u.first == time; });
    columns.push_back(numbers(r, "lost " + time, "{}", lost, {*same}));
  }
  columns.push_back(numbers(
      r, "GPU hours", "{}{}", [](const Cost& c) { return c.gpu_hours; }, of_counts));
  if (any(r, price)) columns.push_back(numbers(r, "dollars", "${}{}", price, of_counts));
  if (any(r, mwh)) columns.push_back(numbers(r, energy, "{}", mwh, of_energy));
  if (!counts_failures(r)) return columns;
  columns.push_back({"goodput", [](const CampaignRow&, const Cost& c) {
                       return fmt::format("{:.1f} %", 100 * c.goodput);
                     }});
  columns.push_back({"save every", [](const CampaignRow& row, const Cost& c) {
                       return interval_text(row, c, counted(c.steps_between_checkpoints, "step"));
                     }});
  return columns;
}

// "7.03 to 8.51", "11 to 13 steps"; only one of them if both read alike.
std::string range_text(const Column& column, const CampaignRow& row) {
  const std::string low = column.text(row, row.cost.low), high = column.text(row, row.cost.high);
  if (low == high) return low;
  const size_t unit = low.find(' ');
  const bool same_unit = unit != std::string::npos && high.ends_with(low.substr(unit));
  return fmt::format("{} to {}", same_unit ? low.substr(0, unit) : low, high);
}

struct Line {
  std::vector<std::string> cells;
  std::string remark;  // behind them
};

// Each column as wide as its widest cell; the first is left-aligned, the others right-aligned.
std::string aligned(const std::vector<Line>& lines) {
  std::vector<size_t> widths;
  for (const Line& line : lines) {
    widths.resize(std::max(widths.size(), line.cells.size()));
    for (size_t i = 0; i < line.cells.size(); ++i) widths[i] = std::max(widths[i], line.cells[i].size());
  }
  std::string text;
  for (const Line& line : lines) {
    std::string out = fmt::format("{:<{}}", line.cells[0], widths[0]);
    for (size_t i = 1; i < line.cells.size(); ++i) out += fmt::format("  {:>{}}", line.cells[i], widths[i]);
    text += out + (line.remark.empty() ? "" : "  " + line.remark) + "\n";
  }
  return text;
}

std::string mark_of(const CampaignReport& r, const CampaignRow& row) {
  const bool first = is_fastest(r, row), least = is_cheapest(r, row);
  return first && least ? "fastest, cheapest" : first ? "fastest" : least ? "cheapest" : "";
}

std::string rows_text(const CampaignReport& r) {
  const std::vector<Column> columns = fitting(r).empty() ? std::vector<Column>{} : columns_of(r);
  Line head{{"job", "GPUs"}, ""};
  for (const Column& column : columns) head.cells.emplace_back(column.title);
  std::vector<Line> lines{head};
  for (const CampaignRow& row : r.rows) {
    lines.push_back({{row.name, row.gpus > 0 ? fmt::format("{}", row.gpus) : "-"}, row.why_not});
    if (!row.why_not.empty()) continue;
    Line& estimate = lines.back();
    estimate.remark = mark_of(r, row);
    Line range{{"", ""}, ""};
    for (const Column& column : columns) {
      estimate.cells.push_back(column.text(row, row.cost.estimate));
      range.cells.push_back(range_text(column, row));
    }
    lines.push_back(std::move(range));
  }
  return aligned(lines);
}

// "512 GPUs", "a.yaml", "a.yaml on 512 GPUs": enough to distinguish the row from the others.
std::string label_of(const CampaignReport& r, const CampaignRow& row) {
  bool names = false, gpus = false;
  for (const CampaignRow& a : r.rows)
    for (const CampaignRow& b : r.rows) (a.name == b.name ? gpus : names) |= &a != &b;
  const std::string count = counted(row.gpus, "GPU");
  return names && gpus ? fmt::format("{} on {}", row.name, count) : names ? row.name : count;
}

using RowText = std::function<std::string(const CampaignRow&)>;

// Each text once, in order, with its rows if there are several texts. An empty one is left out.
std::vector<std::string> by_row(const CampaignReport& r, const RowText& text) {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;
  for (const CampaignRow* row : fitting(r)) {
    const std::string one = text(*row);
    auto place = std::find_if(found.begin(), found.end(), [&](const auto& f) { return f.first == one; });
    if (place == found.end()) place = found.insert(place, {one, {}});
    place->second.push_back(label_of(r, *row));
  }
  std::vector<std::string> texts;
  for (const auto& [one, rows] : found)
    if (!one.empty())
      texts.push_back(found.size() == 1 ? one : fmt::format("{}: {}", fmt::join(rows, ", "), one));
  return texts;
}

// "255 (512 GPUs), 279 (1024 GPUs)"
std::string on_each(const CampaignReport& r, const RowText& text) {
  const std::vector<const CampaignRow*> rows = fitting(r);
  std::vector<std::string> texts;
  for (const CampaignRow* row : rows)
    texts.push_back(rows.size() == 1 ? text(*row) : fmt::format("{} ({})", text(*row), label_of(r, *row)));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// "drawn at random; a node that failed is back after 12 h; 2 spare nodes stand by"
std::string fleet_text(const FleetConditions& fleet) {
  std::string text = fmt::format(
      "drawn at random; a node that failed is back {}",
      fleet.repair_seconds > 0 ? "after " + duration_text(fleet.repair_seconds) : std::string("at once"));
  if (fleet.spares > 0)
    text += fmt::format("; {} by", fleet.spares == 1 ? "1 spare node stands"
                                                     : fmt::format("{} spare nodes stand", fleet.spares));
  if (fleet.replan) text += "; the run goes on with a plan for the nodes that are left";
  if (fleet.beside) text += "; checkpoints are written beside the steps";
  return text;
}

// Seconds of the whole run at the goodput of the weeks.
double drawn_seconds(const CampaignRow& row) {
  return static_cast<double>(row.run.steps) * row.run.step_seconds / row.weeks->goodput;
}

// "goodput 93.1 %, 89.0 to 95.6 % in 9 of 10 weeks, 15.1 d for the run; saves every 54 steps; waits for ..."
std::string weeks_text(const CampaignRow& row, bool replan) {
  const campaign::Weeks& weeks = *row.weeks;
  std::string text = fmt::format(
      "goodput {}, {:.1f} to {} in 9 of 10 weeks, {} for the run; saves every {}; waits for nodes {}",
      percent_text(weeks.goodput), 100 * weeks.low, percent_text(weeks.high),
      duration_text(drawn_seconds(row)),
      row.weeks_interval == 1 ? "step" : counted(row.weeks_interval, "step"), percent_text(weeks.waiting));
  if (row.step_seconds_on.empty()) return text + (replan ? ", since no plan for fewer nodes was found" : "");
  std::vector<std::string> plans;
  for (auto plan = row.step_seconds_on.rbegin(); plan != row.step_seconds_on.rend(); ++plan)
    plans.push_back(fmt::format("{} {}", counted(plan->first, "node"), ir::format_seconds(plan->second)));
  return text + fmt::format(", runs on fewer {} (a step on {})", percent_text(weeks.on_fewer),
                            fmt::join(plans, ", "));
}

// The conditions behind the numbers, a line each: "failures   one in 3 h on 1024 GPUs; ...".
std::string conditions_text(const CampaignReport& r) {
  std::string text;
  const auto line = [&](const char* name, const std::string& what) {
    text += fmt::format("  {:<10} {}\n", name, what);
  };
  const auto lines = [&](const char* name, const RowText& row_text) {
    for (const std::string& one : by_row(r, row_text)) line(name, one);
  };
  lines("steps", [&](const CampaignRow& row) {
    return fmt::format("{} of {} {}", row.run.steps, number_text(row.amount_per_step), r.unit);
  });
  for (const CampaignRow* row : fitting(r))
    if (!row->plan_flags.empty())
      line("found", fmt::format("{} on {}: {}", row->name, counted(row->gpus, "GPU"), row->plan_flags));
  lines("range", [](const CampaignRow& row) { return to_text(row.error); });
  if (fitting(r).size() > 1)
    line("order",
         "fastest and cheapest by the estimates, equal within 1 %; where ranges overlap, it may be another "
         "row");
  if (r.checkpoint_bandwidth > 0)
    lines("checkpoint", [&](const CampaignRow& row) {
      return fmt::format("{} of weights{}; all GPUs wait {} for it, at {}/s",
                         ir::format_bytes(row.checkpoint_bytes), row.has_moments ? " and moments" : "",
                         duration_text(row.checkpoint_bytes / r.checkpoint_bandwidth),
                         ir::format_bytes(r.checkpoint_bandwidth));
    });
  if (counts_failures(r)) {
    line("failures", fmt::format("one in {} on {}; twice the GPUs fail twice as often",
                                 duration_text(r.mtbf_seconds), counted(r.mtbf_gpus, "GPU")));
    line("", fmt::format("each failure costs {}{} and the reading of the checkpoint before the next step",
                         duration_text(r.restart_seconds), r.default_restart ? " (default)" : ""));
    line("", "expected: " +
                 on_each(r, [](const CampaignRow& row) { return number_text(row.cost.estimate.failures); }));
    line("interval", on_each(r, [](const CampaignRow& row) {
                       const Cost& cost = row.cost.estimate;
                       return interval_text(row, cost, duration_text(cost.seconds_between_checkpoints));
                     }) + " between checkpoints");
  }
  if (r.fleet) {
    line("weeks", fleet_text(*r.fleet));
    lines("", [&](const CampaignRow& row) { return weeks_text(row, r.fleet->replan); });
  }
  lines("price", [](const CampaignRow& row) {
    return row.run.price_per_gpu_hour
               ? fmt::format("${:.2f} per GPU hour ({})", *row.run.price_per_gpu_hour, row.price_from)
               : std::string();
  });
  if (r.watts)
    line("energy", fmt::format("{:.0f} W for one GPU and its share of the node, all the time; PUE {:g}{}",
                               *r.watts, r.pue, r.default_pue ? " (default)" : ""));
  return text;
}

std::string left_out_text(const CampaignReport& r) {
  std::string text;
  if (!counts_failures(r))
    text +=
        "  no failures, and no checkpoints against them: every number is of the steps alone (give --mtbf and "
        "--checkpoint-bandwidth)\n";
  for (const std::string& one : by_row(r, [](const CampaignRow& row) {
         return std::string(row.run.price_per_gpu_hour ? "" : "no dollars without a price (give --price)");
       }))
    text += "  " + one + "\n";
  if (!r.watts) text += "  no energy without power (give --watts)\n";
  return text;
}

ordered_json cost_json(const Cost& cost, const CampaignReport& r) {
  ordered_json doc;
  doc["step_time_s"] = cost.step_seconds;
  doc["time_s"] = cost.seconds;
  doc["days"] = cost.seconds / 86400;
  doc["gpu_hours"] = cost.gpu_hours;
  if (cost.price) doc["dollars"] = *cost.price;
  if (cost.mwh) doc["energy_mwh"] = *cost.mwh;
  if (counts_failures(r)) {
    doc["lost_s"] = cost.lost_seconds;
    doc["goodput"] = cost.goodput;
    doc["failures"] = cost.failures;
    doc["checkpoint_interval_s"] = cost.seconds_between_checkpoints;
    doc["checkpoint_interval_steps"] = cost.steps_between_checkpoints;
  }
  return doc;
}

ordered_json weeks_json(const CampaignRow& row) {
  const campaign::Weeks& weeks = *row.weeks;
  ordered_json doc{{"goodput", weeks.goodput},
                   {"low", weeks.low},
                   {"high", weeks.high},
                   {"time_s", drawn_seconds(row)},
                   {"waiting", weeks.waiting},
                   {"on_fewer_nodes", weeks.on_fewer},
                   {"restarting", weeks.restarting},
                   {"failures_per_week", weeks.failures},
                   {"nodes", row.nodes},
                   {"checkpoint_interval_steps", row.weeks_interval}};
  doc["plans"] = ordered_json::array();
  for (auto plan = row.step_seconds_on.rbegin(); plan != row.step_seconds_on.rend(); ++plan)
    doc["plans"].push_back({{"nodes", plan->first}, {"step_time_s", plan->second}});
  return doc;
}

ordered_json row_json(const CampaignReport& r, const CampaignRow& row) {
  ordered_json doc{{"job", row.name}, {"gpus", row.gpus}, {"fits", row.why_not.empty()}};
  if (!row.why_not.empty()) {
    doc["why"] = row.why_not;
  } else {
    doc["fastest"] = is_fastest(r, row);
    doc["cheapest"] = is_cheapest(r, row);
    if (!row.plan_flags.empty()) doc["flags"] = row.plan_flags;
    doc["step_time_s"] = row.run.step_seconds;
    doc["step_error"] = error_json(row.error);
    doc["steps"] = row.run.steps;
    doc[r.unit + "_per_step"] = row.amount_per_step;
    if (r.checkpoint_bandwidth > 0) {
      doc["checkpoint_bytes"] = row.checkpoint_bytes;
      doc["checkpoint_s"] = row.checkpoint_bytes / r.checkpoint_bandwidth;
    }
    if (counts_failures(r)) {
      doc["mtbf_s"] = row.run.mtbf_seconds;
      doc["restart_s"] = row.run.restart_seconds;
    }
    if (row.run.price_per_gpu_hour) {
      doc["dollars_per_gpu_hour"] = *row.run.price_per_gpu_hour;
      doc["price_from"] = row.price_from;
    }
    doc["estimate"] = cost_json(row.cost.estimate, r);
    doc["low"] = cost_json(row.cost.low, r);
    doc["high"] = cost_json(row.cost.high, r);
    if (row.weeks) doc["weeks"] = weeks_json(row);
  }
  doc["configuration"] = row.configuration;
  return doc;
}

// Whether `row` is within 1 % of the least, of two rows or more that all have the number.
bool is_least(const CampaignReport& r, const CampaignRow& row, const Number& number) {
  const std::vector<const CampaignRow*> rows = fitting(r);
  if (rows.size() < 2 || !row.why_not.empty()) return false;
  double least = std::numeric_limits<double>::infinity();
  for (const CampaignRow* other : rows) {
    const auto n = number(other->cost.estimate);
    if (!n) return false;
    least = std::min(least, *n);
  }
  return *number(row.cost.estimate) <= 1.01 * least;
}

}  // namespace

bool is_fastest(const CampaignReport& r, const CampaignRow& row) {
  return is_least(r, row, [](const Cost& c) { return c.seconds; });
}

bool is_cheapest(const CampaignReport& r, const CampaignRow& row) {
  return is_least(r, row, [](const Cost& c) { return c.price; });
}

std::string to_table(const CampaignReport& r) {
  if (fitting(r).empty()) return rows_text(r);
  const std::string left_out = left_out_text(r);
  return fmt::format("training on {} {}; below each estimate its range, from low to high\n\n{}\n{}{}",
                     number_text(r.amount), r.unit, rows_text(r), conditions_text(r),
                     left_out.empty() ? "" : "\nnot counted\n" + left_out);
}

std::string to_json(const CampaignReport& r) {
  ordered_json doc;
  doc["schema_version"] = 1;
  doc[r.unit] = r.amount;
  if (r.checkpoint_bandwidth > 0) doc["checkpoint_bandwidth_bytes_per_s"] = r.checkpoint_bandwidth;
  if (counts_failures(r)) {
    doc["given_mtbf_s"] = r.mtbf_seconds;
    doc["given_mtbf_gpus"] = r.mtbf_gpus;
    doc["given_restart_s"] = r.restart_seconds;
  }
  if (r.fleet) {
    doc["repair_s"] = r.fleet->repair_seconds;
    doc["spare_nodes"] = r.fleet->spares;
    doc["replan"] = r.fleet->replan;
    doc["async_checkpoints"] = r.fleet->beside;
  }
  if (r.watts) {
    doc["watts_per_gpu"] = *r.watts;
    doc["pue"] = r.pue;
  }
  doc["rows"] = ordered_json::array();
  for (const CampaignRow& row : r.rows) doc["rows"].push_back(row_json(r, row));
  return doc.dump(2) + "\n";
}

}  // namespace boxcar::cli
