// Sizes of published models, flops counted on the graph, and refused sizes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graphs.h"
#include "ir/models/model.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::tests {
namespace {

using ir::models::ConvNet;
using ir::models::Transformer;

Transformer model(const std::string& family, int64_t layers, int64_t hidden, int64_t heads, int64_t seq,
                  int64_t vocab) {
  Transformer config = ir::models::defaults(family);
  config.layers = layers;
  config.hidden = hidden;
  config.heads = heads;
  config.seq = seq;
  config.vocab = vocab;
  return config;
}

Transformer gpt3() { return model("gpt", 96, 12288, 96, 2048, 51200); }

Transformer llama2_70b() {
  Transformer config = model("llama", 80, 8192, 64, 4096, 32000);
  config.kv_heads = 8;
  config.ffn = 28672;
  return config;
}

Transformer llama3_8b() {
  Transformer config = model("llama", 32, 4096, 32, 8192, 128256);
  config.kv_heads = 8;
  config.ffn = 14336;
  return config;
}

TEST(Models, ParametersOfPublishedModels) {
  EXPECT_EQ(ir::models::parameters(llama3_8b()), 8030261248);                                // Meta's 8.03 B
  EXPECT_EQ(ir::models::parameters(llama2_70b()), 68976648192);                              // 68.98 B
  EXPECT_EQ(ir::models::parameters(model("llama", 32, 4096, 32, 4096, 32000)), 6738415616);  // 6.74 B
  EXPECT_EQ(ir::models::parameters(model("gpt", 12, 768, 12, 1024, 50257)), 124439808);      // GPT-2, 124 M
  Transformer mixtral = model("llama", 32, 4096, 32, 8192, 32000);
  mixtral.kv_heads = 8;
  mixtral.ffn = 14336;
  mixtral.experts = 8;
  mixtral.top_k = 2;
  ir::models::Transformer qwen = model("llama", 28, 3584, 28, 32768, 152064);
  qwen.kv_heads = 4, qwen.ffn = 18944, qwen.qkv_bias = true;
  Transformer nemo = model("llama", 40, 5120, 32, 131072, 131072);
  nemo.kv_heads = 8, nemo.head_dim = 128, nemo.ffn = 14336;
  Transformer gemma = model("llama", 28, 3072, 16, 8192, 256000);
  gemma.head_dim = 256, gemma.ffn = 24576, gemma.tied = true;
  EXPECT_EQ(ir::models::parameters(nemo), 12247782400);     // Mistral Nemo
  EXPECT_EQ(ir::models::parameters(gemma), 8537680896);     // Gemma 7B, gated by GELU
  EXPECT_EQ(ir::models::parameters(qwen), 7615616512);      // Qwen2 7B
  EXPECT_EQ(ir::models::parameters(mixtral), 46702792704);  // Mixtral 8x7B
  EXPECT_NEAR(static_cast<double>(ir::models::parameters(gpt3())), 174.6e9, 0.05e9);  // "174,600 M"
}

// Qwen team 2025 (arXiv:2505.09388): "30B", "3B" activated; "235B", "22B" activated. Exact counts are those
// of the weights at https://huggingface.co/Qwen.
TEST(Models, ParametersOfQwen3) {
  const auto qwen3 = [](int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads, int64_t ffn) {
    Transformer config = model("llama", layers, hidden, heads, 4096, 151936);
    config.kv_heads = kv_heads, config.ffn = ffn, config.head_dim = 128, config.qk_norm = true;
    return config;
  };
  EXPECT_EQ(ir::models::parameters(qwen3(36, 4096, 32, 8, 12288)), 8190735360);
  EXPECT_EQ(ir::models::parameters(qwen3(64, 5120, 64, 8, 25600)), 32762123264);
  const auto expect_mixture = [](Transformer mixture, int64_t ffn, int64_t all, double active) {
    mixture.experts = 128, mixture.top_k = 8, mixture.expert_ffn = ffn;
    EXPECT_EQ(ir::models::parameters(mixture), all);
    mixture.experts = 8;  // those that a token runs through
    EXPECT_NEAR(static_cast<double>(ir::models::parameters(mixture)) / active, 1, 0.03);
  };
  expect_mixture(qwen3(48, 2048, 32, 4, 6144), 768, 30532122624, 3.3e9);
  expect_mixture(qwen3(94, 4096, 64, 4, 12288), 1536, 235093634560, 22e9);
}

// OpenAI 2025 (arXiv:2508.10925), table 1: 20.91 B and 116.83 B, of which ours lack 32 or 128 biases of the
// router and 64 sinks in each layer.
TEST(Models, ParametersOfGptOss) {
  const auto oss = [](int64_t layers, int64_t experts) {
    Transformer config = model("llama", layers, 2880, 64, 4096, 201088);
    config.kv_heads = 8, config.head_dim = 64, config.ffn = 2880, config.bias = true;
    config.experts = experts, config.top_k = 4, config.attention_window = 128,
    config.full_attention_every = 2;
    return ir::models::parameters(config);
  };
  EXPECT_EQ(oss(24, 32) + 24 * (32 + 64), 20914757184);
  EXPECT_EQ(oss(36, 128) + 36 * (128 + 64), 116829156672);
}

// Each of 8 tokens sees 3: 1 + 2 + 6 x 3 = 21 pairs, counted as 3 x 8 - 3 x 3 / 2 = 19.5 of 64.
TEST(Models, WindowsLeaveLessWork) {
  const auto attention_flops = [](const Transformer& config) {
    double flops = 0;
    const ir::Graph graph = ir::models::build(config, 2);
    for (const ir::Op& op : graph.ops) {
      if (op.type != "scaled_dot_product_attention") continue;
      ir::Types inputs, outputs;
      for (const ir::TensorId id : op.inputs) inputs.push_back(graph.tensor(id).type);
      for (const ir::TensorId id : op.outputs) outputs.push_back(graph.tensor(id).type);
      flops += ir::work(ir::op(op.type), inputs, outputs, op.attrs).flops;
    }
    return flops;
  };
  Transformer config = tiny("llama");
  config.layers = 6, config.seq = 8, config.flash = true;
  const double all = attention_flops(config), share = 19.5 / 32;
  config.attention_window = 8;
  EXPECT_EQ(attention_flops(config), all);
  config.attention_window = 3;
  EXPECT_DOUBLE_EQ(attention_flops(config), all * share);
  config.full_attention_every = 3;
  EXPECT_DOUBLE_EQ(attention_flops(config), all * (4 * share + 2) / 6);
}

// The attention of every layer reads the one input that says where documents begin.
TEST(Models, DocumentsAreReadByEveryAttention) {
  Transformer config = tiny("gpt");
  config.layers = 3, config.seq = 8, config.flash = true, config.document_length = 4;
  const ir::Graph graph = ir::models::build(config, 2);
  const ir::TensorId seen = ir::find_tensor(graph, "seen");
  ASSERT_GE(seen, 0);
  EXPECT_EQ(graph.tensor(seen).type, (ir::TensorType{{2, 8}, ir::DType::int64}));
  int count = 0;
  for (const ir::Op& op : graph.ops) {
    if (op.type != "scaled_dot_product_attention") continue;
    EXPECT_EQ(op.inputs.at(3), seen);
    EXPECT_EQ(ir::attr_int(op.attrs, "document"), 4);
    ++count;
  }
  EXPECT_EQ(count, 3);
  const double whole = ir::models::model_flops(tiny("gpt"), 2);
  Transformer packed = tiny("gpt");
  packed.document_length = packed.seq / 2, packed.flash = true;
  EXPECT_LT(ir::models::model_flops(packed, 2), whole);
}

TEST(Models, WindowsAreInTheLayersThatHaveThem) {
  Transformer config = tiny("gpt");
  config.layers = 4, config.seq = 8, config.attention_window = 3, config.full_attention_every = 2;
  std::vector<int64_t> windows;
  for (const ir::Op& op : ir::models::build(config, 2).ops)
    if (op.type == "causal_mask") windows.push_back(ir::attr_int(op.attrs, "window"));
  EXPECT_EQ(windows, (std::vector<int64_t>{3, 0, 3, 0}));
  EXPECT_EQ(ir::models::layer_period(config), 2);
  config.experts = 2, config.top_k = 1, config.layers = 12, config.expert_every = 3;
  EXPECT_EQ(ir::models::layer_period(config), 6);
  config.attention_window = 8;
  EXPECT_EQ(ir::models::layer_period(config), 3);
}

Transformer latent(const std::string& family = "llama") {
  Transformer config = tiny(family);
  config.position = "rotary", config.bias = false;
  config.q_lora_rank = 6, config.kv_lora_rank = 4;
  config.qk_nope_head_dim = 3, config.qk_rope_head_dim = 2, config.v_head_dim = 5;
  return config;
}

// DeepSeek-AI 2024 (arXiv:2412.19437): 671 B, 37 B activated. The exact count is that of the weights at
// https://huggingface.co/deepseek-ai/DeepSeek-V3 without its layer that predicts a further token; ours lack
// the 256 biases of each router.
TEST(Models, ParametersOfDeepSeekV3) {
  Transformer config = model("llama", 61, 7168, 128, 4096, 129280);
  config.ffn = 18432, config.experts = 256, config.top_k = 8, config.expert_ffn = 2048;
  config.shared_experts = 1, config.dense_layers = 3, config.q_lora_rank = 1536, config.kv_lora_rank = 512;
  config.qk_nope_head_dim = config.v_head_dim = 128, config.qk_rope_head_dim = 64;
  EXPECT_EQ(ir::models::parameters(config) + 58 * 256, 671026419200);
  config.experts = 8;  // those that a token runs through
  EXPECT_NEAR(static_cast<double>(ir::models::parameters(config)) / 37e9, 1, 0.02);
}

TEST(Models, LatentAttentionHasQueriesKeysAndValuesOfItsWidths) {
  const ir::Graph graph = ir::models::build(latent(), 2);
  const auto type = [&](const char* name) {
    return to_text(graph.tensor(ir::find_tensor(graph, name)).type);
  };
  EXPECT_EQ(type("h0.attn.q_a"), "float32[2, 3, 6]");
  EXPECT_EQ(type("h0.attn.kv_a"), "float32[2, 3, 6]");
  EXPECT_EQ(type("h0.attn.q.joined"), "float32[2, 4, 3, 5]");
  EXPECT_EQ(type("h0.attn.k.joined"), "float32[2, 4, 3, 5]");
  EXPECT_EQ(type("h0.attn.v"), "float32[2, 4, 3, 5]");
  EXPECT_EQ(type("h0.attn.k.rope"), "float32[2, 1, 3, 2]");
  EXPECT_EQ(type("h0.attn.proj.weight"), "float32[20, 8]");
}

Transformer bert_base() {
  Transformer config = model("bert", 12, 768, 12, 512, 30522);
  config.masked = 80;
  return config;
}

TEST(Models, ParametersOfBertWithItsHeads) {
  EXPECT_EQ(ir::models::parameters(bert_base()),
            110106428);  // transformers' BertForPreTraining, bert-base-uncased
}

// GShard's mixtures with every other layer dense, as in Alpa's evaluation: hidden, layers, experts, and the
// size in the model's name. Feed-forward layers are 8 x hidden there.
TEST(Models, ParametersOfGshardsMixtures) {
  struct Row {
    int64_t hidden, layers, experts;
    double published;
  };
  for (const Row& row :
       {Row{768, 8, 8, 380e6}, Row{768, 8, 16, 690e6}, Row{768, 16, 16, 1.3e9}, Row{1024, 16, 16, 2.4e9},
        Row{1536, 16, 32, 10e9}, Row{2048, 16, 48, 27e9}, Row{2048, 32, 64, 70e9}}) {
    Transformer moe = model("gpt", row.layers, row.hidden, 16, 1024, 32000);
    moe.ffn = 8 * row.hidden;
    moe.experts = row.experts;
    moe.expert_every = 2;
    EXPECT_NEAR(static_cast<double>(ir::models::parameters(moe)) / row.published, 1, 0.04) << row.published;
  }
}

TEST(Models, AreTransformersOrConvolutionalNetworks) {
  ir::models::Model model = ir::models::default_model("llama");
  EXPECT_FALSE(model->bias);
  EXPECT_EQ(model.conv_net(), nullptr);
  model = ir::models::default_model("resnet");
  EXPECT_EQ(model.transformer(), nullptr);
  EXPECT_EQ(model.conv_net()->image, 224);
  EXPECT_EQ(model.family(), "resnet");
  EXPECT_EQ(ir::models::tokens(model), 0);
  try {
    model->heads = 2;
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "model: a model of family resnet is no transformer");
  }
  try {
    ir::models::default_model("gtp");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "family: unknown 'gtp' (use gpt or bert or llama or t5 or resnet or wide_resnet or alexnet or "
        "unet or diffusion_unet)");
  }
}

