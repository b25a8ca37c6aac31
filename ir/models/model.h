// A model's configuration: of a transformer, of a convolutional network, or a graph of the user's own.
//
//   Model model = default_model("llama");
//   model->layers = 32, model->hidden = 4096, model->heads = 32, model->seq = 4096, model->vocab = 32000;
//   parameters(model)                              6,738,415,616
//
//   Model images = ConvNet{"resnet", 16, 64, 1, 224, 1000};
//   images.transformer()                           null
//   images.conv_net()->channels                    64
#pragma once

#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/models/conv_net.h"
#include "ir/models/graph_model.h"
#include "ir/models/transformer.h"

namespace boxcar::ir::models {

class Model {
 public:
  Model() = default;  // a gpt
  Model(Transformer transformer) : kind_(std::move(transformer)) {}
  Model(ConvNet net) : kind_(std::move(net)) {}
  Model(GraphModel graph) : kind_(std::move(graph)) {}

  // Null if the model is of another kind.
  const Transformer* transformer() const { return std::get_if<Transformer>(&kind_); }
  const ConvNet* conv_net() const { return std::get_if<ConvNet>(&kind_); }
  ConvNet* conv_net() { return std::get_if<ConvNet>(&kind_); }
  const GraphModel* graph() const { return std::get_if<GraphModel>(&kind_); }

  // The transformer. Throws Error (fault) for another kind.
  const Transformer* operator->() const;
  Transformer* operator->();

  // All kinds have these.
  const std::string& family() const;
  std::string& family();
  int64_t layers() const;
  int64_t& layers();

  template <typename Visitor>
  auto visit(const Visitor& visitor) const {
    return std::visit(visitor, kind_);
  }

  friend bool operator==(const Model&, const Model&) = default;

 private:
  std::variant<Transformer, ConvNet, GraphModel> kind_;
};

// REQUIRES: the model is a transformer.
inline const Transformer& transformer_of(const Model& model) { return *model.operator->(); }

// The family's default values; sizes are not set. Throws Error naming the key for an unknown family.
Model default_model(const std::string& family);
// Fills in values that the family leaves open. Throws Error naming the key for impossible sizes.
Model complete(Model model);

// The forward pass of one micro-batch, as transformer.h, conv_net.h and graph_model.h describe it.
Graph build(const Model& model, int64_t batch);
int64_t parameters(const Model& model);
int64_t trained_parameters(const Model& model);  // with adapters, only theirs

// Whether layers differ in cost: in all models except transformers.
bool layers_differ(const Model& model);
// A word for data without a sequence to split: "images", "inputs of a graph". Empty for a transformer.
const char* unsplit_data(const Model& model);

// Whether the model has ops of these modules that selective recomputation runs again. Attention as one kernel
// keeps nothing large and does not count.
bool has_any(const Model& model, const std::set<Module>& modules);
// Sizes that the degree of tensor parallelism has to divide, by their keys: those of heads, kv_heads, ffn and
// expert_ffn that the model has, or channels.
std::vector<std::pair<const char*, int64_t>> tensor_parallel_extents(const Model& model);
// Tokens of a sample that the model reads; 0 if samples are not sequences.
int64_t tokens(const Model& model);
int64_t experts(const Model& model);       // of a layer that has them; 0: dense
int64_t expert_every(const Model& model);  // layers from one with experts to the next; 1 if none has them
// Number of layers after which the kinds of layers (with experts, with a window) repeat.
int64_t layer_period(const Model& model);
// Number of first layers of a different kind: the encoder's, or those without experts. 0 if all layers are of
// one kind.
int64_t first_layers(const Model& model);
int64_t decoder_layers(const Model& model);  // number of last layers; 0 without a decoder
bool is_fused(const Model& model);           // attention as one op
bool has_tied_head(const Model& model);      // the head shares the embedding's words

}  // namespace boxcar::ir::models
