// From a job file and flags to planner::Job: reading, merging (flags win) and tracing each value to its
// source.
//
//   job.yaml:3:23: parallel.tp: got "x", expected a whole number from 1 to 10000
//   --tp: 6 does not divide heads 32 (use 1, 2, 4, 8, 16 or 32)
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/keys.h"
#include "sbp/error.h"

namespace boxcar::cli {

// One value as the user wrote it.
struct Given {
  std::string text;
  std::string where;       // "job.yaml:3:23: parallel.tp" or "--tp"
  bool may_lapse = false;  // nobody asks for it besides the other keys: it may be without effect
};
using GivenKeys = std::map<std::string, Given>;  // by Key::path()

// Reads a YAML job file. Throws Error with file, line and column; unknown keys name the nearest known one.
GivenKeys read_job_file(const std::string& path);
GivenKeys parse_job(const std::string& text, const std::string& path);  // the same for its text

// Sets the sizes that are not given from the model, named in the catalog or given as a config.json. Then a
// global batch in tokens ("4M-tokens") is one in sequences.
void expand(GivenKeys& given);

// Parses a value into the field of the key at `path`. Throws Error (bad input) as the key's set() does.
void set(Request& request, const std::string& path, const Given& value);

// Sets the framework's own defaults, for those keys that a model of the request's family has. Throws Error
// (bad input) naming framework and key if there is no such key.
void set_defaults(const backends::Framework& framework, Request& request);

// Sets the given values, loads the cluster, fills in defaults and checks (planner::resolve). Errors say where
// the value at fault was written.
struct Resolved {
  Request request;  // its job is a copy, for keys and labels
  planner::ResolvedJob job;
  // Every key's value by path, for plan files and the printed configuration.
  std::map<std::string, std::string> labels;
};
Resolved resolve(const GivenKeys& given);

// Throws Error (input) at `where` if the device has no rate for the type of products; no other type's rate
// replaces it.
void check_rate(const backends::DeviceProfile& device, ir::Precision precision, const std::string& where);

// A cluster by preset or path, with `device` (empty: its own) in its nodes. The job takes `of_each_node`
// devices of each node (0: all).
backends::Cluster load_cluster(const std::string& name, const std::string& device, int gpus,
                               int of_each_node = 0);

// Takes this share (0 to 1) off the memory that plans may use.
void keep_free(backends::DeviceProfile& device, double share);

// The same error, with the place at which the key that it names was written.
Error located(const GivenKeys& given, const Error& error);

// The request as far as it is given, for a search: open keys stay open, and no degrees are checked. A
// framework's searched_as overrides its defaults.
Request open_request(const GivenKeys& given);

}  // namespace boxcar::cli
