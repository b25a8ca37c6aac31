#include "planner/deduce.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/models/conv_net.h"
#include "sbp/at.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

// One line per op: "h0.attn.qkv: (S(0), B), (B, S(1)) -> (S(0), S(2))", and the layout that the pin requires.
std::string text(const ir::Graph& graph, const Deduction& d) {
  std::string result;
  for (size_t o = 0; o < graph.ops.size(); ++o) {
    const ir::Op& op = graph.ops[o];
    if (!ir::has_op(op.type)) continue;
    std::string line = op.name + ":";
    for (size_t i = 0; i < op.inputs.size(); ++i) line += (i ? ", " : " ") + sbp::to_text(d.ops[o].inputs[i]);
    line += " ->";
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      line += (i ? ", " : " ") + sbp::to_text(d.ops[o].outputs[i]);
      const sbp::NdSbp& stored = at(d.stored, op.outputs[i]);
      if (stored != d.ops[o].outputs[i]) line += " => " + sbp::to_text(stored);
    }
    result += line + "\n";
  }
  return result;
}

Deduction deduced(const ir::Graph& graph, const Hints& hints) {
  const Mesh mesh = mesh_of(hints);
  return deduce(graph, pins_of(graph, hints, mesh), mesh);
}

// Megatron's two all-reduces a layer, and the loss of Figure 11 of the paper.
TEST(Deduce, TensorParallelForwardPassIsMegatrons) {
  const ir::Graph graph = ir::models::build(small_model(1), 4);
  Hints hints;
  hints.dp = 2, hints.tp = 2;
  EXPECT_EQ(text(graph, deduced(graph, hints)),
            R"(embedding.lookup: (B, S(0)), (S(0), B) -> (S(0), P(sum)) => (S(0), B)
embedding.add: (S(0), B), (B, B) -> (S(0), B)
embedding.out: (S(0), B) -> (S(0), B)
h0.ln1: (S(0), B), (B, B), (B, B) -> (S(0), B), (S(0), B), (S(0), B)
h0.attn.qkv: (S(0), B), (B, S(1)) -> (S(0), S(2))
h0.attn.qkv.bias_add: (S(0), S(2)), (B, S(0)) -> (S(0), S(2))
h0.attn.heads: (S(0), S(2)) -> (S(0), S(1)), (S(0), S(1)), (S(0), S(1))
h0.attn.core.scores: (S(0), S(1)), (S(0), S(1)) -> (S(0), S(1))
h0.attn.core.scale: (S(0), S(1)) -> (S(0), S(1))
h0.attn.core.mask: (S(0), S(1)) -> (S(0), S(1))
h0.attn.core.softmax: (S(0), S(1)) -> (S(0), S(1))
h0.attn.core.dropout: (S(0), S(1)) -> (S(0), S(1))
h0.attn.core.context: (S(0), S(1)), (S(0), S(1)) -> (S(0), S(1))
h0.attn.merge: (S(0), S(1)) -> (S(0), S(2))
h0.attn.proj: (S(0), S(2)), (B, S(0)) -> (S(0), P(sum)) => (S(0), B)
h0.attn.proj.bias_add: (S(0), B), (B, B) -> (S(0), B)
h0.attn.dropout: (S(0), B) -> (S(0), B)
h0.residual1: (S(0), B), (S(0), B) -> (S(0), B)
h0.ln2: (S(0), B), (B, B), (B, B) -> (S(0), B), (S(0), B), (S(0), B)
h0.mlp.fc1: (S(0), B), (B, S(1)) -> (S(0), S(2))
h0.mlp.fc1.bias_add: (S(0), S(2)), (B, S(0)) -> (S(0), S(2))
h0.mlp.gelu: (S(0), S(2)) -> (S(0), S(2))
h0.mlp.fc2: (S(0), S(2)), (B, S(0)) -> (S(0), P(sum)) => (S(0), B)
h0.mlp.fc2.bias_add: (S(0), B), (B, B) -> (S(0), B)
h0.mlp.dropout: (S(0), B) -> (S(0), B)
h0.residual2: (S(0), B), (S(0), B) -> (S(0), B)
ln_f: (S(0), B), (B, B), (B, B) -> (S(0), B), (S(0), B), (S(0), B)
head: (S(0), B), (B, S(0)) -> (S(0), S(2))
loss.max: (S(0), S(2)) -> (S(0), P(max)) => (S(0), B)
loss.sum_exp: (S(0), S(2)), (S(0), B) -> (S(0), P(sum)) => (S(0), B)
loss.pick: (S(0), S(2)), (S(0), B) -> (S(0), P(sum)) => (S(0), B)
loss.nll: (S(0), B), (S(0), B), (S(0), B) -> (S(0), B)
loss: (S(0), B) -> (P(sum), B)
)");
}

// Replicas exchange only gradients, and here there are none.
TEST(Deduce, ResidualNetworksSplitTheBatchAlone) {
  const ir::Graph graph = ir::models::build(ir::models::ConvNet{"resnet", 16, 64, 1, 32, 1000}, 4);
  Hints hints;
  hints.dp = 4;
  const std::string found = text(graph, deduced(graph, hints));
  EXPECT_NE(found.find("h3.beside.norm: S(0), B, B -> S(0), B, B\n"), std::string::npos) << found;
  EXPECT_NE(found.find("\nloss: S(0) -> P(sum)\n"), std::string::npos) << found;
  EXPECT_EQ(found.find("=>"), std::string::npos) << found;
}

