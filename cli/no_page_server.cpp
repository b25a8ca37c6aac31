// In place of page_server.cpp if cpp-httplib was not found.
#include "cli/page_server.h"
#include "sbp/error.h"

namespace boxcar::cli {

void check_page_server() {
  throw Error::cannot_run(
      "--serve",
      "this build lacks cpp-httplib (install libcpp-httplib-dev, configure again and build; "
      "or write the page by -o and open it)");
}

void serve_page(const std::string&, int) { check_page_server(); }

}  // namespace boxcar::cli
