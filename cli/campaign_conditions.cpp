#include "cli/campaign_conditions.h"

#include <fmt/format.h>

#include "cli/arguments.h"
#include "cli/campaign_steps.h"
#include "cli/plan_file.h"
#include "cli/quantities.h"
#include "ir/ops/optimizers.h"
#include "ir/read_number.h"
#include "planner/checkpoint_bytes.h"
#include "sbp/error.h"
#include "sim/explain/report.h"

namespace boxcar::cli {
namespace {

void check_together(const CampaignFlags& f) {
  if (f.tokens.empty() && f.samples.empty())
    throw Error::input("--tokens", "missing; give the tokens of the whole run, such as 300B, or --samples");
  if (!f.tokens.empty() && !f.samples.empty())
    throw Error::input("--samples", "--tokens is given too; give one of them");
  if (!f.mtbf.empty() && f.bandwidth.empty())
    throw Error::input(
        "--mtbf",
        "has no effect without --checkpoint-bandwidth: the time of a checkpoint decides how much "
        "work a failure loses");
  if (!f.bandwidth.empty() && f.mtbf.empty())
    throw Error::input("--checkpoint-bandwidth", "has no effect without --mtbf");
  if (!f.restart.empty() && f.mtbf.empty()) throw Error::input("--restart", "has no effect without --mtbf");
  if (f.pue && !f.watts) throw Error::input("--pue", "has no effect without --watts");
}

// "3h/1024" into `report`.
void read_mtbf(const std::string& text, CampaignReport& report) {
  const size_t slash = text.find('/');
  const auto gpus =
      slash == std::string::npos ? std::nullopt : ir::read_number<int64_t>(text.substr(slash + 1));
  if (!gpus || *gpus < 1)
    throw Error::input(
        "--mtbf",
        fmt::format("got \"{}\", expected TIME/GPUS: 3h/1024 is one failure in 3 h on 1024 GPUs", text));
  report.mtbf_seconds = read_seconds("--mtbf", text.substr(0, slash), "3h in 3h/1024");
  report.mtbf_gpus = *gpus;
}

void add_checkpoint(const CampaignReport& report, const CostedPlan& costed, CampaignRow& row) {
  const planner::ResolvedJob job = costed.job ? *costed.job : job_of(costed.plan, row.name).job;
  row.has_moments = ir::row_of(job->train.optimizer).moments > 0;
  row.checkpoint_bytes = static_cast<double>(planner::checkpoint_bytes(job));
  row.run.checkpoint_seconds = row.checkpoint_bytes / report.checkpoint_bandwidth;
  row.run.mtbf_seconds = campaign::mtbf_of(report.mtbf_seconds, report.mtbf_gpus, row.gpus);
  row.run.restart_seconds = report.restart_seconds + row.run.checkpoint_seconds;  // read at the same rate
}

void add_price(const CampaignFlags& flags, const CostedPlan& costed, CampaignRow& row) {
  const double of_cluster = costed.cluster.price_per_gpu_hour;
  if (!flags.price && of_cluster <= 0) return;
  row.run.price_per_gpu_hour = flags.price.value_or(of_cluster);
  const auto named = costed.plan.labels.find("cluster.preset");
  row.price_from =
      flags.price ? "--price"
                  : "cluster " + (named == costed.plan.labels.end() ? costed.cluster.name : named->second);
}

void check_goodput(const CampaignRow& row) {
  if (row.cost.estimate.goodput >= least_goodput) return;  // not if it is no number
  throw Error::cannot_run(
      "--mtbf",
      fmt::format("goodput is below {:g} %: {} fail every {}, a "
                  "checkpoint takes {} and a restart {} (use more bandwidth or a shorter --restart)",
                  100 * least_goodput, counted(row.gpus, "GPU"), duration_text(row.run.mtbf_seconds),
                  duration_text(row.run.checkpoint_seconds), duration_text(row.run.restart_seconds)));
}

}  // namespace

void CampaignFlags::add_to(CLI::App& command, const std::string& amount) {
  const auto text = [&](const char* flag, std::string& value, const std::string& help, const char* form) {
    command.add_option(flag, value, help)->type_name(form)->check(not_empty());
  };
  text("--tokens", tokens, fmt::format("tokens of the whole run [{}]", amount), "15T|300B|4M");
  text("--samples", samples, "sequences or images of the whole run, in place of tokens", "90M");
  text("--mtbf", mtbf, "3h/1024: 1024 GPUs fail once in 3 h; 2048 twice as often [no failures]", "TIME/GPUS");
  text("--restart", restart,
       "time from a failure to the next step, beside reading the checkpoint: noticing it, replacing nodes, "
       "starting [10m]",
       "10m");
  text("--checkpoint-bandwidth", bandwidth,
       "rate at which the storage takes a whole checkpoint [needed with --mtbf]", "200GB/s");
  const auto value = [&](const char* flag, std::optional<double>& value, const char* help, const char* form,
                         const CLI::Validator& allowed) {
    command.add_option(flag, value, help)->type_name(form)->check(allowed);
  };
  value("--price", price, "dollars per GPU and hour [price_per_gpu_hour of the cluster file]", "2.50",
        number(0, 1e6));
  value("--watts", watts, "watts drawn by one GPU and its share of the node, all the time [no energy]",
        "1300", number(0, 1e6));
  value("--pue", pue, "energy of the building over that of its computers [1]", "1..10", number(1, 10));
}

std::vector<std::string> CampaignFlags::given() const {
  const std::pair<const char*, bool> flags[] = {{"--tokens", !tokens.empty()},
                                                {"--samples", !samples.empty()},
                                                {"--mtbf", !mtbf.empty()},
                                                {"--restart", !restart.empty()},
                                                {"--checkpoint-bandwidth", !bandwidth.empty()},
                                                {"--price", price.has_value()},
                                                {"--watts", watts.has_value()},
                                                {"--pue", pue.has_value()}};
  std::vector<std::string> names;
  for (const auto& [flag, is_given] : flags)
    if (is_given) names.emplace_back(flag);
  return names;
}

CampaignReport CampaignFlags::conditions() const {
  check_together(*this);
  CampaignReport report;
  report.unit = tokens.empty() ? "samples" : "tokens";
  report.amount = tokens.empty() ? read_count("--samples", samples) : read_count("--tokens", tokens);
  if (!mtbf.empty()) {
    read_mtbf(mtbf, report);
    report.default_restart = restart.empty();
    report.restart_seconds =
        read_seconds("--restart", report.default_restart ? "10m" : restart, "10m or 90s", true);
  }
  if (!bandwidth.empty()) report.checkpoint_bandwidth = read_rate("--checkpoint-bandwidth", bandwidth);
  report.watts = watts;
  report.default_pue = !pue;
  report.pue = pue.value_or(1);
  return report;
}

void add_cost(const CampaignFlags& flags, const CampaignReport& report, const CostedPlan& costed,
              CampaignRow& row) {
  row.amount_per_step = amount_per_step(costed.plan, row.name, report.unit);
  row.run.gpus = row.gpus;
  row.run.steps = steps_for(report.amount, row.amount_per_step, report.unit);
  if (report.mtbf_seconds > 0) add_checkpoint(report, costed, row);
  add_price(flags, costed, row);
  row.run.watts_per_gpu = flags.watts;
  row.run.pue = report.pue;
  row.error = explain::error_of(costed.plan.labels, costed.cluster, row.gpus);
  const auto [least, most] = campaign::step_range(row.run.step_seconds, row.error.error.share);
  row.cost = campaign::cost_range(row.run, least, most);
  check_goodput(row);
}

}  // namespace boxcar::cli
