// boxcar report: the document, the page that holds it, and refusals.
#include "cli/report_page.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "support/run_program.h"

namespace boxcar::tests {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

std::string page_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

ordered_json document_of(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="document">)";
  const size_t from = page.find(begin) + begin.size();
  return ordered_json::parse(page.substr(from, page.find("</script>", from) - from));
}

// "stages[].memory_bytes.parameters" of each value, by order, each once; of columns their names alone.
void add_keys(const ordered_json& value, const std::string& path, std::vector<std::string>& keys) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items())
      add_keys(inner, path.empty() ? key : path + "." + key, keys);
  } else if (value.is_array() && !value.empty() && value.front().is_object()) {
    for (const ordered_json& inner : value) add_keys(inner, path + "[]", keys);
  } else if (std::find(keys.begin(), keys.end(), path) == keys.end()) {
    keys.push_back(path);
  }
}

class ReportPage : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    plan_ = new TemporaryFile("plan.txt", "");
    page_ = new TemporaryFile("page.html", "");
    saved_ = run_program({"simulate", "--model=gpt", "--layers=4", "--hidden=64", "--heads=4", "--seq=32",
                          "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=8", "--tp=2", "--pp=2", "--zero=1",
                          "--global-batch=16", "--precision=fp16", "--save-plan", plan_->path()});
    made_ = run_program({"report", plan_->path(), "-o", page_->path()});
    if (made_.exit_code == 0) text_ = page_text(page_->path()), document_ = document_of(text_);
  }
  static void TearDownTestSuite() { delete plan_, delete page_; }
  void SetUp() override {
    if (cli::page_parts().library.empty()) GTEST_SKIP() << "built without D3";
    ASSERT_EQ(saved_.exit_code, 0) << saved_.err;
    ASSERT_EQ(made_.exit_code, 0) << made_.err;
  }

  static inline TemporaryFile *plan_ = nullptr, *page_ = nullptr;
  static inline Output saved_, made_;
  static inline std::string text_;
  static inline ordered_json document_;
};

TEST_F(ReportPage, DocumentHasTheseKeys) {
  std::vector<std::string> keys;
  ordered_json shown = document_;
  for (const char* other : {"result", "stages", "communications"})  // of simulate, of explain
    shown.erase(other);
  add_keys(shown, "", keys);
  std::string text;
  for (const std::string& key : keys) text += key + "\n";
  EXPECT_EQ(text, R"(schema_version
plan
cluster
device
framework
gpus
verdict[].name
verdict[].text
links[].stage
links[].link
links[].link_bandwidth_bytes_per_s
links[].what
links[].over
links[].acts
links[].bytes
links[].alone_s
links[].simulated_s
memory.windows
memory.unit_bytes
memory.stages[].class
memory.stages[].held.parameters
memory.stages[].held.gradients
memory.stages[].held.optimizer
memory.stages[].held.activations
memory.stages[].held.workspace
memory.limit_bytes
layouts.layer
layouts.stage
layouts.mesh[].name
layouts.mesh[].devices
layouts.tensors[].name
layouts.tensors[].role
layouts.tensors[].type
layouts.tensors[].shape
layouts.tensors[].layout
layouts.tensors[].blocks
layouts.tensors[].ranges
layouts.tensors[].devices
layouts.left_out
candidates
sensitivity[].name
sensitivity[].what
sensitivity[].half_step_s
sensitivity[].double_step_s
errors.text
errors.rows[].framework
errors.rows[].device
errors.rows[].least_gpus
errors.rows[].published_steps
errors.rows[].share
errors.rows[].step_time_range_s
errors.rows[].used
timeline.tick_s
timeline.step_ticks
timeline.classes[].program
timeline.classes[].devices
timeline.classes[].stands_for
timeline.classes[].kept
timeline.classes[].queue_busy_s
timeline.classes[].peer_class
timeline.programs[].name
timeline.programs[].queues
timeline.programs[].phases
timeline.programs[].actors.name
timeline.programs[].actors.layer
timeline.programs[].actors.op
timeline.programs[].actors.kind
timeline.programs[].actors.queue
timeline.programs[].actors.phase
timeline.programs[].actors.bytes
timeline.programs[].actors.inputs
timeline.programs[].actors.input_register
timeline.programs[].actors.input_repeat
timeline.programs[].actors.input_peers
timeline.programs[].registers.name
timeline.programs[].registers.layer
timeline.programs[].registers.producer
timeline.programs[].registers.every
timeline.programs[].registers.initial
timeline.programs[].registers.count
timeline.names
timeline.kinds
timeline.runs.class
timeline.runs.queue
timeline.runs.phase
timeline.runs.micro_batch
timeline.runs.run
timeline.runs.shape
timeline.runs.begin
timeline.shapes.first
timeline.shapes.start
timeline.shapes.duration
)");
}

