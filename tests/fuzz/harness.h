// What every parser keeps, whatever its input: it gives a value or throws boxcar::Error, and nothing else.
// Where there is a text form, what was read and written again reads back as the same value.
//
//   void fuzz_sbp(std::string_view input) { reads_back(input, parse_sbp, write); }
//
// A harness is a function of the input. Under libFuzzer it is called with inputs that are made up
// (fuzzer/main.cpp), in the fast tests with those of seeds/NAME (seeds_test.cpp). It ends with any other
// exception, or a sanitizer's report, where the law is broken.
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
void fuzz_plan(std::string_view input);
void fuzz_safetensors(std::string_view input);
void fuzz_sbp(std::string_view input);
void fuzz_framework(std::string_view input);
void fuzz_tokens(std::string_view input);

// A law that did not hold.
struct Broken : std::logic_error {
  using std::logic_error::logic_error;
};

// What `work` gives, or nothing where it throws Error.
template <class Work>
auto allowed(Work work) -> std::optional<decltype(work())> {
  try {
    return work();
  } catch (const Error&) {
    return std::nullopt;
  }
}
// Whether `work` ends; it may throw Error.
template <class Work>
bool ends(Work work) {
  return allowed([&] { return work(), true; }).has_value();
}

// parse(input), where it parses; then parse(write(value)) is the same value. Of types without == what is
// written of it is the same.
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
