// Byte pairs from files as Hugging Face's tokenizers and OpenAI's GPT-2 write them.
#pragma once

#include <memory>
#include <string>

#include "backends/tokens/tokenizer.h"

namespace boxcar::backends::tokens {

// tokenizer.json, or vocab.json (encoder.json) with its merges beside it. Throws as read_tokenizer() does.
std::unique_ptr<Tokenizer> read_byte_pairs(const std::string& path);

}  // namespace boxcar::backends::tokens
