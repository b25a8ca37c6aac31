// A page for the browsers of this machine, by cpp-httplib.
//
//   serve_page("<!DOCTYPE html>...", 0);   // prints http://127.0.0.1:40123/ and serves it until the program
//   ends
#pragma once

#include <string>

namespace boxcar::cli {

// Serves `page` on 127.0.0.1 at `port` (0: one that is free), prints its address, and opens it by xdg-open
// where there is that and a display. The page is at / for requests whose Host is this machine, and nothing
// else is there. Does not return while it serves: Ctrl-C ends the program. Throws Error (bad input) where the
// port is taken, Error (cannot run) in a build without cpp-httplib.
void serve_page(const std::string& page, int port);

// Throws what serve_page throws in a build without cpp-httplib.
void check_page_server();

}  // namespace boxcar::cli
