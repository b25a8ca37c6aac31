#include "cli/page_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <spawn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cli/output.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

constexpr const char* this_machine_only = "127.0.0.1";

// Does not wait for it and ignores its result: the address has been printed.
void open_in_browser(std::string address) {
  if (!std::getenv("DISPLAY") && !std::getenv("WAYLAND_DISPLAY")) return;
  std::string program = "xdg-open";
  char* words[] = {program.data(), address.data(), nullptr};
  posix_spawn_file_actions_t silent;
  posix_spawn_file_actions_init(&silent);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO})
    posix_spawn_file_actions_addopen(&silent, output, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  posix_spawnp(&child, words[0], &silent, nullptr, words, environ);
  posix_spawn_file_actions_destroy(&silent);
}

}  // namespace

void check_page_server() {}

void serve_page(const std::string& page, int asked) {
  httplib::Server server;
  server.set_socket_options([](socket_t socket) {  // otherwise it could be shared with another server
    constexpr int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  const int port = asked == 0 ? server.bind_to_any_port(this_machine_only)
                   : server.bind_to_port(this_machine_only, asked) ? asked
                                                                   : -1;
  if (port < 0)
    throw Error::input("--port", fmt::format("{} is taken, or may not be used (give another one)", asked));
  const std::string here = fmt::format("{}:{}", this_machine_only, port),
                    address = fmt::format("http://{}/", here);
  // A page of the network may give its own name this machine's address; its requests name it.
  server.set_pre_routing_handler([&](const httplib::Request& request, httplib::Response& response) {
    const std::string host = request.get_header_value("Host");
    if (host == here || host == fmt::format("localhost:{}", port))
      return httplib::Server::HandlerResponse::Unhandled;
    response.status = 403;
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/", [&](const httplib::Request&, httplib::Response& response) {
    response.set_content(page, "text/html; charset=utf-8");
  });
  print(fmt::format("{} (Ctrl-C ends it)\n", address));
  std::fflush(stdout);
  open_in_browser(address);
  if (!server.listen_after_bind()) throw Error::fault("--serve", "the server ended");
}

}  // namespace boxcar::cli
