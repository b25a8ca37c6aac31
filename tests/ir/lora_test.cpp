// Low-rank adapters: what is trained, and how much of it there is.
#include <gtest/gtest.h>

#include <algorithm>

#include "graphs.h"
#include "ir/models/model.h"
#include "ir/passes/passes.h"
#include "support/error_of.h"

namespace boxcar::tests {
namespace {

using ir::models::Transformer;

Transformer with_adapters(const std::string& family, bool mlp = true) {
  Transformer config = tiny(family);
  config.layers = 2, config.dropout = 0, config.pad_vocab_to = 1;
  config.lora_rank = 3, config.lora_mlp = mlp;
  return config;
}

TEST(Lora, GraphsHaveTheParametersOfTheFormula) {
  for (const char* family : {"gpt", "llama"})
    for (const bool mlp : {false, true}) {
      Transformer config = with_adapters(family, mlp);
      EXPECT_EQ(counted(ir::models::build(config, 2)), ir::models::parameters(config)) << family << mlp;
      config.kv_heads = 2, config.head_dim = 4, config.qkv_bias = !config.bias;
      EXPECT_EQ(counted(ir::models::build(config, 2)), ir::models::parameters(config)) << family << mlp;
    }
  // PEFT's count for Llama 2 70B, rank 16 on q, k, v and o, differs: here q, k and v share one A.
  Transformer llama = ir::models::defaults("llama");
  llama.layers = 80, llama.hidden = 8192, llama.heads = 64, llama.kv_heads = 8, llama.ffn = 28672;
  llama.seq = 4096, llama.vocab = 32000, llama.lora_rank = 16;
  const int64_t base = ir::models::parameters(ir::models::without_adapters(llama));
  EXPECT_EQ(ir::models::parameters(llama) - base, 80 * 16 * (8192 + 10240 + 8192 + 8192));
}

TEST(Lora, FlopsAreCountedOnTheGraph) {
  for (const char* family : {"gpt", "llama"})
    for (const bool mlp : {false, true}) {
      const Transformer config = with_adapters(family, mlp);
      const double counted = counted_flops(step_of(ir::models::build(config, 4), {}));
      EXPECT_NEAR(counted / ir::models::model_flops(config, 4), 1, 1e-12) << family << mlp;
    }
}

// Nothing else has a gradient, a moment or a float32 master.
TEST(Lora, OnlyAdaptersAreTrained) {
  for (const ir::Precision precision : {ir::Precision::fp32, ir::Precision::bf16}) {
    ir::TrainOptions options;
    options.precision = precision;
    const ir::Graph graph = step_of(ir::models::build(with_adapters("gpt"), 2), options);
    int trained = 0, frozen = 0;
    for (const ir::Op& op : graph.ops) {
      if (!op.is(ir::OpKind::parameter)) continue;
      const ir::Tensor& tensor = graph.tensor(op.outputs[0]);
      const bool adapter = tensor.name.find(".lora_") != std::string::npos;
      const bool updated = std::ranges::any_of(
          graph.updates, [&](const ir::Update& update) { return update.state == op.outputs[0]; });
      EXPECT_EQ(updated, adapter) << tensor.name;
      if (!adapter) {
        EXPECT_EQ(tensor.type.dtype,
                  precision == ir::Precision::fp32 ? ir::DType::float32 : ir::DType::bfloat16)
            << tensor.name;
      }
      (adapter ? trained : frozen) += 1;
    }
    EXPECT_EQ(trained, 2 * 4 * 2 * 3);  // layers, products, A and B, weight and two moments
    EXPECT_GT(frozen, 0);
  }
}

TEST(Lora, RefusesWhatIsNotBuilt) {
  const auto with = [](auto change) {
    Transformer config = with_adapters("gpt");
    change(config);
    return support::error_of([&] { ir::models::build(config, 2); });
  };
  EXPECT_EQ(with([](auto& c) { c.lora_rank = -1; }), "lora_rank: is -1, expected 0 (none) or more");
  EXPECT_EQ(with([](auto& c) { c.lora_rank = 0; }), "lora_mlp: needs lora_rank");
  EXPECT_EQ(with([](auto& c) { c.lora_rank = 0, c.lora_alpha = 2; }), "lora_alpha: needs lora_rank");
  EXPECT_EQ(with([](auto& c) { c.lora_rank = 0, c.lora_dropout = 0.5; }), "lora_dropout: needs lora_rank");
  EXPECT_EQ(with([](auto& c) { c.lora_alpha = -1; }),
            "lora_alpha: is -1, expected 0 (2 x lora_rank) or more");
  EXPECT_EQ(with([](auto& c) { c.lora_dropout = 1; }), "lora_dropout: is 1, expected at least 0 and below 1");
  EXPECT_EQ(with([](auto& c) { c.family = "t5", c.layers = 4; }), "lora_rank: is of family gpt or llama");
  EXPECT_EQ(with([](auto& c) { c.experts = 2; }), "lora_rank: is not built with experts");
}

}  // namespace
}  // namespace boxcar::tests
