// `boxcar sbp`: the algebra from the command line.
//
//   boxcar sbp ops                              names of all ops
//   boxcar sbp rules matmul 4x6 6x8 --json      [{"inputs":["B","B"],"outputs":["B"]}, ...]
//   boxcar sbp box --shape 8x6 --from "S(0)" --to B --from-devices 0-3
//                                               the route between two layouts, its steps and bytes
#pragma once

#include <CLI/CLI.hpp>
#include <iostream>

namespace boxcar::cli {

// Results go to `out`. Wrong arguments throw Error (bad input) while `app` parses.
void add_sbp_command(CLI::App& app, std::ostream& out = std::cout);

}  // namespace boxcar::cli
