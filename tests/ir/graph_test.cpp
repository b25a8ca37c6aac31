// Logical graphs: text that reads back, refusals and their messages, the paper's programming interface.
#include "ir/graph.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "graphs.h"
#include "ir/order.h"
#include "ir/rewrite.h"
#include "sbp/error.h"

namespace boxcar::tests {
namespace {

using ir::Builder;
using ir::DType;
using ir::Graph;
using ir::TensorId;
using sbp::Placement;
using sbp::Sbp;

template <typename Run>
std::string message(Run run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// --- Table 4 of the paper: two products on two placements, data parallel, then model parallel

TEST(Graph, ProgramOfTable4) {
  Builder b("table4");
  const int p0 = b.placement(Placement::line(2, 0));            // 2  P0 = placement("cuda", {0: [0, 1]})
  const int p1 = b.placement(Placement::line(2, 2));            // 3  P1 = placement("cuda", {1: [0, 1]})
  const TensorId a0 = b.input("A0", {{4, 5}, DType::float32});  // 9  A0 = randn(4, 5, P0, split(0))
  b.place(a0, p0, {Sbp::S(0)});
  const TensorId b0 = b.parameter("B0", {{5, 8}, DType::float32});  // 10 B0 = randn(5, 8, P0, broadcast)
  b.place(b0, p0, {Sbp::B()});
  const TensorId y0 = b.op1("matmul", {a0, b0}, {}, "Y0");          // 11 Y0 = matmul(A0, B0)
  const TensorId y0b = b.to_global(y0, p1, {Sbp::B()});             // 13 Y0 = Y0.to_global(P1, broadcast)
  const TensorId b1 = b.parameter("B1", {{8, 6}, DType::float32});  // 14 B1 = randn(8, 6, P1, split(1))
  b.place(b1, p1, {Sbp::S(1)});
  b.op1("matmul", {y0b, b1}, {}, "Y2");  // 15 Y2 = matmul(Y0, B1)
  const std::string expected = R"(graph table4
placement p0 = 0-1
placement p1 = 2-3
%A0: float32[4, 5] = input() @p0 S(0)
%B0: float32[5, 8] = parameter() @p0 B
%Y0: float32[4, 8] = matmul(%A0, %B0)
%Y0.to_global3: float32[4, 8] = to_global(%Y0) @p1 B to=B
%B1: float32[8, 6] = parameter() @p1 S(1)
%Y2: float32[4, 6] = matmul(%Y0.to_global3, %B1)
)";
  EXPECT_EQ(to_text(b.finish()), expected);
  EXPECT_EQ(to_text(ir::parse_graph(expected)), expected);
}

// --- text

std::string read_back(const Graph& graph) { return to_text(ir::parse_graph(to_text(graph))); }

TEST(GraphText, ModelsAndTrainingStepsReadBack) {
  for (const char* family : {"gpt", "bert", "llama"}) {
    auto config = tiny(family);
    config.layers = 2;
    const Graph forward = ir::models::build(config, 2);
    EXPECT_EQ(read_back(forward), to_text(forward));
    for (const ir::Recompute recompute :
         {ir::Recompute::none, ir::Recompute::selective, ir::Recompute::full}) {
      ir::TrainOptions options;
      options.recompute = recompute;
      options.micro_batches = 3;
      options.off = {recompute == ir::Recompute::full ? "fuse_patterns" : "fuse_elementwise"};
      const Graph step = step_of(forward, options);
      EXPECT_EQ(read_back(step), to_text(step));
      EXPECT_NO_THROW(verify(ir::parse_graph(to_text(step))));
    }
  }
}

TEST(GraphText, CommentsBlankLinesAndSpacesAreFree) {
  const Graph graph = ir::parse_graph(
      "\n# a comment\ngraph g   layers=2\n\n%x:float32[2,3]=input( )\r\n"
      "%y : float32[2, 3] = scale ( %x ) { factor = 2 } (S(0), B) role=gradient phase=backward layer=1 "
      "name=op\n%w.copy: float32[2]=parameter( ) layer=1 replica_of = w\n");
  EXPECT_EQ(
      to_text(graph),
      "graph g layers=2\n%x: float32[2, 3] = input()\n"
      "%y: float32[2, 3] = scale(%x) {factor=2.0} (S(0), B) name=op role=gradient layer=1 phase=backward\n"
      "%w.copy: float32[2] = parameter() replica_of=w layer=1\n");
}

TEST(GraphText, TypesAndLaterResultsMayBeLeftOut) {
  const Graph graph = ir::parse_graph(
      "graph g\n%x: float32[2, 3] = input()\n%g: float32[3] = parameter()\n%b: float32[3] = parameter()\n"
      "%n = layer_norm(%x, %g, %b)\n%y, %mean = layer_norm(%n, %g, %b)\n%z = mul(%y.rstd, %n.mean)\n");
  EXPECT_EQ(
      to_text(graph),
      "graph g\n%x: float32[2, 3] = input()\n%g: float32[3] = parameter()\n%b: float32[3] = parameter()\n"
      "%n: float32[2, 3], %n.mean: float32[2], %n.rstd: float32[2] = layer_norm(%x, %g, %b)\n"
      "%y: float32[2, 3], %mean: float32[2], %y.rstd: float32[2] = layer_norm(%n, %g, %b)\n"
      "%z: float32[2] = mul(%y.rstd, %n.mean)\n");
  EXPECT_NO_THROW(verify(graph));
}

TEST(GraphText, SaysLineAndColumnOfWhatIsWrong) {
  const auto of = [](const std::string& text) { return message([&] { ir::parse_graph(text); }); };
  const auto line = [&](const std::string& text) {
    return of("graph g\nplacement p0 = 0-1\n%x: float32[2] = input()\n" + text);
  };
  EXPECT_EQ(of(""), "graph:1:1: expected 'graph NAME', got the end of the text");
  EXPECT_EQ(of("%x: float32 = input()"), "graph:1:1: expected 'graph NAME', got '%x: float32 = input('");
  EXPECT_EQ(line("%x: float32[2] = input()"), "graph:4:2: %x is defined twice");
  EXPECT_EQ(line("%y = input()"), "graph:4:6: input needs a type: %y: float32[4, 5]");
  EXPECT_EQ(line("%y, %z = neg(%x)"), "graph:4:10: 2 results, neg gives 1");
  EXPECT_EQ(line("%y: float32[2] = neg(%z)"), "graph:4:23: %z is not defined above");
  EXPECT_EQ(line("%y: float32[2] = neg(%x"), "graph:4:24: expected ')', got the end of the line");
  EXPECT_EQ(line("%y: float32[2] = neg(%x) @p1"), "graph:4:27: placement p1 is not defined above");
  EXPECT_EQ(line("%y: float32[2] = neg(%x) phase=sideways"),
            "graph:4:32: unknown 'sideways' (use forward, backward, update)");
  EXPECT_EQ(line("%y: float32[2] = neg(%x) colour=red"),
            "graph:4:26: unknown key 'colour' (use to, replica_of, name, role, layer, phase, module, core, "
            "runs_again or "
            "recomputed)");
  EXPECT_EQ(line("%y: float32[2] = neg(%x) layer=one"), "graph:4:32: expected a number, got 'one'");
  EXPECT_EQ(line("forward"), "graph:4:1: unknown word 'forward' (use placement, update or %name)");
  EXPECT_EQ(line("placement p3 = 0"), "graph:4:11: expected placement p1");
  EXPECT_THAT(line("%y: floot32[2] = neg(%x)"),
              testing::StartsWith("graph:4:5: \"floot32\": no such element type"));
  EXPECT_THAT(line("%y: float32[2] = matmull(%x)"),
              testing::StartsWith("graph:4:18: matmull: no such op (did you mean matmul"));
  EXPECT_THAT(line("%y: float32[2] = neg(%x) S(zero)"), testing::StartsWith("graph:4:26: "));
  EXPECT_THAT(line("%y: float32[2] = scale(%x) {size=2}"),
              testing::StartsWith("graph:4:28: scale: no attribute size"));
  EXPECT_THAT(line("%y: float32[2] = scale(%x) {factor=2, factor=3}"),
              testing::StartsWith("graph:4:39: attribute factor stands twice"));
}

// Cut or damaged text is refused or read, and never crashes.
TEST(GraphText, DamagedTextNeverCrashes) {
  const std::string text = to_text(step_of(ir::models::build(tiny("gpt"), 2), {}));
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = text.substr(0, 4000);
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] = static_cast<char>(32 + random() % 95);
    try {
      const Graph graph = ir::parse_graph(damaged.substr(0, 1 + random() % damaged.size()));
      to_text(graph);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::bad_input) << "seed 1, text " << i;
    }
  }
}

