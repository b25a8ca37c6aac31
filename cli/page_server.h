// A page for the browsers of this machine, by cpp-httplib.
//
//   serve_page("<!DOCTYPE html>...", 0);   // prints http://127.0.0.1:40123/ and serves it until the end
#pragma once

#include <string>

namespace boxcar::cli {

// Serves `page` on 127.0.0.1 at `port` (0: a free one), prints its address, and opens it by xdg-open if that
// exists and there is a display. The page is at / for requests whose Host is this machine, and nothing else
// is there. Does not return while it serves: Ctrl-C ends the program. Throws Error (bad input) if the port is
// taken, Error (cannot run) in a build without cpp-httplib.
void serve_page(const std::string& page, int port);

// Throws as serve_page does in a build without cpp-httplib.
void check_page_server();

}  // namespace boxcar::cli