TEST(Models, GraphsHaveTheParametersOfTheFormula) {
  Transformer heads = bert_base();
  heads.layers = 1;
  heads.pad_vocab_to = 1;
  EXPECT_EQ(counted(ir::models::build(heads, 2)), ir::models::parameters(heads));
  for (Transformer config : {tiny("gpt"), tiny("bert"), tiny("llama")}) {
    config.pad_vocab_to = 1;
    config.layers = 3;
    config.kv_heads = 2;
    EXPECT_EQ(counted(ir::models::build(config, 2)), ir::models::parameters(config)) << config.family;
    config.head_dim = 6;
    EXPECT_EQ(counted(ir::models::build(config, 2)), ir::models::parameters(config)) << config.family;
    config.qk_norm = true;
    EXPECT_EQ(counted(ir::models::build(config, 2)), ir::models::parameters(config)) << config.family;
    config.experts = 3;
    config.top_k = 1;
    config.expert_ffn = 5;
    EXPECT_EQ(counted(ir::models::build(config, 2)), ir::models::parameters(config)) << config.family;
    config.shared_experts = 2, config.dense_layers = 1;
    EXPECT_EQ(counted(ir::models::build(config, 2)), ir::models::parameters(config)) << config.family;
    config.dense_layers = 0;
    config.expert_every = 3;
    EXPECT_EQ(counted(ir::models::build(config, 2)), ir::models::parameters(config)) << config.family;
  }
}

