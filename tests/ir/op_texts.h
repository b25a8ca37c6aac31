// An op's types and signatures as text.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/op.h"
#include "sbp/error.h"

namespace boxcar::ir {

inline Types types(const std::vector<std::string>& texts) {
  Types all;
  for (const std::string& text : texts) all.push_back(parse_tensor_type(text));
  return all;
}

// "S(0), B -> S(0)", for each signature.
inline std::vector<std::string> rules(const char* name, const std::vector<std::string>& inputs,
                                      const Attrs& attrs = {}, int64_t parts = 2) {
  std::vector<std::string> texts;
  for (const auto& s : signatures(op(name), types(inputs), complete(op(name), attrs), parts)) {
    texts.push_back(sbp::to_text(s));
  }
  return texts;
}

// "float32[8, 4], int64[8]", or the message of the refusal.
inline std::string inferred(const char* name, const std::vector<std::string>& inputs,
                            const Attrs& attrs = {}) {
  std::vector<std::string> texts;
  try {
    for (const auto& type : op(name).infer(types(inputs), complete(op(name), attrs)))
      texts.push_back(to_text(type));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_input);
    return error.what();
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace boxcar::ir
