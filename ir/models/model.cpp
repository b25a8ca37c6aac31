#include "ir/models/model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "sbp/error.h"

namespace boxcar::ir::models {
namespace {

// The transformer; for another kind of model, one without any layers or features.
const Transformer& or_nothing(const Model& model) {
  static const Transformer nothing = [] {
    Transformer none;
    none.tied = false;
    return none;
  }();
  return model.transformer() ? *model.transformer() : nothing;
}

}  // namespace

const Transformer* Model::operator->() const {
  if (const Transformer* found = transformer()) return found;
  throw Error::fault("model", fmt::format("a model of family {} is no transformer", family()));
}

Transformer* Model::operator->() { return const_cast<Transformer*>(std::as_const(*this).operator->()); }

const std::string& Model::family() const {
  return std::visit([](const auto& kind) -> const std::string& { return kind.family; }, kind_);
}

std::string& Model::family() {
  return std::visit([](auto& kind) -> std::string& { return kind.family; }, kind_);
}

int64_t Model::layers() const {
  return std::visit([](const auto& kind) { return kind.layers; }, kind_);
}

int64_t& Model::layers() {
  return std::visit([](auto& kind) -> int64_t& { return kind.layers; }, kind_);
}

Model default_model(const std::string& family) {
  if (is_conv_net(family)) return ConvNet{family};
  if (family == GraphModel().family) return GraphModel();
  for (const std::string& known : transformer_families())
    if (known == family) return defaults(family);
  throw Error::input(
      "family", fmt::format("unknown '{}' (use {} or {})", family, fmt::join(transformer_families(), " or "),
                            fmt::join(conv_net_families(), " or ")));
}

Model complete(Model model) {
  if (const Transformer* transformer = model.transformer()) return complete(*transformer);
  if (const ConvNet* net = model.conv_net()) check_sizes(*net);
  return model;
}

Graph build(const Model& model, int64_t batch) {
  return model.visit([batch](const auto& kind) { return build(kind, batch); });
}

int64_t parameters(const Model& model) {
  return model.visit([](const auto& kind) { return parameters(kind); });
}

int64_t trained_parameters(const Model& model) {
  const int64_t all = parameters(model);
  const Transformer* transformer = model.transformer();
  if (!transformer || transformer->lora_rank == 0) return all;
  return all - parameters(without_adapters(*transformer));
}

bool layers_differ(const Model& model) { return !model.transformer(); }
const char* unsplit_data(const Model& model) {
  return model.transformer() ? "" : model.graph() ? "inputs of a graph" : "images";
}

namespace {

bool has_module(const Model& model, Module module) {
  if (const GraphModel* graph = model.graph()) return graph->modules.contains(module);
  const Transformer* t = model.transformer();
  if (!t) return false;
  switch (module) {
    case Module::core_attn:
      return !t->flash;
    case Module::layernorm:
      return true;
    case Module::mla_up_proj:
      return is_latent(*t);
    case Module::mlp:
      return t->experts == 0 || t->dense_layers > 0 || t->expert_every > 1;
    case Module::moe:
    case Module::moe_act:
      return t->experts > 0;
    case Module::shared_experts:
      return t->shared_experts > 0;
    case Module::none:
      return false;
  }
  return false;
}

}  // namespace

bool has_any(const Model& model, const std::set<Module>& modules) {
  return std::any_of(modules.begin(), modules.end(), [&](Module m) { return has_module(model, m); });
}

std::vector<std::pair<const char*, int64_t>> tensor_parallel_extents(const Model& model) {
  if (const ConvNet* net = model.conv_net()) return {{"channels", net->channels}};
  if (model.graph()) return {};
  std::vector<std::pair<const char*, int64_t>> extents{{"heads", model->heads},
                                                       {"kv_heads", model->kv_heads}};
  const bool all_experts = model->experts > 0 && model->expert_every == 1 && model->dense_layers == 0;
  if (!all_experts || model->expert_ffn == model->ffn) extents.emplace_back("ffn", model->ffn);
  if (model->experts > 0 && model->expert_ffn != model->ffn)
    extents.emplace_back("expert_ffn", model->expert_ffn);
  return extents;
}

int64_t tokens(const Model& model) { return or_nothing(model).seq; }
int64_t experts(const Model& model) { return or_nothing(model).experts; }
int64_t expert_every(const Model& model) { return or_nothing(model).expert_every; }
int64_t layer_period(const Model& model) {
  const Transformer& t = or_nothing(model);
  const bool alternates = t.full_attention_every > 0 && has_window(t, 0);
  return std::lcm(t.expert_every, alternates ? t.full_attention_every : 1);
}
int64_t first_layers(const Model& model) {
  const Transformer& t = or_nothing(model);
  return t.decoder_layers > 0 ? t.layers - t.decoder_layers : t.dense_layers;
}
int64_t decoder_layers(const Model& model) { return or_nothing(model).decoder_layers; }
bool is_fused(const Model& model) { return or_nothing(model).flash; }
bool has_tied_head(const Model& model) { return or_nothing(model).tied; }

}  // namespace boxcar::ir::models