TEST(Models, GraphsOfLatentAttentionHaveTheParametersOfTheFormula) {
  for (const char* family : {"gpt", "llama"})
    for (const int64_t queries : {0, 6}) {
      Transformer config = latent(family);
      config.pad_vocab_to = 1, config.q_lora_rank = queries;
      EXPECT_EQ(counted(ir::models::build(config, 2)), ir::models::parameters(config)) << family << queries;
    }
}

// T5 as published (transformers' t5-small, t5-base, t5-large: gated by relu, norms without bias) has tables
// of relative positions, 32 x heads in each half; ours has none.
TEST(Models, ParametersOfT5) {
  const auto t5 = [](int64_t layers, int64_t hidden, int64_t heads) {
    Transformer config = model("t5", layers, hidden, heads, 512, 32128);
    config.norm = "rms", config.position = "rotary", config.bias = false;
    return ir::models::parameters(config) + 2 * 32 * heads;
  };
  EXPECT_EQ(t5(12, 512, 8), 60506624);
  EXPECT_EQ(t5(24, 768, 12), 222903552);
  EXPECT_EQ(t5(48, 1024, 16), 737668096);
  const Transformer whole = ir::models::complete(model("t5", 48, 1024, 16, 512, 32128));
  EXPECT_EQ(whole.decoder_layers, 24);
  EXPECT_EQ(whole.decoder_seq, 512);
}

