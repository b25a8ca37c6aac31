// Keys for the inputs of a decision, byte by byte: two keys are equal exactly if the values written are
// equal. They leave out the attribute that numbers dropouts.
//
//   KeyWriter key;
//   key.text("matmul"), key.type({{4, 5}, DType::float32});
//   key.take()
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/types.h"
#include "sbp/sbp.h"

namespace boxcar::planner {

class KeyWriter {
 public:
  template <typename T>
  void raw(const T& value) {
    key_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) {
    raw(value.size());
    key_.append(value);
  }
  void layout(const sbp::NdSbp& layout) {
    raw(layout.size());
    for (const sbp::Sbp& s : layout) raw(s);
  }
  void type(const ir::TensorType& type) {
    raw(type.dtype);
    raw(type.shape.size());
    for (int64_t extent : type.shape) raw(extent);
  }
  void attr(const ir::Attr& attr) {
    raw(attr.index());
    if (const auto* s = std::get_if<std::string>(&attr))
      text(*s);
    else if (const auto* v = std::get_if<std::vector<int64_t>>(&attr)) {
      raw(v->size());
      for (int64_t x : *v) raw(x);
    } else if (const auto* i = std::get_if<int64_t>(&attr))
      raw(*i);
    else if (const auto* f = std::get_if<double>(&attr))
      raw(*f);
    else
      raw(std::get<bool>(attr));
  }
  void attrs(const ir::Attrs& attrs) {
    raw(attrs.size());
    for (const auto& [name, value] : attrs) {
      if (name == "op") continue;  // which dropout it is
      text(name);
      if (name == "program")
        program(std::get<std::string>(value));
      else
        attr(value);
    }
  }
  // A fused op's program, such as "dropout(0) {op=3, p=0.1}; add(2, 1)".
  void program(std::string_view steps) {
    constexpr std::string_view which = "{op=";
    for (size_t at = steps.find(which); at != steps.npos; at = steps.find(which)) {
      text(steps.substr(0, at));
      steps.remove_prefix(std::min(steps.find_first_of(",}", at), steps.size()));
    }
    text(steps);
  }
  std::string take() { return std::move(key_); }

 private:
  std::string key_;
};

}  // namespace boxcar::planner
