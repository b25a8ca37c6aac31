// The solver against an integer program that CBC solves, on graphs shaped like training steps. Skipped where
// cbc is not installed (scripts/setup --clang installs it).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "search/problems.h"

namespace boxcar::search {
namespace {

bool has_cbc() { return std::system("command -v cbc >/dev/null 2>&1") == 0; }

// x = one choice of a node; y = one pair of choices of an edge: sums of y over either end are that end's x.
class IntegerProgram {
 public:
  IntegerProgram(const Assignment& problem, double limit) {
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

  // The least value; infinity where nothing is possible.
  double solve() const {
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

 private:
  void cost(const Cost& cost, const std::string& variable) {
    value_ += fmt::format(" + {} {}\n", cost[0], variable);
    memory_ += fmt::format(" + {} {}\n", cost[1], variable);
  }

  void pairs(const Assignment& problem, size_t e) {
    const auto& edge = problem.edges[e];
    int rows = problem.choices(edge.a), columns = problem.choices(edge.b);
    std::vector<std::string> by_a(static_cast<size_t>(rows)), by_b(static_cast<size_t>(columns));
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) {
        const Cost& c = edge.costs[static_cast<size_t>(i * columns + j)];
        if (is_forbidden(problem.space, c)) continue;
        std::string y = fmt::format("y{}_{}_{}", e, i, j);
        cost(c, y);
        by_a[static_cast<size_t>(i)] += " + " + y;
        by_b[static_cast<size_t>(j)] += " + " + y;
      }
    }
    for (int i = 0; i < rows; ++i)
      rows_ += by_a[static_cast<size_t>(i)] + fmt::format(" - x{}_{} = 0\n", edge.a, i);
    for (int j = 0; j < columns; ++j) {
      rows_ += by_b[static_cast<size_t>(j)] + fmt::format(" - x{}_{} = 0\n", edge.b, j);
    }
  }

  std::string value_, memory_, rows_, binaries_, text_;
};

void compare(const Shape& shape, unsigned seed, bool whole) {
  if (!has_cbc()) GTEST_SKIP() << "cbc is not installed: scripts/setup --clang installs it (coinor-cbc)";
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Assignment problem =
      draw(random, shape, {.space = {2, 0}, .least_choices = 2, .forbidden = 5, .whole = whole});
  Answer free = solve(problem);
  ASSERT_TRUE(free.optimal());
  EXPECT_NEAR(free.value, IntegerProgram(problem, infinity).solve(), 1e-5 * free.value);

  // A limit between what the fastest choice needs and the least that is possible.
  double least = solve(problem, {.weights = {0, 1}}).value;
  Objective limited;
  limited.limits[1] = std::round(least + (free.cost[1] - least) / 3);
  double optimum = IntegerProgram(problem, limited.limits[1]).solve();
  Answer answer = solve(problem, limited);
  ASSERT_TRUE(answer.found);
  EXPECT_TRUE(answer.optimal());
  EXPECT_NEAR(answer.value, optimum, 1e-5 * optimum);
  Answer hasty = solve(problem, limited, {.table = 16, .points = 4, .sums = 1000, .branches = 300});
  EXPECT_LE(hasty.lower, optimum * (1 + 1e-5));
  EXPECT_GE(hasty.value, optimum * (1 - 1e-5));
}

TEST(Cbc, Transformer) { compare(transformer_shape(3), 1, false); }
TEST(Cbc, Convolutions) { compare(conv_shape(8), 2, false); }
TEST(Cbc, Experts) { compare(expert_shape(2, 4), 3, false); }
TEST(Cbc, ManySkips) { compare(skip_shape(8), 4, false); }
TEST(Cbc, TransformerWithTies) { compare(transformer_shape(2), 5, true); }

TEST(Cbc, LongManyGraphs) {
  for (unsigned seed = 10; seed < 30; ++seed) {
    compare(transformer_shape(2), seed, seed % 2 == 0);
    compare(conv_shape(5), seed, seed % 2 == 0);
    compare(expert_shape(1, 6), seed, seed % 2 == 0);
    compare(skip_shape(6), seed, seed % 2 == 0);
  }
}

}  // namespace
}  // namespace boxcar::search