Transformer tiny_t5() {
  Transformer config = tiny("t5");
  config.layers = 5, config.decoder_layers = 2, config.decoder_seq = 2, config.kv_heads = 2;
  return config;
}

TEST(Models, T5ReadsTheEncoderInEveryLayerOfTheDecoder) {
  Transformer config = tiny_t5();
  config.pad_vocab_to = 1;
  for (const char* position : {"learned", "rotary"})
    for (const bool bias : {true, false}) {
      config.position = position, config.bias = bias, config.head_dim = bias ? 0 : 4;
      config.qk_norm = bias == (config.position == "rotary");
      EXPECT_EQ(counted(ir::models::build(config, 2)), ir::models::parameters(config)) << position << bias;
    }
  const ir::Graph graph = ir::models::build(config, 2);
  EXPECT_EQ(graph.layers, 5);
  std::vector<std::string> readers;
  const ir::TensorId memory = ir::find_tensor(graph, "encoder.ln_f");
  for (const ir::Op& op : graph.ops) {
    if (std::count(op.inputs.begin(), op.inputs.end(), memory) > 0) readers.push_back(op.name);
    const bool masked = op.type == "causal_mask";
    EXPECT_TRUE(!masked || op.layer >= 3) << op.name;
  }
  EXPECT_THAT(readers, testing::ElementsAre("h3.cross.attn.k", "h3.cross.attn.v", "h4.cross.attn.k",
                                            "h4.cross.attn.v"));
  EXPECT_EQ(to_text(graph.tensor(ir::find_tensor(graph, "h3.cross.attn.core.scale")).type),
            "float32[2, 4, 2, 3]");  // of 2 tokens, by 3
}

