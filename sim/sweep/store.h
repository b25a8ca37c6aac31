// Files of runs: an SQLite database with a table `runs`, a row for each run (columns.h), and a table `meta`.
// `boxcar table` reads them too, whichever program wrote them.
//
//   RunsWriter writer("runs.db", format, text);  // makes the file, or continues with one
//   if (!writer.keys().contains(key)) writer.add({row});   // on disk when add() returns
//
//   const RunsQuery query{.where = "step_time_s < 2", .columns = {"tp", "mfu"}};
//   read_runs("runs.db", format, query).rows[0];   // {8, 0.352}
//
// A file has at most one writer at a time: another one is refused. Readers come and go meanwhile. After a
// crash of the program or of the machine the file holds all rows whose add() returned, and no part of
// another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sbp/error.h"
#include "sim/sweep/columns.h"

namespace boxcar::sweep {

inline constexpr int runs_schema_version = 1;

// Whether this build has SQLite. Without it, all that follows throws Error (cannot run), which says so.
bool has_sqlite();

class RunsWriter {
 public:
  // `meta` keeps `sweep`, a text that says what is swept, and `axes`, columns of inputs that have several
  // values, to show them. `tell` hears if a reader is waited for. Throws Error (bad input) if `path` cannot
  // be written, is no file of runs or a damaged one, is of another version, or has a writer already.
  RunsWriter(
      const std::string& path, const RunsFormat& format, const std::string& sweep,
      const std::vector<std::string>& axes = {},
      std::function<void(const std::string&)> tell = [](const std::string&) {});
  ~RunsWriter();
  RunsWriter(const RunsWriter&) = delete;
  RunsWriter& operator=(const RunsWriter&) = delete;

  // Keys of all rows, those that were there before included.
  const std::set<std::string>& keys() const;
  // In one transaction, on disk when it returns. A row whose key is there is left out. Waits while a reader
  // holds the file. Throws Error (fault): a full disk.
  void add(const std::vector<RunRow>& rows);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct RunsQuery {
  std::string where = {};                 // one expression of SQL on columns; empty: all rows
  std::vector<std::string> columns = {};  // empty: those that a sweep asked about, and usual results
  std::vector<std::string> sort = {};     // "step_time_s", "mfu desc"; unknown values are last
  std::vector<std::string> pareto =
      {};  // columns in which no other row may be better (planner/solve/pareto.h)
  std::optional<int64_t> limit = {};
  bool drop_unknown = true;  // leave out usual columns that no row knows
};

struct RunsTable {
  std::vector<std::string> columns;
  std::vector<std::vector<nlohmann::json>> rows;  // null if a value is unknown
  std::vector<std::string> unknown = {};  // columns of `pareto` that no row knows, so that there is no front
};

// Bad input: a part of a query, which where() names: "where", "columns", "sort" or "pareto".
class QueryError : public Error {
 public:
  QueryError(std::string part, std::string message)
      : Error(Exit::bad_input, std::move(part), std::move(message)) {}
};

// Rows of a file, which may be anybody's: nothing is written, attached, loaded or called but SQLite's own
// functions of values. Throws Error (bad input) at the file, and QueryError.
RunsTable read_runs(const std::string& path, const RunsFormat& format, const RunsQuery& query);

// The columns that a file has, in its order.
std::vector<std::string> runs_columns(const std::string& path);
// Those of inputs that its sweeps gave several values, else of inputs in which its rows differ.
std::vector<std::string> asked_columns(const std::string& path, const RunsFormat& format);

}  // namespace boxcar::sweep
