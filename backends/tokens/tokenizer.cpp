#include "backends/tokens/tokenizer.h"

#include "backends/tokens/hugging_face.h"
#include "backends/tokens/sentence_piece.h"
#include "sbp/error.h"

namespace boxcar::backends::tokens {

std::unique_ptr<Tokenizer> read_tokenizer(const std::string& path) {
  if (path.ends_with(".json")) return read_byte_pairs(path);
  if (path.ends_with(".model")) return read_sentence_piece(path);
  throw Error::input(
      path,
      "is no tokenizer that is known by its name, tokenizer.json, vocab.json with merges.txt beside "
      "it, or a .model of SentencePiece");
}

}  // namespace boxcar::backends::tokens
