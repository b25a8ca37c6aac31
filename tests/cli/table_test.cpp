// `boxcar table` and the file of runs that it reads: queries, the Pareto view, files from strangers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "bad_input.h"
#include "cli/sweep/runs_format.h"
#include "cli/table_command.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

using nlohmann::json;
using sweep::Column;
using sweep::RunRow;
using sweep::RunsWriter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using tests::Output;
using tests::run_program;
using tests::Words;

// A file of some rows, made without a simulation.
class TableCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!sweep::has_sqlite()) GTEST_SKIP() << "this build lacks SQLite";
    std::vector<RunRow> rows;
    rows.push_back({"a",
                    0,
                    {{"status", "simulated"},
                     {"tp", 1},
                     {"model", "gpt2"},
                     {"precision", "bf16"},
                     {"tied", true},
                     {"gpus", 8},
                     {"fits", true},
                     {"step_time_s", 3.25},
                     {"mfu", 0.25},
                     {"peak_memory_bytes", 40'000'000'000},
                     {"result", R"({"b": 1, "a": [2]})"}}});
    rows.push_back({"b",
                    1,
                    {{"status", "simulated"},
                     {"tp", 2},
                     {"model", "gpt2"},
                     {"precision", "bf16"},
                     {"tied", false},
                     {"gpus", 8},
                     {"fits", true},
                     {"step_time_s", 1.0 / 3},
                     {"mfu", 0.375},
                     {"peak_memory_bytes", 60'000'000'000}}});
    rows.push_back({"c",
                    2,
                    {{"status", "simulated"},
                     {"tp", 4},
                     {"model", "gpt2"},
                     {"precision", "bf16"},
                     {"tied", true},
                     {"gpus", 8},
                     {"fits", true},
                     {"step_time_s", 4.0},
                     {"mfu", 0.125},
                     {"peak_memory_bytes", 50'000'000'000}}});
    rows.push_back({"d",
                    3,
                    {{"status", "refused"},
                     {"tp", 3},
                     {"model", "gpt2"},
                     {"gpus", 8},
                     {"why_not", "parallel.tp: \"3\", which\ndoes not divide\x1b[2J"}}});
    RunsWriter(runs_, runs_format(), "tp: [1, 2, 4, 3]\n").add(rows);
  }
  ~TableCommand() override { std::filesystem::remove_all(folder_); }

  std::string table(const Words& more) const {
    Words words{"table", runs_};
    words.insert(words.end(), more.begin(), more.end());
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    EXPECT_EQ(output.err, "");
    return output.out;
  }
  // The column tp of the rows.
  std::string tps(Words more) const {
    more.insert(more.end(), {"--columns=tp", "--csv"});
    std::string text = table(more).substr(4);
    std::erase(text, '\r');
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }
  std::string refusal(const Words& more) const {
    Words words{"table", runs_};
    words.insert(words.end(), more.begin(), more.end());
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 2) << ::testing::PrintToString(more);
    EXPECT_EQ(output.out, "");
    return tests::replace_all(output.err, runs_, "FILE");
  }

  const std::string folder_ = tests::temporary_folder(), runs_ = folder_ + "/runs.db";
};

TEST_F(TableCommand, ShowsWhatDiffersAndResults) {
  EXPECT_EQ(table({}),
            " tied  tp  fits  step_time_s    mfu  peak_memory_bytes  why_not\n"
            " true   1  true         3.25   0.25              40 GB  -\n"
            "false   2  true       0.3333  0.375              60 GB  -\n"
            " true   4  true            4  0.125              50 GB  -\n"
            "    -   3     -            -      -                  -  parallel.tp: \"3\", which\\x0adoes not "
            "divide\\x1b[2J\n");
}

TEST_F(TableCommand, ChoosesSortsAndLimits) {
  EXPECT_EQ(tps({}), "1 2 4 3 ");
  EXPECT_EQ(tps({"--where=step_time_s < 4 and tp > 1"}), "2 ");
  EXPECT_EQ(tps({"--where=tied"}), "1 4 ");
  EXPECT_EQ(tps({"--where=tied = false"}), "2 ");
  EXPECT_EQ(tps({"--where=precision = 'bf16' and model like 'gpt%'"}), "1 2 4 ");
  EXPECT_EQ(tps({"--where=tp in (1, 3) or \"step_time_s\" between 0.1 and 1"}), "1 2 3 ");
  EXPECT_EQ(tps({"--where=step_time_s is null"}), "3 ");
  EXPECT_EQ(tps({"--where=abs(tp - 3) <= 1 -- a note"}), "2 4 3 ");
  EXPECT_EQ(tps({"--where=json_extract(result, '$.b') = 1"}), "1 ");
  EXPECT_EQ(tps({"--where=why_not like '%);%'"}), "");
  EXPECT_EQ(tps({"--sort=step_time_s"}), "2 1 4 3 ");
  EXPECT_EQ(tps({"--sort=mfu desc"}), "2 1 4 3 ");
  EXPECT_EQ(tps({"--sort=tied, tp desc"}), "2 4 1 3 ");
  EXPECT_EQ(tps({"--sort=step_time_s", "--limit=2"}), "2 1 ");
  EXPECT_EQ(tps({"--limit=0"}), "");
  EXPECT_EQ(table({"--where=tp = 77", "--columns=tp,mfu"}), "tp  mfu\nno rows\n");
}

TEST_F(TableCommand, FindsTheParetoFront) {
  EXPECT_EQ(tps({"--pareto=step_time_s,peak_memory_bytes"}), "1 2 ");
  EXPECT_EQ(tps({"--pareto=mfu"}), "2 ");
  EXPECT_EQ(tps({"--pareto=peak_memory_bytes,mfu"}), "1 2 ");
  EXPECT_EQ(tps({"--pareto=step_time_s,peak_memory_bytes", "--where=tp != 2"}), "1 ");
  EXPECT_EQ(tps({"--pareto=step_time_s,peak_memory_bytes", "--sort=step_time_s", "--limit=1"}), "2 ");
  EXPECT_EQ(tps({"--pareto=gpus"}), "1 2 4 3 ") << "equal rows do not beat each other";
  EXPECT_THAT(table({}), testing::Not(testing::HasSubstr("gpus")));
  EXPECT_THAT(table({"--pareto=gpus"}), testing::HasSubstr("gpus")) << "the front's columns are shown";
}

TEST_F(TableCommand, HasAllDigitsForPrograms) {
  EXPECT_EQ(
      table({"--columns=step_time_s,tied,why_not", "--csv", "--where=tp > 1 and tp < 4"}),
      "step_time_s,tied,why_not\r\n0.3333333333333333,false,\r\n,,\"parallel.tp: \"\"3\"\", which\ndoes not "
      "divide\x1b[2J\"\r\n");
  const json doc = json::parse(table({"--columns=tp,step_time_s,fits,result", "--json", "--limit=2"}));
  EXPECT_EQ(doc,
            (json{{"schema_version", 1},
                  {"columns", {"tp", "step_time_s", "fits", "result"}},
                  {"rows",
                   {{{"tp", 1}, {"step_time_s", 3.25}, {"fits", true}, {"result", {{"a", {2}}, {"b", 1}}}},
                    {{"tp", 2}, {"step_time_s", 1.0 / 3}, {"fits", true}, {"result", nullptr}}}}}));
}

TEST_F(TableCommand, ListsColumns) {
  const std::string list = table({"--list"});
  EXPECT_THAT(list,
              HasSubstr("step_time_s                simulated time of an optimizer step, in seconds; less is "
                        "better\n"));
  EXPECT_THAT(list, HasSubstr("\nmfu "));
  EXPECT_EQ(static_cast<size_t>(std::count(list.begin(), list.end(), '\n')), runs_format().columns().size());
}

TEST(TableColumns, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const Column& column : runs_format().columns())
    EXPECT_TRUE(names.insert(column.name).second) << column.name;
  EXPECT_EQ(runs_format().column("cluster")->key, "cluster.preset");
  EXPECT_EQ(runs_format().column("context_parallel")->key, "parallel.context_parallel");
  EXPECT_EQ(runs_format().column("none"), nullptr);
  EXPECT_EQ(sweep::what_if_column("matmul.wave_overlap"), "what_if_matmul_wave_overlap");
}

TEST_F(TableCommand, RefusesMistakes) {
  EXPECT_EQ(
      refusal({"--columns=tp,stp_time_s"}),
      "boxcar: --columns: no column is named \"stp_time_s\" (did you mean step_time_s?); `boxcar table FILE "
      "--list` names all\n");
  EXPECT_EQ(
      refusal({"--where=stp_time_s < 2"}),
      "boxcar: --where: no column is named \"stp_time_s\" (did you mean step_time_s?); `boxcar table FILE "
      "--list` names all\n");
  EXPECT_EQ(
      refusal({"--where=precision = zzz16"}),
      "boxcar: --where: no column is named \"zzz16\"; text is in quotes: 'zzz16'; `boxcar table FILE --list` "
      "names all\n");
  EXPECT_EQ(
      refusal({"--where=\"stp_time_s\" < 2"}),
      "boxcar: --where: no column is named \"stp_time_s\" (did you mean step_time_s?); `boxcar table FILE "
      "--list` names all\n");
  EXPECT_EQ(refusal({"--sort=steptime"}),
            "boxcar: --sort: no column is named \"steptime\" (did you mean step_time_s?); `boxcar table FILE "
            "--list` names all\n");
  EXPECT_EQ(refusal({"--sort=mfu down"}),
            "boxcar: --sort: got \"mfu down\", expected a column, and asc or desc behind it\n");
  EXPECT_EQ(refusal({"--columns=tp,,pp"}),
            "boxcar: --columns: got \"tp,,pp\", expected names with commas between them\n");
  EXPECT_EQ(refusal({"--columns=tp,tp"}), "boxcar: --columns: tp is given twice\n");
  EXPECT_EQ(refusal({"--pareto=mfu,tp"}),
            "boxcar: --pareto: neither less nor more of tp is better; known are gpus, step_time_s, "
            "step_time_low_s, "
            "step_time_high_s, samples_per_s, tokens_per_s, mfu, bubble_fraction, exposed_comm_s, "
            "peak_memory_bytes, "
            "dollars_per_step, wall_s\n");
  EXPECT_EQ(refusal({"--pareto=mfuu"}),
            "boxcar: --pareto: no column is named \"mfuu\" (did you mean mfu?); `boxcar table FILE --list` "
            "names all\n");
  EXPECT_EQ(refusal({"--limit=-1"}),
            "boxcar: --limit: got \"-1\", expected a whole number from 0 to 1000000000\n");
  EXPECT_EQ(refusal({"--csv", "--json"}), "boxcar: --json: --csv is given too; give one of them\n");
  EXPECT_EQ(refusal({"--list", "--csv"}), "boxcar: --list: stands alone\n");
  EXPECT_EQ(refusal({"--were=1"}),
            "boxcar: --were: unknown flag (did you mean --where?); `boxcar table --help` lists all\n");
  EXPECT_EQ(refusal({"more.db"}), "boxcar: more.db: one argument too many\n");
  tests::expect_refused({"table"}, 2, "FILE: missing; `boxcar table --help` says more");
}

std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Whatever stands there, it is one expression that reads the table.
TEST_F(TableCommand, AnExpressionDoesNoMoreThanRead) {
  const std::string before = bytes_of_file(runs_);
  const std::string other = folder_ + "/other.db";
  const auto why = [&](const std::string& where) {
    const std::string text = refusal({"--where=" + where});
    const std::string begin = "boxcar: --where: got \"" + where + "\", ";
    const std::string end = "; expected one expression on columns, such as \"step_time_s < 2 and tp = 8\"\n";
    EXPECT_TRUE(text.starts_with(begin) && text.ends_with(end)) << text;
    return text.size() < begin.size() + end.size()
               ? ""
               : text.substr(begin.size(), text.size() - begin.size() - end.size());
  };
  EXPECT_EQ(why("tp = (select max(tp) from runs)"), "which has a SELECT of its own");
  EXPECT_EQ(why("exists (select 1 from meta)"), "which has a SELECT of its own");
  EXPECT_EQ(why("tp in (with recursive n(i) as (select 1 union all select i+1 from n) select i from n)"),
            "which has a SELECT of its own");
  EXPECT_EQ(why("load_extension('x.so')"),
            "which calls load_extension, which is none of the functions of values");
  EXPECT_EQ(why("randomblob(1000000000) is null"),
            "which calls randomblob, which is none of the functions of values");
  EXPECT_EQ(why("printf('%1000000000d', 1) = ''"),
            "which calls printf, which is none of the functions of values");
  for (const std::string& where : std::vector<std::string>{"1); drop table runs; --",
                                                           "1; drop table runs",
                                                           "1) or (1",
                                                           "1) union select 1 from meta --",
                                                           "1 then 2 when 3",
                                                           "",
                                                           " ",
                                                           "tp ==",
                                                           "(tp = 1",
                                                           "tp = 1)",
                                                           "tp = ?",
                                                           "tp = :name",
                                                           "1 /*",
                                                           "max(tp) > 1",
                                                           "tp, pp",
                                                           "1) order by (tp",
                                                           "1) limit (1",
                                                           "delete from runs",
                                                           "attach '" + other + "' as o",
                                                           "pragma query_only = 0",
                                                           "count(*) over () > 1"})
    EXPECT_NE(refusal({"--where=" + std::string(where)}), "") << where;
  EXPECT_EQ(bytes_of_file(runs_), before);
  EXPECT_FALSE(std::filesystem::exists(other));
  EXPECT_EQ(tps({}), "1 2 4 3 ");
}

Output sqlite(const std::string& file, const std::string& sql) {
  return tests::run_another("/usr/bin/sqlite3", {file, sql});
}

TEST_F(TableCommand, RefusesFilesThatAreNotOfRuns) {
  const auto refused = [&](const std::string& file) {
    const Output output = run_program({"table", file});
    EXPECT_EQ(output.exit_code, 2);
    return tests::replace_all(output.err, file, "FILE");
  };
  const std::string no_runs =
      "boxcar: FILE: is no file of runs, which `boxcar sweep` writes (give another name)\n";
  const std::string missing =
      "boxcar: FILE: cannot be read; check the path (`boxcar sweep` writes such a file)\n";
  EXPECT_EQ(refused(folder_ + "/none.db"), missing);
  EXPECT_EQ(refused(folder_), missing);
  EXPECT_EQ(refused("/dev/null"), missing);
  EXPECT_EQ(refused(":memory:"), missing);
  std::ofstream(folder_ + "/empty.db");
  EXPECT_EQ(refused(folder_ + "/empty.db"), no_runs);
  std::ofstream(folder_ + "/text.db") << std::string(3000, 'x');
  EXPECT_EQ(refused(folder_ + "/text.db"), no_runs);
  std::ofstream(folder_ + "/short.db", std::ios::binary) << bytes_of_file(runs_).substr(0, 5000);
  EXPECT_THAT(refused(folder_ + "/short.db"), HasSubstr("boxcar: FILE: is "));
  std::string bytes = bytes_of_file(runs_);
  for (size_t at = 100; at < bytes.size(); at += 97) {  // whatever byte is lost: an answer or a refusal
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(~damaged[at]);
    std::ofstream(folder_ + "/damaged.db", std::ios::binary) << damaged;
    try {
      read_rows(folder_ + "/damaged.db", {.where = "tp > 1", .columns = {"tp", "result"}});
    } catch (const Error&) {
    }
  }
}

TEST_F(TableCommand, ReadsFilesOfStrangersWithoutHarm) {
  const std::string file = folder_ + "/strange.db";
  const std::string begin =
      "PRAGMA application_id = 1113080658; CREATE TABLE meta (name, value); INSERT INTO meta "
      "VALUES ('schema_version', '1'); ";
  if (sqlite(file, begin + "CREATE VIEW runs AS SELECT 'a' AS key, 1 AS point;").exit_code != 0)
    GTEST_SKIP() << "there is no sqlite3 to make such files";
  EXPECT_THAT(run_program({"table", file}).err, HasSubstr("is no file of runs"));
  std::filesystem::remove(file);
  sqlite(file,
         begin +
             "CREATE TABLE runs (key, point, tp AS (load_extension('x.so')), \"a\"\"; drop table runs; --\");"
             "INSERT INTO runs (key, point) VALUES ('a', 1);");
  const Output output = run_program({"table", file, "--columns=tp"});
  EXPECT_EQ(output.exit_code, 2);
  EXPECT_EQ(output.out, "");
  std::filesystem::remove(file);
  sqlite(file, begin +
                   "CREATE TABLE runs (key, point, \"a\"\"; drop table runs; --\", tp, result);"
                   "INSERT INTO runs VALUES ('a', 1, 2, x'ff00', 'no json');");
  const Output strange =
      run_program({"table", file, "--json", "--columns=a\"; drop table runs; --,tp,result"});
  EXPECT_EQ(strange.exit_code, 0) << strange.err;
  EXPECT_EQ(json::parse(strange.out)["rows"][0]["result"], "no json");
  std::filesystem::remove(file);
  sqlite(file,
         "PRAGMA application_id = 1113080658; CREATE TABLE meta (name, value); INSERT INTO meta VALUES "
         "('schema_version', '2'); CREATE TABLE runs (key, point);");
  EXPECT_EQ(tests::replace_all(run_program({"table", file}).err, file, "FILE"),
            "boxcar: FILE: has schema 2, and this boxcar reads 1 (use the boxcar that wrote it)\n");
}

TEST_F(TableCommand, AWriterRefusesOtherVersionsAndTables) {
  const auto why = [](const std::string& file) {
    try {
      RunsWriter(file, runs_format(), "");
    } catch (const Error& error) {
      return tests::replace_all(error.what(), file, "FILE");
    }
    return std::string();
  };
  const std::string file = folder_ + "/strange.db";
  if (sqlite(file, "CREATE TABLE t (a);").exit_code != 0)
    GTEST_SKIP() << "there is no sqlite3 to make such files";
  const std::string before = bytes_of_file(file);
  EXPECT_EQ(why(file), "FILE: is no file of runs, which `boxcar sweep` writes (give another name)");
  EXPECT_EQ(bytes_of_file(file), before);
  sqlite(runs_, "UPDATE meta SET value = '0.0.9' WHERE name = 'program_version'");
  EXPECT_EQ(why(runs_),
            "FILE: was written by boxcar 0.0.9, and this is 0.1.0, whose results may differ (give another "
            "file)");
}

TEST_F(TableCommand, ARowIsThereOnce) {
  RunsWriter writer(runs_, runs_format(), "tp: 1\n");
  EXPECT_THAT(writer.keys(), ElementsAre("a", "b", "c", "d"));
  writer.add({{"a", 9, {{"tp", 64}}}, {"e", 9, {{"tp", 5}, {"what_if_memory", 0.5}}}});
  EXPECT_EQ(tps({}), "1 2 4 3 5 ") << "readable while there is a writer";
  EXPECT_EQ(tps({"--where=what_if_memory < 1"}), "5 ");
}

}  // namespace
}  // namespace boxcar::cli
