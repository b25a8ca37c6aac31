// Random jobs satisfy the laws, and the drawing keeps its promises.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <set>

#include "apart.h"
#include "laws.h"
#include "program.h"
#include "shrink.h"
#include "soak.h"

namespace boxcar::tests {
namespace {

// scripts/test --all derives the seed from the commit, so each commit runs other jobs.
uint64_t seed_of_run() {
  const char* text = std::getenv("BOXCAR_SEED");
  return text ? std::strtoull(text, nullptr, 16) : 0x1f75b62c;
}

TEST(RandomJobs, KnowEveryKey) {
  for (const cli::Key& key : cli::keys()) {
    const bool varied = std::any_of(dimensions().begin(), dimensions().end(),
                                    [&](const Dimension& d) { return d.path == key.path(); });
    EXPECT_NE(varied, fixed_keys().contains(key.path())) << key.path();
  }
}

TEST(RandomJobs, KnowEveryWord) {
  for (const Dimension& d : dimensions()) {
    if (d.path == layouts_dimension) continue;
    const size_t dot = d.path.find('.');
    for (const std::string& word : cli::find_key(d.path.substr(0, dot), d.path.substr(dot + 1))->words) {
      const bool varied = std::any_of(d.values.begin(), d.values.end(), [&](const std::string& value) {
        return ("," + value + ",").find("," + word + ",") != std::string::npos;  // of a list too
      });
      EXPECT_NE(varied, fixed_words().contains(d.path + "=" + word)) << d.path << " " << word;
    }
  }
}

TEST(RandomJobs, ReadBack) {
  Coverage coverage;
  Drawer drawer(5);
  for (int i = 0; i < 20; ++i)
    if (const auto job = drawer.draw(coverage)) {
      EXPECT_EQ(parse_random_job(to_text(*job)), *job);
    }
}

TEST(RandomJobs, TextThatIsNoJobIsRefused) {
  EXPECT_THROW(parse_random_job("parallel.nothing=1"), std::invalid_argument);
  EXPECT_THROW(parse_random_job("parallel.tp=three"), std::invalid_argument);
}

TEST(RandomJobs, HaveThePairThatIsAskedFor) {
  const Coverage none;
  Drawer drawer(6);
  int drawn = 0;
  for (size_t i = 0; i < none.pairs(); i += none.pairs() / 30) {
    const Pair& pair = none.all()[i];
    const auto job = drawer.draw(pair);
    if (!job) continue;
    ++drawn;
    Coverage coverage;
    coverage.add(*job);
    EXPECT_TRUE(coverage.has(pair)) << to_text(pair);
    EXPECT_FALSE(refusal(*job)) << to_text(*job);
  }
  EXPECT_GT(drawn, 10);
}

TEST(RandomJobs, ShrinkToWhatFails) {
  const RandomJob job = parse_random_job(
      "model.layers=4 parallel.tp=2 parallel.pp=2 parallel.zero=3 parallel.dp=2 train.weight_decay=0.1");
  const RandomJob least = shrink(job, [](const RandomJob& less) {
    return less.value("parallel.tp") != "1" && less.value("train.weight_decay") != "0";
  });
  EXPECT_EQ(to_text(least), "parallel.tp=2 train.weight_decay=0.1");
}

TEST(Apart, TellsHowACheckFailed) {
  EXPECT_EQ(failure_of([] {}, 10), "");
  EXPECT_EQ(failure_of([] { throw std::runtime_error("no"); }, 10), "threw no\n");
  EXPECT_NE(failure_of([] { EXPECT_EQ(1, 2) << "numbers"; }, 10).find("numbers"), std::string::npos);
  EXPECT_EQ(failure_of([] { std::abort(); }, 10), "ended by signal 6 (Aborted)\n");
  EXPECT_EQ(failure_of(
                [] {
                  for (;;) pause();
                },
                1),
            "has not ended after 10 s\n");
  EXPECT_EQ(failure_of(
                [] {
                  for (std::atomic<int> count = 0;; ++count) continue;
                },
                1),
            "has not ended after 1 s of processor time\n");
}

// --- the laws, for jobs that once broke them

struct Found {
  const char* law;
  const char* job;
};

constexpr Found found[] = {
    {"training",
     "model.family=resnet model.layers=16 model.width=2 parallel.dp=3 parallel.micro_batch=3 "
     "plan.layouts=found train.optimizer=sgd"},
    {"rounding", "train.off=clip train.optimizer=momentum train.precision=fp16"},
    {"rounding",
     "model.experts=4 model.gelu=tanh model.heads=6 model.hidden=24 model.layers=8 model.norm_epsilon=0.01 "
     "model.qk_norm=true model.router_scores=sigmoid parallel.micro_batch=2 train.precision=fp16"},
    {"reference", "model.family=unet model.layers=3 parallel.pp=2 train.precision=bf16 train.stack=oneflow"},
    {"training", "model.experts=2 parallel.attention=flash parallel.dp=3 plan.layouts=random"},
    {"training",
     "model.dropout=0.1 model.heads=1 model.hidden=2 model.layers=4 parallel.dp=3 "
     "parallel.recompute=selective parallel.recompute_layers=falling plan.layouts=random"},
    {"training",
     "model.decoder_seq=2 model.family=t5 model.mlp=swiglu model.norm=rms parallel.tp=4 "
     "plan.layouts=random"},
    {"shortcuts",
     "cluster.preset=dgx-1-v100-16g model.family=alexnet model.image=63 model.layers=8 parallel.dp=3 "
     "parallel.pp=2 parallel.virtual_stages=2 train.stack=pytorch-compiled"},
    {"shortcuts",
     "cluster.preset=dgx-1-v100-16g parallel.micro_batch=2 parallel.pp=2 parallel.recompute=full "
     "parallel.tp=4 train.stack=megatron"},
    {"reference", "model.experts=2 model.heads=1 model.hidden=2 parallel.dp=4 parallel.ep=2 parallel.zero=1"},
    {"training",
     "model.decoder_layers=2 model.dropout=0.1 model.family=t5 model.layers=6 parallel.context_parallel=2 "
     "parallel.dp=4 parallel.recompute=ops plan.layouts=random"},
    {"plan",
     "model.family=unet model.layers=5 parallel.pp=2 parallel.stage_layers=last parallel.virtual_stages=2 "
     "train.global_batch=x2"},
    {"reference",
     "model.family=unet model.layers=5 parallel.pp=2 parallel.stage_layers=last parallel.virtual_stages=2 "
     "train.global_batch=x2"},
    {"rounding",
     "model.heads=2 model.hidden=2 model.tied=false parallel.dp=4 parallel.tp=2 plan.layouts=random "
     "train.precision=bf16"},
    {"reference",
     "cluster.preset=local model.family=resnet model.layers=16 parallel.micro_batch=3 parallel.tp=2 "
     "plan.layouts=found train.optimizer=sgd"},
    {"plan",
     "model.family=diffusion_unet model.layers=5 parallel.defer_head_grad=1 parallel.pp=3 "
     "train.epilogues=true train.global_batch=x2"},
    {"reference",
     "model.family=diffusion_unet model.layers=5 parallel.defer_head_grad=1 parallel.pp=3 "
     "train.epilogues=true train.global_batch=x2"},
    {"plan",
     "model.family=diffusion_unet model.layers=5 parallel.pp=2 parallel.stage_layers=last "
     "parallel.virtual_stages=2 train.global_batch=x2"},
    {"training", "model.family=unet model.layers=1 parallel.micro_batch=3 train.optimizer=sgd"},
    {"training",
     "model.family=unet model.layers=1 parallel.dp=4 parallel.micro_batch=3 parallel.servers=4 "
     "parallel.servers_update=false train.optimizer=momentum"},
    {"program",
     "model.attention_window=1 model.family=llama model.kv_lora_rank=4 model.qk_nope_head_dim=3 "
     "model.qk_rope_head_dim=2 model.v_head_dim=5 parallel.attention=flash"},
    {"plan",
     "model.heads=8 model.qk_norm=true parallel.context_parallel=2 parallel.zero=2 plan.layouts=found "
     "train.precision=fp16"},
    {"plan",
     "model.heads=1 model.hidden=2 model.tied=false parallel.dp=3 parallel.zero=1 train.optimizer=lars"},
    {"reference", "model.heads=1 model.hidden=2 parallel.dp=3 parallel.zero=1 train.optimizer=lamb"},
    {"training",
     "model.channels_last=true model.family=unet model.image=8 model.layers=5 parallel.dp=2 "
     "parallel.micro_batch=3 parallel.tp=2 plan.layouts=random train.optimizer=sgd train.precision=fp16"},
    {"program", "model.bias=false model.pad_vocab=8 parallel.dp=2 parallel.tp=2 train.optimizer=adafactor"},
    {"plan",
     "model.experts=2 parallel.context_parallel=2 plan.layouts=random train.optimizer=adafactor "
     "train.precision=fp16"},
    {"plan",
     "parallel.dp=2 parallel.recompute=full parallel.tp=2 plan.layouts=random train.logits=half "
     "train.optimizer=lamb train.precision=bf16"},
    {"plan",
     "model.bias=false parallel.dp=2 train.grad_reduction=half train.optimizer=adafactor "
     "train.precision=bf16"},
};

TEST(RandomJobs, ThatOnceFailedHold) {
  for (const Found& one : found) {
    SCOPED_TRACE(one.job);
    const RandomJob job = parse_random_job(one.job);
    const auto law = std::find_if(laws().begin(), laws().end(),
                                  [&](const Law& known) { return std::string(known.name) == one.law; });
    ASSERT_NE(law, laws().end());
    ASSERT_TRUE(law->is_for(job));
    EXPECT_EQ(failure_of([&] { law->check(job); }, law->seconds), "");
  }
}

// --- the laws, in parts that run in parallel

constexpr int parts = 6, jobs_a_part = 50;

class RandomJobLaws : public testing::TestWithParam<int> {};

TEST_P(RandomJobLaws, Hold) {
  SoakOptions options;
  options.seed = seed_of_run() * parts + static_cast<uint64_t>(GetParam());
  options.jobs = jobs_a_part;
  Coverage coverage;
  const SoakResult result = soak(options, coverage);
  EXPECT_EQ(result.jobs, jobs_a_part);
  for (const Failure& failure : result.failures)
    ADD_FAILURE() << fmt::format("seed {}: {}", options.seed, to_text(failure));
}
INSTANTIATE_TEST_SUITE_P(Parts, RandomJobLaws, testing::Range(0, 2));
INSTANTIATE_TEST_SUITE_P(LongParts, RandomJobLaws, testing::Range(2, parts));

// A job that one command refuses is refused by the other, with the same words.
TEST(RandomJobs, AreRefusedByBothCommands) {
  std::mt19937_64 random(seed_of_run());
  int refused = 0;
  for (int i = 0; i < 60; ++i) {
    RandomJob job;
    for (int changes = 0; changes < 4; ++changes) {
      const Dimension& d = dimensions()[random() % dimensions().size()];
      if (!d.path.starts_with("run.") && d.path != layouts_dimension && d.path != "cluster.preset")
        job = job.with(d.path, d.values[random() % d.values.size()]);
    }
    if (!refusal(job)) continue;
    ++refused;
    EXPECT_EQ(failure_of([&] { check_refused(job); }, 60), "") << to_text(job);
  }
  EXPECT_GT(refused, 5);
}

}  // namespace
}  // namespace boxcar::tests