// --- errors name the mistake

TEST(Graph, InferenceNamesOpOperandAndBothShapes) {
  Builder b("wrong");
  const TensorId x = b.input("x", {{4, 6}, DType::float32}), w = b.parameter("w", {{5, 8}, DType::float32});
  const std::string got = message([&] { b.op("matmul", {x, w}, {}, "h0.fc"); });
  EXPECT_THAT(got, testing::StartsWith("h0.fc: matmul: b"));
  EXPECT_THAT(got, testing::HasSubstr("float32[5, 8]"));
  EXPECT_THAT(got, testing::HasSubstr("float32[4, 6]"));
}

Graph small() {
  return ir::parse_graph(
      "graph g\n%x: float32[2] = input()\n%w: float32[2] = parameter()\n%y: float32[2] = mul(%x, %w)\n"
      "%z: float32[2] = neg(%y)\nupdate %w = %z\n");
}

std::string fault_of(void (*spoil)(Graph&)) {
  Graph graph = small();
  EXPECT_NO_THROW(verify(graph));
  spoil(graph);
  return message([&] { verify(graph); });
}

TEST(Graph, VerifyNamesTheFirstOpThatIsWrong) {
  EXPECT_EQ(fault_of([](Graph& g) { std::swap(g.ops[2], g.ops[3]); }),
            "graph g: op z: operand %y is not defined before it");
  EXPECT_EQ(fault_of([](Graph& g) { g.ops[2].inputs[0] = 9; }), "graph g: op y: operand 9 is no tensor");
  EXPECT_EQ(fault_of([](Graph& g) { g.ops[3].name = "y"; }), "graph g: op y: the name stands twice");
  EXPECT_EQ(fault_of([](Graph& g) { g.tensors[3].name = "y"; }), "graph g: tensor %y: the name stands twice");
  EXPECT_EQ(fault_of([](Graph& g) { g.tensors[3].type.shape = {3}; }),
            "graph g: op z: neg gives float32[2], but the graph says float32[3]");
  EXPECT_EQ(fault_of([](Graph& g) { g.ops[3].placement = 0; }),
            "graph g: op z: placement 0 is not in the graph");
  EXPECT_EQ(fault_of([](Graph& g) { g.tensors[3].producer = 0; }),
            "graph g: op z: %z does not name it as its producer");
  EXPECT_EQ(fault_of([](Graph& g) { g.ops[3].type = "nag"; }).substr(0, 8), "nag: no ");
  EXPECT_EQ(fault_of([](Graph& g) { g.ops[3].attrs["axis"] = int64_t{0}; }),
            "graph g: op z: its attributes are not complete");
  EXPECT_EQ(fault_of([](Graph& g) { g.tensors[0].sbp = sbp::parse_nd_sbp("S(1)"); }),
            "graph g: op x: %x is float32[2] and cannot be S(1)");
  EXPECT_EQ(fault_of([](Graph& g) {
              g.placements = {Placement::line(4)};
              g.ops[0].placement = 0;
              g.tensors[0].sbp = sbp::parse_nd_sbp("(S(0), B)");
            }),
            "graph g: op x: %x is (S(0), B) on 0-3, expected 1 entries");
  EXPECT_EQ(fault_of([](Graph& g) { g.updates[0].state = 0; }), "graph g: update %x: is not a parameter");
  EXPECT_EQ(fault_of([](Graph& g) { g.updates.push_back(g.updates[0]); }),
            "graph g: update %w: is updated twice");
}

