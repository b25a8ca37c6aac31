#include "actors/training/same_run.h"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "backends/random.h"
#include "sbp/error.h"

namespace boxcar::training {

using nlohmann::json;

void expect_same_run(backends::Transport& transport, const std::map<std::string, std::string>& facts) {
  const std::string text = json(facts).dump(-1, ' ', false, json::error_handler_t::replace);
  const std::vector<std::string> texts = transport.exchange(text);
  const json wanted = json::parse(texts.front());
  for (size_t p = 1; p < texts.size(); ++p) {
    const json got = json::parse(texts[p]);
    for (const auto& [name, value] : wanted.items())
      if (got.value(name, "") != value.get<std::string>())
        throw Error::input(fmt::format("process {}", p),
                           fmt::format("{}: is {}, process 0 has {} ({})", name, got.value(name, ""),
                                       value.get<std::string>(),
                                       name == gpu_fact ? "train on GPUs of one type, or on the CPU"
                                                        : "processes need the same flags and files"));
  }
}

std::map<std::string, std::string> run_facts(const std::map<std::string, std::string>& configuration,
                                             const TrainRun& run, const ir::Plan& plan,
                                             const std::string& data, const Beginning& begin,
                                             backends::Backend& backend) {
  std::map<std::string, std::string> facts = configuration;
  for (int d = 0; d < backend.devices(); ++d)
    if (backend.is_local(d))
      if (const std::string name = backend.device(d).facts().name; !name.empty()) facts[gpu_fact] = name;
  const std::string text = ir::to_text(plan);
  facts["plan"] = fmt::format("of fingerprint {:016x}", fingerprint(std::as_bytes(std::span(text))));
  facts["run.data"] = data;
  facts.erase("run.checkpoint_dir");
  if (!run.resume && run.init_from.empty()) return facts;
  const std::string weights =
      fmt::format("step {}, weights of fingerprint {:016x}", begin.state.step, fingerprint(begin.tensors));
  facts["run.init_from"] = run.resume ? "" : weights;
  if (run.resume) facts["run.resume"] = weights;
  return facts;
}

uint64_t fingerprint(std::span<const std::byte> bytes) {
  uint64_t hash = bytes.size(), word = 0;
  for (; bytes.size() >= sizeof word; bytes = bytes.subspan(sizeof word)) {
    std::memcpy(&word, bytes.data(), sizeof word);
    hash = backends::mix(hash ^ word);
  }
  word = 0;
  if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
  return backends::mix(hash ^ word);
}

uint64_t fingerprint(const backends::host::GlobalTensors& tensors) {
  uint64_t hash = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::string head = name + ": " + ir::to_text(tensor.type);
    hash = backends::mix(hash ^ fingerprint(std::as_bytes(std::span(head))));
    hash = backends::mix(hash ^ fingerprint(tensor.bytes));
  }
  return hash;
}

}  // namespace boxcar::training