TEST_F(ReportPage, HasTheNumbersOfSimulate) {
  const Output simulated = run_program({"simulate", "--plan", plan_->path(), "--json"});
  ASSERT_EQ(simulated.exit_code, 0) << simulated.err;
  ordered_json expected = ordered_json::parse(simulated.out), result = document_["result"];
  for (ordered_json* doc : {&expected, &result}) doc->erase("simulator");  // how long it took
  EXPECT_EQ(result.dump(2), expected.dump(2));
  EXPECT_THAT(simulated.out, HasSubstr("\"fits\": true"));
}

TEST_F(ReportPage, VerdictIsThatOfSimulate) {
  const Output simulated = run_program({"simulate", "--plan", plan_->path()});
  ASSERT_EQ(document_["verdict"].size(), 3U);
  for (const ordered_json& line : document_["verdict"])
    EXPECT_THAT(simulated.out, HasSubstr(fmt::format("  {:<9} {}\n", line["name"].get<std::string>(),
                                                     line["text"].get<std::string>())));
}

// A plan says the sizes of its model, and the page its name where there is one.
TEST_F(ReportPage, NamesAKnownModel) {
  EXPECT_FALSE(document_.contains("model"));
  const TemporaryFile plan("known.txt", ""), page("page.html", "");
  ASSERT_EQ(run_program({"simulate", "--model=openai-community/gpt2", "--cluster=dgx-a100-80g", "--gpus=1",
                         "--seq=512", "--save-plan", plan.path()})
                .exit_code,
            0);
  ASSERT_EQ(run_program({"report", plan.path(), "--no-sensitivity", "-o", page.path()}).exit_code, 0);
  const std::string text = page_text(page.path());
  EXPECT_EQ(document_of(text)["model"], "gpt2");
  EXPECT_THAT(text, HasSubstr("<h1>gpt2: known.txt</h1>"));
}

TEST_F(ReportPage, TimelineHasEveryActOfTheStep) {
  const ordered_json &timeline = document_["timeline"], &runs = timeline["runs"],
                     &shapes = timeline["shapes"];
  const double tick = timeline["tick_s"];
  std::map<std::pair<int, int>, double> busy;  // by class and queue
  int64_t acts = 0;
  for (size_t r = 0; r < runs["class"].size(); ++r) {
    const size_t shape = runs["shape"][r];
    const size_t from = shapes["first"][shape], to = shapes["first"][shape + 1];
    for (size_t i = from; i < to; ++i)
      busy[{runs["class"][r], runs["queue"][r]}] += tick * shapes["duration"][i].get<double>();
    acts += static_cast<int64_t>(
        (to - from) * timeline["classes"][runs["class"][r].get<size_t>()]["stands_for"].get<size_t>());
  }
  EXPECT_EQ(acts, document_["result"]["plan"]["acts_per_step"]);
  for (const auto& [place, seconds] : busy) {
    const double expected = timeline["classes"][static_cast<size_t>(place.first)]["queue_busy_s"]
                                    [static_cast<size_t>(place.second)];
    EXPECT_NEAR(seconds, expected, 1e-3 * expected + 1e-6)
        << "class " << place.first << " queue " << place.second;
  }
}

TEST_F(ReportPage, MemoryOverTimePeaksAtWhatRegistersHeld) {
  const ordered_json& memory = document_["memory"];
  const auto windows = memory["windows"].get<size_t>();
  for (size_t s = 0; s < memory["stages"].size(); ++s) {
    double most = 0;
    for (size_t w = 0; w < windows; ++w) {
      double sum = 0;
      for (const auto& [kind, column] : memory["stages"][s]["held"].items()) {
        ASSERT_EQ(column.size(), windows);
        sum += column[w].get<double>() * memory["unit_bytes"].get<double>();
      }
      most = std::max(most, sum);
    }
    const auto held = document_["result"]["held_memory_bytes"][s].get<double>();
    EXPECT_NEAR(most, held, 0.01 * held) << s;
  }
}

