// The commands in a fork of the test, if they are linked.
#include "cli/program.h"
#include "support/run_program.h"

namespace boxcar::tests {

Output run_program(const std::vector<std::string>& arguments) {
  return run_in_child([&] {
    const std::string program = "boxcar";
    const std::vector<char*> words = words_of(program, arguments);
    return cli::program_main(static_cast<int>(words.size()) - 1, words.data());
  });
}

}  // namespace boxcar::tests
