// The flags and the job file that every command on a job takes, made from the table of keys.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "cli/job.h"

namespace boxcar::cli {

class JobArguments {
 public:
  // With `run` also the flags of section "run"; a job file may have that section for any command. `defaults`
  // by path, if the command's differ from the table's.
  void add_to(CLI::App& command, bool run = false, const std::map<std::string, std::string>& defaults = {});
  // The file's keys, overridden by flags. Throws Error (bad input); for unknown flags with the nearest name.
  GivenKeys given() const;
  std::string file() const;  // the job file, or empty
  // For a command that takes several: all job files, and the keys of one of them ("": none), overridden by
  // the flags.
  std::vector<std::string> files() const;
  GivenKeys given(const std::string& file) const;

 private:
  struct Flag {
    const Key* key;
    CLI::Option* option;
  };
  struct Parsed {
    GivenKeys flags;
    std::vector<std::string> files;
  };
  Parsed parse() const;
  std::vector<Flag> flags_;
  CLI::App* command_ = nullptr;
};

// For options that are not keys: a number of [least, most], whole or not, and a name that is not empty.
CLI::Validator whole_number(int64_t least, int64_t most);
CLI::Validator number(double least, double most);
CLI::Validator not_empty();

// A command line's words after the program's name, in which flags with the name of a cluster's constant are
// changes of it, if the command takes such: {"--link-bandwidth", "450GB/s"} becomes {"--what-if",
// "node.link_bandwidth=450GB/s"}.
std::vector<std::string> with_constants_named(const CLI::App& app, std::vector<std::string> words);

// Refuses flags unknown to `command`, which allows extras, with the nearest name, and further arguments.
void refuse_extras(const CLI::App& command);

}  // namespace boxcar::cli
