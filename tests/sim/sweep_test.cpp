// Points that run in processes, into a file of runs with columns of a program's own.
#include "sim/sweep/sweep.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/run_program.h"

namespace boxcar::sweep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Points take a length, and may be refused. A length's square is the result.
RunsFormat format_of(const std::string& version) {
  return {{"squares", version},
          {{.name = "length", .type = ColumnType::integer, .key = "shape.length", .asked = true},
           {.name = "unit", .asked = true},
           {.name = "square", .type = ColumnType::real, .better = Better::less},
           {.name = "odd", .type = ColumnType::truth},
           {.name = "why_not", .type = ColumnType::text}},
          {"square", "why_not"}};
}

Point point(int64_t length) { return {fmt::format("length {}", length), length / 10}; }

class SweepOfSquares : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_sqlite()) GTEST_SKIP() << "this build lacks SQLite";
  }
  ~SweepOfSquares() override { std::filesystem::remove_all(folder_); }

  // Each run leaves a line behind.
  RunRow run(int64_t length, int64_t number) const {
    std::ofstream(folder_ + "/ran", std::ios::app) << length << "\n" << std::flush;
    if (length == 13) throw Error::fault("", "thirteen");
    return {point(length).key,
            number,
            {{"length", length}, {"unit", "m"}, {"square", length * length + 0.5}, {"odd", length % 2 == 1}}};
  }
  Ended sweep(
      const std::vector<int64_t>& lengths, const Processes& processes = {.here = 2},
      const std::function<bool(const Progressed&)>& look = [](const Progressed&) { return true; }) const {
    std::vector<Point> points;
    for (const int64_t length : lengths) points.push_back(point(length));
    RunsWriter writer(runs_, format_of("1.0"), "lengths");
    return run_points(
        points, writer, processes, [&](int64_t i) { return run(lengths.at(static_cast<size_t>(i)), i); },
        look);
  }
  size_t times_run() const {
    std::ifstream in(folder_ + "/ran");
    size_t lines = 0;
    for (std::string line; std::getline(in, line);) ++lines;
    return lines;
  }
  RunsTable table(const RunsQuery& query = {}) const { return read_runs(runs_, format_of("1.0"), query); }
  std::string refusal(const RunsQuery& query) const {
    try {
      table(query);
    } catch (const QueryError& error) {
      return error.what();
    }
    return "";
  }

  const std::string folder_ = tests::temporary_folder(), runs_ = folder_ + "/runs.db";
};

TEST_F(SweepOfSquares, RunsWhatHasNoRowEachOnce) {
  Progressed last;
  const Ended ended =
      sweep({3, 5, 3, 20}, {.here = 2}, [&](const Progressed& now) { return last = now, true; });
  EXPECT_EQ(ended.run, 3);
  EXPECT_THAT(ended.faults, IsEmpty());
  EXPECT_EQ(last.ended, 3);
  EXPECT_EQ(last.all, 3);
  EXPECT_EQ(times_run(), 3u);
  EXPECT_EQ(sweep({3, 5, 7, 20}).run, 1);
  EXPECT_EQ(times_run(), 4u);
  const RunsTable found = table({.columns = {"key", "point", "length", "square", "odd"}, .sort = {"length"}});
  ASSERT_EQ(found.rows.size(), 4u);
  EXPECT_THAT(found.rows[0], ElementsAre("length 3", 0, 3, 9.5, true));
  EXPECT_THAT(found.rows[3], ElementsAre("length 20", 3, 20, 400.5, false));
}

TEST_F(SweepOfSquares, AFaultLeavesNoRowAndIsRunAgain) {
  const Ended ended = sweep({12, 13, 14});
  EXPECT_EQ(ended.run, 2);
  ASSERT_EQ(ended.faults.size(), 1u);
  EXPECT_EQ(ended.faults[0].number, 1);
  EXPECT_EQ(ended.faults[0].fault, "thirteen");
  EXPECT_EQ(sweep({12, 13, 14}).faults.size(), 1u);
  EXPECT_EQ(times_run(), 4u);
}

