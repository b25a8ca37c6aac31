// The built program, for tests without the commands.
#include "support/run_program.h"

namespace boxcar::tests {

Output run_program(const std::vector<std::string>& arguments) {
  return run_another(BOXCAR_PROGRAM, arguments);
}

}  // namespace boxcar::tests
