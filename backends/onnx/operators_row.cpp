// Operators on rows: norms, softmax, sums, losses.
#include <fmt/format.h>

#include <algorithm>

#include "backends/onnx/conversion.h"

namespace boxcar::backends::onnx {
namespace {

using Ints = std::vector<int64_t>;

void need_last(const Conversion& c, const Value& x, int64_t axis) {
  if (axis != -1 && axis != rank(x) - 1)
    c.refuse(fmt::format("is over axis {} of {}, expected the last one", axis, to_text(x.type)));
}

void layer_norm(Conversion& c) {
  const Value& x = c.in(0);
  need_last(c, x, c.whole("axis", -1));
  if (c.reads_out(1) || c.reads_out(2)) c.refuse("has its statistics read");
  const Value gamma = c.named(c.in(1), ".gamma"),
              beta = c.has(2) ? c.named(c.in(2), ".bias") : c.constant(0, {x.type.shape.back()});
  c.out(c.emit("layer_norm", {x, gamma, beta}, {{"eps", c.number("epsilon", 1e-5)}}));
}

void rms_norm(Conversion& c) {
  need_last(c, c.in(0), c.whole("axis", -1));
  c.out(c.emit("rms_norm", {c.in(0), c.named(c.in(1), ".gamma")}, {{"eps", c.number("epsilon", 1e-5)}}));
}

// Before opset 13 all axes from `axis` on are one.
void softmax(Conversion& c) {
  need_last(c, c.in(0), c.whole("axis", c.opset() < 13 ? 1 : -1));
  c.out(c.emit("softmax", {c.in(0)}));
}

void log_softmax(Conversion& c) {
  need_last(c, c.in(0), c.whole("axis", c.opset() < 13 ? 1 : -1));
  // Subtracts the largest, so that no exponential is beyond float32.
  const ir::Attrs rows = {{"axes", Ints{-1}}, {"keepdims", true}};
  const Value x = c.emit("sub", {c.in(0), c.emit("reduce_max", {c.in(0)}, rows, "most")}, {}, "below");
  const Value sums = c.emit("reduce_sum", {c.emit("exp", {x}, {}, "exp")}, rows, "sums");
  c.out(c.emit("sub", {x, c.emit("log", {sums}, {}, "log")}));
}

// Axes are an attribute in early opsets, and an operand in later ones.
template <const char* const& op>
void reduce(Conversion& c) {
  const Value& x = c.in(0);
  Ints axes = c.has(1) ? c.known_wholes(c.in(1), "axes") : c.wholes("axes", {});
  if (axes.empty()) {
    if (c.whole("noop_with_empty_axes", 0) != 0) return c.out(x);
    for (int64_t i = 0; i < rank(x); ++i) axes.push_back(i);
  }
  c.out(c.emit(op, {x}, {{"axes", axes}, {"keepdims", c.whole("keepdims", 1) != 0}}));
}

// No label is left out, so ignore_index is a label that no sample has.
void cross_entropy(Conversion& c) {
  const Value& scores = c.in(0);
  const std::string kind = c.text("reduction", "mean");
  if (c.has(2)) c.refuse("has weights of classes");
  if (c.reads_out(1)) c.refuse("has its logarithms read");
  if (rank(scores) != 2)
    c.refuse(fmt::format("is of {}, expected scores [n, classes]", to_text(scores.type)));
  const int64_t classes = scores.type.shape.back(), ignored = c.whole("ignore_index", -1);
  if (ignored >= 0 && ignored < classes)
    c.refuse(fmt::format("leaves out class {} of {} (leave out ignore_index, or make it negative)", ignored,
                         classes));
  const Value losses = c.emit_all("cross_entropy", {scores, c.in(1)}, {}, kind == "none" ? "" : "losses")[0];
  if (kind == "none") return c.out(losses);
  c.out(c.emit(kind == "sum" ? "reduce_sum" : "reduce_mean", {losses}, {{"axes", Ints{0}}}));
}

constexpr const char* sum_op = "reduce_sum";
constexpr const char* mean_op = "reduce_mean";
constexpr const char* max_op = "reduce_max";
constexpr const char* min_op = "reduce_min";

}  // namespace

void add_row_converters(Converters& table) {
  const Converters rows = {{"LayerNormalization", layer_norm},
                           {"RMSNormalization", rms_norm},
                           {"Softmax", softmax},
                           {"LogSoftmax", log_softmax},
                           {"ReduceSum", reduce<sum_op>},
                           {"ReduceMean", reduce<mean_op>},
                           {"ReduceMax", reduce<max_op>},
                           {"ReduceMin", reduce<min_op>},
                           {"SoftmaxCrossEntropyLoss", cross_entropy}};
  table.insert(rows.begin(), rows.end());
}

}  // namespace boxcar::backends::onnx