TEST_F(SweepOfSquares, EndsWhereItIsTold) {
  std::vector<int64_t> lengths(500);
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = 100 + static_cast<int64_t>(i);
  const Ended first = sweep(lengths, {.here = 1}, [](const Progressed& now) { return now.ended < 3; });
  EXPECT_LT(first.run, 500);
  EXPECT_EQ(table({.columns = {"key"}}).rows.size(), static_cast<size_t>(first.run));
  EXPECT_EQ(sweep(lengths).run, 500 - first.run);
}

TEST_F(SweepOfSquares, ShowsInputsThatDifferAndUsualResults) {
  sweep({3, 5});
  EXPECT_THAT(table().columns, ElementsAre("length", "square")) << "one unit, and no row says why not";
  EXPECT_THAT(asked_columns(runs_, format_of("1.0")), ElementsAre("length"));
  EXPECT_THAT(runs_columns(runs_), ElementsAre("key", "point", "length", "unit", "square", "odd", "why_not"));
  EXPECT_EQ(table({.pareto = {"square"}}).rows.size(), 1u);
}

TEST_F(SweepOfSquares, ARefusedQueryNamesItsPart) {
  sweep({3});
  EXPECT_EQ(
      refusal({.columns = {"lenght"}}),
      "columns: no column is named \"lenght\" (did you mean length?); `boxcar table FILE --list` names all");
  EXPECT_EQ(refusal({.columns = {"odd", "odd"}}), "columns: odd is given twice");
  EXPECT_EQ(refusal({.sort = {"square down"}}),
            "sort: got \"square down\", expected a column, and asc or desc behind it");
  EXPECT_EQ(refusal({.pareto = {"length"}}),
            "pareto: neither less nor more of length is better; known are square");
  EXPECT_THAT(refusal({.where = "length ="}), StartsWith("where: got \"length =\", "));
}

TEST_F(SweepOfSquares, AnotherVersionGivesAnotherFile) {
  sweep({3});
  const auto why = [](const std::string& path, const std::string& version) -> std::string {
    try {
      RunsWriter(path, format_of(version), "lengths");
    } catch (const Error& error) {
      return tests::replace_all(error.what(), path, "FILE");
    }
    return "";
  };
  EXPECT_EQ(
      why(runs_, "1.1"),
      "FILE: was written by squares 1.0, and this is 1.1, whose results may differ (give another file)");
  EXPECT_EQ(why(folder_ + "/none/runs.db", "1.0"), "FILE: cannot be written: No such file or directory");
  EXPECT_EQ(why(folder_, "1.0"), "FILE: cannot be written: Is a directory");
  EXPECT_EQ(why("/dev/null", "1.0"), "FILE: is no regular file (give another name)");
}

// A reader finds the rows of all transactions that ended, if the writer died in the middle of one.
TEST_F(SweepOfSquares, AFileIsMendedWhoseWriterDied) {
  sweep({3, 5});
  const std::string half = folder_ + "/half.db";
  if (tests::run_another("/bin/sh",
                         {"-c", "cp " + runs_ + " " + half +
                                    " && { echo \"PRAGMA cache_size=1; BEGIN; UPDATE runs SET square = "
                                    "zeroblob(20000); UPDATE meta SET value = 'x';\"; sleep 1; echo .shell "
                                    "kill -9 \\$PPID; sleep 1; } | sqlite3 " +
                                    half})
          .exit_code == 127)
    GTEST_SKIP() << "no program sqlite3";
  if (!std::filesystem::exists(half + "-journal")) GTEST_SKIP() << "sqlite3 left no journal";
  EXPECT_EQ(read_runs(half, format_of("1.0"), {.where = "square > 10", .columns = {"length"}}).rows.size(),
            1u);
  EXPECT_FALSE(std::filesystem::exists(half + "-journal"));
}

}  // namespace
}  // namespace boxcar::sweep
