#include "cli/export/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/machines/framework.h"
#include "cli/effects.h"
#include "planner/mesh.h"
#include "sbp/error.h"

namespace boxcar::cli::exports {
namespace {

std::string commented(const Framework& framework, const std::string& line) {
  return framework.comment + (line.empty() ? "" : " ") + line + "\n";
}

// Settings that a reader of the plan would miss.
std::vector<std::string> remarks(const Source& source) {
  std::vector<std::string> lines;
  if (source.train().recompute != ir::Recompute::none && !source.recomputes())
    lines.push_back(fmt::format("recompute {} finds nothing to compute again in this plan; none is written",
                                source.label("parallel.recompute")));
  return lines;
}

std::string degrees(const planner::Hints& h) {
  std::string text = fmt::format("dp {} x tp {} x pp {}", h.dp, h.tp, h.pp);
  if (h.cp > 1) text += fmt::format(" x context_parallel {}", h.cp);
  if (h.ep > 1)
    text += fmt::format(", ep {} inside {}", h.ep, planner::deals_experts_over_tp(h) ? "dp x tp" : "dp");
  return text;
}

}  // namespace

std::string Source::label(const std::string& path) const {
  const auto found = labels.find(path);
  return found == labels.end() ? text_of(key_at(path), request) : found->second;
}

int Source::gpus_per_node() const { return std::gcd(job().gpus, std::max(1, job().cluster.node.gpus)); }
int Source::nodes() const { return job().gpus / gpus_per_node(); }

int64_t Source::micro_batches() const {
  return job().global_batch / (int64_t{parallel().dp} * parallel().micro_batch);
}

int64_t Source::padded_vocab() const {
  ir::models::Transformer padded = model();
  if (padded.pad_vocab_to > 1) padded.pad_vocab_to *= parallel().tp;
  return ir::models::padded_vocab(padded);
}

bool Source::divides_hidden() const { return model().head_dim * model().heads == model().hidden; }

bool Source::recomputes() const { return recomputes_anything(job()); }

bool Source::even_stages() const {
  const std::vector<int>& layers = parallel().stage_layers;
  return std::all_of(layers.begin(), layers.end(), [&](int n) { return n == layers.front(); });
}

bool Source::other_groups() const {
  return parallel().virtual_stages > 1 && micro_batches() % parallel().pp != 0;
}

bool Source::rings() const { return job().cluster.framework->ring_attention; }

bool Source::can_exchange_heads() const {
  const int64_t parts = int64_t{parallel().tp} * parallel().cp;
  return model().heads % parts == 0 && model().kv_heads % parts == 0;
}

bool Source::reduces_half() const {
  if (parallel().grad_reduction != planner::Reduction::sums)
    return parallel().grad_reduction == planner::Reduction::half;
  return train().gradients != ir::Gradients::float32;
}

int64_t Source::bucket_elements(bool half) const {
  return (int64_t{parallel().grad_bucket_mb} << 20) / (half ? 2 : 4);
}

bool Source::stands_as(const std::string& mesh_order) const {
  const auto with_degrees = [&](const planner::MeshOrder& order) {
    std::vector<planner::MeshAxis> axes(order.begin(), order.end());
    std::erase_if(axes, [&](planner::MeshAxis axis) {
      switch (axis) {
        case planner::MeshAxis::pp:
          return parallel().pp == 1;
        case planner::MeshAxis::dp:
          return parallel().dp == 1;
        case planner::MeshAxis::cp:
          return parallel().cp == 1;
        case planner::MeshAxis::tp:
          return parallel().tp == 1;
      }
      return false;
    });
    return axes;
  };
  return with_degrees(parallel().mesh_order) == with_degrees(planner::parse_mesh_order(mesh_order));
}

std::string to_text(const Note& note) {
  return fmt::format("{}{}{}: {}", note.key, note.value.empty() ? "" : " ", note.value, note.why);
}

std::string begin_of(const Note& note, const std::string& format) {
  return note.left ? "left to you" : "cannot be said in " + format;
}

Json python(const std::string& expression) { return Json{{"python", expression}}; }

Json number(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

void Writer::set(const std::string& name, Json value) {
  if (std::find(row_.names.begin(), row_.names.end(), name) == row_.names.end())
    throw Error::fault("export", fmt::format("{} is not listed in the row of {}", name, row_.keys.front()));
  if (find(settings_, name)) throw Error::fault("export", fmt::format("{} is set twice", name));
  settings_.push_back({name, std::move(value)});
}

void Writer::cannot(const std::string& why) { cannot(row_.keys.front(), why); }

void Writer::cannot(const std::string& key, const std::string& why) {
  notes_.push_back({key, from.label(key), why});
}

void Writer::leave(const std::string& why) { leave(row_.keys.front(), why); }

void Writer::leave(const std::string& key, const std::string& why) {
  notes_.push_back({key, from.label(key), why, true});
}

std::vector<const Row*> rows_of(const Framework& framework) {
  std::vector<const Row*> rows;
  for (const Row& row : framework.rows) rows.push_back(&row);
  for (const Row& row : common_rows()) rows.push_back(&row);
  return rows;
}

Exported write(const Framework& framework, const Source& source) {
  const std::string& family = source.job().model.family();
  const std::vector<std::string>& trained = framework.families;
  if (!trained.empty() && std::find(trained.begin(), trained.end(), family) == trained.end())
    throw Error::input("--to",
                       fmt::format("{} trains models of family {}, not {} (deepspeed takes any model)",
                                   framework.name, fmt::join(trained, ", "), family));
  Exported result;
  for (const Row* row : rows_of(framework))
    if (row->write) {
      Writer writer(source, *row, result.settings, result.notes);
      row->write(writer);
    }
  if (source.found_layouts)
    result.notes.push_back({"layouts", "",
                            "the search chose them op by op, with the slots that go with them; there they "
                            "are those of the framework's own code"});
  if (source.other_slots > 0)
    result.notes.push_back({"slots", fmt::format("of {} registers", source.other_slots),
                            "they differ from the schedule's; there an allocator hands out memory"});
  result.text = commented(framework, fmt::format("{}, written by boxcar export", framework.title));
  const std::string device = source.request.device.empty() ? "" : " with " + source.request.device;
  result.text += commented(framework, fmt::format("{} GPUs: {}; planned for {}{}, stack {}",
                                                  source.job().gpus, degrees(source.parallel()),
                                                  source.request.cluster, device, source.request.framework));
  const std::string body = framework.render(source, result.settings);
  for (const std::string& line : framework.preface(source)) result.text += commented(framework, line);
  for (const std::string& line : remarks(source)) result.text += commented(framework, line);
  result.text += body;
  for (const Note& note : result.notes)
    result.text += commented(framework, fmt::format("{}: {}", begin_of(note, framework.name), to_text(note)));
  return result;
}

std::vector<Setting> with_prefix(const std::vector<Setting>& settings, const std::string& prefix) {
  std::vector<Setting> inside;
  for (const Setting& s : settings)
    if (s.name.starts_with(prefix)) inside.push_back({s.name.substr(prefix.size()), s.value});
  return inside;
}

const Json* find(const std::vector<Setting>& settings, const std::string& name) {
  for (const Setting& s : settings)
    if (s.name == name) return &s.value;
  return nullptr;
}

}  // namespace boxcar::cli::exports
