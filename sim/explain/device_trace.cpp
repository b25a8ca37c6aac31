#include "sim/explain/device_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "sbp/error.h"

namespace boxcar::explain {
namespace {

using nlohmann::json;

// The first row whose word is in a kernel's name decides.
constexpr std::pair<std::string_view, WorkClass> words[] = {
    {"sendrecv", WorkClass::transfers},  {"send_recv", WorkClass::transfers},
    {"nccl", WorkClass::collectives},    {"nvshmem", WorkClass::collectives},
    {"flash_fwd", WorkClass::attention}, {"flash_bwd", WorkClass::attention},
    {"flashattn", WorkClass::attention}, {"flash_attn", WorkClass::attention},
    {"fmha", WorkClass::attention},      {"sdpa", WorkClass::attention},
    {"attention", WorkClass::attention}, {"wgrad", WorkClass::convolutions},
    {"dgrad", WorkClass::convolutions},  {"fprop", WorkClass::convolutions},
    {"conv", WorkClass::convolutions},   {"gemm", WorkClass::products},
    {"nvjet", WorkClass::products},      {"cutlass", WorkClass::products},
    {"xmma", WorkClass::products},       {"splitk", WorkClass::products},
    {"matmul", WorkClass::products},     {"_mm_", WorkClass::products},
    {"elementwise", WorkClass::kernels}, {"reduce", WorkClass::kernels},
    {"triton", WorkClass::kernels},      {"norm", WorkClass::kernels},
    {"softmax", WorkClass::kernels},     {"multi_tensor", WorkClass::kernels},
    {"fused", WorkClass::kernels},       {"gather", WorkClass::kernels},
    {"scatter", WorkClass::kernels},     {"copy", WorkClass::kernels},
    {"cat", WorkClass::kernels},         {"index", WorkClass::kernels},
    {"embedding", WorkClass::kernels},   {"adam", WorkClass::kernels},
    {"cast", WorkClass::kernels},        {"transpose", WorkClass::kernels},
    {"dropout", WorkClass::kernels},     {"loss", WorkClass::kernels},
    {"fill", WorkClass::kernels},        {"rope", WorkClass::kernels},
    {"rotary", WorkClass::kernels},      {"swiglu", WorkClass::kernels},
    {"gelu", WorkClass::kernels},        {"amax", WorkClass::kernels},
    {"quantize", WorkClass::kernels},    {"permute", WorkClass::kernels},
};

[[noreturn]] void refuse(const std::string& path, const std::string& why) { throw Error::input(path, why); }

std::string text_of(const json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

double microseconds(const json& event, const char* key) {
  const auto found = event.find(key);
  if (found == event.end()) return 0;
  if (found->is_number()) return found->get<double>();
  return found->is_string() ? std::atof(found->get<std::string>().c_str()) : 0;  // as some versions write it
}

Span span_of(const json& event, WorkClass work) {
  const double start = microseconds(event, "ts") * 1e-6;
  return {start, start + microseconds(event, "dur") * 1e-6, work};
}

bool is_span(const json& event) { return event.is_object() && text_of(event, "ph") == "X"; }

double work_of(const std::vector<Span>& spans) {
  double all = 0;
  for (const Span& span : spans) all += span.end - span.start;
  return all;
}

// Spans by device, of which one is chosen.
std::string choose(const std::map<std::string, std::vector<Span>>& devices, const std::string& asked,
                   const std::string& path) {
  std::vector<std::string> names;
  for (const auto& [name, spans] : devices) names.push_back(name);
  if (names.empty()) refuse(path, "has no work of a device: no kernels, collectives or copies");
  if (!asked.empty()) {
    if (!devices.contains(asked))
      refuse(path, fmt::format("has no device {}; it has {}", asked, fmt::join(names, ", ")));
    return asked;
  }
  return std::max_element(devices.begin(), devices.end(),
                          [](const auto& a, const auto& b) { return work_of(a.second) < work_of(b.second); })
      ->first;
}

// From the first to the last of its kernels and collectives.
void set_span_of_all(DeviceTrace& trace, const std::string& path) {
  trace.begin = 1e300, trace.end = -1e300;
  for (const Span& span : trace.spans) {
    if (span.work == WorkClass::copies) continue;  // of the next step's data
    trace.begin = std::min(trace.begin, span.start);
    trace.end = std::max(trace.end, span.end);
  }
  if (trace.begin >= trace.end) refuse(path, "has no kernels and no collectives");
}

DeviceTrace read_kineto(const json& events, const std::string& path, const std::string& asked) {
  std::map<std::string, std::vector<Span>> devices;
  std::map<std::string, double> unknown;
  std::set<std::pair<double, double>> steps;
  for (const json& event : events) {
    if (!is_span(event)) continue;
    const std::string kind = text_of(event, "cat"), name = text_of(event, "name");
    if (name.starts_with("ProfilerStep") && kind != "gpu_user_annotation") {
      const Span step = span_of(event, WorkClass::kernels);
      steps.emplace(step.start, step.end);
    }
    const bool copies = kind == "gpu_memcpy" || kind == "gpu_memset";
    if (kind != "kernel" && kind != "Kernel" && !copies) continue;
    const auto work = copies ? WorkClass::copies : class_of_kernel(name);
    const Span span = span_of(event, work.value_or(WorkClass::kernels));
    if (!work) unknown[name] += span.end - span.start;
    const auto args = event.find("args");
    std::string device = args == event.end() || !args->is_object() ? "" : text_of(*args, "device");
    if (device.empty()) device = text_of(event, "pid");
    devices[device].push_back(span);
  }
  DeviceTrace trace;
  trace.device = choose(devices, asked, path);
  trace.spans = devices[trace.device];
  set_span_of_all(trace, path);
  if (!steps.empty()) {  // kernels run behind the host: from the first step's begin to the last one's
    trace.steps = static_cast<int>(steps.size());
    const double begin = steps.begin()->first, end = steps.rbegin()->second;
    trace.begin = std::max(trace.begin, begin);
    trace.end = std::max(std::min(trace.end, end), trace.begin + 1e-9);
  }
  std::vector<std::pair<double, std::string>> longest;
  for (const auto& [name, seconds] : unknown) longest.emplace_back(-seconds, name);
  std::sort(longest.begin(), longest.end());
  for (const auto& [seconds, name] : longest) trace.unknown.push_back(name);
  return trace;
}

DeviceTrace read_boxcar(const json& events, const std::string& path, const std::string& asked,
                        const ir::Plan& plan) {
  std::map<std::string, WorkClass> by_name;
  for (const ir::Program& program : plan.programs)
    for (const ir::Actor& actor : program.actors)
      if (WorkClass work; has_work(actor, &work)) by_name[actor.name] = work;
  std::map<std::string, std::vector<Span>> devices;
  size_t known = 0, acts = 0;
  for (const json& event : events) {
    if (!is_span(event)) continue;
    ++acts;
    const auto found = by_name.find(text_of(event, "name"));
    if (found == by_name.end()) continue;
    ++known;
    if (const Span span = span_of(event, found->second); span.end > span.start)
      devices[text_of(event, "pid")].push_back(span);
  }
  if (known * 2 < acts)
    refuse(path, fmt::format("{} of its {} acts are not in the plan: it is the trace of another plan",
                             acts - known, acts));
  DeviceTrace trace;
  trace.is_boxcar = true;
  trace.device = choose(devices, asked, path);
  trace.spans = devices[trace.device];
  set_span_of_all(trace, path);
  return trace;
}

}  // namespace

std::optional<WorkClass> class_of_kernel(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto& [word, work] : words)
    if (lower.find(word) != std::string::npos) return work;
  return {};
}

DeviceTrace read_trace(const std::string& text, const std::string& path, const std::string& device,
                       const ir::Plan& plan) {
  const json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) refuse(path, "is not JSON (unpack a .gz first)");
  const json* events = document.is_array() ? &document : nullptr;
  if (document.is_object() && document.contains("traceEvents")) events = &document["traceEvents"];
  if (!events || !events->is_array()) refuse(path, "has no list traceEvents");
  const bool kineto = std::any_of(events->begin(), events->end(), [](const json& event) {
    const std::string kind = event.is_object() ? text_of(event, "cat") : "";
    return kind == "kernel" || kind == "Kernel" || kind == "cuda_runtime" || kind == "cpu_op";
  });
  return kineto ? read_kineto(*events, path, device) : read_boxcar(*events, path, device, plan);
}

}  // namespace boxcar::explain
