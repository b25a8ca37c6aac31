// Products take cuBLASLt's first algorithm, or the fastest one timed; biases are fused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/cuda/cuda_device.h"
#include "host/temporary.h"
#include "sbp/at.h"
#include "support/error_of.h"
#include "tally.h"

namespace boxcar::backends::cuda {
namespace {

int runs_of(int algorithm) {
  return cuda_on_cpu::tallied("product by algorithm " + std::to_string(algorithm));
}

class AlgorithmsTest : public testing::Test {
 protected:
  // Runs c[m, 2] = a[m, 3] b[3, 2] of ones `times` times; returns how often each of the four algorithms ran.
  std::vector<int> run(Blas& blas, int64_t m, int times) {
    std::vector<int> before, after;
    for (int i = 0; i < 4; ++i) before.push_back(runs_of(i));
    const auto product = blas.product({.m = m, .n = 2, .k = 3});
    const int64_t bytes = 4096 + Blas::workspace;
    queue_->need_scratch(bytes);
    auto* const memory = static_cast<float*>(queue_->scratch());
    float *const a = memory + (Blas::workspace >> 2), *const b = a + 3 * m, *const c = b + 6;
    for (int64_t i = 0; i < 3 * m + 6; ++i) a[i] = 1;
    for (int i = 0; i < times; ++i) product->run(a, b, c, memory, queue_->stream());
    queue_->finish();
    for (int64_t i = 0; i < 2 * m; ++i) EXPECT_EQ(c[i], 3);
    for (int i = 0; i < 4; ++i) after.push_back(runs_of(i) - at(before, i));
    return after;
  }

