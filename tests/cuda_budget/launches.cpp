// Prints each kernel's launches in a step of GPT-2, Llama and ResNet-50 as JSON, one op a line: the CUDA
// backend over its stand-in, which notes the launches and runs none. Blocks are as large as on a GPU.
//
//   {"job": "gpt2", "op": "layer_norm", "types": "...", "count": 25, "bytes": 50e6, "way": "own kernels",
//    "launches": [{"kernel": 0x1234, "grid": [16384, 1], "block": 256, "arguments": ["00af..."]}]}
//
// `kernel` is an address, less that of main(). `bytes` are those that the op must move: each operand once.
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <map>

#include "actors/layout.h"
#include "actors/profile/plan_calls.h"
#include "backends/cuda/cuda_device.h"
#include "backends/machines/presets.h"
#include "ir/op.h"
#include "planner/resolve.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "tally.h"

int main();

namespace boxcar {
namespace {

using backends::cuda::CudaDevice;

planner::Job transformer(const char* family, int64_t hidden, int64_t heads, int64_t seq, int64_t vocab,
                         int micro_batch) {
  planner::Job job;
  job.model = ir::models::defaults(family);
  job.model->layers = 2, job.model->hidden = hidden, job.model->heads = heads, job.model->seq = seq;
  job.model->vocab = vocab;
  job.parallel.micro_batch = micro_batch;
  return job;
}
void fuse(planner::Job& job) {
  job.train.epilogues = job.train.fused_loss = job.parallel.fused_optimizer = true;
}

// Two layers of each have all the kernels of the whole.
std::vector<std::pair<std::string, planner::Job>> jobs() {
  std::vector<std::pair<std::string, planner::Job>> list;
  planner::Job gpt = transformer("gpt", 768, 12, 1024, 50257, 16);
  list.emplace_back("gpt2-defaults", gpt);
  gpt.model->dropout = 0, gpt.model->gelu = "tanh";
  gpt.train.flash = gpt.model->flash = true;
  fuse(gpt);
  list.emplace_back("gpt2", gpt);
  planner::Job llama = transformer("llama", 2048, 32, 4096, 128256, 1);
  llama.model->kv_heads = 8, llama.model->ffn = 8192;
  llama.train.flash = llama.model->flash = true;
  fuse(llama);
  list.emplace_back("llama", llama);
  planner::Job images;
  images.model = ir::models::ConvNet{"resnet", 16, 64, 1, 224, 1000, true};
  images.train.optimizer = ir::Optimizer::momentum;
  images.parallel.micro_batch = 64;
  fuse(images);
  list.emplace_back("resnet50", images);
  for (auto& [name, job] : list) {
    job.train.precision = ir::Precision::bf16;
    job.gpus = 1;
    job.global_batch = 2 * job.parallel.micro_batch;
    job.cluster = backends::load_cluster("local", 1);
  }
  return list;
}

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string json_of(const cuda_on_cpu::Launched& l) {
  if (!l.kernel) return fmt::format(R"({{"set": {}}})", l.bytes);
  std::vector<std::string> arguments;
  for (const std::string& argument : l.arguments) arguments.push_back('"' + hex(argument) + '"');
  return fmt::format(R"({{"kernel": {}, "grid": [{}, {}], "block": {}, "arguments": [{}]}})",
                     reinterpret_cast<const char*>(l.kernel) - reinterpret_cast<const char*>(&::main),
                     l.grid.x, l.grid.y, l.block.x, fmt::join(arguments, ", "));
}

class Steps {
 public:
  Steps() {
    cuda_on_cpu::Machine machine;
    machine.memory = size_t{64} << 30;
    machine.watch = [this](const cuda_on_cpu::Launched& l) { launches_.push_back(json_of(l)); };
    cuda_on_cpu::pretend(machine);
  }

  void print(const std::string& name, const planner::Job& job) {
    const ir::Plan plan = planner::compile(planner::resolve(job));
    const actors::Layout layout(plan, [](int) { return 0; });
    std::map<std::string, std::pair<measure::Sampled, int>> kernels;
    for (const ir::Actor& actor : layout.program(0).actors) {
      if (!profile::is_kernel(actor)) continue;
      profile::Known known = profile::known_as(layout, actor);
      ++kernels.try_emplace(known.key, std::move(known.sampled), 0).first->second.second;
    }
    for (const auto& [key, kernel] : kernels) print(name, kernel.first, kernel.second);
  }

 private:
  void print(const std::string& job, const measure::Sampled& sampled, int count) {
    const backends::Call& call = sampled.call;
    backends::cpu::Waits waits(nullptr);
    backends::cuda::Recorder recorder(waits, [] {});
    CudaDevice device(
        0, waits, [] {}, recorder);
    const auto queue = device.queue(ir::QueueKind::compute);
    const auto kernel = device.prepare(call, *queue);
    launches_.clear();
    run(*kernel, call.inputs, call.outputs);
    if (!sampled.adds.empty() && sampled.adds[0]) {  // as actors/queue_thread.cpp does
      const ir::TensorType& sum = call.outputs[0];
      run(*device.prepare({"add", {sum, sum}, {sum}, ir::complete(ir::op("add"), {})}, *queue), {sum, sum},
          {sum});
    }
    std::string types;
    for (const ir::TensorType& type : call.inputs) types += ir::to_text(type) + " ";
    types += "->";
    for (const ir::TensorType& type : call.outputs) types += " " + ir::to_text(type);
    const ir::Work work = ir::work(ir::op(call.op), call.inputs, call.outputs, call.attrs);
    fmt::print(
        R"({{"job": "{}", "op": "{}", "types": "{}", "count": {}, "bytes": {}, "way": "{}", "launches": [{}]}})"
        "\n",
        job, call.op, types, count, work.bytes, device.made().begin()->how, fmt::join(launches_, ", "));
  }
  // At addresses of no memory.
  static void run(backends::Kernel& kernel, const ir::Types& inputs, const ir::Types& outputs) {
    uintptr_t at = uintptr_t{1} << 40;
    const auto place = [&at](const ir::TensorType& type) {
      const uintptr_t here = at;
      at += static_cast<uintptr_t>((type.bytes() + 511) / 512 * 512);
      return reinterpret_cast<void*>(here);
    };
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const ir::TensorType& type : inputs) in.push_back(place(type));
    for (const ir::TensorType& type : outputs) out.push_back(place(type));
    kernel.run(in, out, {.step = 3, .micro_batch = 0, .micro_batches = 2, .seed = 1, .learning_rate = 0.1});
  }

  std::vector<std::string> launches_;
};

}  // namespace
}  // namespace boxcar

int main() {
  try {
    boxcar::Steps steps;
    for (const auto& [name, job] : boxcar::jobs()) steps.print(name, job);
  } catch (const boxcar::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
