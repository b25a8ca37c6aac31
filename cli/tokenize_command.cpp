#include "cli/tokenize_command.h"

#include <fmt/format.h>

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "backends/host/files.h"
#include "backends/tokens/tokenizer.h"
#include "cli/output.h"
#include "sbp/error.h"

namespace boxcar::cli {
namespace {

constexpr int64_t most_vocab = 65536;  // .bin files keep a token in 16 bits

struct TokenizeArguments {
  std::vector<std::string> texts;
  std::string tokenizer, output, end;
};

int32_t end_token(const backends::tokens::Tokenizer& tokenizer, const TokenizeArguments& arguments) {
  if (arguments.end.empty()) return -1;
  const auto token = tokenizer.find(arguments.end);
  if (!token)
    throw Error::input("--end", fmt::format("\"{}\" is no token of {}", arguments.end, arguments.tokenizer));
  return *token;
}

// Little-endian.
std::string bytes_of(const std::vector<int32_t>& tokens) {
  std::string bytes;
  bytes.reserve(2 * tokens.size());
  for (const int32_t token : tokens) {
    bytes += static_cast<char>(token & 0xff);
    bytes += static_cast<char>(token >> 8);
  }
  return bytes;
}

void tokenize(const TokenizeArguments& arguments, Extent extent) {
  if (!arguments.output.ends_with(".bin"))
    throw Error::input("--output", fmt::format("\"{}\" does not end with .bin, by which train knows tokens",
                                               arguments.output));
  check_apart({{"--tokenizer", arguments.tokenizer}, {"--output", arguments.output}});
  for (const std::string& text : arguments.texts)
    check_apart({{"TEXT", text}, {"--output", arguments.output}});
  check_writable(arguments.output);
  const auto tokenizer = backends::tokens::read_tokenizer(arguments.tokenizer);
  if (tokenizer->vocab() > most_vocab)
    throw Error::input(arguments.tokenizer,
                       fmt::format("has {} tokens, expected at most {}: .bin files keep a token in "
                                   "16 bits",
                                   tokenizer->vocab(), most_vocab));
  const int32_t end = end_token(*tokenizer, arguments);
  if (extent == Extent::reading) return;
  std::vector<int32_t> tokens;
  size_t size = 0;
  for (const std::string& path : arguments.texts) {
    const std::string text = backends::host::read_text(path);
    size += text.size();
    try {
      tokenizer->encode(text, tokens);
    } catch (const Error& error) {
      throw Error(error.code(), path, error.what());
    }
    if (end >= 0) tokens.push_back(end);
  }
  if (tokens.empty()) throw Error::input(arguments.texts.front(), "is empty, expected text");
  const std::string bytes = bytes_of(tokens);
  write_file(arguments.output, [&](std::ostream& out) { out << bytes; });
  print(fmt::format("{}: {} tokens, {:.2f} bytes of text each\n", arguments.output, tokens.size(),
                    static_cast<double>(size) / static_cast<double>(tokens.size())));
  print(fmt::format("train on them with --data {} --vocab {}\n", arguments.output, tokenizer->vocab()));
}

}  // namespace

void add_tokenize_command(CLI::App& app, Extent extent) {
  auto arguments = std::make_shared<TokenizeArguments>();
  CLI::App* command = app.add_subcommand("tokenize", "text as tokens of a trained vocabulary, for train");
  command->add_option("texts", arguments->texts, "files of UTF-8 text, one after the other")
      ->required()
      ->type_name("TEXT");
  command
      ->add_option("--tokenizer", arguments->tokenizer,
                   "tokenizer.json of Hugging Face (GPT-2); vocab.json or encoder.json with its merges "
                   "beside it; a .model of SentencePiece (Llama 2, T5)")
      ->required()
      ->type_name("FILE");
  command->add_option("-o,--output", arguments->output, "the file of tokens, 16 bits each")
      ->required()
      ->type_name("FILE.bin");
  command
      ->add_option("--end", arguments->end, "a token to put behind each file, by its name: \"<|endoftext|>\"")
      ->type_name("TOKEN");
  command->callback([arguments, extent] { tokenize(*arguments, extent); });
}

}  // namespace boxcar::cli