// This job is so small that its host decides.
TEST_F(ReportPage, SensitivityIsThatOfWhatIf) {
  const ordered_json& rows = document_["sensitivity"];
  const auto row =
      std::find_if(rows.begin(), rows.end(), [](const auto& r) { return r["name"] == "host_per_op"; });
  ASSERT_NE(row, rows.end());
  EXPECT_LT((*row)["half_step_s"].get<double>(), document_["result"]["step_time_s"].get<double>());
  EXPECT_GT((*row)["double_step_s"].get<double>(), document_["result"]["step_time_s"].get<double>());
  const Output simulated =
      run_program({"simulate", "--plan", plan_->path(), "--what-if", "host_per_op=2x", "--json"});
  EXPECT_EQ(ordered_json::parse(simulated.out)["step_time_s"], (*row)["double_step_s"]);
}

TEST_F(ReportPage, AsksForNothingElse) {
  for (const char* loads :
       {" src=", "href=\"http", "@import", "url(http", "fetch(", "XMLHttpRequest", "import("})
    EXPECT_EQ(text_.find(loads), std::string::npos) << loads;
  for (const char* part : {"{{title}}", "{{style}}", "{{document}}", "{{library}}", "{{script}}"})
    EXPECT_EQ(text_.find(part), std::string::npos) << part;
}

