#include "bad_input.h"

#include <gtest/gtest.h>

namespace boxcar::tests {

void expect_refused(const Words& arguments, int exit_code, const std::string& message,
                    const std::string& shown_path, const std::string& path) {
  Output output = run_program(arguments);
  std::string shown = path.empty() ? output.err : replace_all(output.err, path, shown_path);
  EXPECT_EQ(shown, "boxcar: " + message + "\n") << ::testing::PrintToString(arguments);
  EXPECT_EQ(output.out, "");
  EXPECT_EQ(output.exit_code, exit_code);
}

void expect_refused(const Words& beginning, std::span<const CommandCase> cases) {
  for (const CommandCase& c : cases) {
    Words arguments = beginning;
    arguments.insert(arguments.end(), c.arguments.begin(), c.arguments.end());
    expect_refused(arguments, c.exit_code, c.message);
  }
}

}  // namespace boxcar::tests
