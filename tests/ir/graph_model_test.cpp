#include "ir/models/graph_model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

#include "ir/models/model.h"
#include "support/error_of.h"

namespace boxcar::tests {
namespace {

using ir::Graph;
using ir::models::GraphModel;
using ir::models::read_graph_model;
using support::error_of;
using testing::HasSubstr;

const std::string mlp = R"(graph mlp layers=2
%x: float32[batch, 6] = input()
%labels: int64[batch] = input()
%w: float32[6, 8] = parameter()
%y = matmul(%x, %w) layer=0
%z = relu(%y)
%v: float32[8, 3] = parameter()
%logits = matmul(%z, %v) layer=1
%losses = cross_entropy(%logits, %labels)
%loss = reduce_mean(%losses) {axes=[0]}
)";

std::string with(const std::string& from, const std::string& to, std::string text = mlp) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

int layer_of(const Graph& graph, const std::string& tensor) {
  return at(graph.ops, graph.tensor(find_tensor(graph, tensor)).producer).layer;
}

TEST(GraphModels, TheBatchIsANumber) {
  const GraphModel model = read_graph_model(mlp);
  for (const int64_t batch : {1, 7, 4096}) {
    const Graph graph = build(model, batch);
    EXPECT_EQ(graph.tensor(find_tensor(graph, "logits")).type,
              (ir::TensorType{{batch, 3}, ir::DType::float32}));
  }
  EXPECT_EQ(ir::models::parameters(model), 6 * 8 + 8 * 3);
}

// Products with the batch, quotes, comments and names that contain the word.
TEST(GraphModels, TheBatchStandsInProducts) {
  const GraphModel model = read_graph_model(R"(# float32[batch]
graph batch layers=1
%batch: float32[batch, 4, 6] = input()
%batch.flat = reshape(%batch) {shape=[batch*4, 6]}
%w: float32[6] = parameter()
%scaled = mul(%batch.flat, %w) layer=0
%again = reshape(%scaled) {shape=[2*batch*2, 6]}
%loss = reduce_mean(%again) {axes=[0, 1]}
)");
  const Graph graph = build(model, 3);
  EXPECT_EQ(graph.name, "batch");
  EXPECT_EQ(graph.tensor(find_tensor(graph, "batch.flat")).type.shape, (ir::Shape{12, 6}));
  EXPECT_EQ(graph.tensor(find_tensor(graph, "again")).type.shape, (ir::Shape{12, 6}));
  EXPECT_EQ(error_of([&] { build(model, 0); }), "batch: is 0, expected at least 1");
  EXPECT_EQ(error_of([&] { build(model, int64_t{1} << 52); }),
            "graph: batch*4 at a batch of 4503599627370496 is too large");
}

TEST(GraphModels, LayersFollow) {
  const GraphModel model = read_graph_model(mlp);
  EXPECT_EQ(model.layers, 2);
  const Graph graph = build(model, 2);
  for (const char* first : {"x", "w", "y", "z"}) EXPECT_EQ(layer_of(graph, first), 0) << first;
  for (const char* second : {"labels", "v", "logits", "losses", "loss"})
    EXPECT_EQ(layer_of(graph, second), 1) << second;
  EXPECT_EQ(read_graph_model(with(" layers=2", "", with(" layer=0", "", with(" layer=1", "")))).layers, 1);
}

TEST(GraphModels, EachDropoutDrawsForItself) {
  const Graph graph = build(
      read_graph_model("graph g\n%x: float32[batch, 4] = input()\n%w: float32[4] = parameter()\n%y = mul(%x, "
                       "%w)\n%a = dropout(%y) {p=0.5}\n%b = dropout(%a) "
                       "{p=0.5, op=1}\n%c = dropout(%b) {p=0.5}\n%loss = reduce_mean(%c) {axes=[0, 1]}\n"),
      2);
  const auto draw = [&](const char* name) {
    return ir::attr_int(at(graph.ops, graph.tensor(find_tensor(graph, name)).producer).attrs, "op");
  };
  EXPECT_EQ(draw("a"), 2);
  EXPECT_EQ(draw("b"), 1);
  EXPECT_EQ(draw("c"), 3);
}

TEST(GraphModels, InputsSayTheirRange) {
  const std::vector<ir::models::GraphInput> inputs = inputs_of(read_graph_model(mlp));
  ASSERT_EQ(inputs.size(), 2u);
  EXPECT_EQ(inputs[0].name, "x");
  EXPECT_EQ(inputs[0].sample, (ir::TensorType{{6}, ir::DType::float32}));
  EXPECT_EQ(inputs[1].sample, (ir::TensorType{{}, ir::DType::int64}));
  EXPECT_EQ(inputs[1].below, 3);
}

// By input: how far its whole numbers go.
std::vector<int64_t> ranges(const std::string& text) {
  std::vector<int64_t> all;
  for (const ir::models::GraphInput& input : inputs_of(read_graph_model(text))) all.push_back(input.below);
  return all;
}

TEST(GraphModels, RangesPassThroughWhatMovesElements) {
  EXPECT_EQ(ranges("graph g\n%i: int64[batch, 4] = input()\n%j: int64[batch, 4]=input()\n"
                   "%t: float32[30, 5] = parameter()\n%f = reshape(%i) {shape=[batch*4]}\n"
                   "%a = gather(%t, %f) {axis=0}\n%k = reshape(%j) {shape=[batch*4]}\n"
                   "%l = cross_entropy(%a, %k)\n%loss = reduce_mean(%l) {axes=[0]}\n"),
            (std::vector<int64_t>{30, 5}));
}

const std::string chosen_experts =
    "graph g\n%x: float32[batch, 4] = input()\n%i: int64[batch, 1] = input()\n%j: int64[batch, 1] = input()\n"
    "%w: float32[4] = parameter()\n"
    "%y = mul(%x, %w)\n%d = moe_dispatch(%y, %i) {experts=3, capacity=2}\n"
    "%s: float32[batch, 1] = constant() {value=1.0}\n%c = moe_combine(%d, %j, %s)\n"
    "%loss = reduce_mean(%c) {axes=[0, 1]}\n";

TEST(GraphModels, ExpertsOfDataHaveARange) {
  EXPECT_EQ(ranges(chosen_experts), (std::vector<int64_t>{0, 3, 3}));
}

// Ops check indices that no data check has seen.
TEST(GraphModels, ComputedIndicesHaveALimit) {
  const Graph graph = build(
      read_graph_model("graph g\n%i: int64[batch, 4] = input()\n%t: float32[30, 5] = parameter()\n"
                       "%f = reshape(%i) {shape=[batch*4]}\n%a = embedding(%t, %f)\n%j = add(%f, %f)\n"
                       "%b = embedding(%t, %j)\n%c = add(%a, %b)\n%loss = reduce_mean(%c) {axes=[0, 1]}\n"),
      2);
  const auto below = [&](const char* name) {
    return ir::attr_int(at(graph.ops, graph.tensor(find_tensor(graph, name)).producer).attrs, "below");
  };
  EXPECT_EQ(below("a"), 0);
  EXPECT_EQ(below("b"), 30);
  const std::string computed =
      with("%c =", "%j = add(%i, %i)\n%c =", with("%j: int64[batch, 1] = input()\n", "", chosen_experts));
  const Graph experts = build(read_graph_model(computed), 2);
  EXPECT_EQ(ir::attr_int(at(experts.ops, experts.tensor(find_tensor(experts, "c")).producer).attrs, "below"),
            3);
}

TEST(GraphModels, DrawTheClassesThatTheirLabelsArePlacesOf) {
  const auto with_draws = [](const std::string& rows, const std::string& places) {
    return "graph sampled\n%x: float32[batch, 4] = input()\n%labels: int64[batch] = input()\n"
           "%w: float32[12, 4] = parameter()\n"
           "%rows = sample_rows(%w, %labels) {samples=6, parts=2" +
           rows + "}\n%places = sample_labels(%labels) {" + places +
           "}\n%scores = matmul(%x, %rows) {transpose_b=true}\n"
           "%losses = cross_entropy(%scores, %places)\n%loss = reduce_mean(%losses) {axes=[0]}\n";
  };
  const auto refused = [&](const std::string& rows, const std::string& places) {
    return error_of([&] { read_graph_model(with_draws(rows, places)); });
  };
  EXPECT_EQ(refused("", "classes=12, samples=6, parts=2"), "no error");
  EXPECT_EQ(refused(", seed=3", "classes=12, samples=6, parts=2, seed=3"), "no error");
  const std::string none =
      "graph: %places: needs a sample_rows of %labels from a table of {} classes, with the same samples, "
      "parts and seed";
  const auto of_classes = [&](const char* classes) {
    return std::string(none).replace(none.find("{}"), 2, classes);
  };
  EXPECT_EQ(refused("", "classes=13, samples=6, parts=2"), of_classes("13"));
  EXPECT_EQ(refused("", "classes=12, samples=5, parts=2"), of_classes("12"));
  EXPECT_EQ(refused("", "classes=12, samples=6, parts=3"), of_classes("12"));
  EXPECT_EQ(refused("", "classes=12, samples=6, parts=2, seed=3"), of_classes("12"));
  for (const char* number : {"first", "step", "micro_batch", "below"}) {
    const std::string given = std::string(", ") + number + "=1";
    EXPECT_EQ(refused(given, "classes=12, samples=6, parts=2"),
              std::string("graph: %rows: ") + number + " is the plan's (leave it out)");
    EXPECT_EQ(refused("", "classes=12, samples=6, parts=2" + given),
              std::string("graph: %places: ") + number + " is the plan's (leave it out)");
  }
}

TEST(GraphModels, OnlyAWholeLossHasPadding) {
  const auto refused = [](const std::string& from, const std::string& to) {
    return error_of([&] { read_graph_model(with(from, to)); });
  };
  const std::string loss = "cross_entropy(%logits, %labels)";
  EXPECT_EQ(refused(loss, loss + " {classes=2}"), "no error");
  EXPECT_EQ(inputs_of(read_graph_model(with(loss, loss + " {classes=2}"))).at(1).below, 2);
  EXPECT_EQ(refused(loss, loss + " {classes=4}"), "graph: %losses: has 4 classes, but 3 logits");
  const std::string pieces =
      "reduce_max(%logits) {axes=[-1]}\n%sum = sum_exp(%logits, %most)\n"
      "%own = pick(%logits, %labels)\n%losses = nll(%most, %sum, %own)";
  const auto of_pieces = [&](const std::string& from, const std::string& to) {
    std::string changed = pieces;
    changed.replace(changed.find(from), from.size(), to);
    return refused("%losses = " + loss, "%most = " + changed);
  };
  EXPECT_EQ(of_pieces("nll", "nll"), "no error");
  EXPECT_EQ(of_pieces("axes=[-1]", "axes=[-1], classes=2"),
            "graph: %most: classes are for cross_entropy (leave them out)");
  EXPECT_EQ(of_pieces("sum_exp(%logits, %most)", "sum_exp(%logits, %most) {classes=2}"),
            "graph: %sum: classes are for cross_entropy (leave them out)");
  EXPECT_EQ(of_pieces("axes=[-1]", "axes=[-1], offset=2"),
            "graph: %most: offset is the plan's (leave it out)");
  EXPECT_THAT(refused("%loss = reduce_mean(%losses) {axes=[0]}",
                      "%mean = reduce_mean(%losses) {axes=[0]}\n%loss = reduce_max(%mean)"),
              HasSubstr("%loss: is of the mean over samples by reduce_max, which is not linear"));
}

TEST(GraphModels, CoreIsWhatSelectiveRecomputationRunsAgain) {
  const std::set<ir::Module> core{ir::Module::core_attn}, experts{ir::Module::moe};
  const auto marked = [](const char* mark) {
    return ir::models::Model(read_graph_model(with("relu(%y)", std::string("relu(%y) ") + mark)));
  };
  EXPECT_FALSE(has_any(ir::models::Model(read_graph_model(mlp)), core));
  EXPECT_TRUE(has_any(marked("core"), core));
  EXPECT_FALSE(has_any(marked("core"), experts));
  EXPECT_TRUE(has_any(marked("module=moe"), experts));
  EXPECT_THAT(error_of([&] { marked("module=mole"); }), HasSubstr("unknown 'mole' (use none, core_attn, "));
}

TEST(GraphModels, AreEqualByTheirText) {
  EXPECT_EQ(ir::models::Model(read_graph_model(mlp)), ir::models::Model(read_graph_model(mlp)));
  EXPECT_NE(read_graph_model(mlp), read_graph_model(with("8, 3", "8, 4")));
}

// Micro-batches and data-parallel ranks add up means over their samples.
TEST(GraphModels, ALossIsLinearInMeansOverSamples) {
  const std::string mean = "%loss = reduce_mean(%losses) {axes=[0]}\n";
  const auto said = [&](const std::string& tail) {
    return error_of([&] { read_graph_model(with(mean, tail)); });
  };
  const std::string m = "%m = reduce_mean(%losses) {axes=[0]}\n";
  for (const char* linear :
       {"%loss = scale(%m) {factor=0.5}\n", "%loss = neg(%m)\n", "%loss = identity(%m)\n",
        "%loss = add(%m, %m)\n", "%loss = sub(%m, %m)\n", "%n = neg(%m)\n%loss = sum(%m, %n, %m)\n",
        "%loss = cast(%m) {to=\"float32\"}\n",
        "%two: float32[] = constant() {value=2.0}\n%loss = div(%m, %two)\n",
        "%s: float32[] = parameter()\n%a = mul(%s, %s)\n%b = mul(%m, %a)\n%loss = add(%b, %a)\n",
        "%r = reshape(%m) {shape=[1]}\n%j = concat(%r, %r) {axis=0}\n%t = transpose(%j) {perm=[0]}\n"
        "%s = slice(%t) {starts=[0], ends=[1]}\n%loss = reshape(%s) {shape=[]}\n",
        "%by = reduce_mean(%logits) {axes=[0]}\n%sum = reduce_sum(%by) {axes=[0]}\n%loss = add(%m, %sum)\n"})
    EXPECT_EQ(said(m + linear), "no error") << linear;
  for (const char* op : {"reduce_max", "reduce_min"})
    EXPECT_EQ(said(fmt::format("%loss = {}(%losses) {{axes=[0]}}\n", op)),
              fmt::format(
                  "graph: %loss: takes samples together by {}; a loss is their mean (use reduce_mean)", op));
  EXPECT_EQ(said("%first = slice(%losses) {starts=[0], ends=[1]}\n%loss = reshape(%first) {shape=[]}\n"),
            "graph: %first: takes samples together by slice; a loss is their mean (use reduce_mean)");
  EXPECT_EQ(said("%loss = reduce_mean(%losses) {axes=[0], count=2}\n"),
            "graph: %loss: has a count of its own; a loss is the mean over samples (leave count out)");
  for (const char* op : {"mul(%m, %m)", "div(%m, %m)", "relu(%m)", "exp(%m)", "sqrt(%m)"}) {
    const std::string type(op, std::string_view(op).find('('));
    EXPECT_EQ(
        said(m + "%loss = " + op + "\n"),
        fmt::format("graph: %loss: is of the mean over samples by {}, which is not linear; a loss is that "
                    "mean (use {} before reduce_mean)",
                    type, type));
  }
  EXPECT_EQ(said("%sums = reduce_sum(%logits) {axes=[0]}\n%loss = reduce_mean(%sums) {axes=[0]}\n"),
            "graph: %sums: is a sum over samples; a loss is their mean (use reduce_mean)");
}

TEST(GraphModels, RefuseTextThatIsNoForwardPass) {
  const auto refused = [](const std::string& text) { return error_of([&] { read_graph_model(text); }); };
  EXPECT_EQ(refused(with("layers=2", "layers=-1")), "graph:1:18: expected 0 layers or more");
  EXPECT_EQ(refused(with("graph mlp", "grph mlp")), "graph:1:1: expected 'graph NAME' first");
  EXPECT_EQ(refused(with("%w: float32[6, 8]", "%w")), "graph:4:6: parameter needs a type: %w: float32[4, 5]");
  EXPECT_EQ(refused(with("%y = ", "%y, %u = ")), "graph:5:10: 2 results, matmul gives 1");
  EXPECT_THAT(refused(with("[6, 8]", "[5, 8]")), testing::StartsWith("graph:5:6: matmul: "));
  EXPECT_EQ(refused(with("graph mlp layers=2\n", "graph mlp layers=2\nplacement p0 = 0-1\n")),
            "graph: mlp: placements are the plan's (leave them out)");
  EXPECT_EQ(refused(mlp + "update %w = %w\n"), "graph: mlp: updates are the optimizer's (leave them out)");
  EXPECT_EQ(refused(with("relu(%y)", "relu(%y) phase=backward")),
            "graph: %z: is of a phase; a model is its forward pass (leave it out)");
  EXPECT_EQ(refused(with("relu(%y)", "relu(%y) role=gradient")),
            "graph: %z: has a role of its own (leave it out; role=constant is for parameters)");
  EXPECT_EQ(refused(with("reduce_mean(%losses)", "reduce_sum(%losses)")),
            "graph: %loss: is a sum over samples; a loss is their mean (use reduce_mean)");
  EXPECT_EQ(refused(with("relu(%y)", "relu(%y) S(0)")),
            "graph: %z: has a layout; give it as --pin of a search");
  EXPECT_EQ(refused(with("layer=1", "layer=3")), "graph: %logits: is of layer 3 of 2 (use 0 to 2)");
  EXPECT_EQ(refused(with("layer=0", "layer=1", with("layer=1", "layer=0"))),
            "graph: %logits: is of layer 0, but reads %z of layer 1");
  EXPECT_EQ(refused(with("%loss = reduce_mean(%losses) {axes=[0]}\n", "")),
            "graph mlp: has no tensor %loss (did you mean losses?)");
  EXPECT_EQ(refused(with("{axes=[0]}", "{axes=[0], keep=true}")).substr(0, 8), "graph:10");
  EXPECT_EQ(refused(with("%losses = cross", "%loss = cross",
                         with("%loss = reduce_mean(%losses) {axes=[0]}\n", ""))),
            "graph: %loss: is float32[1], expected float32[], the mean over samples");
  EXPECT_EQ(refused(with("%x: float32[batch, 6]", "%x: float32[2, 6]")),
            "graph: %x: an input's first extent is batch, and no other one depends on it");
  EXPECT_EQ(refused(with("%v: ", "%u: float32[3] = parameter()\n%v: ")),
            "graph: %u: the loss does not depend on it (leave it out)");
  EXPECT_EQ(refused(with("layers=2", "layers=3", with("layer=1", "layer=2"))),
            "graph: mlp: layer 1 of 3 has no parameter (join it with another)");
  EXPECT_EQ(refused(with(" layers=2", "")),
            "graph: %logits: is of layer 1, and the first line has no layers=2");
  EXPECT_EQ(refused(with("%z = relu(%y)", "%z = relu(%z)")), "graph:6:12: %z is not defined above");
  EXPECT_EQ(refused(with("%v: ", "%u: float32[3] = constant() {value=many}\n%v: ")),
            "graph: %u: a constant is written constant() {value=1.0}");
  EXPECT_EQ(refused(with("%v: ", "%u: float32[3] = constant()\n%v: ")),
            "graph: %u: a constant is written constant() {value=1.0}");
  EXPECT_EQ(refused("graph g\n%w: float32[] = parameter()\n%loss = neg(%w)\n"), "graph: g: has no input");
  EXPECT_EQ(refused("graph g\n%x: float32[batch] = input()\n%w: float32[batch] = parameter()\n"
                    "%y = mul(%x, %w)\n%loss = reduce_mean(%y) {axes=[0]}\n"),
            "graph: %w: a parameter's shape does not depend on the batch");
}

}  // namespace
}  // namespace boxcar::tests
