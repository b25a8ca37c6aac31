#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "planner/solve/pareto.h"
#include "sbp/error.h"
#include "sbp/suggest.h"
#include "sim/sweep/sqlite_file.h"
#include "sim/sweep/store.h"

namespace boxcar::sweep {
namespace {

using nlohmann::json;

constexpr std::array allowed_functions{
    "abs",    "round",  "min",       "max",          "lower", "upper", "length",  "like",     "glob",
    "instr",  "substr", "substring", "trim",         "ltrim", "rtrim", "replace", "coalesce", "ifnull",
    "nullif", "iif",    "typeof",    "json_extract", "->",    "->>",   "sign",    "floor",    "ceil",
    "sqrt",   "ln",     "log",       "log2",         "log10", "exp",   "pow",     "power"};

// Lets a user's expression read the columns of `runs` by functions of values, and nothing else.
struct Permission {
  int selects = 0;
  std::string refused;  // why the statement was refused
};

int permit(void* context, int action, const char* first, const char* second, const char*, const char*) {
  auto& permission = *static_cast<Permission*>(context);
  const auto refuse_for = [&](std::string why) {
    permission.refused = std::move(why);
    return SQLITE_DENY;
  };
  if (action == SQLITE_SELECT)
    return ++permission.selects == 1 ? SQLITE_OK : refuse_for("has a SELECT of its own");
  if (action == SQLITE_READ)
    return first && std::string_view(first) == "runs" ? SQLITE_OK : refuse_for("reads another table");
  if (action == SQLITE_FUNCTION) {
    const std::string_view name = second ? second : "";
    for (const char* allowed : allowed_functions)
      if (name == allowed) return SQLITE_OK;
    return refuse_for(fmt::format("calls {}, which is none of the functions of values", name));
  }
  return refuse_for("does more than read columns");
}

// A sweep of quick points writes nearly all the time: a reader that tries rarely finds it always locked.
int wait_for_writer(void*, int times) {
  constexpr int between_ms = 1, at_most_ms = 10'000;
  sqlite3_sleep(between_ms);
  return times * between_ms < at_most_ms ? 1 : 0;
}

// A program that died while writing leaves a journal, from which the file is repaired before it is read.
void mend(const std::string& path) {
  const SqliteFile file(path, SQLITE_OPEN_READWRITE);
  sqlite3_busy_handler(file.get(), wait_for_writer, nullptr);
  file.number("SELECT count(*) FROM sqlite_schema");
}

std::unique_ptr<SqliteFile> open_runs(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none))
    throw Error::input(path, "cannot be read; check the path (`boxcar sweep` writes such a file)");
  for (bool mended = false;; mended = true) {
    auto file = std::make_unique<SqliteFile>(path, SQLITE_OPEN_READONLY);
    sqlite3_busy_handler(file->get(), wait_for_writer, nullptr);
    sqlite3_limit(file->get(), SQLITE_LIMIT_SQL_LENGTH, 100'000);
    sqlite3_limit(file->get(), SQLITE_LIMIT_EXPR_DEPTH, 200);
    sqlite3_limit(file->get(), SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100);
    sqlite3_limit(file->get(), SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_stmt* look = nullptr;
    const int code =
        sqlite3_prepare_v2(file->get(), "SELECT count(*) FROM sqlite_schema", -1, &look, nullptr);
    sqlite3_finalize(look);
    if (code == SQLITE_OK) {
      file->run("PRAGMA query_only = 1");
      file->run("PRAGMA cell_size_check = 1");
      check_runs_file(*file);
      return file;
    }
    const bool unfinished = (code & 0xff) == SQLITE_READONLY || (code & 0xff) == SQLITE_CANTOPEN;
    if (mended || !unfinished) throw file->error(code);
    file.reset();
    mend(path);
  }
}

void check_column(const std::string& part, const std::string& name, const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  const std::string suggestion = did_you_mean(name, known);
  const bool may_be_text = suggestion.empty() && part == "where";
  throw QueryError(
      part, fmt::format("no column is named \"{}\"{}{}; `boxcar table FILE --list` names all", name,
                        suggestion, may_be_text ? fmt::format("; text is in quotes: '{}'", name) : ""));
}

[[noreturn]] void refuse_where(const RunsQuery& query, const std::string& why) {
  throw QueryError("where", fmt::format("got \"{}\", {}; expected one expression on columns, such as "
                                        "\"step_time_s < 2 and tp = 8\"",
                                        query.where, why));
}

using WhereStatement = std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)>;

// A statement that contains the user's expression; it may not be run yet.
WhereStatement prepare_where(const SqliteFile& file, const std::string& sql, const RunsQuery& query,
                             const std::vector<std::string>& known, Permission& permission) {
  permission = {};
  sqlite3_stmt* statement = nullptr;
  const char* rest = nullptr;
  const int code =
      sqlite3_prepare_v2(file.get(), sql.c_str(), static_cast<int>(sql.size()), &statement, &rest);
  WhereStatement prepared(statement, sqlite3_finalize);
  if (!permission.refused.empty()) refuse_where(query, "which " + permission.refused);
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB || (code & 0xff) == SQLITE_IOERR)
    throw file.error(code);
  if (code != SQLITE_OK) {
    const std::string why = sqlite3_errmsg(file.get());
    constexpr std::string_view unknown = "no such column: ";
    if (why.starts_with(unknown)) check_column("where", why.substr(unknown.size()), known);
    refuse_where(query, why);
  }
  if (rest != sql.c_str() + sql.size()) refuse_where(query, "which is more than one statement");
  if (sqlite3_bind_parameter_count(statement) > 0) refuse_where(query, "which has a parameter");
  return prepared;
}

