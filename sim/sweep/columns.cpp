#include "sim/sweep/columns.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "ir/read_number.h"

namespace boxcar::sweep {

RunsFormat::RunsFormat(Program program, std::vector<Column> columns, std::vector<std::string> usual)
    : program_(std::move(program)),
      columns_{
          {"key", ColumnType::text, "identifies the resolved configuration; no two rows have the same"},
          {"point", ColumnType::integer, "number of the point in the sweep that ran it, from 0"},
      },
      usual_(std::move(usual)) {
  std::move(columns.begin(), columns.end(), std::back_inserter(columns_));
}

const Column* RunsFormat::column(std::string_view name) const {
  const auto found =
      std::find_if(columns_.begin(), columns_.end(), [&](const Column& one) { return one.name == name; });
  return found == columns_.end() ? nullptr : &*found;
}

std::string what_if_column(const std::string& constant) {
  std::string name = what_if_prefix + constant;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

nlohmann::json cell_of(const Column& column, const std::string& text) {
  if (column.type == ColumnType::truth) return text == "true";
  if (column.type == ColumnType::integer)
    if (const auto number = ir::read_number<int64_t>(text)) return *number;
  if (column.type == ColumnType::real)
    if (const auto number = ir::read_number<double>(text)) return *number;
  return text;
}

std::string to_text(const RunRow& row) {
  return nlohmann::json{{"key", row.key}, {"point", row.point}, {"cells", row.cells}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RunRow row_of(const std::string& text) {
  nlohmann::json doc = nlohmann::json::parse(text);
  return {doc.at("key"), doc.at("point"), std::move(doc.at("cells"))};
}

}  // namespace boxcar::sweep
