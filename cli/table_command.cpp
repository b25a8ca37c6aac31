#include "cli/table_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/sweep/runs_format.h"
#include "ir/units.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using sweep::Better;
using sweep::Column;
using sweep::RunsTable;

struct TableArguments {
  std::string file, where, columns, sort, pareto;
  std::optional<int64_t> limit;
  bool csv = false, json = false, list = false;
};

std::vector<std::string> listed(const std::string& flag, const std::string& text) {
  std::vector<std::string> names;
  std::string name;
  for (std::istringstream words(text); std::getline(words, name, ',');) {
    name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
    while (name.ends_with(' ')) name.pop_back();
    if (name.empty())
      throw Error::input(flag, fmt::format("got \"{}\", expected names with commas between them", text));
    names.push_back(name);
  }
  return names;
}

// A file may come from anybody: control characters are shown as numbers.
std::string shown(const std::string& text) {
  std::string safe;
  for (const char c : text)
    safe += (c >= 0 && c < ' ') || c == 0x7f ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c))
                                             : std::string(1, c);
  return safe;
}

bool is_bytes(const std::string& column) { return column.ends_with("_bytes"); }

std::string cell_text(const std::string& column, const json& value) {
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number() && is_bytes(column)) return ir::format_bytes(value.get<double>());
  if (value.is_number_integer()) return fmt::format("{}", value.get<int64_t>());
  if (value.is_number()) return fmt::format("{:.4g}", value.get<double>());
  return shown(value.get<std::string>());
}

// All digits, so that a number reads back unchanged.
std::string whole_text(const json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  return value.dump();
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of("\",\r\n") == std::string::npos) return text;
  std::string safe = "\"";
  for (const char c : text) safe += c == '"' ? std::string("\"\"") : std::string(1, c);
  return safe + "\"";
}

std::string list_text(const std::string& path) {
  std::string text;
  for (const std::string& name : sweep::runs_columns(path)) {
    const Column* column = runs_format().column(name);
    const char* better = !column                          ? ""
                         : column->better == Better::less ? "; less is better"
                         : column->better == Better::more ? "; more is better"
                                                          : "";
    const std::string meaning = column ? column->meaning
                                : name.starts_with(sweep::what_if_prefix)
                                    ? "a constant of the cluster: its factor, or its number"
                                    : "";
    text += fmt::format("{:<26} {}{}\n", shown(name), meaning, better);
  }
  return text;
}

void check_table_arguments(const TableArguments& a) {
  if (a.csv && a.json) throw Error::input("--json", "--csv is given too; give one of them");
  if (a.list && (a.csv || a.json || !a.where.empty() || !a.columns.empty() || !a.sort.empty() ||
                 !a.pareto.empty() || a.limit))
    throw Error::input("--list", "stands alone");
}

// The reason why there is no front.
std::string no_front_text(const std::vector<std::string>& unknown) {
  std::string text = fmt::format("--pareto: no row has {}", fmt::join(unknown, " or "));
  if (std::find(unknown.begin(), unknown.end(), "dollars_per_step") != unknown.end())
    return text + "; a sweep gives dollars where it has a price (boxcar sweep --price 2.50)";
  return text + "; --columns point,why_not says why";
}

void run_table(const TableArguments& a) {
  check_table_arguments(a);
  if (a.list) return print(list_text(a.file));
  const RunsTable table = read_rows(a.file, {.where = a.where,
                                             .columns = listed("--columns", a.columns),
                                             .sort = listed("--sort", a.sort),
                                             .pareto = listed("--pareto", a.pareto),
                                             .limit = a.limit,
                                             .drop_unknown = !a.csv && !a.json});
  if (!table.unknown.empty()) tell(no_front_text(table.unknown));
  print(a.csv ? to_csv(table) : a.json ? to_json(table) : to_table(table));
}

}  // namespace

std::string to_table(const RunsTable& table) {
  const size_t count = table.columns.size();
  std::vector<std::vector<std::string>> lines{{}};
  std::vector<size_t> widths(count, 0);
  std::vector<char> numbers(count, 1);
  for (const std::string& name : table.columns) lines[0].push_back(shown(name));
  for (const auto& row : table.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (size_t i = 0; i < count; ++i) {
      line.push_back(cell_text(table.columns[i], row[i]));
      if (row[i].is_string()) numbers[i] = 0;
    }
  }
  for (const auto& line : lines)
    for (size_t i = 0; i < count; ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const auto& line : lines) {
    std::string one;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) one += "  ";
      one += numbers[i] != 0 ? fmt::format("{:>{}}", line[i], widths[i])
                             : fmt::format("{:<{}}", line[i], widths[i]);
    }
    while (one.ends_with(' ')) one.pop_back();
    text += one + "\n";
  }
  return table.rows.empty() ? text + "no rows\n" : text;
}

std::string to_csv(const RunsTable& table) {
  std::string text;
  const auto add_line = [&](const auto& cells, const auto& cell) {
    for (size_t i = 0; i < cells.size(); ++i) text += (i > 0 ? "," : "") + csv_cell(cell(cells[i]));
    text += "\r\n";
  };
  add_line(table.columns, [](const std::string& name) { return name; });
  for (const auto& row : table.rows) add_line(row, whole_text);
  return text;
}

std::string to_json(const RunsTable& table) {
  ordered_json doc{{"schema_version", 1}, {"columns", table.columns}, {"rows", ordered_json::array()}};
  for (const auto& row : table.rows) {
    ordered_json one = ordered_json::object();
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string& name = table.columns[i];
      one[name] = row[i];
      if ((name != "configuration" && name != "result") || !row[i].is_string()) continue;
      ordered_json inner = ordered_json::parse(row[i].get_ref<const std::string&>(), nullptr, false);
      if (!inner.is_discarded()) one[name] = std::move(inner);
    }
    doc["rows"].push_back(std::move(one));
  }
  return doc.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

void add_table_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("table", "rows of a file that `boxcar sweep` wrote");
  auto a = std::make_shared<TableArguments>();
  command->allow_extras();
  command->add_option("FILE", a->file, "the file of runs")->required()->check(not_empty());
  command
      ->add_option("--where", a->where,
                   "rows for which this holds, an expression of SQL on columns [all rows]")
      ->type_name("\"step_time_s < 2 and tp = 8\"")
      ->check(not_empty());
  command
      ->add_option("--columns", a->columns, "columns, in this order [keys with several values, and results]")
      ->type_name("tp,pp,step_time_s")
      ->check(not_empty());
  command->add_option("--sort", a->sort, "sort by columns, each with asc or desc behind it [by point]")
      ->type_name("\"mfu desc,gpus\"")
      ->check(not_empty());
  command->add_option("--pareto", a->pareto, "rows that no other row beats in all of these columns")
      ->type_name("step_time_s,peak_memory_bytes")
      ->check(not_empty());
  command->add_option("--limit", a->limit, "so many rows at most [all]")
      ->type_name("N")
      ->check(whole_number(0, 1'000'000'000));
  command->add_flag("--csv", a->csv, "print CSV");
  command->add_flag("--json", a->json, "print one JSON document");
  command->add_flag("--list", a->list, "print the columns of the file and what they mean");
  command->footer("Defaults are in brackets. See docs/sweep.md.");
  command->callback([a, command] {
    refuse_extras(*command);
    run_table(*a);
  });
}

}  // namespace boxcar::cli
