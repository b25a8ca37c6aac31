// A resolved job as the launch arguments or the configuration that run it in another training framework.
//
//   const Exported e = write(*find_framework("megatron"), source);
//   e.text    "torchrun --nproc-per-node 8 --nnodes 128 pretrain_gpt.py \\\n    --num-layers 96 \\\n ..."
//   e.notes   {{"parallel.schedule", "zb-h1", "pipelines run 1F1B there, which is written"}}
//
// A framework is one file of this folder: a table of rows. A row has keys of ours, the framework's names that
// it may write, what cannot be expressed, and the function that writes:
//
//   {{"parallel.schedule"}, {}, "schedules other than 1f1b", [](Writer& w) {
//      if (w.from.pipelined() && w.from.parallel().schedule != planner::Schedule::one_f_one_b)
//        w.cannot("pipelines run 1F1B there, which is written");
//    }},
//
// A new framework is a file, whose functions are in a namespace of their own, and a line of frameworks.cpp.
// Tests compare every table with the keys of cli/keys.h, so that none is forgotten, and every name with
// cli/export/names.yaml, which says where each was read.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/job.h"

namespace boxcar::cli::exports {

using Json = nlohmann::ordered_json;

// The exported job, with what rows ask about it.
struct Source {
  Request request;                            // its job is resolved
  std::map<std::string, std::string> labels;  // by key path, as in plans
  bool found_layouts = false;                 // the search chose layouts op by op
  int other_slots = 0;                        // registers with other numbers of slots than the schedule's

  const planner::Job& job() const { return request.job; }
  const planner::Hints& parallel() const { return request.job.parallel; }
  const ir::TrainOptions& train() const { return request.job.train; }
  // REQUIRES that the model is a transformer.
  const ir::models::Transformer& model() const { return *request.job.model.transformer(); }

  // The value of a key as in a job file; its default if labels omit it.
  std::string label(const std::string& path) const;
  int gpus_per_node() const;  // of the launch: they divide the job's GPUs
  int nodes() const;
  int64_t micro_batches() const;  // of a replica in a step
  int64_t padded_vocab() const;   // rows of the embedding
  bool divides_hidden() const;    // heads share `hidden`, as if head_dim is not given
  bool pipelined() const { return parallel().pp > 1; }
  // Over ranks with the same parameters: replicas, and those that share a sequence.
  bool replicated() const { return parallel().dp * parallel().cp > 1; }
  bool sharded() const { return replicated() && parallel().zero > 0; }
  bool mixed() const { return ir::is_mixed(train().precision); }
  bool half_moments() const { return train().moments == ir::Moments::bf16 && ir::chooses_moments(train()); }
  bool recomputes() const;   // anything (recomputes_anything of cli/effects.h)
  bool even_stages() const;  // all (virtual) stages have as many layers
  // Virtual stages run groups of other numbers of micro-batches than pp (planner::Groups).
  bool other_groups() const;
  bool rings() const;                        // the simulated framework sends keys and values in a ring
  bool can_exchange_heads() const;           // over context parallelism: it divides the heads of a rank of tp
  bool reduces_half() const;                 // gradients, in 16 bits, if products have them
  int64_t bucket_elements(bool half) const;  // of grad_bucket_mb
  // Whether ranks are in this order, "pp,dp,cp,tp": dimensions of degree 1 do not matter.
  bool stands_as(const std::string& mesh_order) const;
};

// A `value` of `key` (a job's key, or a word such as "layouts") that cannot be expressed, and why; or,
// `left`, a choice that the framework leaves to its user: the user's own program, the tokenizer.
struct Note {
  std::string key, value, why;
  bool left = false;
  friend bool operator==(const Note&, const Note&) = default;
};
std::string to_text(const Note& note);  // "parallel.schedule zb-h1: pipelines run ..."
// Before that text: "cannot be said in megatron", "left to you".
std::string begin_of(const Note& note, const std::string& format);

// One name of the framework's with its value. A Python expression is {"python": "torch.float16"}.
struct Setting {
  std::string name;
  Json value;
};
Json python(const std::string& expression);
Json number(double value);  // 500000 rather than 500000.0

struct Row;

class Writer {
 public:
  Writer(const Source& source, const Row& row, std::vector<Setting>& settings, std::vector<Note>& notes)
      : from(source), row_(row), settings_(settings), notes_(notes) {}

