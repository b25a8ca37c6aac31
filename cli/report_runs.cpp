#include "cli/report_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "cli/sweep/runs_format.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

using nlohmann::ordered_json;
using sweep::Better;
using sweep::Column;
using sweep::RunsTable;

bool is_known_to_a_row(const RunsTable& table, size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(),
                     [&](const auto& row) { return !row[column].is_null(); });
}

ordered_json column_json(const std::string& name, bool asked) {
  const Column* column = runs_format().column(name);
  const bool is_key = !column || !column->key.empty();
  const Better better = column ? column->better : Better::neither;
  return {{"name", name},
          {"meaning", column ? column->meaning : "a constant of the cluster: its factor, or its number"},
          {"kind", asked    ? "asked"
                   : is_key ? "key"
                            : "result"},
          {"better", better == Better::neither ? ordered_json()
                     : better == Better::less  ? ordered_json("less")
                                               : ordered_json("more")}};
}

}  // namespace

bool is_runs_file(const std::string& path) {
  constexpr std::string_view magic = "SQLite format 3";
  std::string begins(magic.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(begins.data(), static_cast<std::streamsize>(begins.size()));
  return begins == magic;
}

ordered_json runs_document(const std::string& path, const std::string& where) {
  sweep::RunsQuery query{.where = where, .columns = sweep::runs_columns(path)};
  std::erase_if(query.columns, [](const std::string& name) {
    return name == "key" || name == "configuration" || name == "result";
  });
  const RunsTable table = read_rows(path, query);
  if (table.rows.empty())
    throw Error::input(path, where.empty() ? "has no rows" : "has no rows for which --where holds");
  if (table.rows.size() > most_rows_of_a_page)
    throw Error::input(path,
                       fmt::format("{} rows are more than the {} that a page takes (choose some by --where)",
                                   table.rows.size(), most_rows_of_a_page));
  const std::vector<std::string> asked = sweep::asked_columns(path, runs_format());
  ordered_json columns = ordered_json::array(), rows = ordered_json::array();
  std::vector<size_t> shown;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (!is_known_to_a_row(table, i)) continue;
    shown.push_back(i);
    const std::string& name = table.columns[i];
    columns.push_back(column_json(name, std::find(asked.begin(), asked.end(), name) != asked.end()));
  }
  for (const auto& row : table.rows) {
    ordered_json& cells = rows.emplace_back(ordered_json::array());
    for (const size_t i : shown) cells.emplace_back(row[i]);
  }
  return {{"schema_version", 1},
          {"runs", std::filesystem::path(path).filename().string()},
          {"where", where},
          {"columns", std::move(columns)},
          {"rows", std::move(rows)}};
}

}  // namespace boxcar::cli
