#include "backends/onnx/import.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>

#include "backends/onnx/graph_maker.h"
#include "backends/onnx/recognize.h"
#include "ir/models/graph_model.h"
#include "sbp/error.h"

namespace boxcar::backends::onnx {
namespace {

// Batches that no extent of a model is a multiple of: what differs between the two graphs follows from them.
constexpr int64_t batches[] = {1009, 2003};

// A number at the beginning of `text`: its digits.
std::string_view digits(std::string_view text) {
  size_t end = 0;
  while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
  return text.substr(0, end);
}

// A line begins with its tensor: "%x: float32[...".
[[noreturn]] void refuse_number(std::string_view text) {
  const std::string_view line = text.substr(text.rfind('\n') + 1);
  throw Error::input(std::string(line.substr(0, line.find_first_of(":,"))),
                     "has a number that depends on the batch and is no multiple of it");
}

// One text out of the same model's at both batches: "batch" or "batch*16" where their numbers differ.
std::string with_batch(std::string_view one, std::string_view two) {
  std::string text;
  while (!one.empty() && !two.empty()) {
    const std::string_view a = digits(one), b = digits(two);
    if (a.empty() && b.empty() && one[0] == two[0]) {
      text += one[0];
      one.remove_prefix(1);
      two.remove_prefix(1);
      continue;
    }
    if (a == b && !a.empty()) {
      text += a;
    } else {
      const bool wholes = !a.empty() && !b.empty() && a.size() < 18 && b.size() < 18;
      const int64_t x = wholes ? std::stoll(std::string(a)) : 0, y = wholes ? std::stoll(std::string(b)) : 0;
      const int64_t times = x / batches[0];
      const bool is_part =
          (!text.empty() && text.back() == '.') || (two.size() > b.size() && two[b.size()] == '.');
      if (is_part || times == 0 || times * batches[0] != x || times * batches[1] != y) refuse_number(text);
      text += times == 1 ? "batch" : fmt::format("batch*{}", times);
    }
    one.remove_prefix(a.size());
    two.remove_prefix(b.size());
  }
  return text;
}

}  // namespace

Imported import_onnx(OnnxModel model, const ImportOptions& options) {
  recognize_layers(model);
  GraphMaker::Made one = GraphMaker(model, options, batches[0]).run();
  const GraphMaker::Made two = GraphMaker(model, options, batches[1]).run();
  Imported imported{with_batch(ir::to_text(one.graph), ir::to_text(two.graph)), {}};
  imported.weights.tensors = std::move(one.weights);
  imported.fixed_batch = one.fixed_batch;
  ir::models::read_graph_model(imported.text);
  return imported;
}

}  // namespace boxcar::backends::onnx