  const Source& from;

  // Throws Error (fault) if the row does not list the name, or the name is already set.
  void set(const std::string& name, Json value);
  // Notes the row's first key, or `key`, with its value.
  void cannot(const std::string& why);
  void cannot(const std::string& key, const std::string& why);
  // The same if the user decides and can do what the job says.
  void leave(const std::string& why);
  void leave(const std::string& key, const std::string& why);

 private:
  const Row& row_;
  std::vector<Setting>& settings_;
  std::vector<Note>& notes_;
};

struct Row {
  std::vector<std::string> keys;     // "parallel.tp"
  std::vector<std::string> names;    // names that it may write; empty: the framework has none
  std::string limits;                // in words, for the documentation; empty: all can be said
  void (*write)(Writer&) = nullptr;  // null: nothing is ever written or missing
};

// A file that names were read from, as names.yaml has it too.
struct NameSource {
  std::string where, commit;  // "github.com/NVIDIA/Megatron-LM megatron/training/arguments.py"
};

struct Framework {
  std::string name;                   // "megatron"
  std::string title;                  // "Megatron-LM", with the version
  std::string comment;                // begins a line that is no setting
  std::vector<std::string> families;  // families of models that it trains; empty: any
  std::vector<NameSource> sources;
  std::vector<Row> rows;
  // The file without its comments. `settings` are in the rows' order.
  std::string (*render)(const Source& source, const std::vector<Setting>& settings) = nullptr;
  // Lines of comment before it.
  std::vector<std::string> (*preface)(const Source& source) = nullptr;
};

// Stochastic gradient descent, with momentum or without.
inline bool is_sgd(ir::Optimizer optimizer) {
  return optimizer == ir::Optimizer::sgd || optimizer == ir::Optimizer::momentum;
}

// Each in a file of its name; frameworks.cpp lists them.
Framework megatron();
Framework nemo();
Framework torchtitan();
Framework deepspeed();

const std::vector<Framework>& frameworks();
// nullptr if there is none.
const Framework* find_framework(std::string_view name);
// Sets Megatron Core's width of a head, `name`, if it is not hidden / heads; latent attention has others.
void write_head_dim(Writer& w, const std::string& name);
// Megatron Core's norms of queries and keys, or of the latents that they are made from.
inline constexpr const char* qk_norm_limits = "with norm layer";
void write_qk_norm(Writer& w, const std::string& name);
// Megatron Core's sizes of experts and the treatment of their tokens; `name` makes the setting's name of a
// field of TransformerConfig, "moe_router_topk". REQUIRES that the model has experts.
void write_expert_tokens(Writer& w, std::string (*name)(const std::string& field));
// What Megatron-core does not offload activations with.
void tell_limits_of_offload(Writer& w);
// Moments in 16 bits, and the optimizer on the host; `name` makes the setting's name of a field of
// OptimizerConfig, "exp_avg_dtype"; `bf16` is its value.
void write_moments(Writer& w, std::string (*name)(const std::string& field), const Json& bf16);
// How keys and values go over context parallelism.
void write_comm_type(Writer& w, const std::string& name);
// Megatron Core's word for a recipe of 8 bits: Fp8Recipe of megatron/core/enums.py.
std::string recipe_in_megatron(const std::string& recipe);
// The rows of a framework on Megatron Core, with those that all of these share.
std::vector<Row> with_megatron_core(std::vector<Row> rows);
// Rows that are the same in all: the plan's cluster, and settings that are only simulated.
const std::vector<Row>& common_rows();
// Lines of comment on their settings of experts: none if the model has none. `coefficient`: the setting of
// the balancing loss there.
std::vector<std::string> megatron_core_preface(const Source& source, const std::string& coefficient);
// The framework's rows and the common ones.
std::vector<const Row*> rows_of(const Framework& framework);

struct Exported {
  std::string text;
  std::vector<Note> notes;
  std::vector<Setting> settings;  // what the text says
};
// Throws Error (bad input) at --to if the framework does not train models of the job's family.
Exported write(const Framework& framework, const Source& source);

// Settings with a prefix, "parallelism.", without it; for renders that group them.
std::vector<Setting> with_prefix(const std::vector<Setting>& settings, const std::string& prefix);
const Json* find(const std::vector<Setting>& settings, const std::string& name);

}  // namespace boxcar::cli::exports
