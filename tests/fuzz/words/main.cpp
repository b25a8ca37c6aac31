// Prints the words of the project's tables from which a harness's inputs are made, one on each line:
//
//   build-fuzz/tests/fuzz/fuzz_words job     # micro_batch, gpt2, dgx-a100-80g, ...
#include <cstdio>
#include <set>
#include <string>

#include "backends/machines/cluster.h"
#include "backends/machines/device_profile.h"
#include "backends/machines/framework.h"
#include "cli/catalog.h"
#include "cli/keys.h"
#include "ir/op.h"

namespace {

using namespace boxcar;

void print(const std::string& word) { std::puts(word.c_str()); }

void print_ops() {
  for (const ir::OpDef& op : ir::all_ops()) {
    print(op.name);
    for (const auto& [name, value] : op.attrs) print(name + "=" + ir::to_text(value));
  }
}

void print_keys(bool flags) {
  for (const cli::Key& key : cli::keys()) {
    print(flags ? key.flag : key.name);
    for (const std::string& word : key.words) print(word);
  }
  for (const std::string& section : cli::sections()) print(section);
  for (const cli::CatalogModel& model : cli::catalog()) print(model.name);
  for (const auto& names :
       {backends::cluster_presets(), backends::device_presets(), backends::framework_names()})
    for (const std::string& name : names) print(name);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string harness = argc > 1 ? argv[1] : "";
  if (std::set<std::string>{"graph", "plan", "command"}.contains(harness)) print_ops();
  if (std::set<std::string>{"job", "plan", "measurements", "framework"}.contains(harness)) print_keys(false);
  if (harness == "command") print_keys(true);
  return 0;
}
