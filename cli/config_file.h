// The sizes of a model from a config.json as Hugging Face's transformers writes it: what planning needs. What
// changes numbers but not shapes (epsilons, rotary bases, sliding windows) is not read.
//
//   boxcar simulate --model Llama-3.1-8B/config.json --seq 8192 ...     keys that are given win
#pragma once

#include <string>

#include "cli/catalog.h"

namespace boxcar::cli {

// GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, MixtralForCausalLM,
// BertForMaskedLM and BertForPreTraining. Throws Error (bad input) naming the file and what is wrong in it;
// for an architecture that is not known, those that are.
CatalogModel read_model_config(const std::string& path);

}  // namespace boxcar::cli
