// Laws of boxcar export over random jobs: no key is lost, degrees and batches are those of the job.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "cli/export/export.h"
#include "cli/export_command.h"
#include "cli/keys.h"
#include "export_rows.h"
#include "ir/ops/optimizers.h"
#include "random_job.h"
#include "sbp/error.h"

namespace boxcar::cli::export_tests {
namespace {

using exports::Exported;
using exports::Framework;
using exports::Json;
using tests::RandomJob;

// Nothing where the job is refused.
std::optional<exports::Source> source_of_job(const RandomJob& job) {
  try {
    Resolved resolved = resolve(tests::given_of(job));
    return exports::Source{std::move(resolved.request), std::move(resolved.labels)};
  } catch (const Error& e) {
    EXPECT_NE(e.code(), Exit::fault) << tests::to_text(job) << ": " << e.what();
    return std::nullopt;
  }
}

// Nothing where the framework does not train such models.
std::optional<Exported> exported(const Framework& framework, const exports::Source& source) {
  try {
    return exports::write(framework, source);
  } catch (const Error& e) {
    EXPECT_NE(e.code(), Exit::fault) << e.what();
    return std::nullopt;
  }
}

// Jobs in which many keys have an effect.
std::vector<RandomJob> bases() {
  const char* texts[] = {
      "parallel.dp=2 parallel.tp=2 parallel.pp=2 parallel.zero=1 train.precision=fp16 model.layers=4 "
      "train.global_batch=x4",
      "parallel.dp=2 parallel.tp=2 parallel.pp=2 train.precision=bf16 model.layers=4 train.global_batch=x4 "
      "train.optimizer=momentum",
      "model.family=llama parallel.dp=4 parallel.zero=3 train.precision=bf16 parallel.attention=flash "
      "parallel.recompute=full",
      "model.family=llama parallel.context_parallel=2 parallel.dp=2 parallel.attention=flash "
      "train.precision=bf16",
      "parallel.dp=2 model.experts=2 train.precision=bf16",
      "parallel.pp=2 model.layers=4 parallel.recompute=full parallel.recompute_layers=1 "
      "train.global_batch=x4",
      "model.family=bert model.masked=1",
      "model.family=t5 model.layers=4",
      "model.family=resnet model.layers=16",
  };
  std::vector<RandomJob> jobs;
  for (const char* text : texts) jobs.push_back(tests::parse_random_job(text));
  return jobs;
}

// No key is lost: another value is another text, or a note.
TEST(ExportLaws, NothingIsSilentlyDifferent) {
  // Values that mean what the other value means, or what these frameworks do either way.
  const std::set<std::string> alike{"train.grad_reduction=float32", "train.off=fuse_elementwise",
                                    "train.optimizer=adamw"};
  std::vector<std::optional<exports::Source>> from;
  for (const RandomJob& base : bases()) {
    from.push_back(source_of_job(base));
    ASSERT_TRUE(from.back()) << tests::to_text(base);
  }
  for (const tests::Dimension& d : tests::dimensions()) {
    if (!row_of(exports::frameworks().front(), d.path)) continue;  // of running
    for (const std::string& value : d.values) {
      if (alike.contains(d.path + "=" + value)) continue;
      std::map<std::string, std::pair<bool, bool>> tried_and_told;
      for (size_t b = 0; b < from.size(); ++b) {
        const auto to = source_of_job(bases()[b].with(d.path, value));
        const auto has_key = [&](const exports::Source& source) {
          return key_at(d.path).is_of(source.job().model.family());
        };
        if (!to || !has_key(*from[b]) || !has_key(*to)) continue;
        if (from[b]->label(d.path) == to->label(d.path)) continue;
        for (const Framework& framework : exports::frameworks()) {
          if (!row_of(framework, d.path)->write) continue;  // the table has a reason
          const auto before = exported(framework, *from[b]), after = exported(framework, *to);
          if (!before || !after) continue;
          auto& [tried, told] = tried_and_told[framework.name];
          tried = true;
          told = told || before->text != after->text;
        }
      }
      for (const auto& [name, found] : tried_and_told)
        EXPECT_EQ(found.first, found.second) << name << " loses " << d.path << " " << value;
    }
  }
}

// An optimizer that a framework does not have is not taken for another one.
TEST(ExportLaws, NoOptimizerIsTakenForAnother) {
  const RandomJob job = tests::parse_random_job("parallel.dp=2 model.family=llama train.precision=bf16");
  for (const Framework& framework : exports::frameworks()) {
    std::map<std::string, std::string> by_text;
    for (const ir::OptimizerRow& row : ir::optimizer_rows()) {
      const auto source = source_of_job(job.with("train.optimizer", row.name));
      ASSERT_TRUE(source) << row.name;
      const auto written = exported(framework, *source);
      ASSERT_TRUE(written) << framework.name;
      const auto [other, is_new] = by_text.emplace(written->text, row.name);
      EXPECT_TRUE(is_new) << framework.name << " writes " << row.name << " as " << other->second;
    }
  }
}

int64_t number(const Exported& e, const std::string& name, int64_t otherwise = 1) {
  const Json* value = exports::find(e.settings, name);
  return value ? value->get<int64_t>() : otherwise;
}

// GPUs, replicas and batches as the framework would count them.
struct Counts {
  int64_t gpus, dp, micro_batch, micro_batches, global_batch;
};

Counts counts_of(const std::string& framework, const Exported& e, const planner::Job& job) {
  const planner::Hints& h = job.parallel;
  if (framework == "megatron" || framework == "nemo") {
    const bool nemo = framework == "nemo";
    const std::string strategy = nemo ? "MegatronStrategy." : "--", data = nemo ? "MockDataModule." : "--";
    const auto in = [&](const std::string& prefix, std::string name) {
      if (!nemo) std::replace(name.begin(), name.end(), '_', '-');
      return number(e, prefix + name);
    };
    const int64_t gpus = nemo ? number(e, "Trainer.devices") * number(e, "Trainer.num_nodes")
                              : number(e, "--nproc-per-node") * number(e, "--nnodes");
    const int64_t dp =
        gpus / (in(strategy, "tensor_model_parallel_size") * in(strategy, "pipeline_model_parallel_size") *
                in(strategy, "context_parallel_size"));
    const int64_t micro = in(data, "micro_batch_size"), global = in(data, "global_batch_size");
    return {gpus, dp, micro, global / (micro * dp), global};
  }
  if (framework == "deepspeed") {
    const int64_t gpus = number(e, "--num_nodes") * number(e, "--num_gpus");
    const int64_t dp = gpus / (number(e, "tensor_parallel.autotp_size") * h.pp * h.cp);
    return {gpus, dp, number(e, "train_micro_batch_size_per_gpu"), number(e, "gradient_accumulation_steps"),
            number(e, "train_batch_size")};
  }
  const std::string p = "parallelism.";
  const int64_t dp =
      number(e, p + "data_parallel_replicate_degree") * number(e, p + "data_parallel_shard_degree");
  const int64_t pp = number(e, p + "pipeline_parallel_degree"),
                local = number(e, "training.local_batch_size");
  const int64_t micro = number(e, p + "pipeline_parallel_microbatch_size", local);
  const int64_t global = number(e, "training.global_batch_size");
  return {dp * pp * number(e, p + "tensor_parallel_degree") * number(e, p + "context_parallel_degree"), dp,
          micro, global / (local * dp) * (local / micro), global};
}

TEST(ExportLaws, DegreesMultiplyToTheGpusAndBatchesAgree) {
  std::mt19937_64 random(20);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  std::map<std::string, int> written;
  for (int i = 0; i < 2000; ++i) {
    RandomJob job = bases().at(below(bases().size()));
    for (int change = 0; change < 4; ++change) {
      const tests::Dimension& d = tests::dimensions().at(below(tests::dimensions().size()));
      job = job.with(d.path, d.values.at(below(d.values.size())));
    }
    const auto source = source_of_job(job);
    if (!source) continue;
    for (const Framework& framework : exports::frameworks()) {
      const auto e = exported(framework, *source);
      if (!e) continue;
      ++written[framework.name];
      const planner::Job& resolved = source->job();
      const Counts counts = counts_of(framework.name, *e, resolved);
      EXPECT_EQ(counts.gpus, resolved.gpus) << tests::to_text(job);
      EXPECT_EQ(counts.dp, resolved.parallel.dp) << tests::to_text(job);
      EXPECT_EQ(counts.micro_batch, resolved.parallel.micro_batch) << tests::to_text(job);
      EXPECT_EQ(counts.micro_batches, source->micro_batches()) << tests::to_text(job);
      EXPECT_EQ(counts.global_batch, resolved.global_batch) << tests::to_text(job);
      EXPECT_EQ(counts.global_batch, counts.micro_batch * counts.micro_batches * counts.dp);
    }
  }
  for (const Framework& framework : exports::frameworks()) EXPECT_GT(written[framework.name], 100);
}

}  // namespace
}  // namespace boxcar::cli::export_tests
