#include "backends/cuda/blas_algorithms.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <utility>

#include "backends/host/files.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

constexpr const char* title = "boxcar algorithms 1";
constexpr size_t digits = 16;  // of a word

std::string to_text(const Algorithms::Choice& choice) {
  std::string text;
  for (const uint64_t word : choice) text += fmt::format("{:016x}", word);
  return text;
}

// False if it is not one.
bool parse(std::string_view text, Algorithms::Choice& choice) {
  if (text.size() != digits * choice.size()) return false;
  for (size_t w = 0; w < choice.size(); ++w) {
    const char *const begin = text.data() + w * digits, *const end = begin + digits;
    const auto [stop, error] = std::from_chars(begin, end, choice[w], 16);
    if (error != std::errc() || stop != end) return false;
  }
  return true;
}

}  // namespace

Algorithms::Algorithms(std::string file) : file_(std::move(file)), choices_(read()) {}

Algorithms::Choices Algorithms::read() const {
  Choices choices;
  std::ifstream in(file_);
  std::string line;
  if (file_.empty() || !std::getline(in, line)) return choices;
  if (line != title)
    throw Error::input(
        fmt::format("{}:1", file_),
        fmt::format("got \"{}\", expected \"{}\" (name a file that --algorithms wrote, or none "
                    "that is there)",
                    line.substr(0, 40), title));
  for (int number = 2; std::getline(in, line); ++number) {
    const size_t at = line.rfind(" = ");
    Choice choice{};
    if (at == std::string::npos || !parse(std::string_view(line).substr(at + 3), choice))
      throw Error::input(
          fmt::format("{}:{}", file_, number),
          "expected a product and what was chosen (remove the file: a run with --fast makes it "
          "anew)");
    choices.emplace(line.substr(0, at), choice);
  }
  return choices;
}

std::optional<Algorithms::Choice> Algorithms::find(const std::string& product) const {
  const std::lock_guard lock(mutex_);
  const auto found = choices_.find(product);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

Algorithms::Choice Algorithms::keep(const std::string& product, const Choice& choice) {
  const std::lock_guard lock(mutex_);
  if (!file_.empty()) choices_.merge(read());
  const auto [place, is_new] = choices_.emplace(product, choice);
  if (is_new && !file_.empty()) write();
  return place->second;
}

void Algorithms::write() const {
  std::string text = fmt::format("{}\n", title);
  for (const auto& [product, choice] : choices_) text += fmt::format("{} = {}\n", product, to_text(choice));
  try {
    host::NewFile file(fmt::format("{}.{}", file_, getpid()));  // processes may write at one time
    file.write(host::bytes_of(text));
    file.put_in_place(file_);
  } catch (const host::FileError& error) {
    throw Error::fault(file_,
                       fmt::format("cannot be written: {} (--algorithms keeps what --fast has timed there)",
                                   error.reason()));
  }
}

}  // namespace boxcar::backends::cuda