TEST_F(ReportPage, LeavesOutWhatIsNotAskedFor) {
  const TemporaryFile page("short.html", "");
  const Output made = run_program({"report", plan_->path(), "-o", page.path(), "--no-sensitivity"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_FALSE(document_of(page_text(page.path())).contains("sensitivity"));
}

TEST_F(ReportPage, CostsAWholeRunAsCampaignDoes) {
  const std::vector<std::string> conditions{
      "--tokens=1M",  "--price=2",   "--mtbf=3h/1024", "--checkpoint-bandwidth=1GB/s",
      "--restart=5m", "--watts=700", "--pue=1.2"};
  const TemporaryFile page("run.html", "");
  std::vector<std::string> words{"report", plan_->path(), "-o", page.path(), "--no-sensitivity"};
  words.insert(words.end(), conditions.begin(), conditions.end());
  const Output made = run_program(words);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  words = {"campaign", "--plan", plan_->path(), "--json"};
  words.insert(words.end(), conditions.begin(), conditions.end());
  const Output cost = run_program(words);
  ASSERT_EQ(cost.exit_code, 0) << cost.err;
  const ordered_json run = document_of(page_text(page.path()))["run"];
  ordered_json expected = ordered_json::parse(cost.out);
  ordered_json& row = expected["rows"][0];
  EXPECT_EQ(row["steps"], 1954);  // 1e6 / (16 * 32), rounded up
  for (const char* number : {"days", "gpu_hours", "dollars", "energy_mwh", "goodput", "failures"})
    EXPECT_GT(row["estimate"][number], 0) << number;
  row["job"] = run["rows"][0]["job"];  // a file's name there, its path here
  EXPECT_EQ(run, expected);
}

TEST_F(ReportPage, ShowsWhatTheSearchSimulated) {
  const TemporaryFile plan("found.txt", ""), page("found.html", "");
  const Output found = run_program({"search", "--model=gpt", "--layers=2", "--hidden=64", "--heads=4",
                                    "--seq=32", "--vocab=128", "--cluster=dgx-a100-80g", "--gpus=4",
                                    "--global-batch=8", "--precision=fp16", "--json", "-o", plan.path()});
  ASSERT_EQ(found.exit_code, 0) << found.err;
  const Output made = run_program({"report", plan.path(), "-o", page.path(), "--no-sensitivity"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const ordered_json document = document_of(page_text(page.path())), &all = document["candidates"];
  ASSERT_GE(all.size(), 2U);
  int plans = 0;
  double before = 0;
  const auto beats = [](const ordered_json& a, const ordered_json& b) {
    return a["step_time_s"] <= b["step_time_s"] && a["peak_memory_bytes"] <= b["peak_memory_bytes"] &&
           (a["step_time_s"] < b["step_time_s"] || a["peak_memory_bytes"] < b["peak_memory_bytes"]);
  };
  for (const ordered_json& one : all) {
    const double step = one["step_time_s"];
    EXPECT_GE(step, before);
    before = step;
    const bool is_beaten = std::any_of(all.begin(), all.end(), [&](const auto& a) { return beats(a, one); });
    EXPECT_NE(one["front"].get<bool>(), is_beaten) << one;
    if (!one["this_plan"].get<bool>()) continue;
    ++plans;
    EXPECT_EQ(step, document["result"]["step_time_s"]);
    EXPECT_EQ(one["flags"], ordered_json::parse(found.out)["flags"]);
  }
  EXPECT_EQ(plans, 1);
}

TEST_F(ReportPage, RefusesWhatItCannotReadOrWrite) {
  const auto refusal = [](const std::vector<std::string>& words) {
    const Output output = run_program(words);
    EXPECT_EQ(output.exit_code, 2);
    return output.err;
  };
  const TemporaryFile text("text.txt", "no plan\n"), page("page.html", "");
  EXPECT_EQ(refusal({"report"}), "boxcar: file: missing; `boxcar report --help` says more\n");
  EXPECT_EQ(refusal({"report", plan_->path()}),
            "boxcar: --output: missing; give a file, or --serve to see the page at once\n");
  EXPECT_THAT(refusal({"report", "none.txt", "-o", page.path()}),
              HasSubstr("none.txt: cannot be read; check the path"));
  EXPECT_THAT(refusal({"report", text.path(), "-o", page.path()}),
              HasSubstr(text.path() + ": is no plan, as"));
  EXPECT_THAT(refusal({"report", plan_->path(), "-o", "/none/page.html"}),
              HasSubstr("/none/page.html: cannot be written: No such file or directory"));
  EXPECT_THAT(refusal({"report", plan_->path(), "-o", plan_->path()}), HasSubstr("is the same file as"));
  EXPECT_EQ(refusal({"report", plan_->path(), "-o", page.path(), "--price", "2"}),
            "boxcar: --price: has no effect without --tokens or --samples\n");
  EXPECT_EQ(
      refusal({"report", plan_->path(), "-o", page.path(), "--tokens=1M", "--mtbf=3h/8"}),
      "boxcar: --mtbf: has no effect without --checkpoint-bandwidth: the time of a checkpoint decides how "
      "much work a failure loses\n");
  EXPECT_EQ(refusal({"report", plan_->path(), "-o", page.path(), "--tokens", "100"}),
            "boxcar: --tokens: 100 is less than one step, which takes 512\n");
  EXPECT_EQ(page_text(page.path()), "");
}

TEST(ReportPageText, EndsNoElementEarly) {
  const ordered_json document{{"name", "</script><!--<script>\u2028\u2029 \x01 \xff"}};
  const std::string text = cli::script_json(document);
  EXPECT_EQ(text, R"({"name":"\u003c/script>\u003c!--\u003cscript>\u2028\u2029 \u0001 \ufffd"})");
  EXPECT_EQ(ordered_json::parse(text)["name"], "</script><!--<script>\u2028\u2029 \x01 \ufffd");
}

TEST(ReportPageText, PutsTheTitleAsText) {
  EXPECT_EQ(cli::escape_html("<b>&\"'"), "&lt;b&gt;&amp;&quot;&#39;");
  const std::string page = cli::report_page("<b>{{document}}", {{"a", "{{script}}"}});
  EXPECT_THAT(page, HasSubstr("<h1>&lt;b&gt;{{document}}</h1>"));
  EXPECT_THAT(page, HasSubstr(R"(id="document">{"a":"{{script}}"}</script>)"));
}

TEST(ReportPageText, PartsStandInTheirElements) {
  const cli::PageParts parts = cli::page_parts();
  for (const std::string_view script : {parts.library, parts.script}) {
    EXPECT_EQ(script.find("</script"), std::string_view::npos);
    EXPECT_EQ(script.find("<!--"), std::string_view::npos);
  }
  EXPECT_EQ(parts.style.find("</style"), std::string_view::npos);
}

}  // namespace
}  // namespace boxcar::tests
