#include "sim/sweep/sqlite_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "ir/read_number.h"
#include "sim/sweep/store.h"

namespace boxcar::sweep {
namespace {

constexpr const char* no_runs = "is no file of runs, which `boxcar sweep` writes (give another name)";

}  // namespace

SqliteFile::SqliteFile(std::string path, int flags) : path_(std::move(path)) {
  // A name that SQLite would take for memory, a temporary file or a URI is still a file's name.
  const std::string name = std::filesystem::absolute(path_).string();
  const int code = sqlite3_open_v2(name.c_str(), &database_, flags, nullptr);
  if (code != SQLITE_OK) {
    const std::string reason = database_ ? sqlite3_errmsg(database_) : "out of memory";
    sqlite3_close(database_);
    throw Error::input(path_, "cannot be opened: " + reason);
  }
  sqlite3_extended_result_codes(database_, 1);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);  // "x" is a column, never a text
  sqlite3_db_config(database_, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
}

SqliteFile::~SqliteFile() { sqlite3_close(database_); }

Error SqliteFile::error(int code) const {
  const std::string reason = sqlite3_errmsg(database_);
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      return Error::input(path_, no_runs);
    case SQLITE_CORRUPT:
      return Error::input(path_,
                          fmt::format("is damaged ({}); `sqlite3 {} .recover` may save rows", reason, path_));
    case SQLITE_READONLY:
    case SQLITE_PERM:
      return Error::input(path_, "cannot be written: " + reason);
    case SQLITE_FULL:
      return Error::fault(path_, "cannot be written: no space left");
    default:
      return Error::fault(path_, reason);
  }
}

void SqliteFile::run(const std::string& sql) const {
  const int code = sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) throw error(code);
}

int64_t SqliteFile::number(const std::string& sql) const {
  const SqliteStatement statement(*this, sql);
  if (!statement.step()) return 0;
  const nlohmann::json value = statement.value(0);
  return value.is_number_integer() ? value.get<int64_t>() : 0;
}

SqliteStatement::SqliteStatement(const SqliteFile& file, const std::string& sql) : file_(file) {
  const int code =
      sqlite3_prepare_v2(file.get(), sql.c_str(), static_cast<int>(sql.size()), &statement_, nullptr);
  if (code != SQLITE_OK) throw file.error(code);
}

void SqliteStatement::bind(int index, const nlohmann::json& value) const {
  int code = SQLITE_OK;
  if (value.is_null()) {
    code = sqlite3_bind_null(statement_, index);
  } else if (value.is_boolean()) {
    code = sqlite3_bind_int(statement_, index, value.get<bool>() ? 1 : 0);
  } else if (value.is_number_integer()) {
    code = sqlite3_bind_int64(statement_, index, value.get<int64_t>());
  } else if (value.is_number()) {
    code = sqlite3_bind_double(statement_, index, value.get<double>());
  } else {
    const auto& text = value.get_ref<const std::string&>();
    code = sqlite3_bind_text(statement_, index, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
  }
  if (code != SQLITE_OK) throw file_.error(code);
}

bool SqliteStatement::step() const {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  throw file_.error(code);
}

std::string SqliteStatement::text(int column) const {
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
  return bytes ? std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : "";
}

nlohmann::json SqliteStatement::value(int column) const {
  switch (sqlite3_column_type(statement_, column)) {
    case SQLITE_INTEGER:
      return static_cast<int64_t>(sqlite3_column_int64(statement_, column));
    case SQLITE_FLOAT:
      return sqlite3_column_double(statement_, column);
    case SQLITE_NULL:
      return nullptr;
    default:
      return text(column);
  }
}

std::string sql_name(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

void check_runs_file(const SqliteFile& file) {
  if (file.number("PRAGMA application_id") != runs_application_id) throw Error::input(file.path(), no_runs);
  const int64_t tables = file.number(
      "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ('runs', 'meta') AND rootpage > "
      "0");
  if (tables != 2) throw Error::input(file.path(), no_runs);
  const SqliteStatement version(file, "SELECT value FROM meta WHERE name = 'schema_version'");
  const auto number = version.step() ? ir::read_number<int>(version.text(0)) : std::nullopt;
  if (!number) throw Error::input(file.path(), no_runs);
  if (*number != runs_schema_version)
    throw Error::input(file.path(),
                       fmt::format("has schema {}, and this boxcar reads {} (use the boxcar that wrote it)",
                                   *number, runs_schema_version));
}

std::vector<std::string> columns_of(const SqliteFile& file) {
  std::vector<std::string> names;
  for (const SqliteStatement row(file, "PRAGMA table_info(runs)"); row.step();) names.push_back(row.text(1));
  return names;
}

}  // namespace boxcar::sweep
