#include "backends/machines/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>
#include <vector>

#include "sbp/error.h"

namespace boxcar::backends {
namespace {

using YAML::Mark;

// Checks a document before its values are made.
class Check : public YAML::EventHandler {
 public:
  explicit Check(const std::string& file) : file_(file) {}

  void OnAlias(const Mark& mark, YAML::anchor_t) override {
    throw Error::input(place(file_, mark), "an alias; write the value itself");
  }
  // In a text such as ",", yaml-cpp consumes nothing and finds documents without end.
  void OnDocumentStart(const Mark& mark) override {
    if (mark.pos == begin_) throw Error::input(place(file_, mark), "no value begins with this");
    begin_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const Mark&, YAML::anchor_t) override {}
  void OnScalar(const Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  const std::string& file_;
  int begin_ = -1;  // of the document before
};

}  // namespace

std::string place(const std::string& file, const Mark& mark) {
  if (mark.is_null()) return file;
  return fmt::format("{}:{}:{}", file, mark.line + 1, mark.column + 1);
}

YAML::Node load_yaml(const std::string& text, const std::string& file) {
  if (text.find('\0') != std::string::npos) throw Error::input(file, "is no text file");
  if (text.starts_with("plan ")) throw Error::input(file, "is a saved plan, not YAML");
  try {
    std::istringstream in(text);
    YAML::Parser parser(in);
    Check check(file);
    while (parser.HandleNextDocument(check)) {
    }
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1)
      throw Error::input(place(file, documents[1].Mark()),
                         "a second document; one is expected (drop the ---)");
    return documents.empty() ? YAML::Node() : documents[0];
  } catch (const YAML::DeepRecursion& error) {
    throw Error::input(place(file, error.mark), "nested too deep");
  } catch (const YAML::Exception& error) {
    throw Error::input(place(file, error.mark), error.msg);
  }
}

}  // namespace boxcar::backends
