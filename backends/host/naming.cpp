// Our parameters as Hugging Face's: one row per tensor of theirs, with the elements of ours that it has.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <utility>

#include "backends/host/checkpoint.h"
#include "backends/host/vocabulary.h"
#include "ir/ops/batch_statistics.h"
#include "sbp/error.h"

namespace boxcar::backends::host {
namespace {

using ir::Shape;
using ir::models::Transformer;

// Element (i, j) of their tensor is ours at (i, columns[j]), or at (j, columns[i]) if theirs is transposed;
// one dimension counts as one row. Rows of ours beyond theirs are padding.
struct NamedTensor {
  std::string theirs;
  Shape shape;  // theirs
  std::string ours;
  std::vector<int64_t> columns;
  bool transposed = false;
};

std::vector<int64_t> first(int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

enum class Head : uint8_t { query, key, value };

// The columns of the packed qkv that are queries, keys or values, head by head.
std::vector<int64_t> head_columns(const Transformer& c, Head which) {
  const int64_t d = c.head_dim, group = c.heads / c.kv_heads;
  const int64_t begin = which == Head::query ? 0 : which == Head::key ? group : group + 1;
  std::vector<int64_t> columns;
  for (int64_t kv = 0; kv < c.kv_heads; ++kv)
    for (int64_t j = 0; j < (which == Head::query ? group : 1) * d; ++j)
      columns.push_back((kv * (group + 2) + begin) * d + j);
  return columns;
}

// Gates are the even columns of fc1, ups the odd ones.
std::vector<int64_t> pair_columns(const Transformer& c, int64_t which) {
  std::vector<int64_t> columns;
  for (int64_t i = 0; i < c.ffn; ++i) columns.push_back(2 * i + which);
  return columns;
}

class Table {
 public:
  explicit Table(const Transformer& config) : c_(config) {}

  std::vector<NamedTensor> gpt2() {
    plain("transformer.wte.weight", {c_.vocab, c_.hidden}, "embedding.word");
    plain("transformer.wpe.weight", {c_.seq, c_.hidden}, "embedding.position");
    std::vector<int64_t> qkv;
    for (Head which : {Head::query, Head::key, Head::value})
      for (int64_t column : head_columns(c_, which)) qkv.push_back(column);
    for (int64_t layer = 0; layer < c_.layers; ++layer) {
      const std::string theirs = fmt::format("transformer.h.{}.", layer), ours = fmt::format("h{}.", layer);
      norm(theirs + "ln_1", ours + "ln1");
      conv1d(theirs + "attn.c_attn", ours + "attn.qkv", c_.hidden, qkv);
      conv1d(theirs + "attn.c_proj", ours + "attn.proj", c_.hidden, first(c_.hidden));
      norm(theirs + "ln_2", ours + "ln2");
      conv1d(theirs + "mlp.c_fc", ours + "mlp.fc1", c_.hidden, first(c_.ffn));
      conv1d(theirs + "mlp.c_proj", ours + "mlp.fc2", c_.ffn, first(c_.hidden));
    }
    norm("transformer.ln_f", "ln_f");
    head();
    return std::move(rows_);
  }

  std::vector<NamedTensor> llama() {
    plain("model.embed_tokens.weight", {c_.vocab, c_.hidden}, "embedding.word");
    for (int64_t layer = 0; layer < c_.layers; ++layer) {
      const std::string theirs = fmt::format("model.layers.{}.", layer), ours = fmt::format("h{}.", layer);
      plain(theirs + "input_layernorm.weight", {c_.hidden}, ours + "ln1.weight");
      linear(theirs + "self_attn.q_proj", ours + "attn.qkv", c_.hidden, head_columns(c_, Head::query));
      linear(theirs + "self_attn.k_proj", ours + "attn.qkv", c_.hidden, head_columns(c_, Head::key));
      linear(theirs + "self_attn.v_proj", ours + "attn.qkv", c_.hidden, head_columns(c_, Head::value));
      if (c_.qk_norm) {
        plain(theirs + "self_attn.q_norm.weight", {c_.head_dim}, ours + "attn.ln_q.weight");
        plain(theirs + "self_attn.k_norm.weight", {c_.head_dim}, ours + "attn.ln_k.weight");
      }
      linear(theirs + "self_attn.o_proj", ours + "attn.proj", c_.heads * c_.head_dim, first(c_.hidden));
      plain(theirs + "post_attention_layernorm.weight", {c_.hidden}, ours + "ln2.weight");
      linear(theirs + "mlp.gate_proj", ours + "mlp.fc1", c_.hidden, pair_columns(c_, 0));
      linear(theirs + "mlp.up_proj", ours + "mlp.fc1", c_.hidden, pair_columns(c_, 1));
      linear(theirs + "mlp.down_proj", ours + "mlp.fc2", c_.ffn, first(c_.hidden));
    }
    plain("model.norm.weight", {c_.hidden}, "ln_f.weight");
    head();
    return std::move(rows_);
  }

  std::vector<NamedTensor> own() {
    for (const auto& [name, type] : parameter_types(c_))
      plain(name, without_padding(name, type.shape, c_), name);
    return std::move(rows_);
  }

 private:
  void plain(const std::string& theirs, const Shape& shape, const std::string& ours) {
    rows_.push_back({theirs, shape, ours, first(shape.back())});
  }
  void norm(const std::string& theirs, const std::string& ours) {
    for (const char* part : {".weight", ".bias"}) plain(theirs + part, {c_.hidden}, ours + part);
  }
  void bias(const std::string& theirs, const std::string& ours, const std::vector<int64_t>& columns) {
    if (c_.bias)
      rows_.push_back({theirs + ".bias", {static_cast<int64_t>(columns.size())}, ours + ".bias", columns});
  }
  void conv1d(const std::string& theirs, const std::string& ours, int64_t in,
              const std::vector<int64_t>& columns) {
    const Shape shape{in, static_cast<int64_t>(columns.size())};
    rows_.push_back({theirs + ".weight", shape, ours + ".weight", columns});
    bias(theirs, ours, columns);
  }
  void linear(const std::string& theirs, const std::string& ours, int64_t in,
              const std::vector<int64_t>& columns) {
    const Shape shape{static_cast<int64_t>(columns.size()), in};
    rows_.push_back({theirs + ".weight", shape, ours + ".weight", columns, true});
    bias(theirs, ours, columns);
  }
  void head() {
    if (!c_.tied)
      rows_.push_back({"lm_head.weight", {c_.vocab, c_.hidden}, "head.weight", first(c_.vocab), true});
  }

  Transformer c_;
  std::vector<NamedTensor> rows_;
};

std::vector<NamedTensor> table(const Transformer& config) {
  switch (architecture_of(config)) {
    case Architecture::gpt2:
      return Table(config).gpt2();
    case Architecture::llama:
    case Architecture::mistral:
    case Architecture::qwen3:
      return Table(config).llama();
    case Architecture::own:
      break;
  }
  return Table(config).own();
}

// Calls move(byte of theirs, byte of ours, bytes) for every element of a row.
template <class Move>
void each_element(const NamedTensor& row, const Shape& ours, size_t width, Move move) {
  const auto their_columns = static_cast<size_t>(row.shape.back());
  const size_t our_columns = static_cast<size_t>(ours.back());
  size_t elements = 1;
  for (int64_t extent : row.shape) elements *= static_cast<size_t>(extent);
  for (size_t at = 0; at < elements; ++at) {
    const size_t i = at / their_columns, j = at % their_columns;
    const size_t from = row.transposed ? j * our_columns + static_cast<size_t>(row.columns[i])
                                       : i * our_columns + static_cast<size_t>(row.columns[j]);
    move(at * width, from * width, width);
  }
}

const StoredTensor& find(const GlobalTensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw Error::input("weights", fmt::format("have no '{}'", name));
  return found->second;
}

void need_shape(const std::string& name, const StoredTensor& tensor, const Shape& expected) {
  if (tensor.type.shape == expected) return;
  throw Error::input("weights", fmt::format("'{}' is {}, expected {}", name, ir::to_text(tensor.type),
                                            ir::to_text(ir::TensorType{expected, tensor.type.dtype})));
}

// "wte.weight" as "transformer.wte.weight"
std::string with_prefix(const std::string& name, Architecture architecture) {
  if (architecture == Architecture::own || name == "lm_head.weight") return name;
  const std::string prefix = architecture == Architecture::gpt2 ? "transformer." : "model.";
  return name.starts_with(prefix) ? name : prefix + name;
}

bool is_buffer(const std::string& name) {
  const char* const buffers[] = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};
  return std::any_of(std::begin(buffers), std::end(buffers),
                     [&](const char* end) { return name.ends_with(end); });
}

// The file's tensors by the names of the table, without tensors that are no weights.
std::map<std::string, const StoredTensor*> by_full_name(const Transformer& config, const StoredFile& file) {
  const Architecture architecture = architecture_of(config);
  std::map<std::string, const StoredTensor*> result;
  for (const auto& [name, tensor] : file.tensors)
    if (architecture == Architecture::own || !is_buffer(name))
      result.emplace(with_prefix(name, architecture), &tensor);
  const auto head = result.find("lm_head.weight");
  if (config.tied && head != result.end()) {
    const auto word = result.find(architecture == Architecture::gpt2 ? "transformer.wte.weight"
                                                                     : "model.embed_tokens.weight");
    if (word != result.end() && *head->second == *word->second) result.erase(head);
  }
  return result;
}

void take(const NamedTensor& row, const StoredTensor& theirs, const ir::TensorType& type,
          StoredTensor& ours) {
  if (ours.bytes.empty()) {
    ours.type = {type.shape, theirs.type.dtype};
    ours.bytes.resize(static_cast<size_t>(ours.type.bytes()));
  }
  if (ours.type.dtype != theirs.type.dtype)
    throw Error::input("weights",
                       fmt::format("'{}' is {}, expected {} as the others in '{}'", row.theirs,
                                   ir::to_text(theirs.type), ir::to_text(ours.type.dtype), row.ours));
  each_element(row, type.shape, static_cast<size_t>(ir::size_of(ours.type.dtype)),
               [&](size_t to, size_t from, size_t width) {
                 std::memcpy(ours.bytes.data() + from, theirs.bytes.data() + to, width);
               });
}

}  // namespace

Architecture architecture_of(const Transformer& model) {
  const Transformer c = ir::models::complete(model);
  if (c.family == "bert" || c.decoder_layers > 0 || c.experts > 0 || c.lora_rank > 0 ||
      ir::models::is_latent(c))
    return Architecture::own;
  const bool key_head_per_head = c.kv_heads == c.heads && c.head_dim * c.heads == c.hidden;
  if (c.norm == "layer" && !c.qk_norm && c.attention_window == 0 && c.position == "learned" &&
      c.mlp == "gelu" && c.bias && key_head_per_head)
    return Architecture::gpt2;
  const bool windows = c.attention_window > 0;
  if (c.norm == "rms" && c.position == "rotary" && c.mlp == "swiglu") {
    if (!windows && !c.qk_norm) return Architecture::llama;
    if (windows && !c.qk_norm && !c.bias && c.full_attention_every == 0) return Architecture::mistral;
    if (!windows && !c.bias) return Architecture::qwen3;
  }
  return Architecture::own;
}

std::map<std::string, ir::TensorType> parameter_types(const ir::models::Model& model) {
  const ir::Graph graph = ir::models::build(model, 1);
  std::map<std::string, ir::TensorType> types;
  for (const ir::Op& op : graph.ops)
    if (op.type == "parameter") types[graph.tensor(op.outputs[0]).name] = graph.tensor(op.outputs[0]).type;
  return types;
}

std::map<std::string, ir::TensorType> running_average_types(const ir::models::Model& model) {
  const ir::Graph graph = ir::models::build(model, 1);
  std::map<std::string, ir::TensorType> types;
  for (const ir::Op& op : graph.ops)
    if (op.type == "batch_norm")
      for (const std::string_view ending : {ir::running_mean, ir::running_variance})
        types[op.name + std::string(ending)] = graph.tensor(op.outputs[1]).type;
  return types;
}

StoredFile to_hugging_face(const Transformer& model, const GlobalTensors& weights) {
  const Transformer config = ir::models::complete(model);
  const std::map<std::string, ir::TensorType> types = parameter_types(config);
  for (const auto& [name, tensor] : weights) {
    const auto type = types.find(name);
    if (type == types.end())
      throw Error::input("weights", fmt::format("'{}' is no parameter of the model", name));
    need_shape(name, tensor, type->second.shape);
  }
  StoredFile file{{}, {{"format", "pt"}}};
  for (const NamedTensor& row : table(config)) {
    const StoredTensor& ours = find(weights, row.ours);
    StoredTensor& theirs = file.tensors[row.theirs];
    theirs.type = {row.shape, ours.type.dtype};
    theirs.bytes.resize(static_cast<size_t>(theirs.type.bytes()));
    each_element(row, ours.type.shape, static_cast<size_t>(ir::size_of(ours.type.dtype)),
                 [&](size_t to, size_t from, size_t width) {
                   std::memcpy(theirs.bytes.data() + to, ours.bytes.data() + from, width);
                 });
  }
  return file;
}

GlobalTensors from_hugging_face(const Transformer& model, const StoredFile& file) {
  const Transformer config = ir::models::complete(model);
  const std::map<std::string, ir::TensorType> types = parameter_types(config);
  std::map<std::string, const StoredTensor*> given = by_full_name(config, file);
  GlobalTensors weights;
  for (const NamedTensor& row : table(config)) {
    const auto found = given.find(row.theirs);
    if (found == given.end()) throw Error::input("weights", fmt::format("have no '{}'", row.theirs));
    const StoredTensor& theirs = *found->second;
    const Shape& got = theirs.type.shape;
    const bool more_positions = row.ours == "embedding.position" && got.size() == 2 &&
                                got[0] > row.shape[0] && got[1] == row.shape[1];
    const bool is_padded = row.theirs == row.ours && is_vocabulary(row.ours) &&
                           got.size() == row.shape.size() && got >= row.shape &&
                           without_padding(row.ours, got, config) == row.shape;
    if (is_padded) {  // as older files are
      take(row, fitted(theirs, row.shape), types.at(row.ours), weights[row.ours]);
    } else {
      if (!more_positions) need_shape(row.theirs, theirs, row.shape);
      take(row, theirs, types.at(row.ours), weights[row.ours]);
    }
    given.erase(found);
  }
  if (!given.empty())
    throw Error::input("weights", fmt::format("'{}' is no parameter of the model", given.begin()->first));
  return weights;
}

}  // namespace boxcar::backends::host
