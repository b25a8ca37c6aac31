// Every key of a job file, as one table: its section, its values, and the field of a Request that it sets. A
// key is a flag of the same name: parallel.micro_batch is --micro-batch.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "actors/training/train_run.h"
#include "planner/planner.h"

namespace boxcar::cli {

// A user's request before clusters are loaded and defaults filled in.
struct Request {
  planner::Job job;
  std::string cluster;                 // preset or path
  std::string device;                  // the same; empty: the cluster's own
  std::string graph;                   // of family graph: the file with its text
  int gpus_per_node = 0;               // that the job takes of each node; 0: all
  double memory_margin = 0;            // share of a device's memory that stays free
  std::string preset = "none";         // of keys that are not given
  std::string attention_kernel;        // of parallel.attention flash; empty: the device's own
  std::string fp8_recipe = "delayed";  // of train.precision fp8
  std::string framework = "boxcar";    // the training framework that is simulated
  training::TrainRun run;              // only for `boxcar train`
};

using Field = std::variant<int*, int64_t*, double*, bool*, std::string*, std::vector<int>*,
                           std::vector<std::string>*, ir::Precision*, ir::Recompute*, ir::Optimizer*,
                           ir::Gradients*, ir::Moments*, planner::Reduction*, planner::PipelineSchedule*,
                           planner::MeshOrder*, std::set<std::string>*, std::set<ir::Module>*>;

struct Key {
  std::string section, name;
  std::string flag;   // "--micro-batch"
  std::string alias;  // another flag, or empty: "--model" for model.family
  std::function<Field(Request&)> field;
  double least = 0, most = 0;      // for numbers, both ends allowed
  std::vector<std::string> words;  // for words: the allowed ones; for an enum its own
  bool required = false;
  std::string help;
  std::vector<std::string> families;              // of models that have it; empty: all
  std::string fallback;                           // the default in words, if it follows from other keys
  bool rare = false;                              // a plan's labels omit the default
  std::map<std::string, std::string> meant = {};  // words by those that users write in their place

  std::string path() const { return section + "." + name; }
  bool is_of(const std::string& model_family) const;
  bool is_switch() const;            // a flag that needs no value
  std::string values() const;        // "1..10000", "gelu|swiglu", "true|false", "NAME"
  std::string default_text() const;  // "1", "gelu; llama: swiglu", "what remains of the GPUs", "needed"
};

const std::vector<Key>& keys();
std::vector<std::string> sections();  // in the file's order
// The section whose keys are not part of a plan: how `boxcar train` runs it.
inline constexpr const char* run_section = "run";
std::vector<std::string> key_names(std::string_view section);
const Key* find_key(std::string_view section, std::string_view name);
const Key& key_at(std::string_view path);  // REQUIRES that it exists: "model.layers"
// The key whose flag, or another flag of it, has this name: "micro_batch", "model", "cp". Null: none.
const Key* key_called(std::string_view name);

// Parses `text` into the key's field. Throws Error (bad input) at `where`, saying what is allowed.
void set(const Key& key, Request& request, const std::string& where, const std::string& text);
// The field as it reads in a job file.
std::string text_of(const Key& key, const Request& request);

}  // namespace boxcar::cli
