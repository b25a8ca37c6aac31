// Published models by name: the sizes that `--model gpt3-175b` stands for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace boxcar::cli {

struct CatalogModel {
  std::string name, family;
  std::map<std::string, std::string> values;  // job keys by path
  std::string source;
  std::vector<std::string> notes = {};  // of a file: settings of it that are not built
};
const std::vector<CatalogModel>& catalog();
// By its name here or, in any case and also of its -Instruct, -chat and -Base versions, by Hugging Face's:
// "meta-llama/Meta-Llama-3-70B". nullptr if there is none.
const CatalogModel* find_model(std::string_view name);
// Names of the catalog that contain all parts of `name` and more, at most three: "llama2-70b" and
// "llama3-70b" for "llama-70b", "llama3-70b" for "Llama_3_70B". Empty if there are none.
std::vector<std::string> models_like(std::string_view name);
std::string family_named(const std::string& name);  // of a model of the catalog; otherwise the name itself

}  // namespace boxcar::cli
