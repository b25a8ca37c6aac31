// YAML read strictly: every key must be known, every number within bounds, and every complaint names file,
// line and column. The reader remembers the keys it was asked for; all others are unknown.
//
//   Fields node(root, "c.yaml", "node");
//   node.number("link_bandwidth", 1e6, 1e14, &bandwidth);   // leaves the value alone if the key is absent
//   node.done();   // c.yaml:3:9: node: unknown key nic_bandwith (did you mean nic_bandwidth?)
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace YAML {
class Node;
}

namespace boxcar::backends {

class Fields {
 public:
  // Throws Error (bad input) unless `node` is a mapping without repeated keys.
  Fields(const YAML::Node& node, std::string file, std::string path);
  ~Fields();
  Fields(const Fields&) = delete;
  Fields& operator=(const Fields&) = delete;

  bool has(const char* key);
  std::vector<std::string> names() const;  // of all keys, in the order of the file
  // Each reads `key` into `*to` if present and returns whether it is; throws if it is of another kind or
  // outside [low, high].
  bool number(const char* key, double low, double high, double* to);
  bool integer(const char* key, int64_t low, int64_t high, int64_t* to);
  bool integer(const char* key, int low, int high, int* to);
  bool text(const char* key, std::string* to);
  bool integers(const char* key, int low, int high, std::vector<int>* to);
  bool matrix(const char* key, int low, int high, std::vector<std::vector<int>>* to);
  // Rows of `columns` numbers.
  bool rows(const char* key, size_t columns, double low, double high, std::vector<std::vector<double>>* to);
  // [[x, y], ...] with x ascending.
  bool points(const char* key, double low, double high, std::vector<double>* x, std::vector<double>* y);
  // A mapping from whole numbers, or names, to numbers.
  bool numbers(const char* key, double low, double high, std::vector<std::pair<std::string, double>>* to);
  bool flag(const char* key, bool* to);  // true or false
  // A mapping from names to plain values.
  bool texts(const char* key, std::map<std::string, std::string>* to);
  // The preset that this description is based on, by key `like`: one of boxcar's own, so that none is based
  // on itself. Nothing if the key is absent.
  std::optional<std::string> like(const char* what, const std::vector<std::string>& known);
  std::unique_ptr<Fields> map(const char* key);  // null if absent

  void require(const char* key);  // throws if it is absent
  void done() const;              // throws on a key that was never asked for
  [[noreturn]] void fail(const char* key,
                         const std::string& message) const;  // at the key's place, or the mapping's
  std::string where(const char* key) const;                  // "c.yaml:3:9: node.nics"

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The root of a document. Throws Error (bad input) with file, line and column if it is not YAML.
std::unique_ptr<Fields> parse_fields(const std::string& text, const std::string& file,
                                     const std::string& path);

}  // namespace boxcar::backends
