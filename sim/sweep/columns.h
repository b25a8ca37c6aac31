// The columns of a file of runs: the inputs of each run, and its results.
//
//   const RunsFormat format({"boxcar", "0.1.0"},
//                           {{.name = "tp", .type = ColumnType::integer, .asked = true},
//                            {.name = "mfu", .type = ColumnType::real, .better = Better::more}},
//                           {"mfu"});
//   format.columns()[0].name == "key"   // every file has key and point
//   format.column("mfu")->better == Better::more
//
// A constant of the cluster that a sweep changes is a column too, which only files of such sweeps have:
// what_if_column("bandwidth.network") == "what_if_bandwidth_network".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sim/sweep/program.h"

namespace boxcar::sweep {

enum class ColumnType : uint8_t { integer, real, truth, text };
enum class Better : uint8_t { neither, less, more };

struct Column {
  std::string name;
  ColumnType type = ColumnType::text;
  std::string meaning = {};
  std::string key = {};  // what the program calls its value, if that is another name: "parallel.tp"
  Better better = Better::neither;
  bool asked = false;  // an input that a sweep may ask about
};

// What the files of a program's runs have in common.
class RunsFormat {
 public:
  // `columns` follow key and point in a new file. `usual` are the results that people look at first.
  RunsFormat(Program program, std::vector<Column> columns, std::vector<std::string> usual = {});

  const Program& program() const { return program_; }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::string>& usual() const { return usual_; }
  const Column* column(std::string_view name) const;  // null: none

 private:
  Program program_;
  std::vector<Column> columns_;
  std::vector<std::string> usual_;
};

std::string what_if_column(const std::string& constant);
inline constexpr const char* what_if_prefix = "what_if_";

// A run as it is stored.
struct RunRow {
  std::string key;       // of its resolved configuration; unique
  int64_t point = 0;     // its number in the sweep that ran it
  nlohmann::json cells;  // values by column, without unknown ones
};

// A value as its column holds it: a number, true or false, or the text.
nlohmann::json cell_of(const Column& column, const std::string& text);

// Rows to and from the text that processes send each other.
std::string to_text(const RunRow& row);
RunRow row_of(const std::string& text);

}  // namespace boxcar::sweep
