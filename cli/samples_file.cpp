#include "cli/samples_file.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/output.h"
#include "ir/op.h"
#include "sbp/error.h"
#include "sbp/mesh_route.h"

namespace boxcar::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Numbers of the document beside its lists: keys and members.
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

ir::Types types_of(const json& list) {
  ir::Types types;
  for (const json& text : list) types.push_back(ir::parse_tensor_type(text.get<std::string>()));
  return types;
}

// As attributes are kept: a text is one already, all else is written as in plans.
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

ir::Attrs attrs_in(const json& all) {
  ir::Attrs attrs;
  for (const auto& [name, value] : all.items())
    attrs[name] = value.is_object() ? ir::Attr(value.at("text").get<std::string>())
                                    : ir::parse_attr(value.get<std::string>());
  return attrs;
}

double positive(const json& object, const char* key) {
  const double value = object.at(key).get<double>();
  if (!(value > 0) || !std::isfinite(value))
    throw Error::input(key, fmt::format("got {:g}, expected a number above 0", value));
  return value;
}

measure::KernelSample kernel_of(const json& row) {
  measure::KernelSample sample;
  backends::Call& call = sample.call;
  call.op = row.at("op").get<std::string>();
  call.inputs = types_of(row.at("inputs"));
  call.attrs = attrs_in(row.at("attrs"));
  call.outputs = types_of(row.at("outputs"));
  const ir::OpDef& def = ir::op(call.op);
  if (def.infer(call.inputs, call.attrs) != call.outputs)
    throw Error::input(call.op, "its outputs are not of the types that its inputs give");
  sample.seconds = positive(row, "time_s");
  sample.adds = row.at("adds").get<int64_t>();
  if (sample.adds < 0 || sample.adds > static_cast<int64_t>(call.outputs.size()))
    throw Error::input("adds", fmt::format("got {}, expected 0 to {}", sample.adds, call.outputs.size()));
  return sample;
}

measure::GroupSample group_of(const json& row) {
  measure::GroupSample sample;
  const std::string name = row.at("collective").get<std::string>();
  for (const sbp::Collective one : {sbp::Collective::all_reduce, sbp::Collective::reduce_scatter,
                                    sbp::Collective::all_gather, sbp::Collective::all_to_all})
    if (name == sbp::to_text(one)) sample.collective = one;
  if (sample.collective == sbp::Collective::none) throw Error::input(name, "is no measured collective");
  sample.ranks = row.at("ranks").get<int>();
  sample.bytes = row.at("bytes").get<int64_t>();
  if (sample.ranks < 2 || sample.bytes < 1) throw Error::input(name, "needs two ranks and a byte at least");
  sample.seconds = positive(row, "time_s");
  return sample;
}

measure::Samples samples_of(const json& document) {
  measure::Samples samples;
  samples.name = document.at("device").get<std::string>();
  samples.type = ir::parse_dtype(document.at("type").get<std::string>());
  samples.memory_bytes = document.at("memory_bytes").get<int64_t>();
  samples.multiprocessors = document.at("multiprocessors").get<int>();
  if (samples.memory_bytes < 0 || samples.multiprocessors < 1 || samples.multiprocessors > 1 << 20)
    throw Error::input("multiprocessors", "expected 1 or more, and no negative memory_bytes");
  for (const auto& [key, member] : numbers) {
    samples.*member = document.at(key).get<double>();
    if (!(samples.*member >= 0)) throw Error::input(key, "expected a number from 0");
  }
  for (const json& row : document.at("kernels")) samples.kernels.push_back(kernel_of(row));
  for (const json& row : document.at("groups")) samples.groups.push_back(group_of(row));
  return samples;
}

}  // namespace

std::string samples_text(const measure::Samples& samples) {
  ordered_json head = {{"device", samples.name},
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
  try {
    return samples_of(json::parse(read_file(path)));
  } catch (const json::exception&) {
    throw Error::input(path, "is no file of `boxcar profile --samples`");
  } catch (const Error& error) {
    if (error.code() != Exit::bad_input) throw;
    throw Error::input(path, error.what());
  }
}

}  // namespace boxcar::cli
