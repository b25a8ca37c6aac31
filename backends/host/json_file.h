// A JSON file with one object, whose values are asked for by key and type. For this folder's own files:
// includers need nlohmann-json.
//
//   const JsonObject config = JsonObject::read("out/config.json");
//   config.whole("n_layer", 1)            // throws "out/config.json: n_layer is -1, expected a whole number
//                                         // of at least 1"
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace boxcar::backends::host {

// Writing, copying and comparing values recurses into them, so deeper values are refused.
inline constexpr int deepest_json = 64;

class JsonObject {
 public:
  // Throws Error (bad input) naming the file if it cannot be read, is no JSON object, is nested deeper than
  // deepest_json or has a number beyond a double.
  static JsonObject read(const std::string& path);

  const std::string& path() const { return path_; }
  // Whether the key is there with a value other than null.
  bool has(const std::string& key) const;
  // The value of a key, or `absent` if there is none; without `absent`, a missing key is an error.
  int64_t whole(const std::string& key, int64_t least, std::optional<int64_t> absent = {}) const;
  double number(const std::string& key, std::optional<double> absent = {}) const;
  bool flag(const std::string& key, std::optional<bool> absent = {}) const;
  std::string text(const std::string& key, std::optional<std::string> absent = {}) const;
  JsonObject object(const std::string& key) const;
  // The whole numbers of a list; none if the key is missing.
  std::vector<int64_t> wholes(const std::string& key) const;
  // The texts of a list; none if the key is missing.
  std::vector<std::string> texts(const std::string& key) const;
  // The first text of a list, or "".
  std::string first_text(const std::string& key) const;

  [[noreturn]] void refuse(const std::string& message) const;
  // "n_layer is -1, expected <expected>"
  [[noreturn]] void refuse(const std::string& key, const std::string& expected) const;

 private:
  JsonObject(std::string path, nlohmann::ordered_json json);
  const nlohmann::ordered_json& at(const std::string& key) const;

  std::string path_;
  nlohmann::ordered_json json_;
};

}  // namespace boxcar::backends::host
