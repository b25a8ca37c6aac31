#include "search/integer_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sbp/at.h"

namespace boxcar::search {

bool has_cbc() { return std::system("command -v cbc >/dev/null 2>&1") == 0; }

IntegerProgram::IntegerProgram(const Assignment& problem, double limit) {
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    std::string one;
    for (size_t c = 0; c < problem.nodes[n].size(); ++c) {
      cost(problem.nodes[n][c], fmt::format("x{}_{}", n, c));
      one += fmt::format(" + x{}_{}", n, c);
      binaries_ += fmt::format(" x{}_{}\n", n, c);
    }
    rows_ += one + " = 1\n";
  }
  for (size_t e = 0; e < problem.edges.size(); ++e) pairs(problem, e);
  text_ = "Minimize\n" + value_ + "\nSubject To\n" + rows_;
  if (limit < infinity) text_ += memory_ + fmt::format(" <= {}\n", limit);
  text_ += "Binary\n" + binaries_ + "End\n";
}

double IntegerProgram::solve() const {
  auto folder = std::filesystem::temp_directory_path() / fmt::format("boxcar_cbc_{}", getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "problem.lp") << text_;
  std::string command =
      fmt::format("cbc {0}/problem.lp ratio 0 allow 0 solve solution {0}/solution.txt >{0}/log.txt 2>&1",
                  folder.string());
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::string first;
  std::getline(std::ifstream(folder / "solution.txt") >> std::ws, first);
  std::filesystem::remove_all(folder);
  size_t value = first.find("objective value");
  EXPECT_NE(value, std::string::npos) << first;
  bool optimal = first.starts_with("Optimal");
  return optimal && value != std::string::npos ? std::stod(first.substr(value + 15)) : infinity;
}

void IntegerProgram::cost(const Cost& cost, const std::string& variable) {
  value_ += fmt::format(" + {} {}\n", cost[0], variable);
  memory_ += fmt::format(" + {} {}\n", cost[1], variable);
}

void IntegerProgram::pairs(const Assignment& problem, size_t e) {
  const auto& edge = problem.edges[e];
  int rows = problem.choices(edge.a), columns = problem.choices(edge.b);
  std::vector<std::string> by_a(static_cast<size_t>(rows)), by_b(static_cast<size_t>(columns));
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      const Cost& c = at(edge.costs, i * columns + j);
      if (is_forbidden(problem.space, c)) continue;
      std::string y = fmt::format("y{}_{}_{}", e, i, j);
      cost(c, y);
      at(by_a, i) += " + " + y;
      at(by_b, j) += " + " + y;
    }
  }
  for (int i = 0; i < rows; ++i) rows_ += at(by_a, i) + fmt::format(" - x{}_{} = 0\n", edge.a, i);
  for (int j = 0; j < columns; ++j) {
    rows_ += at(by_b, j) + fmt::format(" - x{}_{} = 0\n", edge.b, j);
  }
}

}  // namespace boxcar::search
