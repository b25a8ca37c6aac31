// The labels of a plan: the job that it was made from, as text by key, so that a plan says what it is and can
// be asked for again.
//
//   labels_of(resolved)["parallel.tp"] == "4"
//   known_model(labels) == "gpt3-175b"
#pragma once

#include <map>
#include <string>

#include "cli/keys.h"

namespace boxcar::cli {

// Every key's value by path, of a request whose job is resolved.
std::map<std::string, std::string> labels_of(const Request& resolved);
// The name in the catalog of a model that has these labels, apart from its data (sequences, dropout, images).
// Empty: it has none.
std::string known_model(const std::map<std::string, std::string>& labels);
// An additional label, of a user's own graph: its fingerprint.
inline constexpr const char* graph_label = "graph.fingerprint";

}  // namespace boxcar::cli
