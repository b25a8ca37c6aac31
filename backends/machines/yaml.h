// A YAML text as one document, for all that read YAML.
//
//   load_yaml("a: [1, 2]", "c.yaml")["a"][1]   // 2
//   load_yaml("a: *b", "c.yaml")               // throws "c.yaml:1:4: the referenced anchor is not defined"
//
// Aliases (*name) are refused: a list of aliases of lists holds far more values than the text has characters.
#pragma once

#include <string>

namespace YAML {
class Node;
struct Mark;
}  // namespace YAML

namespace boxcar::backends {

// "c.yaml:3:9"; the file alone if the mark has no place.
std::string place(const std::string& file, const YAML::Mark& mark);
// The document, or nothing (YAML::NodeType::Null) if the text has none. Throws Error (bad input) with file,
// line and column if it is not YAML, is nested too deep, or has aliases or a second document.
YAML::Node load_yaml(const std::string& text, const std::string& file);

}  // namespace boxcar::backends
