// A model from a config.json of Hugging Face's (backends/host/hugging_face.h), as the catalog has models.
//
//   boxcar simulate --model Llama-3.1-8B/config.json --seq 8192 ...     keys that are given win
#pragma once

#include <string>

#include "cli/catalog.h"

namespace boxcar::cli {

// Throws Error (bad input) naming the file and its fault.
CatalogModel read_model_config(const std::string& path);

}  // namespace boxcar::cli
