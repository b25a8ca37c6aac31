// The keys of a model that its weights depend on, as JSON and compared. For this folder's own files.
//
//   model_keys(model)            {"family": "gpt", "layers": 2, ..., "bias": true}
//   different_key(a, b)          "hidden is 64, expected 128"; empty if all agree
//   identity(graph)              {"family": "graph", "fingerprint": "3f0a..."}
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "backends/host/json_file.h"
#include "ir/models/model.h"

namespace boxcar::backends::host {

nlohmann::ordered_json model_keys(const ir::models::Transformer& model);
ir::models::Transformer read_model_keys(const JsonObject& object);
std::string different_key(const ir::models::Transformer& got, const ir::models::Transformer& expected);

// The same for any model; a graph is identified by its text.
nlohmann::ordered_json identity(const ir::models::Model& model);
std::string different_identity(const JsonObject& got, const ir::models::Model& expected);

}  // namespace boxcar::backends::host
