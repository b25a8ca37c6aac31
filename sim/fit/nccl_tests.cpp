#include "sim/fit/nccl_tests.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "ir/read_number.h"
#include "sbp/error.h"

namespace boxcar::fit {
namespace {

using sbp::Collective;

constexpr size_t least_sizes = 3;

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> all;
  for (std::string word; in >> word;) all.push_back(word);
  return all;
}

// The names of the columns, if `line` is a table's first one.
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
  NcclReader(std::string path, std::vector<CollectiveTest>& to)
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
    for (const CollectiveTest& test : to_)
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
                         "nothing says which collective this is; name the file after the program, as in "
                         "all_reduce_perf.txt (also all_gather, reduce_scatter, alltoall, broadcast)");
    columns_ = columns;
    to_.push_back({where, *collective, ranks_, nodes, {}});
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
    if (*bytes > 0) to_.back().rows.push_back({*bytes, *microseconds * 1e-6});
  }

  std::string path_;
  std::vector<CollectiveTest>& to_;
  std::optional<Collective> named_, collective_;
  int ranks_ = 0;
  std::set<std::string> hosts_;
  std::vector<std::string> columns_;
};

}  // namespace

bool is_of_nccl_tests(const std::vector<std::string>& lines) {
  return std::any_of(lines.begin(), lines.end(),
                     [](const std::string& line) { return !columns_of(line).empty(); });
}

void read_nccl_tests(const std::string& path, const std::vector<std::string>& lines,
                     std::vector<CollectiveTest>& to) {
  NcclReader reader(path, to);
  for (size_t l = 0; l < lines.size(); ++l) reader.line(static_cast<int>(l) + 1, lines[l]);
  reader.end();
}

}  // namespace boxcar::fit