// The check that every build makes after each pass; and operands that a rewriter leaves invalid.
TEST(Graph, OrderOfDefinitionsIsChecked) {
  Graph graph = small();
  EXPECT_NO_THROW(verify_order(graph));
  std::swap(graph.ops[2], graph.ops[3]);
  EXPECT_EQ(message([&] { verify_order(graph); }), "graph g: op z: operand %y is not defined before it");
  graph = small();
  graph.ops[2].inputs[0] = -1;
  EXPECT_EQ(message([&] { verify_order(graph); }), "graph g: op y: operand -1 is no tensor");
}

TEST(Graph, ARewriterThatReadsWhatIsNotThereYetIsRefused) {
  Graph graph = small();
  ir::Rewriter rewrite(graph);
  std::swap(rewrite.old_ops()[2], rewrite.old_ops()[3]);
  for (ir::Op& op : rewrite.old_ops()) rewrite.keep(std::move(op));
  EXPECT_EQ(message([&] { rewrite.finish(); }), "graph g: op z: operand %y is not defined before it");
}

TEST(Graph, NamesAreThoseThatTextCanHold) {
  Builder b("g");
  EXPECT_EQ(message([&] {
              b.input("a b", {{2}, DType::float32});
            }),
            "op 'a b': a name holds letters, digits and _ . - / only");
  EXPECT_EQ(message([] { Builder("my graph"); }),
            "graph 'my graph': a name holds letters, digits and _ . - / only");
}

