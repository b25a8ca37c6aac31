// Operators on rows: norms, softmax, sums, losses.
#include <fmt/format.h>

#include <algorithm>

#include "backends/onnx/conversion.h"
#include "sbp/at.h"

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

// The axes with this one behind the others, and where each is then.
struct Turn {
  Ints there = {}, back = {};
};
Turn turn(int64_t axes, int64_t axis) {
  Turn t;
  for (int64_t i = 0; i < axes; ++i)
    if (i != axis) t.there.push_back(i);
  t.there.push_back(axis);
  for (int64_t i = 0; i < axes; ++i) t.back.push_back(i < axis ? i : i == axis ? axes - 1 : i - 1);
  return t;
}
Value turned(const Conversion& c, const Value& x, const Ints& perm, const char* what = "") {
  return std::is_sorted(perm.begin(), perm.end()) ? x : c.emit("transpose", {x}, {{"perm", perm}}, what);
}

// An op on rows over the operator's axis. Before opset 13 an axis stands for all from it on, so only the last
// one is read.
template <class Op>
void over_axis(Conversion& c, Op op) {
  const Value& x = c.in(0);
  if (c.opset() < 13) need_last(c, x, c.whole("axis", 1));
  const Turn t = turn(rank(x), axis_of(c, c.whole("axis", c.opset() < 13 ? 1 : -1), rank(x)));
  const bool is_last = std::is_sorted(t.there.begin(), t.there.end());
  c.out(turned(c, op(turned(c, x, t.there, "turned"), is_last ? "" : "rows"), t.back));
}

void softmax(Conversion& c) {
  over_axis(c, [&](const Value& x, const char* what) { return c.emit("softmax", {x}, {}, what); });
}

Value log_softmax(const Conversion& c, const Value& of, const char* what) {
  // Subtracts the largest, so that no exponential is beyond float32.
  const ir::Attrs rows = {{"axes", Ints{-1}}, {"keepdims", true}};
  const Value x = c.emit("sub", {of, c.emit("reduce_max", {of}, rows, "most")}, {}, "below");
  const Value sums = c.emit("reduce_sum", {c.emit("exp", {x}, {}, "exp")}, rows, "sums");
  return c.emit("sub", {x, c.emit("log", {sums}, {}, "log")}, {}, what);
}
void log_softmax(Conversion& c) {
  over_axis(c, [&](const Value& x, const char* what) { return log_softmax(c, x, what); });
}

// Axes are an attribute in early opsets, and an operand in later ones. Empty: none are reduced.
Ints reduced_axes(const Conversion& c) {
  Ints axes = c.has(1) ? c.known_wholes(c.in(1), "axes") : c.wholes("axes", {});
  if (axes.empty() && c.whole("noop_with_empty_axes", 0) == 0)
    for (int64_t i = 0; i < rank(c.in(0)); ++i) axes.push_back(i);
  return axes;
}

Value reduced(const Conversion& c, const char* op, const Value& x, const Ints& axes, const char* what = "") {
  if (axes.empty()) return x;
  return c.emit(op, {x}, {{"axes", axes}, {"keepdims", c.whole("keepdims", 1) != 0}}, what);
}

template <const char* const& op>
void reduce(Conversion& c) {
  c.out(reduced(c, op, c.in(0), reduced_axes(c)));
}

void sum_of_sizes(Conversion& c) {
  c.out(reduced(c, "reduce_sum", absolute(c, c.in(0), "sizes"), reduced_axes(c)));
}

Value sum_of_squares(const Conversion& c, const char* what) {
  const Value& x = c.in(0);
  return reduced(c, "reduce_sum", c.emit("mul", {x, x}, {}, "squares"), reduced_axes(c), what);
}
void sum_of_squares(Conversion& c) { c.out(sum_of_squares(c, "")); }

// The slope of a root is infinite at 0. The limit makes it 0, as in PyTorch.
void length(Conversion& c) {
  const Value sum = c.emit("clamp_min", {sum_of_squares(c, "sum")}, {{"min", 1e-30}}, "limited");
  c.out(c.emit("sqrt", {sum}));
}

// The first of the largest, or of the smallest.
template <bool is_maximum>
void place_of_extremum(Conversion& c) {
  if (c.whole("select_last_index", 0) != 0) c.refuse("has select_last_index");
  if (c.in(0).type.dtype != ir::DType::float32)
    c.refuse(fmt::format("is of {}, expected floating-point numbers", to_text(c.in(0).type)));
  const int64_t axis = axis_of(c, c.whole("axis", 0), rank(c.in(0)));
  Value x = is_maximum ? c.in(0) : c.emit("neg", {c.in(0)}, {}, "neg");
  ir::Shape shape = x.type.shape;
  at(shape, axis) = 1;
  if (c.whole("keepdims", 1) == 0) shape.erase(shape.begin() + axis);
  x = turned(c, x, turn(rank(x), axis).there, "turned");
  c.out(reshaped(c, c.emit_all("top_k", {x}, {{"k", int64_t{1}}}, "largest")[1], shape));
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
                           {"ReduceL1", sum_of_sizes},
                           {"ReduceL2", length},
                           {"ReduceSumSquare", sum_of_squares},
                           {"ArgMax", place_of_extremum<true>},
                           {"ArgMin", place_of_extremum<false>},
                           {"SoftmaxCrossEntropyLoss", cross_entropy}};
  table.insert(rows.begin(), rows.end());
}

}  // namespace boxcar::backends::onnx
