// The columns of a file of runs: the inputs of each run, and its results.
//
//   columns()[0].name == "key"
//   column_named("step_time_s")->type == ColumnType::real, ->better == Better::less
//
// A constant of the cluster that a sweep changes is a column too, which only files of such sweeps have:
// what_if_column("bandwidth.network") == "what_if_bandwidth_network".
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace boxcar::cli {

enum class ColumnType : uint8_t { integer, real, truth, text };
enum class Better : uint8_t { neither, less, more };

struct Column {
  std::string name;
  ColumnType type = ColumnType::text;
  std::string meaning;
  std::string key = {};  // of a job, "parallel.tp"; empty: not a key's column
  Better better = Better::neither;
};

// In the order of a file: identity, keys of a job as sweep_name() calls them, results.
const std::vector<Column>& columns();
const Column* column_named(std::string_view name);  // null: none
std::string what_if_column(const std::string& constant);
inline constexpr const char* what_if_prefix = "what_if_";

// A run as it is stored.
struct RunRow {
  std::string key;       // of its resolved configuration; unique
  int64_t point = 0;     // its number in the sweep that ran it
  nlohmann::json cells;  // values by column, without unknown ones
};

// A value of a key as its column holds it: a number, true or false, or the text.
nlohmann::json cell_of(const Column& column, const std::string& text);

// Rows to and from the text that processes send each other.
std::string to_text(const RunRow& row);
RunRow row_of(const std::string& text);

}  // namespace boxcar::cli
