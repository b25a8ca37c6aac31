#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "sbp/error.h"
#include "sim/sweep/sqlite_file.h"
#include "sim/sweep/store.h"

namespace boxcar::sweep {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const char* sql_type(const Column* column) {
  if (!column) return "";  // of a constant: numbers, or text as given
  if (column->type == ColumnType::real) return " REAL";
  return column->type == ColumnType::text ? " TEXT" : " INTEGER";
}

// The file FILE.lock, locked as long as this process has it: a writer that dies leaves the file and no lock.
// Children do not have the lock.
class WriterLock {
 public:
  explicit WriterLock(const std::string& path) : path_(path + ".lock") {
    while (!take(path)) {
    }
  }
  ~WriterLock() {
    unlink(path_.c_str());
    close(descriptor_);
  }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  // False if the previous writer removed the file meanwhile.
  bool take(const std::string& path) {
    descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0)
      throw Error::input(path_, fmt::format("cannot be written: {}", std::strerror(errno)));
    struct flock lock {};
    lock.l_type = F_WRLCK, lock.l_whence = SEEK_SET;
    if (fcntl(descriptor_, F_SETLK, &lock) != 0) {
      const int reason = errno;
      fcntl(descriptor_, F_GETLK, &lock);
      close(descriptor_);
      if (reason != EACCES && reason != EAGAIN)
        throw Error::input(path_, fmt::format("cannot be locked: {}", std::strerror(reason)));
      throw Error::input(path,
                         fmt::format("is being written by another sweep, process {} (wait for it, or give "
                                     "another file)",
                                     static_cast<int>(lock.l_pid)));
    }
    struct stat mine {
    }, there{};
    if (fstat(descriptor_, &mine) == 0 && stat(path_.c_str(), &there) == 0 && mine.st_ino == there.st_ino)
      return true;
    close(descriptor_);
    return false;
  }

  std::string path_;
  int descriptor_ = -1;
};

// So that a refusal names the file, and not one that is written beside it.
void check_path(const std::string& path) {
  const auto refuse = [&](int reason) {
    throw Error::input(path, fmt::format("cannot be written: {}", std::strerror(reason)));
  };
  std::error_code none;
  if (fs::is_directory(path, none)) refuse(EISDIR);
  if (fs::exists(path, none) && !fs::is_regular_file(path, none))
    throw Error::input(path, "is no regular file (give another name)");
  if (fs::exists(path, none) && access(path.c_str(), W_OK) != 0) refuse(errno);
  const std::string folder = fs::path(path).parent_path().string();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) refuse(errno);
}

}  // namespace

struct RunsWriter::State {
  State(const std::string& path, const RunsFormat& format, const std::string& sweep,
        const std::vector<std::string>& axes, std::function<void(const std::string&)> tell)
      : path(path),
        format(format),
        tell(std::move(tell)),
        lock(path),
        file(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) {
    sqlite3_busy_handler(file.get(), wait_for_reader, this);
    file.run("PRAGMA synchronous = EXTRA");  // a row is on disk when its transaction has ended
    // A rollback journal, which works on every file system; a write-ahead log needs shared memory.
    if (file.number("PRAGMA schema_version") == 0)
      create();
    else
      check();
    keep_sweep(sweep);
    keep_axes(axes);
    for (const SqliteStatement row(file, "SELECT key FROM runs"); row.step();) keys.insert(row.text(0));
    columns = columns_of(file);
  }

  // A reader's lock passes; one that stays is reported.
  static int wait_for_reader(void* state, int times) {
    constexpr int between_ms = 50, told_after_ms = 5000;
    const auto& writer = *static_cast<const State*>(state);
    if (times * between_ms == told_after_ms)
      writer.tell(fmt::format("{}: waits for a program that reads it", writer.path));
    sqlite3_sleep(between_ms);
    return 1;
  }

  void create() {
    std::vector<std::string> definitions;
    for (const Column& column : format.columns())
      definitions.push_back(sql_name(column.name) + sql_type(&column) +
                            (column.name == "key" ? " NOT NULL UNIQUE" : ""));
    file.run("BEGIN IMMEDIATE");
    file.run(fmt::format("PRAGMA application_id = {}", runs_application_id));
    file.run(fmt::format("CREATE TABLE runs ({})", fmt::join(definitions, ", ")));
    file.run("CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)");
    put("schema_version", std::to_string(runs_schema_version));
    put("program_version", format.program().version);
    file.run("COMMIT");
  }