// Narayanan et al. 2021, equation 2, without recomputation: 72 B s l h^2 (1 + s/6h + V/12lh).
TEST(Models, FlopsOfGptAreThePublishedFormula) {
  Transformer config = gpt3();
  config.layers = 4;  // each layer adds the same
  const double B = 16, s = 2048, l = 4, h = 12288, V = 51200;
  const double formula = 72 * B * s * l * h * h * (1 + s / (6 * h) + V / (12 * l * h));
  EXPECT_NEAR(ir::models::model_flops(config, 16) / formula, 1, 1e-12);
  for (const auto recompute : {ir::Recompute::none, ir::Recompute::full}) {
    ir::TrainOptions options;
    options.recompute = recompute;
    EXPECT_NEAR(counted_flops(step_of(ir::models::build(config, 16), options)) / formula, 1, 1e-12);
  }
}

TEST(Models, FlopsOfEveryStyleAreCountedOnTheGraph) {
  Transformer llama = llama3_8b(), padded = tiny("gpt");
  llama.layers = 2;
  Transformer mixtral = llama;
  mixtral.experts = 8;
  mixtral.top_k = 2;
  Transformer heads = bert_base(), gshard = mixtral;
  heads.layers = 1;
  gshard.expert_every = 2;
  Transformer wide = llama, wide_t5 = tiny_t5();
  wide.head_dim = 256, wide.heads = 24, wide_t5.head_dim = 6;
  Transformer fine = gshard;
  fine.expert_ffn = 1024, fine.experts = 16, fine.top_k = 4;
  Transformer narrow = latent(), narrow_keys = latent("gpt");
  narrow_keys.q_lora_rank = 0;
  Transformer shared = fine;
  shared.shared_experts = 2, shared.expert_every = 1, shared.dense_layers = 1;
  shared.weigh_inside = true;
  for (const Transformer& config : {llama, padded, tiny("bert"), mixtral, heads, gshard, tiny_t5(), wide,
                                    wide_t5, fine, shared, narrow, narrow_keys})
    EXPECT_NEAR(counted_flops(step_of(ir::models::build(config, 4), {})) / ir::models::model_flops(config, 4),
                1, 1e-12)
        << config.family;
}

TEST(Models, VocabularyIsPadded) {
  Transformer config = tiny("gpt");
  config.vocab = 50257;
  config.pad_vocab_to = 1024;
  EXPECT_EQ(ir::models::padded_vocab(config), 51200);
  const ir::Graph graph = ir::models::build(config, 1);
  EXPECT_EQ(to_text(graph.tensor(ir::find_tensor(graph, "head")).type), "float32[1, 3, 51200]");
}