// Korthikanti et al. 2022: reduce-scatter into the regions between the blocks, all-gather out of them.
TEST(Deduce, SequenceParallelismSplitsWhatLiesBetweenTheProducts) {
  const ir::Graph graph = ir::models::build(small_model(1), 4);
  Hints hints;
  hints.dp = 1, hints.tp = 2, hints.sequence_parallel = true;
  const std::string all = text(graph, deduced(graph, hints));
  EXPECT_THAT(all, testing::HasSubstr("embedding.lookup: S(0), B -> P(sum) => S(1)\n"));
  EXPECT_THAT(all,
              testing::HasSubstr("h0.ln1: S(1), B, B -> S(1), S(1), S(1)\nh0.attn.qkv: B, S(1) -> S(2)\n"));
  EXPECT_THAT(all, testing::HasSubstr("h0.attn.proj: S(2), S(0) -> P(sum) => S(1)\n"));
  EXPECT_THAT(all, testing::HasSubstr("h0.residual1: S(1), S(1) -> S(1)\n"));
  EXPECT_THAT(all, testing::HasSubstr("h0.mlp.fc2: S(2), S(0) -> P(sum) => S(1)\n"));
  EXPECT_THAT(all, testing::HasSubstr("ln_f: S(1), B, B -> S(1), S(1), S(1)\nhead: B, S(0) -> S(2)\n"));
}

TEST(Deduce, TransitionsMoveTable2sBytes) {
  const sbp::Sbp s0 = sbp::Sbp::S(0), s1 = sbp::Sbp::S(1), b = sbp::Sbp::B(), p = sbp::Sbp::P();
  struct Row {
    sbp::Sbp from, to;
    double bytes;
  };
  for (const Row& row :
       {Row{s0, s0, 0}, {s0, s1, 75}, {s0, b, 300}, {b, s0, 0}, {b, b, 0}, {p, s0, 300}, {p, b, 600}})
    EXPECT_EQ(transition_bytes(row.from, row.to, 100, 4), row.bytes)
        << sbp::to_text(row.from) << sbp::to_text(row.to);
}

TEST(Pins, MatchNamesWithStars) {
  EXPECT_TRUE(matches("*.attn.proj", "h12.attn.proj"));
  EXPECT_FALSE(matches("*.attn.proj", "h12.attn.proj.weight"));
}

TEST(Pins, ShardsLeavePartsWholeOrLieInside) {
  const sbp::Sbp s0 = sbp::Sbp::S(0), s1 = sbp::Sbp::S(1), b = sbp::Sbp::B();
  const sbp::Sbp inside0 = sbp::Sbp::S(0, 1);
  Mesh mesh;
  mesh.names = {"dp", "ep", "tp"}, mesh.extents = {16, 2, 8}, mesh.strides = {16, 8, 1};
  const auto shard = [&](const sbp::Shape& shape, sbp::Sbp ep, sbp::Sbp tp) {
    const sbp::NdSbp kept = sharded(shape, {b, ep, tp}, mesh, ir::ParameterKind::plain);
    EXPECT_EQ(kept[1], ep.is_split() ? ep : kept[0]);
    EXPECT_EQ(kept[2], tp);
    return kept[0];
  };
  EXPECT_EQ(shard({64, 96}, b, s1), s0);
  EXPECT_EQ(shard({64, 96}, b, s0), s1);
  EXPECT_EQ(shard({1024}, b, s0), inside0);
  EXPECT_EQ(shard({64}, b, b), s0);
  EXPECT_EQ(shard({33, 66}, b, s1), s0);  // uneven
  EXPECT_EQ(shard({}, b, b), b);
  // Experts: the axis that ep splits has too few in each part.
  EXPECT_EQ(shard({16, 64, 96}, s0, s1), sbp::Sbp::S(2));
  EXPECT_EQ(shard({16, 256, 33}, s0, s1), sbp::Sbp::S(1, 1));
  EXPECT_EQ(shard({32, 33, 33}, s0, b), inside0);
}

// As their gradients are made, so that they need not move between ranks of context parallelism.
TEST(Pins, ShardsOfExpertsOverContextParallelismAreExperts) {
  const sbp::Sbp s0 = sbp::Sbp::S(0), s1 = sbp::Sbp::S(1), b = sbp::Sbp::B();
  Mesh mesh;
  mesh.names = {"dp", "ep", "cp"}, mesh.extents = {2, 2, 2}, mesh.strides = {4, 2, 1};
  const auto kept = [&](sbp::Shape shape, const sbp::NdSbp& whole) {
    return sharded(shape, whole, mesh, ir::ParameterKind::experts);
  };
  EXPECT_EQ(kept({8, 64, 96}, {b, s0, b}), (sbp::NdSbp{s1, s0, s0}));
  EXPECT_EQ(kept({8, 64, 96}, {b, b, b}), (sbp::NdSbp{s1, s1, s0}));
  EXPECT_EQ(kept({6, 64, 96}, {b, s0, b}), (sbp::NdSbp{s1, s0, s1}));  // 3 experts on 2 ranks
  mesh.names.emplace_back("tp"), mesh.extents.push_back(2), mesh.strides = {8, 4, 2, 1};
  const sbp::Sbp inside = sbp::Sbp::S(0, 1);  // a rank of tp has 4 experts, of ep 2, of cp 1
  EXPECT_EQ(kept({8, 64, 96}, {b, inside, b, s0}), (sbp::NdSbp{s1, inside, inside, s0}));
  EXPECT_EQ(kept({8, 64, 96}, {b, s0, b, s1}), (sbp::NdSbp{sbp::Sbp::S(2), s0, s0, s1}));
}

}  // namespace
}  // namespace boxcar::planner
