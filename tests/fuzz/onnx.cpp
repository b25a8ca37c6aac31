// Files of ONNX models.
#include "backends/onnx/import.h"
#include "folder.h"
#include "harness.h"
#include "ir/models/graph_model.h"

namespace boxcar::fuzz {

void fuzz_onnx(std::string_view input) {
  const auto model = allowed([&] { return backends::onnx::read_onnx(put("model.onnx", input)); });
  if (!model) return;
  for (const char* loss : {"", "cross_entropy", "mean_squared"})
    if (const auto imported = allowed([&] {
          return backends::onnx::import_onnx(*model, {.loss = loss, .sizes = {{"s", 3}}});
        }))
      ir::models::read_graph_model(imported->text);
}

}  // namespace boxcar::fuzz
