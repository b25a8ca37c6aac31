// SQLite's C interface with owners for the objects that it opens, and its refusals as errors of ours.
//
//   SqliteFile file("runs.db", SQLITE_OPEN_READONLY);
//   for (SqliteStatement s(file, "SELECT name FROM meta"); s.step();) s.text(0);
#pragma once

#include <sqlite3.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "sbp/error.h"

namespace boxcar::sweep {

inline constexpr int runs_application_id = 0x42584352;  // "BXCR", in the file's header

class SqliteFile {
 public:
  // Throws Error (bad input) at `path` if it cannot be opened.
  SqliteFile(std::string path, int flags);
  ~SqliteFile();
  SqliteFile(const SqliteFile&) = delete;
  SqliteFile& operator=(const SqliteFile&) = delete;

  sqlite3* get() const { return database_; }
  const std::string& path() const { return path_; }
  // Throws error() if SQLite refuses.
  void run(const std::string& sql) const;
  int64_t number(const std::string& sql) const;  // the first value of the first row; 0: there is none
  // The last refusal: a damaged or foreign file is bad input, anything else a fault.
  Error error(int code) const;

 private:
  std::string path_;
  sqlite3* database_ = nullptr;
};

class SqliteStatement {
 public:
  // Throws file.error() if it cannot be prepared.
  SqliteStatement(const SqliteFile& file, const std::string& sql);
  SqliteStatement(const SqliteFile& file, sqlite3_stmt* prepared) : file_(file), statement_(prepared) {}
  ~SqliteStatement() { sqlite3_finalize(statement_); }
  SqliteStatement(const SqliteStatement&) = delete;
  SqliteStatement& operator=(const SqliteStatement&) = delete;

  void bind(int index, const nlohmann::json& value) const;  // from 1
  bool step() const;                                        // whether there is a row
  void reset() const { sqlite3_reset(statement_); }
  std::string text(int column) const;  // from 0; empty for null
  nlohmann::json value(int column) const;

 private:
  const SqliteFile& file_;
  sqlite3_stmt* statement_ = nullptr;
};

// "a name" with quotes doubled and around it, as SQL has identifiers.
std::string sql_name(const std::string& name);

// Throws Error (bad input) unless the file is one of runs that this program reads: its application's number,
// two tables that are no views, and the schema's version.
void check_runs_file(const SqliteFile& file);

// The columns of table `runs`, in order.
std::vector<std::string> columns_of(const SqliteFile& file);

}  // namespace boxcar::sweep
