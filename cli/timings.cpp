#include "cli/timings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "cli/output.h"
#include "ir/read_number.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

using sbp::Collective;

constexpr size_t least_sizes = 3;
constexpr const char* step_column = "step_s";

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::istringstream in(read_file(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

// The names of the columns, where `line` is a table's first one.
std::vector<std::string> columns_of(const std::string& line) {
  if (!line.starts_with('#')) return {};
  std::vector<std::string> columns = words(line.substr(1));
  const auto has = [&](const char* name) { return std::count(columns.begin(), columns.end(), name) > 0; };
  if (!has("size") || !has("time") || !has("algbw")) columns.clear();
  return columns;
}

// "all_reduce_perf" in a line or in the file's name.
std::optional<Collective> collective_in(const std::string& text) {
  constexpr std::pair<const char*, Collective> programs[] = {
      {"all_reduce", Collective::all_reduce},         {"all_gather", Collective::all_gather},
      {"reduce_scatter", Collective::reduce_scatter}, {"alltoall", Collective::all_to_all},
      {"broadcast", Collective::broadcast},           {"allreduce", Collective::all_reduce},
      {"allgather", Collective::all_gather},          {"reducescatter", Collective::reduce_scatter}};
  for (const auto& [name, collective] : programs)
    if (text.find(name) != std::string::npos) return collective;
  return {};
}

// Goes through the output of nccl-tests, line by line.
class NcclReader {
 public:
  NcclReader(std::string path, Measurements& to)
      : path_(std::move(path)),
        to_(to),
        named_(collective_in(std::filesystem::path(path_).filename().string())) {}

  void line(int number, const std::string& text) {
    const std::string where = fmt::format("{}:{}", path_, number);
    if (text.starts_with("# nThread")) begin();
    if (text.find("_perf") != std::string::npos)
      if (const auto found = collective_in(text)) collective_ = found;
    if (const auto columns = columns_of(text); !columns.empty()) return table(where, columns);
    const std::vector<std::string> all = words(text);
    if (all.empty()) return;
    if (all[0] == "#") return rank(all);
    if (columns_.empty() || all[0].find_first_not_of("0123456789") != std::string::npos) return;  // logs
    row(where, all);
  }

  void end() const {
    for (const CollectiveTest& test : to_.tests)
      if (test.where.starts_with(path_ + ":") && test.rows.size() < least_sizes)
        throw Error::input(test.where, fmt::format("{} sizes; expected at least {}, from small to large",
                                                   test.rows.size(), least_sizes));
  }

 private:
  void begin() {
    ranks_ = 0;
    hosts_.clear();
    columns_.clear();
    collective_ = {};
  }

  // "#   Rank  0 Group  0 Pid 1 on alpha device  0 [0x07] NVIDIA A100"
  void rank(const std::vector<std::string>& all) {
    if (all.size() < 2 || all[1] != "Rank") return;
    const auto on = std::find(all.begin(), all.end(), "on");
    if (on == all.end() || on + 1 == all.end()) return;
    ++ranks_;
    hosts_.insert(*(on + 1));
  }

  void table(const std::string& where, const std::vector<std::string>& columns) {
    if (ranks_ < 2)
      throw Error::input(
          where,
          "no \"Rank\" lines before this table say which devices took part, two at least; keep "
          "all that nccl-tests prints");
    const auto nodes = static_cast<int>(hosts_.size());
    if (ranks_ % nodes != 0)
      throw Error::input(where, fmt::format("{} ranks on {} hosts; expected as many on each", ranks_, nodes));
    const auto collective = collective_ ? collective_ : named_;
    if (!collective)
      throw Error::input(where,
                         "which collective this is stands nowhere; name the file after the program, as in "
                         "all_reduce_perf.txt (also all_gather, reduce_scatter, alltoall, broadcast)");
    columns_ = columns;
    to_.tests.push_back({where, *collective, ranks_, nodes, {}});
  }

  void row(const std::string& where, const std::vector<std::string>& all) {
    const size_t time =
        static_cast<size_t>(std::find(columns_.begin(), columns_.end(), "time") - columns_.begin());
    if (all.size() <= time)
      throw Error::input(where, fmt::format("{} columns, expected {} and more: {}", all.size(), time + 1,
                                            fmt::join(columns_.begin(),
                                                      columns_.begin() + static_cast<int>(time) + 1, " ")));
    const auto bytes = ir::read_number<int64_t>(all[0]);
    const auto microseconds = ir::read_number<double>(all[time]);
    if (!bytes) throw Error::input(where, fmt::format("size: got \"{}\", expected bytes", all[0]));
    if (!microseconds || !(*microseconds > 0) || !std::isfinite(*microseconds))
      throw Error::input(where, fmt::format("time: got \"{}\", expected microseconds above 0", all[time]));
    if (*bytes > 0) to_.tests.back().rows.push_back({*bytes, *microseconds * 1e-6});
  }

  std::string path_;
  Measurements& to_;
  std::optional<Collective> named_, collective_;
  int ranks_ = 0;
  std::set<std::string> hosts_;
  std::vector<std::string> columns_;
};

// Cells between commas; one in quotes may hold commas.
std::vector<std::string> cells_of(const std::string& where, const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      cells.emplace_back();
    else
      cells.back() += c;
  }
  if (quoted) throw Error::input(where, "a quote is not closed");
  for (std::string& cell : cells) {
    const size_t first = cell.find_first_not_of(" \t"), last = cell.find_last_not_of(" \t");
    cell = first == std::string::npos ? "" : cell.substr(first, last - first + 1);
  }
  return cells;
}

// The key that a column names as its flag does, "micro_batch" or "micro-batch".
const Key* key_of(std::string column) {
  std::replace(column.begin(), column.end(), '_', '-');
  for (const Key& key : keys())
    if (key.section != run_section && (key.flag == "--" + column || key.alias == "--" + column)) return &key;
  return nullptr;
}

std::vector<const Key*> header(const std::string& where, const std::vector<std::string>& names) {
  std::vector<const Key*> columns;
  std::vector<std::string> known{step_column};
  for (const Key& key : keys())
    if (key.section != run_section) {
      known.push_back(key.flag.substr(2));
      std::replace(known.back().begin(), known.back().end(), '-', '_');
    }
  if (std::count(names.begin(), names.end(), step_column) == 0)
    throw Error::input(where, "no column step_s, the measured seconds of an optimizer step");
  for (size_t c = 0; c < names.size(); ++c) {
    const Key* key = names[c] == step_column ? nullptr : key_of(names[c]);
    if (!key && names[c] != step_column)
      throw Error::input(where, fmt::format("unknown column \"{}\"{}; a column is a key of a job or step_s",
                                            names[c], did_you_mean(names[c], known)));
    if (key && (key->path() == "cluster.preset" || key->path() == "cluster.device"))
      throw Error::input(where,
                         fmt::format("column {}: give --{} instead, it is the same for all rows", names[c],
                                     key->path().substr(8) == "device" ? "device" : "cluster"));
    if (std::count(names.begin(), names.end(), names[c]) > 1 ||
        (key && std::count(columns.begin(), columns.end(), key) > 0))
      throw Error::input(where, fmt::format("column {} is given twice", names[c]));
    columns.push_back(key);
  }
  return columns;
}

void read_steps(const std::string& path, const std::vector<std::string>& lines, Measurements& to) {
  std::vector<const Key*> columns;
  std::vector<std::string> names;
  const size_t before = to.steps.size();
  for (size_t l = 0; l < lines.size(); ++l) {
    const std::string where = fmt::format("{}:{}", path, l + 1);
    if (words(lines[l]).empty() || lines[l].starts_with('#')) continue;
    const std::vector<std::string> cells = cells_of(where, lines[l]);
    if (columns.empty()) {
      names = cells;
      columns = header(where, cells);
      continue;
    }
    if (cells.size() != columns.size())
      throw Error::input(where, fmt::format("{} cells for {} columns", cells.size(), columns.size()));
    MeasuredStep step{where, {}, 0};
    for (size_t c = 0; c < cells.size(); ++c) {
      if (columns[c]) {
        if (!cells[c].empty())
          step.keys[columns[c]->path()] = {cells[c], fmt::format("{}: {}", where, names[c])};
        continue;
      }
      const auto seconds = ir::read_number<double>(cells[c]);
      if (!seconds || !(*seconds > 0) || !std::isfinite(*seconds))
        throw Error::input(where, fmt::format("step_s: got \"{}\", expected seconds above 0", cells[c]));
      step.seconds = *seconds;
    }
    to.steps.push_back(std::move(step));
  }
  if (to.steps.size() == before)
    throw Error::input(path, columns.empty()
                                 ? "is empty; expected the output of nccl-tests, or a CSV of jobs with a "
                                   "column step_s"
                                 : "has no rows under its header");
}

}  // namespace

void read_measurements(const std::string& path, Measurements& to) {
  const std::vector<std::string> lines = lines_of(path);
  const bool nccl = std::any_of(lines.begin(), lines.end(),
                                [](const std::string& line) { return !columns_of(line).empty(); });
  if (!nccl) return read_steps(path, lines, to);
  NcclReader reader(path, to);
  for (size_t l = 0; l < lines.size(); ++l) reader.line(static_cast<int>(l) + 1, lines[l]);
  reader.end();
}

}  // namespace boxcar::cli
