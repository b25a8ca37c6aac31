// A model from a config.json as Hugging Face's transformers writes it: its sizes, and what changes them. An
// architecture is a row of hugging_face.cpp. Includers need nlohmann-json, as for json_file.h.
//
//   read_hugging_face(JsonObject::read("Llama-3.1-8B/config.json"))
//   {"llama", {{"layers", "32"}, {"hidden", "4096"}, ..., {"tied", "false"}}}
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backends/host/json_file.h"

namespace boxcar::backends::host {

struct HuggingFaceModel {
  std::string family;
  std::map<std::string, std::string> keys;  // of section model of a job
  std::vector<std::string> notes = {};      // parts of the file that are not built
};

// Reads a file of any architecture that hugging_face.cpp has a row for; a file without architectures is
// identified by its model_type. Throws Error (bad input) naming the file and its fault; for an unknown
// architecture, the known ones.
HuggingFaceModel read_hugging_face(const JsonObject& config);

}  // namespace boxcar::backends::host
