// boxcar report for a file of runs: the document of its page, refusals, and the page as --serve gives it.
#include "cli/report_runs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "bad_input.h"
#include "cli/page_server.h"
#include "cli/report_page.h"
#include "cli/sweep/runs_format.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using ::testing::HasSubstr;
using tests::Output;
using tests::run_program;
using tests::Words;

sweep::RunRow row(int64_t point, const json& cells) { return {"key" + std::to_string(point), point, cells}; }

class ReportRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!sweep::has_sqlite()) GTEST_SKIP() << "this build lacks SQLite";
    if (page_parts().library.empty()) GTEST_SKIP() << "built without D3";
    sweep::RunsWriter writer(path("runs.db"), runs_format(), "", {"tp", "what_if_bandwidth_network"});
    writer.add({row(0, {{"status", "simulated"},
                        {"fits", true},
                        {"tp", 2},
                        {"what_if_bandwidth_network", 0.25},
                        {"step_time_s", 0.1 + 0.2},
                        {"peak_memory_bytes", 1234567890123},
                        {"configuration", "{}"},
                        {"result", "{}"}}),
                row(1, {{"status", "does not fit"}, {"fits", false}, {"tp", 4}, {"why_not", "</script>"}})});
  }
  ~ReportRuns() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string content(const std::string& name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const std::string folder_ = tests::temporary_folder();
};

TEST_F(ReportRuns, DocumentHasTheRowsOfTheTable) {
  const ordered_json document = runs_document(path("runs.db"), "");
  std::vector<std::string> columns;
  for (const ordered_json& one : document["columns"]) {
    columns.push_back(one["name"].get<std::string>() + " " + one["kind"].get<std::string>());
    if (!one["better"].is_null()) columns.back() += " " + one["better"].get<std::string>();
    EXPECT_NE(one["meaning"], "") << one["name"];
  }
  EXPECT_THAT(columns, ::testing::ElementsAre("point result", "status result", "tp asked", "fits result",
                                              "step_time_s result less", "peak_memory_bytes result less",
                                              "why_not result", "what_if_bandwidth_network asked"));
  EXPECT_EQ(document["rows"].dump(), R"([[0,"simulated",2,true,0.30000000000000004,1234567890123,null,0.25],)"
                                     R"([1,"does not fit",4,false,null,null,"</script>",null]])");
  EXPECT_EQ(document["runs"], "runs.db");
  const ordered_json chosen = runs_document(path("runs.db"), "tp = 2");
  EXPECT_EQ(chosen["rows"].size(), 1u);
  EXPECT_EQ(chosen["where"], "tp = 2");
}

TEST_F(ReportRuns, PageHoldsTheDocumentAndAsksForNothing) {
  const Output made = run_program({"report", path("runs.db"), "-o", path("page.html")});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out + made.err, "");
  const std::string page = content("page.html"), begin = R"(id="document">)";
  const size_t from = page.find(begin) + begin.size();
  EXPECT_EQ(ordered_json::parse(page.substr(from, page.find("</script>", from) - from)),
            runs_document(path("runs.db"), ""));
  for (const char* part :
       {"{{title", "{{style", "{{document", "{{license", "{{library", "{{script", "src=", "<link"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("Copyright 2010-2022 Mike Bostock"));
}

TEST_F(ReportRuns, RefusesWhatHasNoEffect) {
  const std::string runs = path("runs.db"), out = path("o.html");
  std::ofstream(path("text.txt")) << "plan\n";
  { const sweep::RunsWriter none(path("none.db"), runs_format(), ""); }
  const tests::CommandCase cases[] = {
      {{runs}, 2, "--output: missing; give a file, or --serve to see the page at once"},
      {{runs, "-o", runs}, 2, "-o: " + runs + " is the same file as RUNS"},
      {{runs, "-o", out, "--no-sensitivity"}, 2, "--no-sensitivity: has no effect on a file of runs"},
      {{runs, "-o", out, "--tokens=1B"}, 2, "--tokens: has no effect on a file of runs"},
      {{runs, "-o", out, "--price=2"}, 2, "--price: has no effect on a file of runs"},
      {{path("text.txt"), "-o", out, "--where=tp = 2"},
       2,
       "--where: chooses rows of a file of runs, and " + path("text.txt") + " is none"},
      {{runs, "-o", out, "--where=tpp = 2"},
       2,
       "--where: no column is named \"tpp\" (did you mean tp?); `boxcar table FILE --list` names all"},
      {{runs, "-o", out, "--where=tp = 9"}, 2, runs + ": has no rows for which --where holds"},
      {{path("none.db"), "-o", out}, 2, path("none.db") + ": has no rows"},
      {{runs, "--port=x"}, 2, "--port: got \"x\", expected a whole number from 1 to 65535"},
      {{runs, "-o", runs + ".html", "--port=8080"}, 2, "--port: has no effect without --serve"},
  };
  tests::expect_refused({"report"}, cases);
}

// The answer of a server on this machine.
std::string answer(int port, const std::string& request) {
  const int line = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET, to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string text;
  if (connect(line, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
      send(line, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
    char part[65536];
    for (ssize_t n = 0; (n = recv(line, part, sizeof part, 0)) > 0;)
      text.append(part, static_cast<size_t>(n));
  }
  close(line);
  return text;
}

TEST_F(ReportRuns, ServesThePageToThisMachineAndOpensIt) {
  try {
    check_page_server();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("lacks cpp-httplib (install libcpp-httplib-dev"));
    GTEST_SKIP() << error.what();
  }
  std::ofstream(path("xdg-open")) << "#!/bin/sh\necho \"$1\" > " << path("opened.new") << "; mv "
                                  << path("opened.new") << " " << path("opened") << "\n";
  chmod(path("xdg-open").c_str(), 0755);
  const std::string runs = path("runs.db"), page = path("page.html"), log = path("log");
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen(log.c_str(), "w", stdout)) _exit(126);
    setenv("PATH", (folder_ + ":" + std::getenv("PATH")).c_str(), 1);
    setenv("DISPLAY", ":7", 1);
    execl(BOXCAR_PROGRAM, "boxcar", "report", runs.c_str(), "-o", page.c_str(), "--serve", nullptr);
    _exit(127);
  }
  const auto wait_for = [&](const std::string& name) {
    for (int i = 0; i < 1000 && content(name).find('\n') == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return content(name);
  };
  int port = 0;
  const std::string said = wait_for("log");
  ASSERT_EQ(std::sscanf(said.c_str(), "http://127.0.0.1:%d/ (Ctrl-C ends it)", &port), 1) << said;
  const std::string here = "127.0.0.1:" + std::to_string(port);
  EXPECT_EQ(wait_for("opened"), "http://" + here + "/\n");
  const auto get = [&](const std::string& what, const std::string& host) {
    return answer(port, "GET " + what + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
  };
  const std::string served = get("/", here);
  EXPECT_THAT(served, ::testing::StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(served.substr(served.find("\r\n\r\n") + 4), content("page.html"));
  EXPECT_THAT(get("/", "localhost:" + std::to_string(port)), ::testing::StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(get("/", "evil.example"), ::testing::StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(get("/runs.db", here), ::testing::StartsWith("HTTP/1.1 404 "));
  const Output second = run_program({"report", runs, "--serve", "--port", std::to_string(port)});
  EXPECT_EQ(second.err,
            "boxcar: --port: " + std::to_string(port) + " is taken, or may not be used (give another one)\n");
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
}

}  // namespace
}  // namespace boxcar::cli
