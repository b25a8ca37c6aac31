#include "cli/job_labels.h"

#include <set>

#include "backends/host/fingerprint.h"
#include "cli/catalog.h"
#include "cli/job.h"
#include "planner/search/dimensions.h"

namespace boxcar::cli {

std::map<std::string, std::string> labels_of(const Request& request) {
  std::map<std::string, std::string> labels;
  for (const Key& key : keys())
    if (key.section != run_section && key.is_of(request.job.model.family())) {
      const std::string text = text_of(key, request);
      if (!key.rare || text != text_of(key, Request())) labels[key.path()] = text;
    }
  if (request.device.empty()) labels.erase("cluster.device");
  if (request.memory_margin == 0) labels.erase("cluster.memory_margin");
  if (request.gpus_per_node == 0) labels.erase("cluster.gpus_per_node");
  labels.erase("train.preset");  // every key that it sets is here
  const auto* transformer = request.job.model.transformer();
  if (transformer && (ir::models::is_latent(*transformer) ||
                      transformer->head_dim * transformer->heads == transformer->hidden))
    labels.erase("model.head_dim");
  if (transformer && (transformer->experts == 0 || transformer->expert_ffn == transformer->ffn))
    labels.erase("model.expert_ffn");
  if (transformer && transformer->lora_alpha == 2 * static_cast<double>(transformer->lora_rank))
    labels.erase("model.lora_alpha");
  if (ir::models::experts(request.job.model) == 0)
    labels.erase("model.expert_every"), labels.erase("train.routing_skew");
  if (request.job.train.precision != ir::Precision::fp8) labels.erase("train.fp8_recipe");
  if (request.job.train.recompute_stop && request.job.train.recompute != ir::Recompute::full)
    labels.erase("parallel.recompute_stop");
  if (!request.job.train.flash || request.attention_kernel.empty()) labels.erase("parallel.attention_kernel");
  if (request.job.parallel.fsdp_group == 0) labels["parallel.fsdp_group"] = labels["parallel.dp"];
  if (request.job.train.recompute_layers.empty()) labels["parallel.recompute_layers"] = "all";
  for (const search::Dimension& d : search::dimensions())
    if (d.flag.rare && value_of(d, request.job) == value_of(d, planner::Job()))
      labels.erase("parallel." + d.name_in_file());
  if (const ir::models::GraphModel* graph = request.job.model.graph())
    labels[graph_label] = backends::host::fingerprint_of(*graph);
  return labels;
}

std::string known_model(const std::map<std::string, std::string>& labels) {
  const auto of_model = [](std::map<std::string, std::string> all) {
    const std::set<std::string> of_data{"model.seq",          "model.decoder_seq", "model.masked",
                                        "model.dropout",      "model.pad_vocab",   "model.image",
                                        "model.channels_last"};
    std::erase_if(all, [&](const auto& label) {
      return !label.first.starts_with("model.") || of_data.contains(label.first);
    });
    return all;
  };
  const std::map<std::string, std::string> wanted = of_model(labels);
  for (const CatalogModel& model : catalog()) {
    Request request;
    request.job.model = ir::models::default_model(model.family);
    for (const auto& [path, text] : model.values) set(request, path, {text, model.name});
    request.job.model = ir::models::complete(request.job.model);
    if (of_model(labels_of(request)) == wanted) return model.name;
  }
  return "";
}

}  // namespace boxcar::cli
