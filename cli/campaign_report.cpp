#include "cli/campaign_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/quantities.h"
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

// A column of results: an estimate, and its range below it.
struct Column {
  const char* title;
  std::function<std::string(const Cost&)> text;
};

std::string days_text(double seconds) {
  const double days = seconds / 86400;
  return days >= 100 ? fmt::format("{:.0f}", days) : fmt::format("{:.3g}", days);
}

// Without what nobody gave numbers for.
std::vector<Column> columns_of(const CampaignReport& r) {
  const std::vector<const CampaignRow*> rows = fitting(r);
  const auto any = [&](auto given) { return std::any_of(rows.begin(), rows.end(), given); };
  const auto number = [](const std::optional<double>& n) { return n ? number_text(*n) : "-"; };
  std::vector<Column> columns{
      {"days", [](const Cost& c) { return days_text(c.seconds); }},
      {"GPU hours", [](const Cost& c) { return number_text(c.gpu_hours); }},
  };
  if (any([](const CampaignRow* row) { return row->cost.estimate.price.has_value(); }))
    columns.push_back({"dollars", [=](const Cost& c) { return number(c.price); }});
  if (any([](const CampaignRow* row) { return row->cost.estimate.mwh.has_value(); }))
    columns.push_back({"MWh", [=](const Cost& c) { return number(c.mwh); }});
  columns.push_back({"goodput", [](const Cost& c) { return fmt::format("{:.1f} %", 100 * c.goodput); }});
  if (counts_failures(r))
    columns.push_back(
        {"save every", [](const Cost& c) { return fmt::format("{} steps", c.steps_between_checkpoints); }});
  return columns;
}

// "7.03 to 8.51", "11 to 13 steps"; one of them where both read alike.
std::string range_text(const Column& column, const campaign::CostRange& cost) {
  const std::string low = column.text(cost.low), high = column.text(cost.high);
  if (low == high) return low;
  const size_t unit = low.find(' ');
  const bool same_unit = unit != std::string::npos && high.ends_with(low.substr(unit));
  return fmt::format("{} to {}", same_unit ? low.substr(0, unit) : low, high);
}

struct Line {
  std::vector<std::string> cells;
  std::string remark;  // behind them
};

// Each column as wide as its widest cell; the first is set left, the others right.
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
  const bool first = fastest(r) == &row, least = cheapest(r) == &row;
  return first && least ? "fastest, cheapest" : first ? "fastest" : least ? "cheapest" : "";
}

std::string rows_text(const CampaignReport& r) {
  const std::vector<Column> columns = columns_of(r);
  Line head{{"job", "GPUs", "step"}, ""};
  for (const Column& column : columns) head.cells.emplace_back(column.title);
  std::vector<Line> lines{head};
  for (const CampaignRow& row : r.rows) {
    lines.push_back({{row.name, fmt::format("{}", row.gpus)}, row.why_not});
    if (!row.why_not.empty()) continue;
    Line& estimate = lines.back();
    estimate.cells.push_back(ir::format_seconds(row.run.step_seconds));
    estimate.remark = mark_of(r, row);
    Line range{{"", "", ""}, ""};
    for (const Column& column : columns) {
      estimate.cells.push_back(column.text(row.cost.estimate));
      range.cells.push_back(range_text(column, row.cost));
    }
    lines.push_back(std::move(range));
  }
  return aligned(lines);
}

// Each text once, in order.
std::vector<std::string> by_row(const CampaignReport& r,
                                const std::function<std::string(const CampaignRow&)>& text) {
  std::vector<std::string> texts;
  for (const CampaignRow* row : fitting(r)) {
    std::string one = text(*row);
    if (std::find(texts.begin(), texts.end(), one) == texts.end()) texts.push_back(std::move(one));
  }
  return texts;
}

// The conditions behind the numbers, a line each: "failures   one in 3 h on 1024 GPUs, ...".
std::string conditions_text(const CampaignReport& r) {
  std::string text;
  const auto line = [&](const char* name, const std::string& what) {
    text += fmt::format("  {:<10} {}\n", name, what);
  };
  for (const std::string& steps : by_row(r, [&](const CampaignRow& row) {
         return fmt::format("{} of {} {}", row.run.steps, number_text(row.amount_per_step), r.unit);
       }))
    line("steps", steps);
  for (const CampaignRow* row : fitting(r))
    if (!row->plan_flags.empty())
      line("found", fmt::format("{} on {} GPUs: {}", row->name, row->gpus, row->plan_flags));
  for (const std::string& error : by_row(r, [](const CampaignRow& row) { return to_text(row.error); }))
    line("range", error);
  if (r.checkpoint_bandwidth > 0)
    for (const std::string& checkpoint : by_row(r, [&](const CampaignRow& row) {
           return fmt::format("{} of weights and moments; all GPUs wait {} for it, at {}/s",
                              ir::format_bytes(row.checkpoint_bytes),
                              duration_text(row.checkpoint_bytes / r.checkpoint_bandwidth),
                              ir::format_bytes(r.checkpoint_bandwidth));
         }))
      line("checkpoint", checkpoint);
  if (counts_failures(r)) {
    const auto on_each = [&](const std::function<std::string(const Cost&)>& what) {
      std::vector<std::string> texts;
      for (const CampaignRow* row : fitting(r))
        texts.push_back(fmt::format("{} on {} GPUs", what(row->cost.estimate), row->gpus));
      return fmt::format("{}", fmt::join(texts, ", "));
    };
    line("failures",
         fmt::format("one in {} on {} GPUs, in proportion to the GPUs; {} from each to the next step",
                     duration_text(r.mtbf_seconds), r.mtbf_gpus, duration_text(r.restart_seconds)));
    line("", "expected: " + on_each([](const Cost& c) { return number_text(c.failures); }));
    line("interval", on_each([](const Cost& c) { return duration_text(c.seconds_between_checkpoints); }) +
                         " between checkpoints");
  }
  const CampaignRow& row = *fitting(r).front();
  if (row.run.watts_per_gpu)
    line("energy", fmt::format("{:g} W per GPU all the time, PUE {:g}{}", *row.run.watts_per_gpu, r.pue,
                               r.pue == 1 ? ": the GPUs alone" : ""));
  return text;
}

