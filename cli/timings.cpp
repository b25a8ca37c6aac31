#include "cli/timings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "cli/output.h"
#include "ir/read_number.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

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

// The key that a column names like its flag, "micro_batch" or "micro-batch".
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
  if (!fit::is_of_nccl_tests(lines)) return read_steps(path, lines, to);
  fit::read_nccl_tests(path, lines, to.tests);
}

fit::Measurements measured_on(const std::string& cluster, const std::string& device,
                              const Measurements& measured) {
  fit::Measurements result{measured.tests, {}};
  for (const MeasuredStep& step : measured.steps) {
    GivenKeys keys = step.keys;
    keys["cluster.preset"] = {cluster, "--cluster"};
    if (!device.empty()) keys["cluster.device"] = {device, "--device"};
    result.steps.push_back({step.where, step.seconds, [keys] { return resolve(keys).job; }});
  }
  return result;
}

}  // namespace boxcar::cli
