#include "cli/import_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <ostream>
#include <vector>

#include "backends/onnx/import.h"
#include "cli/output.h"
#include "ir/models/graph_model.h"
#include "ir/read_number.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::cli {
namespace {

namespace onnx = backends::onnx;

struct ImportArguments {
  std::string model, output, weights;
  std::vector<std::string> sizes;
  onnx::ImportOptions options;
};

const std::vector<std::string> losses{"cross_entropy", "mean_squared"};

// "resnet50" of "models/resnet50.onnx".
std::string graph_name(const std::string& path) {
  const std::string name = onnx::as_name(std::filesystem::path(path).stem().string());
  return name.empty() ? "model" : name;
}

onnx::ImportOptions options_of(const ImportArguments& arguments) {
  onnx::ImportOptions options = arguments.options;
  options.name = graph_name(arguments.model);
  if (!options.loss.empty() && std::find(losses.begin(), losses.end(), options.loss) == losses.end())
    throw Error::input("--loss", fmt::format("\"{}\" is unknown{}; known are {}", options.loss,
                                             did_you_mean(options.loss, losses), fmt::join(losses, ", ")));
  for (const std::string& size : arguments.sizes) {
    const size_t equals = size.find('=');
    const auto number =
        equals == std::string::npos ? std::nullopt : ir::read_number<int64_t>(size.substr(equals + 1));
    if (!number || *number < 1 || equals == 0)
      throw Error::input("--size", fmt::format("\"{}\" is no size (as in sequence=128)", size));
    options.sizes[size.substr(0, equals)] = *number;
  }
  return options;
}

std::string summary(const ir::models::GraphModel& model) {
  std::string text = fmt::format("{:.4g} million parameters", static_cast<double>(parameters(model)) / 1e6);
  text += fmt::format(" in {} layer{}; inputs of a sample:", model.layers, model.layers == 1 ? "" : "s");
  for (const ir::models::GraphInput& input : inputs_of(model))
    text += fmt::format(" {} {}", input.name, to_text(input.sample));
  return text;
}

void import_model(const ImportArguments& arguments, Extent extent) {
  const onnx::ImportOptions options = options_of(arguments);
  const std::string weights =
      arguments.weights.empty()
          ? std::filesystem::path(arguments.output).replace_extension("safetensors").string()
          : arguments.weights;
  check_apart({{"MODEL.onnx", arguments.model}, {"--output", arguments.output}, {"--weights", weights}});
  check_writable(arguments.output);
  check_writable(weights);
  onnx::Imported imported;
  try {
    imported = onnx::import_onnx(onnx::read_onnx(arguments.model, read_file), options);
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.code() != Exit::bad_input || text.starts_with(arguments.model) || text.starts_with("--")) throw;
    throw Error::input(arguments.model, text);
  }
  const ir::models::GraphModel model = ir::models::read_graph_model(imported.text);
  if (imported.fixed_batch > 0)
    tell(
        fmt::format("the file has a fixed batch of {}: numbers that the model computes from it, as a "
                    "division by it, stay "
                    "(export it with an open batch, docs/import.md)",
                    imported.fixed_batch));
  if (extent == Extent::reading) return;
  backends::host::write_safetensors(weights, imported.weights);
  write_file(arguments.output, [&](std::ostream& out) { out << imported.text; });
  print(fmt::format("{}: {}\n", options.name, summary(model)));
  print(
      fmt::format("simulate, search and train take it as --graph {}; train starts from its weights with "
                  "--init-from {}\n",
                  arguments.output, weights));
}

}  // namespace

void add_import_command(CLI::App& app, Extent extent) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = app.add_subcommand("import", "a model of ONNX as the text of a graph, and its weights");
  command->add_option("model", arguments->model, "an .onnx file, as torch.onnx.export writes it")
      ->required()
      ->type_name("MODEL.onnx");
  command->add_option("-o,--output", arguments->output, "where the graph's text goes")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--weights", arguments->weights,
                   "where the weights go (by default beside the text, with the ending .safetensors)")
      ->type_name("FILE");
  command
      ->add_option("--loss", arguments->options.loss,
                   "cross_entropy or mean_squared of the output; needed unless the output is a loss")
      ->type_name("NAME");
  command
      ->add_option("--of", arguments->options.output, "the output that counts, where the model has several")
      ->type_name("NAME");
  command
      ->add_option("--size", arguments->sizes, "the size of an axis that the file leaves open: sequence=128")
      ->type_name("NAME=N");
  command->callback([arguments, extent] { import_model(*arguments, extent); });
}

}  // namespace boxcar::cli
