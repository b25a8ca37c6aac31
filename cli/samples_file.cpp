#include "cli/samples_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/output.h"
#include "ir/op.h"
#include "sbp/error.h"
#include "sbp/mesh_route.h"

namespace boxcar::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Numbers of the document that are not in its lists: keys and members.
constexpr std::pair<const char*, double measure::Samples::*> numbers[] = {
    {"load_share", &measure::Samples::load_share},
    {"act_s", &measure::Samples::act_seconds},
    {"launch_s", &measure::Samples::launch_seconds},
    {"message_s", &measure::Samples::message_seconds},
    {"copy_bytes_per_s", &measure::Samples::copy_bandwidth},
    {"upload_bytes_per_s", &measure::Samples::upload_bandwidth},
    {"cores", &measure::Samples::cores},
};

ordered_json texts_of(const ir::Types& types) {
  ordered_json list = ordered_json::array();
  for (const ir::TensorType& type : types) list.push_back(ir::to_text(type));
  return list;
}

// The value of a required key.
const json& of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (!object.is_object() || found == object.end()) throw Error::input(key, "is missing");
  return *found;
}
const json& list_of(const json& object, const char* key) {
  const json& list = of(object, key);
  if (!list.is_array()) throw Error::input(key, "expected a list");
  return list;
}
std::string text_of(const json& object, const char* key) {
  const json& value = of(object, key);
  if (!value.is_string()) throw Error::input(key, "expected a text");
  return value.get<std::string>();
}
int64_t whole_of(const json& object, const char* key, int64_t least, int64_t most) {
  const json& value = of(object, key);
  const bool there = value.is_number_integer() && value >= least && value <= most;
  if (!there) throw Error::input(key, fmt::format("expected a whole number from {} to {}", least, most));
  return value.get<int64_t>();
}
double number_of(const json& object, const char* key) {
  const json& value = of(object, key);
  if (!value.is_number() || !(value.get<double>() >= 0) || !std::isfinite(value.get<double>()))
    throw Error::input(key, "expected a number from 0");
  return value.get<double>();
}
double seconds_of(const json& object) {
  const double seconds = number_of(object, "time_s");
  if (seconds == 0) throw Error::input("time_s", "expected a number above 0");
  return seconds;
}

ir::Types types_of(const json& object, const char* key) {
  ir::Types types;
  for (const json& text : list_of(object, key)) {
    if (!text.is_string()) throw Error::input(key, "expected texts, such as float32[2, 3]");
    types.push_back(ir::parse_tensor_type(text.get<std::string>()));
    if (types.back().elements() == 0) throw Error::input(key, "has a tensor without elements");
  }
  return types;
}

// Attributes as they are kept: a text is one already, everything else is written as in plans.
ordered_json attrs_of(const ir::Attrs& attrs) {
  ordered_json all = ordered_json::object();
  for (const auto& [name, value] : attrs) {
    if (const auto* text = std::get_if<std::string>(&value))
      all[name] = {{"text", *text}};
    else
      all[name] = ir::to_text(value);
  }
  return all;
}

ir::Attrs attrs_in(const json& row) {
  const json& all = of(row, "attrs");
  if (!all.is_object()) throw Error::input("attrs", "expected an object");
  ir::Attrs attrs;
  for (const auto& [name, value] : all.items())
    attrs[name] = value.is_object()   ? ir::Attr(text_of(value, "text"))
                  : value.is_string() ? ir::parse_attr(value.get<std::string>())
                                      : throw Error::input(name, "expected a text");
  return attrs;
}

measure::KernelSample kernel_of(const json& row) {
  measure::KernelSample sample;
  backends::Call& call = sample.call;
  call.op = text_of(row, "op");
  const ir::OpDef& def = ir::op(call.op);
  call.inputs = types_of(row, "inputs");
  call.outputs = types_of(row, "outputs");
  try {
    call.attrs = ir::complete(def, attrs_in(row));  // a file may be older than an attribute
    if (def.infer(call.inputs, call.attrs) != call.outputs)
      throw Error::input("outputs", "are not of the types that its inputs give");
  } catch (const Error& error) {  // of an attribute's type, too
    throw Error::input(call.op, error.what());
  }
  sample.seconds = seconds_of(row);
  sample.adds = whole_of(row, "adds", 0, static_cast<int64_t>(call.outputs.size()));
  return sample;
}

measure::GroupSample group_of(const json& row) {
  measure::GroupSample sample;
  const std::string name = text_of(row, "collective");
  for (const sbp::Collective one : {sbp::Collective::all_reduce, sbp::Collective::reduce_scatter,
                                    sbp::Collective::all_gather, sbp::Collective::all_to_all})
    if (name == sbp::to_text(one)) sample.collective = one;
  if (sample.collective == sbp::Collective::none) throw Error::input(name, "is no measured collective");
  sample.ranks = static_cast<int>(whole_of(row, "ranks", 2, 1 << 20));
  sample.bytes = whole_of(row, "bytes", 1, int64_t{1} << 50);
  sample.seconds = seconds_of(row);
  return sample;
}

measure::Samples samples_of(const json& document) {
  measure::Samples samples;
  whole_of(document, "schema_version", 1, 1);
  samples.name = text_of(document, "device");
  samples.type = ir::parse_dtype(text_of(document, "type"));
  samples.memory_bytes = whole_of(document, "memory_bytes", 1, int64_t{1} << 50);
  samples.multiprocessors = static_cast<int>(whole_of(document, "multiprocessors", 1, 1 << 20));
  for (const auto& [key, member] : numbers) samples.*member = number_of(document, key);
  for (const json& row : list_of(document, "kernels")) samples.kernels.push_back(kernel_of(row));
  for (const json& row : list_of(document, "groups")) samples.groups.push_back(group_of(row));
  return samples;
}

}  // namespace

std::string samples_text(const measure::Samples& samples) {
  ordered_json head = {{"schema_version", 1},
                       {"device", samples.name},
                       {"type", ir::to_text(samples.type)},
                       {"memory_bytes", samples.memory_bytes},
                       {"multiprocessors", samples.multiprocessors}};
  for (const auto& [key, member] : numbers) head[key] = samples.*member;
  std::string text = head.dump();
  text.pop_back();
  const auto list = [&](const char* name, const auto& rows, const auto& row_of) {
    text += fmt::format(",\n\"{}\": [", name);
    const char* between = "\n";
    for (const auto& row : rows) {
      text += std::exchange(between, ",\n");
      text += row_of(row).dump();
    }
    text += "\n]";
  };
  list("kernels", samples.kernels, [](const measure::KernelSample& k) {
    return ordered_json{{"op", k.call.op},
                        {"inputs", texts_of(k.call.inputs)},
                        {"outputs", texts_of(k.call.outputs)},
                        {"attrs", attrs_of(k.call.attrs)},
                        {"adds", k.adds},
                        {"time_s", k.seconds}};
  });
  list("groups", samples.groups, [](const measure::GroupSample& g) {
    return ordered_json{{"collective", sbp::to_text(g.collective)},
                        {"ranks", g.ranks},
                        {"bytes", g.bytes},
                        {"time_s", g.seconds}};
  });
  return text + "}\n";
}

measure::Samples read_samples(const std::string& path) {
  const std::string text = read_file(path);
  try {
    return samples_of(json::parse(text));
  } catch (const json::exception&) {
    throw Error::input(path, "is no JSON document, as `boxcar profile --samples` writes it");
  } catch (const Error& error) {
    throw Error::input(path, error.what());
  }
}

}  // namespace boxcar::cli