// An expression that reads the same in parentheses and without is complete by itself, and closes nothing that
// it did not open.
void check_where(const SqliteFile& file, const RunsQuery& query, const std::vector<std::string>& known,
                 Permission& permission) {
  for (const char* form : {"SELECT 1 FROM runs WHERE ({}\n)", "SELECT CASE WHEN {}\nTHEN 1 END FROM runs"})
    prepare_where(file, fmt::format(fmt::runtime(form), query.where), query, known, permission);
}

std::string order_of(const RunsQuery& query, const std::vector<std::string>& known) {
  std::string order;
  for (const std::string& term : query.sort) {
    std::istringstream words(term);
    std::string name, way, more;
    words >> name >> way >> more;
    check_column("sort", name, known);
    if ((!way.empty() && way != "asc" && way != "desc") || !more.empty())
      throw QueryError("sort", fmt::format("got \"{}\", expected a column, and asc or desc behind it", term));
    order += fmt::format("{} {} NULLS LAST, ", sql_name(name), way.empty() ? "asc" : way);
  }
  return order + "\"point\", \"key\"";
}

// Columns of inputs with several values, as the file's sweeps name them.
std::vector<std::string> axes_of(const SqliteFile& file, const std::vector<std::string>& known) {
  const SqliteStatement row(file, "SELECT value FROM meta WHERE name = 'axes'");
  const json named = row.step() ? json::parse(row.text(0), nullptr, false) : json();
  std::vector<std::string> all;
  if (named.is_array())
    for (const json& name : named)
      if (name.is_string() && std::find(known.begin(), known.end(), name.get<std::string>()) != known.end())
        all.push_back(name);
  return all;
}

// Columns of the sweep's questions: axes, otherwise inputs in which rows differ.
std::vector<std::string> asked_in(const SqliteFile& file, const RunsFormat& format,
                                  const std::vector<std::string>& known) {
  std::vector<std::string> all = axes_of(file, known);
  if (!all.empty()) return all;
  const auto differs = [&](const std::string& name) {
    return file.number(fmt::format("SELECT min({0}) IS NOT max({0}) FROM runs", sql_name(name))) == 1;
  };
  for (const std::string& name : known) {
    const Column* column = format.column(name);
    const bool asked = name.starts_with(what_if_prefix) || (column && column->asked);
    if (asked && differs(name)) all.push_back(name);
  }
  return all;
}

// Those, followed by the results that people look at first.
std::vector<std::string> usual_columns(const SqliteFile& file, const RunsFormat& format,
                                       const std::vector<std::string>& known) {
  std::vector<std::string> all = asked_in(file, format, known);
  const auto is_known = [&](const std::string& name) {
    return file.number(fmt::format("SELECT count({}) FROM runs", sql_name(name))) > 0;
  };
  for (const std::string& name : format.usual())
    if (std::find(known.begin(), known.end(), name) != known.end() && is_known(name)) all.push_back(name);
  return all;
}

json cell_in(const SqliteStatement& row, int index, const Column* column) {
  json value = row.value(index);
  if (column && column->type == ColumnType::truth && (value == 0 || value == 1)) return value == 1;
  return value;
}

// How much worse a value is: less is better.
double badness(const Column* column, const json& value) {
  return column && column->better == Better::more ? -value.get<double>() : value.get<double>();
}