TEST(Models, FamiliesFillInTheRest) {
  const Transformer llama = ir::models::complete(model("llama", 32, 4096, 32, 4096, 32000));
  EXPECT_EQ(llama.ffn, 11008);
  EXPECT_EQ(llama.kv_heads, 32);
  EXPECT_EQ(llama.norm + llama.mlp + llama.position, "rmsswiglurotary");
  EXPECT_FALSE(llama.tied || llama.bias);
  const Transformer gpt = ir::models::complete(gpt3());
  EXPECT_EQ(gpt.ffn, 49152);
  EXPECT_EQ(gpt.norm + gpt.mlp + gpt.position, "layergelulearned");
}

// Forwards, backwards and where a layer runs again.
TEST(Models, NormsAndPositionsHaveTheModelsNumbers) {
  ir::TrainOptions options;
  options.recompute = ir::Recompute::full;
  for (const char* norm : {"layer", "rms"}) {
    Transformer config = tiny("llama");
    config.norm = norm, config.norm_epsilon = 0.25, config.rotary_base = 7;
    int norms = 0, turns = 0;
    for (const ir::Op& op : step_of(ir::models::build(config, 2), options).ops) {
      if (op.type == "layer_norm" || op.type == "rms_norm") {
        ++norms;
        EXPECT_EQ(ir::attr_float(op.attrs, "eps"), 0.25) << op.name;
      } else if (op.type == "rotary") {
        ++turns;
        EXPECT_EQ(ir::attr_float(op.attrs, "base"), 7) << op.name;
      }
    }
    EXPECT_EQ(norms, 2 * 2 * config.layers + 1);
    EXPECT_EQ(turns, 3 * 2 * config.layers);
  }
}

// Splitting the packed axes splits by head and by neuron, which tensor parallelism relies on.
TEST(Models, SplittingTheQkvWeightSplitsTheHeads) {
  Transformer config = tiny("llama");
  config.kv_heads = 2;
  const ir::Graph graph = ir::models::build(config, 2);
  const auto offers = [&](const char* name, const char* signature) {
    const ir::Op& op = at(graph.ops, graph.tensor(ir::find_tensor(graph, name)).producer);
    ir::Types inputs;
    for (const ir::TensorId id : op.inputs) inputs.push_back(graph.tensor(id).type);
    const auto all = ir::signatures(ir::op(op.type), inputs, op.attrs, 2);
    return std::find(all.begin(), all.end(), sbp::parse_signature(signature)) != all.end();
  };
  EXPECT_TRUE(offers("h0.attn.qkv", "B, S(1) -> S(2)"));
  EXPECT_TRUE(offers("h0.attn.heads", "S(2) -> S(1), S(1), S(1)"));
  EXPECT_TRUE(offers("h0.attn.rotary_q", "S(1) -> S(1)"));
  EXPECT_TRUE(offers("h0.attn.core.q", "S(1) -> S(1)"));
  EXPECT_TRUE(offers("h0.attn.core.scores", "S(1), S(1) -> S(1)"));
  EXPECT_TRUE(offers("h0.attn.core.scores_by_head", "S(1) -> S(1)"));
  EXPECT_TRUE(offers("h0.attn.core.context_by_head", "S(1) -> S(1)"));
  EXPECT_TRUE(offers("h0.attn.merge", "S(1) -> S(2)"));
  EXPECT_TRUE(offers("h0.attn.proj", "S(2), S(0) -> P(sum)"));
  EXPECT_TRUE(offers("h0.mlp.swiglu", "S(2) -> S(2)"));
}

