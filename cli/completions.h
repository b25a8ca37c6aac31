// Completions of a shell and manual pages, made from the table of commands and flags.
//
//   eval "$(boxcar completions bash)"     in ~/.bashrc; after `cmake --install` the shell finds them itself
//   boxcar man search | man -l -
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace boxcar::cli {

// `boxcar completions bash|zsh|fish` and `boxcar man [COMMAND]`, which print to stdout.
void add_completion_commands(CLI::App& app);

// The script of a shell for all commands of `app`. Throws Error (bad input) for another shell.
std::string completion_script(const CLI::App& app, const std::string& shell);

// The manual page of `app`, or of one of its commands, in the macros of man(7).
std::string manual_page(const CLI::App& app);

}  // namespace boxcar::cli