std::string left_out_text(const CampaignReport& r) {
  std::string text;
  const CampaignRow& row = *fitting(r).front();
  if (!counts_failures(r))
    text +=
        "  goodput leaves out failures and the checkpoints against them (give --mtbf and "
        "--checkpoint-bandwidth)\n";
  if (!row.run.price_per_gpu_hour) text += "  no dollars without a price (give --price)\n";
  if (!row.run.watts_per_gpu) text += "  no energy without power (give --watts)\n";
  return text;
}

ordered_json cost_json(const Cost& cost, const CampaignReport& r) {
  ordered_json doc;
  doc["time_s"] = cost.seconds;
  doc["days"] = cost.seconds / 86400;
  doc["gpu_hours"] = cost.gpu_hours;
  if (cost.price) doc["dollars"] = *cost.price;
  if (cost.mwh) doc["energy_mwh"] = *cost.mwh;
  doc["goodput"] = cost.goodput;
  if (counts_failures(r)) {
    doc["failures"] = cost.failures;
    doc["checkpoint_interval_s"] = cost.seconds_between_checkpoints;
    doc["checkpoint_interval_steps"] = cost.steps_between_checkpoints;
  }
  return doc;
}

ordered_json row_json(const CampaignReport& r, const CampaignRow& row) {
  ordered_json doc{{"job", row.name}, {"gpus", row.gpus}, {"fits", row.why_not.empty()}};
  if (!row.why_not.empty()) {
    doc["why"] = row.why_not;
  } else {
    doc["fastest"] = fastest(r) == &row;
    doc["cheapest"] = cheapest(r) == &row;
    if (!row.plan_flags.empty()) doc["flags"] = row.plan_flags;
    doc["step_time_s"] = row.run.step_seconds;
    doc["step_error"] = {{"share", row.error.share},
                         {"published_steps", row.error.steps},
                         {"framework", row.error.framework},
                         {"least_gpus", row.error.least_gpus}};
    doc["steps"] = row.run.steps;
    doc[r.unit + "_per_step"] = row.amount_per_step;
    if (r.checkpoint_bandwidth > 0) {
      doc["checkpoint_bytes"] = row.checkpoint_bytes;
      doc["checkpoint_s"] = row.checkpoint_bytes / r.checkpoint_bandwidth;
    }
    if (counts_failures(r)) doc["mtbf_s"] = row.run.mtbf_seconds;
    if (row.run.price_per_gpu_hour) doc["dollars_per_gpu_hour"] = *row.run.price_per_gpu_hour;
    doc["estimate"] = cost_json(row.cost.estimate, r);
    doc["low"] = cost_json(row.cost.low, r);
    doc["high"] = cost_json(row.cost.high, r);
  }
  doc["configuration"] = row.configuration;
  return doc;
}

// The least by `number` of the rows that fit, the first of equal ones.
const CampaignRow* least(const CampaignReport& r, const std::function<double(const Cost&)>& number) {
  const std::vector<const CampaignRow*> rows = fitting(r);
  if (rows.size() < 2) return nullptr;
  return *std::min_element(rows.begin(), rows.end(), [&](const CampaignRow* a, const CampaignRow* b) {
    return number(a->cost.estimate) < number(b->cost.estimate);
  });
}

}  // namespace

const CampaignRow* fastest(const CampaignReport& r) {
  return least(r, [](const Cost& c) { return c.seconds; });
}

const CampaignRow* cheapest(const CampaignReport& r) {
  for (const CampaignRow* row : fitting(r))
    if (!row->cost.estimate.price) return nullptr;
  return least(r, [](const Cost& c) { return *c.price; });
}

std::string to_table(const CampaignReport& r) {
  std::string text = fmt::format("training on {} {}; below each estimate its range, from low to high\n\n",
                                 number_text(r.amount), r.unit) +
                     rows_text(r);
  if (fitting(r).empty()) return text;
  text += "\n" + conditions_text(r);
  const std::string left_out = left_out_text(r);
  return left_out.empty() ? text : text + "\nnot counted\n" + left_out;
}

std::string to_json(const CampaignReport& r) {
  ordered_json doc;
  doc["schema_version"] = 1;
  doc[r.unit] = r.amount;
  if (r.checkpoint_bandwidth > 0) doc["checkpoint_bandwidth_bytes_per_s"] = r.checkpoint_bandwidth;
  if (counts_failures(r)) {
    doc["given_mtbf_s"] = r.mtbf_seconds;
    doc["given_mtbf_gpus"] = r.mtbf_gpus;
    doc["restart_s"] = r.restart_seconds;
  }
  if (!r.rows.empty() && r.rows[0].run.watts_per_gpu) {
    doc["watts_per_gpu"] = *r.rows[0].run.watts_per_gpu;
    doc["pue"] = r.pue;
  }
  doc["rows"] = ordered_json::array();
  for (const CampaignRow& row : r.rows) doc["rows"].push_back(row_json(r, row));
  return doc.dump(2) + "\n";
}

}  // namespace boxcar::cli
