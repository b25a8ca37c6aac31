#include "actors/profile/gpu_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "actors/profile/plan_calls.h"
#include "backends/measure/bench.h"
#include "ir/op.h"

namespace boxcar::profile {
namespace {

using ir::DType;
using ir::Precision;

// m rows of activations times the weights of layers: hidden to its multiples, vocabularies, and irregular
// sizes.
std::vector<measure::Sampled> product_calls() {
  constexpr int64_t weights[][2] = {{768, 768},   {768, 2304},    {768, 3072},  {3072, 768},  {768, 50257},
                                    {1024, 4096}, {1600, 1600},   {1600, 4800}, {1600, 6400}, {6400, 1600},
                                    {2048, 2048}, {2048, 8192},   {8192, 2048}, {4096, 4096}, {4096, 11008},
                                    {8192, 8192}, {12288, 12288}, {333, 777},   {1000, 1000}, {5120, 1733}};
  std::vector<measure::Sampled> list;
  for (const DType type : {DType::bfloat16, DType::float32, DType::float16})
    for (const int64_t m : {64, 333, 1024, 2048, 4096, 8192, 16384})
      for (const auto [k, n] : weights) {
        if (type != DType::bfloat16 && (m % 2048 != 0 || k * n > 40'000'000)) continue;
        list.push_back(measure::call_of("matmul", {{{m, k}, type}, {{k, n}, type}}));
      }
  for (const int64_t size : {16, 64, 128, 256, 512})
    list.push_back(
        measure::call_of("matmul", {{{size, size}, DType::bfloat16}, {{size, size}, DType::bfloat16}}));
  for (const int64_t n : {256, 1024, 2048, 4096})
    for (const bool back : {false, true})  // scores, and weighted sums of values
      list.push_back(
          measure::call_of("batch_matmul", {{{8, 12, n, back ? n : 64}, DType::bfloat16},
                                            {{8, 12, back ? n : 64, back ? 64 : n}, DType::bfloat16}}));
  return list;
}

// 16,384 positions in 16 heads of 64 or 8 of 128, forward and backward.
std::vector<measure::Sampled> attention_calls() {
  std::vector<measure::Sampled> list;
  for (const int64_t sequence : {256, 512, 1024, 2048, 4096, 8192})
    for (const int64_t width : {64, 128})
      for (const bool causal : {true, false}) {
        const ir::TensorType q{{16384 / sequence, 1024 / width, sequence, width}, DType::bfloat16};
        const ir::Attrs attrs{{"causal", causal}};
        list.push_back(measure::call_of("scaled_dot_product_attention", {q, q, q}, attrs));
        const ir::Types out = list.back().call.outputs;
        list.push_back(
            measure::call_of("scaled_dot_product_attention_grad", {q, q, q, q, out[0], out[1]}, attrs));
      }
  return list;
}

planner::Job job_of(const char* family, int64_t hidden, int64_t heads, int64_t seq, int64_t vocab,
                    int micro_batch) {
  planner::Job job;
  job.model = ir::models::defaults(family);
  job.model->layers = 2, job.model->hidden = hidden, job.model->heads = heads, job.model->seq = seq;
  job.model->vocab = vocab, job.model->pad_vocab_to = 1;
  job.train.precision = Precision::bf16;
  job.train.flash = job.model->flash = true;
  job.parallel.micro_batch = micro_batch;
  return job;
}

// Two layers of each have all the kernels of the whole model.
std::vector<planner::Job> model_jobs() {
  std::vector<planner::Job> jobs;
  const auto add = [&](planner::Job job, auto change) {
    change(job);
    job.gpus = job.parallel.tp;
    job.global_batch = 2 * job.parallel.micro_batch;
    job.cluster = backends::load_cluster("local", job.gpus);
    jobs.push_back(std::move(job));
  };
  const auto none = [](planner::Job&) {};
  const auto no_dropout = [](planner::Job& job) { job.model->dropout = 0; };
  const auto unfused = [](planner::Job& job) {
    job.model->dropout = 0, job.train.flash = job.model->flash = false;
  };
  const auto fused = [](planner::Job& job) {
    job.model->dropout = 0, job.model->gelu = "tanh";
    job.train.epilogues = job.train.fused_loss = job.parallel.fused_optimizer = true;
  };
  const planner::Job small = job_of("gpt", 768, 12, 1024, 50257, 16),
                     medium = job_of("gpt", 1024, 16, 1024, 50257, 8);
  add(small, no_dropout);
  add(small, none);
  add(small, unfused);
  add(medium, fused);
  add(job_of("gpt", 1600, 25, 1024, 50257, 4), fused);
  add(job_of("llama", 2048, 32, 4096, 128256, 1),
      [](planner::Job& job) { job.model->kv_heads = 8, job.model->ffn = 8192; });
  planner::Job images;
  images.model = ir::models::ConvNet{"resnet", 16, 64, 1, 224, 1000, true};
  images.train.precision = Precision::bf16;
  images.train.optimizer = ir::Optimizer::momentum;
  images.parallel.micro_batch = 64;
  add(images, [](planner::Job& job) { job.train.fused_loss = job.parallel.fused_optimizer = true; });
  add(medium, [](planner::Job& job) { job.parallel.tp = 2, job.parallel.sequence_parallel = true; });
  add(small, [](planner::Job& job) { job.train.precision = Precision::fp16, job.parallel.micro_batch = 8; });
  add(small, [](planner::Job& job) { job.train.precision = Precision::fp32, job.parallel.micro_batch = 4; });
  return jobs;
}

std::vector<int> group_sizes(int gpus) {
  std::vector<int> sizes;
  for (int ranks = 2; ranks <= std::min(gpus, 8); ranks *= 2) sizes.push_back(ranks);
  return sizes;
}

}  // namespace

std::vector<measure::Sampled> sum_calls(int64_t most) {
  std::vector<measure::Sampled> list;
  for (int64_t elements = 64; elements <= most; elements *= 4)
    list.push_back(measure::call_of("add", {{{elements}, DType::float32}, {{elements}, DType::float32}}));
  return list;
}

Sweep gpu_sweep(int64_t free_bytes, int64_t most) {
  Sweep sweep;
  sweep.memory = std::min(free_bytes / 10 * 9, most);
  sweep.footprint = std::min<int64_t>(sweep.memory / 2, int64_t{512} << 20);  // caches have about 50 MB
  sweep.calls = sum_calls(int64_t{1} << 28);
  for (const auto& some : {attention_calls(), product_calls()})
    sweep.calls.insert(sweep.calls.end(), some.begin(), some.end());
  sweep.jobs = model_jobs();
  int64_t side = 8192;
  while (side > 64 && 2 * 3 * 2 * side * side > sweep.memory) side /= 2;
  const ir::TensorType square{{side, side}, DType::bfloat16};
  sweep.sustained = measure::call_of("matmul", {square, square});
  sweep.sustained_seconds = 3;
  sweep.upload_bytes = std::min<int64_t>(64 << 20, sweep.memory);
  sweep.largest_group = std::min<int64_t>(256 << 20, sweep.memory / 2 / 4096 * 4096);
  sweep.budget_seconds = 240;
  return sweep;
}

measure::Samples measure_gpus(const measure::MakeBackend& make, int gpus, const Sweep& sweep,
                              const std::function<void(const std::string&)>& progress) {
  measure::Samples samples;
  const double end = measure::wall_seconds() + sweep.budget_seconds;
  samples.type = DType::bfloat16;
  {
    const auto backend = make(1);
    const backends::DeviceFacts facts = backend->device(0).facts();
    samples.name = facts.name;
    samples.memory_bytes = facts.memory_bytes;
    samples.multiprocessors = facts.multiprocessors;
    measure::Bench bench(*backend, sweep.memory, sweep.footprint);
    const auto time = [&](const std::vector<measure::Sampled>& calls, const std::string& of) {
      for (size_t i = 0; i < calls.size() && measure::wall_seconds() < end; ++i) {
        progress(fmt::format("measuring {}, {} of {}: {}", of, i + 1, calls.size(), calls[i].call.op));
        const double seconds = bench.seconds(calls[i]);
        const std::vector<bool>& adds = calls[i].adds;
        if (seconds > 0)
          samples.kernels.push_back({calls[i].call, seconds, std::count(adds.begin(), adds.end(), true)});
      }
    };
    time(sweep.calls, "kernels");
    std::set<std::string> known;
    for (size_t j = 0; j < sweep.jobs.size() && measure::wall_seconds() < end; ++j)
      time(calls_of(sweep.jobs[j], known), fmt::format("model {} of {}", j + 1, sweep.jobs.size()));
    progress("measuring launches, copies and sustained load");
    samples.launch_seconds = bench.launch_seconds();
    samples.upload_bandwidth = bench.upload_bandwidth(sweep.upload_bytes);
    samples.load_share = bench.load_share(sweep.sustained, sweep.sustained_seconds);
  }
  if (gpus > 1) progress("measuring collectives");
  samples.groups = measure::measure_groups(make, group_sizes(gpus), {1 << 10, sweep.largest_group});
  return samples;
}

}  // namespace boxcar::profile