  void check() const {
    check_runs_file(file);
    const SqliteStatement health(file, "PRAGMA quick_check(1)");
    if (const std::string found = health.step() ? health.text(0) : ""; found != "ok")
      throw Error::input(path,
                         fmt::format("is damaged ({}); `sqlite3 {} .recover` may save rows", found, path));
    const std::string version = value_of("program_version").value_or("");
    if (const auto& [name, ours] = format.program(); version != ours)
      throw Error::input(path,
                         fmt::format("was written by {} {}, and this is {}, whose results may differ (give "
                                     "another file)",
                                     name, version, ours));
  }

  std::optional<std::string> value_of(const std::string& name) const {
    const SqliteStatement row(file, "SELECT value FROM meta WHERE name = ?");
    row.bind(1, name);
    return row.step() ? std::optional(row.text(0)) : std::nullopt;
  }

  void put(const std::string& name, const std::string& value) const {
    const SqliteStatement row(file, "INSERT OR REPLACE INTO meta VALUES (?, ?)");
    row.bind(1, name), row.bind(2, value);
    row.step();
  }

  // Texts of earlier sweeps stay as sweep.1, sweep.2, ..., each once.
  void keep_sweep(const std::string& sweep) const {
    const std::optional<std::string> before = value_of("sweep");
    if (before == sweep) return;
    const SqliteStatement kept(
        file, "SELECT count(*), coalesce(sum(value = ?), 0) FROM meta WHERE name LIKE 'sweep.%'");
    kept.bind(1, before.value_or(""));
    kept.step();
    const int64_t count = kept.value(0).get<int64_t>(), same = kept.value(1).get<int64_t>();
    kept.reset();
    file.run("BEGIN IMMEDIATE");
    if (before && same == 0) put(fmt::format("sweep.{}", count + 1), *before);
    put("sweep", sweep);
    file.run("COMMIT");
  }

  // Together with the axes of earlier sweeps.
  void keep_axes(const std::vector<std::string>& axes) const {
    json all = json::array();
    const std::optional<std::string> before = value_of("axes");
    if (before) all = json::parse(*before, nullptr, false);
    if (!all.is_array()) all = json::array();
    for (const std::string& axis : axes)
      if (std::find(all.begin(), all.end(), axis) == all.end()) all.push_back(axis);
    if (all.dump() != before.value_or("[]")) put("axes", all.dump());
  }

  void add_columns(const RunRow& row) {
    for (const auto& [name, value] : row.cells.items()) {
      if (std::find(columns.begin(), columns.end(), name) != columns.end()) continue;
      file.run(
          fmt::format("ALTER TABLE runs ADD COLUMN {}{}", sql_name(name), sql_type(format.column(name))));
      columns.push_back(name);
    }
  }

  void insert(const RunRow& row) const {
    std::vector<std::string> names{sql_name("key"), sql_name("point")}, marks{"?", "?"};
    for (const auto& [name, value] : row.cells.items())
      names.push_back(sql_name(name)), marks.emplace_back("?");
    const SqliteStatement statement(file, fmt::format("INSERT OR IGNORE INTO runs ({}) VALUES ({})",
                                                      fmt::join(names, ", "), fmt::join(marks, ", ")));
    int index = 0;
    statement.bind(++index, row.key);
    statement.bind(++index, row.point);
    for (const auto& [name, value] : row.cells.items()) statement.bind(++index, value);
    statement.step();
  }

  std::string path;
  RunsFormat format;
  std::function<void(const std::string&)> tell;
  WriterLock lock;
  SqliteFile file;
  std::set<std::string> keys;
  std::vector<std::string> columns;
};

bool has_sqlite() { return true; }

RunsWriter::RunsWriter(const std::string& path, const RunsFormat& format, const std::string& sweep,
                       const std::vector<std::string>& axes, std::function<void(const std::string&)> tell) {
  check_path(path);
  state_ = std::make_unique<State>(path, format, sweep, axes, std::move(tell));
}
RunsWriter::~RunsWriter() = default;

const std::set<std::string>& RunsWriter::keys() const { return state_->keys; }

void RunsWriter::add(const std::vector<RunRow>& rows) {
  if (rows.empty()) return;
  state_->file.run("BEGIN IMMEDIATE");
  for (const RunRow& row : rows) state_->add_columns(row), state_->insert(row);
  state_->file.run("COMMIT");
  for (const RunRow& row : rows) state_->keys.insert(row.key);
}

}  // namespace boxcar::sweep