// Drops columns that nobody asked for and that no row knows.
void drop_unknown(RunsTable& table) {
  for (size_t i = table.rows.empty() ? 0 : table.columns.size(); i-- > 0;) {
    if (std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return !row[i].is_null(); }))
      continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    table.columns.erase(table.columns.begin() + at);
    for (auto& row : table.rows) row.erase(row.begin() + at);
  }
}

void check_pareto(const RunsQuery& query, const RunsFormat& format, const std::vector<std::string>& known) {
  for (const std::string& name : query.pareto) {
    check_column("pareto", name, known);
    const Column* column = format.column(name);
    if (column && column->better != Better::neither) continue;
    std::vector<std::string> with_direction;
    for (const Column& one : format.columns())
      if (one.better != Better::neither) with_direction.push_back(one.name);
    throw QueryError("pareto", fmt::format("neither less nor more of {} is better; known are {}", name,
                                           fmt::join(with_direction, ", ")));
  }
}

void check_twice(const std::string& part, const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      throw QueryError(part, names[i] + " is given twice");
}

}  // namespace

std::vector<std::string> runs_columns(const std::string& path) { return columns_of(*open_runs(path)); }

std::vector<std::string> asked_columns(const std::string& path, const RunsFormat& format) {
  const std::unique_ptr<SqliteFile> file = open_runs(path);
  return asked_in(*file, format, columns_of(*file));
}

RunsTable read_runs(const std::string& path, const RunsFormat& format, const RunsQuery& query) {
  const std::unique_ptr<SqliteFile> file = open_runs(path);
  const std::vector<std::string> known = columns_of(*file);
  for (const char* name : {"key", "point"})
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error::input(path, fmt::format("is damaged (runs has no column {})", name));
  for (const std::string& name : query.columns) check_column("columns", name, known);
  check_twice("columns", query.columns);
  check_pareto(query, format, known);
  RunsTable table{query.columns.empty() ? usual_columns(*file, format, known) : query.columns, {}};
  if (query.columns.empty())
    for (const std::string& name : query.pareto)
      if (std::find(table.columns.begin(), table.columns.end(), name) == table.columns.end())
        table.columns.push_back(name);
  std::vector<const Column*> shown;  // null: not of the format
  for (const std::string& name : table.columns) shown.push_back(format.column(name));
  std::vector<std::string> read = table.columns;
  read.insert(read.end(), query.pareto.begin(), query.pareto.end());
  for (std::string& name : read) name = sql_name(name);
  if (read.empty()) read.emplace_back("1");
  const std::string order = order_of(query, known);

  Permission permission;
  sqlite3_set_authorizer(file->get(), permit, &permission);
  if (!query.where.empty()) check_where(*file, query, known, permission);
  const std::string sql =
      fmt::format("SELECT {} FROM runs {} ORDER BY {}", fmt::join(read, ", "),
                  query.where.empty() ? "" : fmt::format("WHERE ({}\n)", query.where), order);
  const SqliteStatement rows(*file, prepare_where(*file, sql, query, known, permission).release());
  std::vector<std::vector<double>> measures;
  std::set<std::string> unknown;  // so far
  if (!query.pareto.empty()) unknown.insert(query.pareto.begin(), query.pareto.end());
  bool any = false;
  const auto full = [&] {
    return query.limit && query.pareto.empty() && static_cast<int64_t>(table.rows.size()) >= *query.limit;
  };
  while (!full() && rows.step()) {
    std::vector<double> measure;
    int index = static_cast<int>(table.columns.size());
    any = true;
    for (const std::string& name : query.pareto)
      if (const json value = rows.value(index++); value.is_number()) {
        measure.push_back(badness(format.column(name), value));
        unknown.erase(name);
      }
    if (measure.size() < query.pareto.size()) continue;
    if (!query.pareto.empty()) measures.push_back(std::move(measure));
    std::vector<json>& row = table.rows.emplace_back();
    for (size_t i = 0; i < table.columns.size(); ++i)
      row.push_back(cell_in(rows, static_cast<int>(i), shown[i]));
  }
  if (!query.pareto.empty()) {
    std::vector<std::vector<json>> front;
    for (const size_t row : search::pareto_front(measures)) front.push_back(std::move(table.rows[row]));
    table.rows = std::move(front);
    if (query.limit && static_cast<int64_t>(table.rows.size()) > *query.limit)
      table.rows.resize(static_cast<size_t>(*query.limit));
  }
  if (any) table.unknown.assign(unknown.begin(), unknown.end());
  if (query.columns.empty() && query.drop_unknown) drop_unknown(table);
  return table;
}

}  // namespace boxcar::sweep