std::string refusal(const ir::models::Model& config, int64_t batch = 2) {
  try {
    ir::models::build(config, batch);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Models, RefusesSizesThatCannotBe) {
  const auto with = [](auto change) {
    Transformer config = tiny("gpt");
    change(config);
    return refusal(config);
  };
  EXPECT_EQ(with([](auto& c) { c.heads = 3; }),
            "heads: 3 does not divide hidden 8 (use 1, 2, 4, 8, or give head_dim)");
  EXPECT_EQ(with([](auto& c) { c.head_dim = -1; }), "head_dim: is -1, expected at least 1");
  EXPECT_EQ(with([](auto& c) { c.kv_heads = 3; }), "kv_heads: 3 does not divide heads 4 (use 1, 2, 4)");
  EXPECT_EQ(with([](auto& c) { c.layers = 0; }), "layers: is 0, expected at least 1");
  EXPECT_EQ(with([](auto& c) { c.vocab = -5; }), "vocab: is -5, expected at least 1");
  EXPECT_EQ(with([](auto& c) { c.mlp = "relu"; }), "mlp: unknown 'relu' (use gelu or swiglu)");
  EXPECT_EQ(with([](auto& c) { c.masked = 3; }), "masked: is 3, expected at least 0 and below seq 3");
  EXPECT_EQ(with([](auto& c) { c.masked = 2; }),
            "masked: is of family bert with learned positions, layer norms, biases and a tied head");
  EXPECT_EQ(with([](auto& c) { c.family = "gtp"; }),
            "family: unknown 'gtp' (use gpt or bert or llama or t5)");
  EXPECT_EQ(with([](auto& c) { c.dropout = 1; }), "dropout: is 1, expected at least 0 and below 1");
  EXPECT_EQ(with([](auto& c) { c.attention_window = -1; }),
            "attention_window: is -1, expected 0 (none) or more");
  EXPECT_EQ(with([](auto& c) { c.full_attention_every = 2; }),
            "full_attention_every: needs attention_window");
  EXPECT_EQ(with([](auto& c) { c.document_length = -1; }),
            "document_length: is -1, expected 0 (a sequence is one document) or more");
  EXPECT_EQ(with([](auto& c) { c.family = "bert", c.document_length = 2; }),
            "document_length: is of family gpt or llama");
  EXPECT_EQ(with([](auto& c) { c.document_length = 2; }),
            "document_length: needs attention as one kernel (give flash)");
  EXPECT_EQ(with([](auto& c) { c.family = "bert", c.attention_window = 2; }),
            "attention_window: is of family gpt or llama");
  const auto of_latents = [](auto change) {
    Transformer config = latent();
    change(config);
    return refusal(config);
  };
  EXPECT_EQ(with([](auto& c) { c.v_head_dim = 2; }), "v_head_dim: needs kv_lora_rank");
  EXPECT_EQ(of_latents([](auto& c) { c.v_head_dim = 0; }), "v_head_dim: is 0, expected at least 1");
  EXPECT_EQ(of_latents([](auto& c) { c.qk_rope_head_dim = 3; }),
            "qk_rope_head_dim: is 3, rotary positions need an even number");
  EXPECT_EQ(of_latents([](auto& c) { c.kv_heads = 2; }), "kv_heads: is 2, with kv_lora_rank it is heads");
  EXPECT_EQ(of_latents([](auto& c) { c.bias = true; }),
            "kv_lora_rank: needs position rotary, bias and qkv_bias false, and no qk_norm");
  EXPECT_EQ(of_latents([](auto& c) { c.head_dim = 4; }),
            "head_dim: is 4, with kv_lora_rank it is qk_nope_head_dim 3 and qk_rope_head_dim 2");
  EXPECT_EQ(with([](auto& c) { c.top_k = 2; }), "top_k: needs experts");
  EXPECT_EQ(with([](auto& c) { c.expert_ffn = 2; }), "expert_ffn: needs experts");
  EXPECT_EQ(with([](auto& c) { c.shared_experts = 1; }), "shared_experts: needs experts");
  EXPECT_EQ(with([](auto& c) { c.dense_layers = 1; }), "dense_layers: needs experts");
  EXPECT_EQ(with([](auto& c) { c.weigh_inside = true; }), "weigh_inside: needs experts");
  EXPECT_EQ(with([](auto& c) { c.experts = 2, c.dense_layers = c.layers; }),
            "dense_layers: is 1, expected at least 0 and below layers 1");
  EXPECT_EQ(with([](auto& c) { c.layers = 4, c.experts = c.expert_every = 2, c.dense_layers = 1; }),
            "dense_layers: needs expert_every 1, which is 2");
  EXPECT_EQ(with([](auto& c) { c.experts = 2, c.expert_ffn = -2; }),
            "expert_ffn: is -2, expected at least 1");
  EXPECT_EQ(with([](auto& c) {
              c.heads = 8;
              c.position = "rotary";
            }),
            "heads: 8 leaves heads of 1 elements, rotary positions need an even number");
  EXPECT_EQ(with([](auto& c) { c.expert_every = 2; }),
            "expert_every: is 2, expected 1, or more where there are experts");
  EXPECT_EQ(with([](auto& c) {
              c.layers = 3;
              c.experts = 2;
              c.expert_every = 2;
            }),
            "expert_every: 2 does not divide layers 3 (use 1, 3)");
  EXPECT_EQ(with([](auto& c) { c.decoder_layers = 1; }), "decoder_layers: is of family t5");
  EXPECT_EQ(with([](auto& c) { c.decoder_seq = 1; }), "decoder_seq: is of family t5");
  const auto t5 = [](auto change) {
    Transformer config = tiny_t5();
    change(config);
    return refusal(config);
  };
  EXPECT_EQ(t5([](auto& c) { c.decoder_layers = 5; }),
            "decoder_layers: is 5, expected at least 1 and below layers 5, which count both halves");
  EXPECT_EQ(t5([](auto& c) { c.layers = 1, c.decoder_layers = 0; }),
            "decoder_layers: is 0, expected at least 1 and below layers 1, which count both halves");
  EXPECT_EQ(t5([](auto& c) { c.decoder_seq = -1; }), "decoder_seq: is -1, expected at least 1");
  EXPECT_EQ(t5([](auto& c) { c.experts = 2; }), "experts: are not there for family t5");
  const auto net = [](const char* family, auto change) {
    ConvNet config{family, 16, 8, 1, 224, 10};
    change(config);
    return refusal(config);
  };
  EXPECT_EQ(net("resnet", [](auto& c) { c.layers = 18; }),
            "layers: is 18, expected the blocks of ResNet-50, -101 or -152: 16, 33 or 50");
  EXPECT_EQ(net("wide_resnet", [](auto& c) { c.image = 100; }), "image: 100 is no multiple of 32");
  EXPECT_EQ(net("wide_resnet", [](auto& c) { c.width = 0; }), "width: is 0, expected at least 1");
  EXPECT_EQ(net("unet", [](auto&) {}),
            "layers: is 16, expected an odd number up to 19: levels down, one in the middle, levels up");
  EXPECT_EQ(net("unet", [](auto& c) { c.layers = 9, c.image = 40; }), "image: 40 is no multiple of 16");
  EXPECT_EQ(
      net("diffusion_unet", [](auto& c) { c.layers = 3; }),
      "layers: is 3, expected an odd number from 5 up to 19: levels down, one in the middle, levels up");
  EXPECT_EQ(net("diffusion_unet", [](auto& c) { c.layers = 9, c.image = 36; }),
            "image: 36 is no multiple of 8");
  EXPECT_EQ(net("diffusion_unet", [](auto& c) { c.layers = 9, c.image = 32, c.channels = 12; }),
            "channels: 12 is no multiple of the 8 heads of attention");
  EXPECT_EQ(net("alexnet", [](auto&) {}), "layers: is 16, expected the 8 of AlexNet");
  EXPECT_EQ(net("alexnet", [](auto& c) { c.layers = 8, c.image = 62; }),
            "image: is 62, expected at least 63");
  EXPECT_EQ(refusal(tiny("gpt"), 0), "batch: is 0, expected at least 1");
}

}  // namespace
}  // namespace boxcar::tests