TEST(Graph, FindTensorSuggestsTheNearestName) {
  EXPECT_EQ(message([] { find_tensor(small(), "yy"); }), "graph g: has no tensor %yy (did you mean y?)");
}

TEST(Graph, ConsumersAreListedOnce) {
  const Graph graph = ir::parse_graph(
      "graph g\n%x: float32[2] = input()\n%y: float32[2] = mul(%x, %x)\n%z: float32[2] = neg(%x)\n");
  EXPECT_EQ(consumers(graph)[0], (std::vector<ir::OpId>{1, 2}));
  EXPECT_TRUE(consumers(graph)[1].empty());
}

// --- golden text: rewritten with BOXCAR_UPDATE_GOLDEN=1

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(BOXCAR_SOURCE_DIR) + "/tests/ir/golden/" + name;
  if (std::getenv("BOXCAR_UPDATE_GOLDEN")) std::ofstream(path) << text;
  std::ostringstream wanted;
  wanted << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, wanted.str()) << path;
}

Graph golden_gpt() {
  auto config = tiny("gpt");
  config.heads = 2;
  return ir::models::build(config, 2);
}

TEST(GraphGolden, ForwardGraphOfGpt) { expect_golden("gpt_forward.txt", to_text(golden_gpt())); }

// Phase, name and op, one line each, of all ops that are no sources.
std::string op_list(const Graph& graph) {
  std::string text;
  for (const ir::Op& op : graph.ops)
    if (!op.inputs.empty()) text += fmt::format("{:8} {:40} {}\n", to_text(op.phase), op.name, op.type);
  return text;
}

TEST(GraphGolden, OpsOfATrainingStepOfGpt) {
  ir::TrainOptions options;
  options.micro_batches = 2;
  expect_golden("gpt_step.txt", op_list(step_of(golden_gpt(), options)));
}

}  // namespace
}  // namespace boxcar::tests
