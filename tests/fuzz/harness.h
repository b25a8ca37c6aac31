// The law that every parser keeps for any input: it returns a value or throws boxcar::Error, nothing else. If
// there is a text form, a value that is written and read again is the same.
//
//   void fuzz_sbp(std::string_view input) { reads_back(input, parse_sbp, write); }
//
// A harness is a function of the input. libFuzzer calls it with generated inputs (fuzzer/main.cpp), the fast
// tests with those of seeds/NAME (seeds_test.cpp). Any other exception, or a sanitizer's report, means that
// the law is broken.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "sbp/error.h"

namespace boxcar::fuzz {

void fuzz_checkpoint(std::string_view input);  // "latest", a zero, state.json
void fuzz_cluster(std::string_view input);
void fuzz_command(std::string_view input);  // a word of the command line on each line
void fuzz_config(std::string_view input);
void fuzz_device(std::string_view input);
void fuzz_graph(std::string_view input);
void fuzz_images(std::string_view input);
void fuzz_job(std::string_view input);
void fuzz_measurements(std::string_view input);
void fuzz_model_config(std::string_view input);
void fuzz_onnx(std::string_view input);  // linked if protobuf was found
void fuzz_plan(std::string_view input);
void fuzz_safetensors(std::string_view input);
void fuzz_samples(std::string_view input);
void fuzz_sbp(std::string_view input);
void fuzz_tar(std::string_view input);  // of images
void fuzz_framework(std::string_view input);
void fuzz_tokenizer(std::string_view input);  // a tokenizer.json, a .model
void fuzz_tokens(std::string_view input);

// Thrown if the law does not hold.
struct Broken : std::logic_error {
  using std::logic_error::logic_error;
};

// The result of `work`, or nothing if it throws Error.
template <class Work>
auto allowed(Work work) -> std::optional<decltype(work())> {
  try {
    return work();
  } catch (const Error&) {
    return std::nullopt;
  }
}
// Whether `work` returns rather than throws Error.
template <class Work>
bool ends(Work work) {
  return allowed([&] { return work(), true; }).has_value();
}

// parse(input), if it parses; then parse(write(value)) is the same value. Types without == are compared by
// their written text.
template <class Parse, class Write>
auto reads_back(std::string_view input, Parse parse, Write write) {
  auto value = allowed([&] { return parse(input); });
  if (!value) return value;
  const std::string written = write(*value);
  const auto same = [&](const auto& back) {
    if constexpr (requires { back == *value; })
      return back == *value;
    else
      return write(back) == written;
  };
  try {
    if (same(parse(std::string_view(written)))) return value;
  } catch (const Error& error) {
    throw Broken(std::string("what was written does not read: ") + error.what() + "\n" + written);
  }
  throw Broken("what was written reads as another value:\n" + written);
}

}  // namespace boxcar::fuzz
