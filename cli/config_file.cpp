#include "cli/config_file.h"

#include <utility>

#include "backends/host/hugging_face.h"

namespace boxcar::cli {

CatalogModel read_model_config(const std::string& path) {
  backends::host::HuggingFaceModel read =
      backends::host::read_hugging_face(backends::host::JsonObject::read(path));
  CatalogModel model{path, read.family, {}, path, std::move(read.notes)};
  for (auto& [key, text] : read.keys) model.values["model." + key] = std::move(text);
  return model;
}

}  // namespace boxcar::cli