  cpu::Waits waits_{nullptr};
  Recorder recorder_{waits_, [] {}};
  CudaDevice device_{0, waits_, [] {}, recorder_};
  std::unique_ptr<Queue> owned_ = device_.queue(ir::QueueKind::compute);
  CudaQueue* queue_ = dynamic_cast<CudaQueue*>(owned_.get());
};

using Runs = std::vector<int>;

TEST_F(AlgorithmsTest, TheFirstWhereNothingIsTimed) {
  Blas blas(waits_);
  EXPECT_EQ(run(blas, 5, 3), (Runs{3, 0, 0, 0}));
}

// Each algorithm that runs at all runs four times, three of them timed. The fastest runs from there on, and
// the next product knows it.
TEST_F(AlgorithmsTest, TheQuickestIsTimedOnceForEachShape) {
  const auto algorithms = std::make_shared<Algorithms>();
  Blas blas(waits_, algorithms), other(waits_, algorithms);
  EXPECT_EQ(run(blas, 5, 3), (Runs{4, 0, 4 + 3, 4}));
  EXPECT_EQ(run(blas, 5, 2), (Runs{0, 0, 2, 0}));
  EXPECT_EQ(run(other, 5, 2), (Runs{0, 0, 2, 0}));
  EXPECT_EQ(run(blas, 6, 1), (Runs{4, 0, 4 + 1, 4}));
}

// An earlier act on the stream does not end for long.
TEST_F(AlgorithmsTest, ATimingEndsWithTheRun) {
  Blas blas(waits_, std::make_shared<Algorithms>());
  run(blas, 6, 1);  // allocates the memory
  int asked = 0;
  bool ends = false;
  cuda_on_cpu::put_until(queue_->stream(), [&](cuda_on_cpu::Kept&) { return ends || ++asked > 50'000; });
  waits_.abort("device 5: out of range");
  EXPECT_EQ(support::error_of([&] { run(blas, 5, 1); }, Exit::fault),
            "waits for its GPU: device 5: out of range");
  ends = true;
  cudaStreamSynchronize(queue_->stream());
}

// c = a b + bias, and the sums of b's columns beside its product with a. Not in float64, for which cuBLASLt
// has no epilogue.
TEST_F(AlgorithmsTest, BiasesAreEpilogues) {
  Blas blas(waits_, std::make_shared<Algorithms>());
  const auto run = [&](Epilogue epilogue, std::vector<float> bias) {
    const auto product = blas.product({.m = 2, .n = 3, .k = 2, .epilogue = epilogue});
    const float a[] = {1, 2, 3, 4}, b[] = {1, 2, 3, 4, 5, 6};
    std::vector<float> c(6);
    queue_->need_scratch(Blas::workspace);
    product->run(a, b, c.data(), queue_->scratch(), queue_->stream(), bias.data());
    queue_->finish();
    c.insert(c.end(), bias.begin(), bias.end());
    return c;
  };
  EXPECT_EQ(run(Epilogue::add_bias, {10, 20, 30}), (std::vector<float>{19, 32, 45, 29, 46, 63, 10, 20, 30}));
  EXPECT_EQ(run(Epilogue::bias_grad, {0, 0, 0}), (std::vector<float>{9, 12, 15, 19, 26, 33, 5, 7, 9}));
  EXPECT_EQ(blas.product({.m = 2,
                          .n = 3,
                          .k = 2,
                          .in = Type::float64,
                          .out = Type::float64,
                          .epilogue = Epilogue::add_bias}),
            nullptr);
}

// Kernels of products use epilogues.
TEST_F(AlgorithmsTest, KernelsOfProductsTakeEpilogues) {
  for (const auto& [type, epilogues] : {std::pair{ir::DType::bfloat16, 1}, {ir::DType::float64, 0}})
    for (const char* op : {"matmul_bias", "matmul_bias_grad", "matmul_add", "matmul_bias_gelu"}) {
      const ir::OpDef& def = ir::op(op);
      Call call{op, {{{8, 8}, type}, {{8, 8}, type}}, {}, ir::complete(def, {})};
      if (def.inputs.back() == "bias?") call.inputs.push_back({{8, 8}, type});
      if (def.inputs.back().starts_with("bias")) call.inputs.push_back({{8}, type});
      call.outputs = def.infer(call.inputs, call.attrs);
      Libraries libraries(waits_, nullptr);
      const auto kernel = make_kernel(call, *queue_, libraries);
      std::vector<std::vector<std::byte>> memory(6, std::vector<std::byte>(512));
      const std::vector<const void*> from = {memory[0].data(), memory[1].data(), memory[2].data(),
                                             memory[5].data()};
      const std::vector<void*> to = {memory[3].data(), memory[4].data()};
      const int before = cuda_on_cpu::tallied("epilogue");
      kernel->run(std::span(from).first(call.inputs.size()), std::span(to).first(call.outputs.size()), {});
      queue_->finish();
      EXPECT_EQ(cuda_on_cpu::tallied("epilogue") - before, epilogues) << op;
    }
}

// Another run does not repeat timings.
TEST_F(AlgorithmsTest, AreKeptInAFile) {
  const tests::TemporaryFolder folder;
  const std::string file = folder / "algorithms";
  {
    Blas first(waits_, std::make_shared<Algorithms>(file));
    EXPECT_EQ(run(first, 5, 1), (Runs{4, 0, 4 + 1, 4}));
  }
  EXPECT_THAT(tests::contents(file), testing::MatchesRegex("boxcar algorithms 1\nthe host in a GPU's place, "
                                                           "cuBLASLt 13.*: 5 x 2 x 3, .* = [0-9a-f]+\n"));
  Blas second(waits_, std::make_shared<Algorithms>(file));
  EXPECT_EQ(run(second, 5, 1), (Runs{0, 0, 1, 0}));
  EXPECT_EQ(run(second, 6, 1), (Runs{4, 0, 4 + 1, 4}));
}

// Two runs share a file: each takes the other's new timings and keeps them.
TEST(AlgorithmsFile, MayBeShared) {
  const tests::TemporaryFolder folder;
  const std::string file = folder / "algorithms";
  Algorithms one(file), other(file);
  EXPECT_EQ(one.keep("x", {1, ~uint64_t{0}}), (Algorithms::Choice{1, ~uint64_t{0}}));
  EXPECT_EQ(other.keep("y", {2}), Algorithms::Choice{2});
  EXPECT_EQ(other.keep("x", {3}), (Algorithms::Choice{1, ~uint64_t{0}}));
  const Algorithms later(file);
  EXPECT_EQ(later.find("x"), (Algorithms::Choice{1, ~uint64_t{0}}));
  EXPECT_EQ(later.find("y"), Algorithms::Choice{2});
}

TEST(AlgorithmsFile, RefusesOthers) {
  const tests::TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    const std::string file = folder.file("file", text);
    return support::error_of([&] { Algorithms{file}; }).substr(file.size());
  };
  EXPECT_EQ(
      refused("once upon a time\n"),
      ":1: got \"once upon a time\", expected \"boxcar algorithms 1\" (name a file that --algorithms wrote, "
      "or none that is there)");
  const std::string torn =
      ":2: expected a product and what was chosen (remove the file: a run with --fast makes it "
      "anew)";
  EXPECT_EQ(refused("boxcar algorithms 1\nx = 0123\n"), torn);
  EXPECT_EQ(refused("boxcar algorithms 1\nx = " + std::string(128, 'g') + "\n"), torn);
  EXPECT_EQ(support::error_of([] { Algorithms("/nowhere/file").keep("x", {1}); }, Exit::fault),
            "/nowhere/file: cannot be written: No such file or directory (--algorithms keeps what --fast has "
            "timed there)");
}

TEST_F(AlgorithmsTest, TheOneThatWasKeptFirst) {
  Algorithms algorithms;
  EXPECT_FALSE(algorithms.find("x"));
  EXPECT_EQ(algorithms.keep("x", {1}), Algorithms::Choice{1});
  EXPECT_EQ(algorithms.keep("x", {2}), Algorithms::Choice{1});
  EXPECT_EQ(algorithms.find("x"), Algorithms::Choice{1});
}

}  // namespace
}  // namespace boxcar::backends::cuda
