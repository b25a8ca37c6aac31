// Tokens of SentencePiece's models (Kudo and Richardson 2018, arXiv:1808.06226): byte pairs by score, or the
// most likely pieces of a unigram language model (Kudo 2018, arXiv:1804.10959).
#pragma once

#include <memory>
#include <string>

#include "backends/tokens/tokenizer.h"

namespace boxcar::backends::tokens {

// Throws as read_tokenizer() does.
std::unique_ptr<Tokenizer> read_sentence_piece(const std::string& path);

}  // namespace boxcar::backends::tokens
