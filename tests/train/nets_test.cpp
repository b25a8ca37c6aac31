// Law 4 for an MLP and a convolution net under hints, and for all models in 16 bits.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "law4.h"
#include "models.h"

namespace boxcar::tests {
namespace {

using planner::Hints;
using planner::Job;

constexpr int64_t batch = 12;

Hints one_device() {
  Hints hints;
  hints.dp = 1, hints.stage_layers = {3};
  return hints;
}

// A net's training graph under hints, the batch in `micro_batches`.
Laying laying_of(ir::Graph (*net)(int64_t), const Hints& hints, int micro_batches) {
  return [=](ir::TrainOptions options) {
    options.micro_batches = micro_batches;
    const ir::Graph forward = net(batch / micro_batches);
    return planner::lay_out(ir::training_step(forward, ir::find_tensor(forward, "loss"), options), hints,
                            micro_batches);
  };
}

struct Row {
  const char* name;
  int micro_batches;
  std::function<void(Hints&)> change;
};
std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

const Row rows[] = {
    {"dp2", 1, [](Hints& h) { h.dp = 2; }},
    {"dp5_uneven_accumulation", 2, [](Hints& h) { h.dp = 5; }},
    {"zero1", 1, [](Hints& h) { h.dp = 3, h.zero = 1; }},
    {"zero2", 2, [](Hints& h) { h.dp = 2, h.zero = 2; }},
    {"zero3", 2, [](Hints& h) { h.dp = 4, h.zero = 3; }},
    {"pp2", 3,
     [](Hints& h) {
       h.pp = 2, h.stage_layers = {2, 1};
     }},
    {"pp3_dp2", 4,
     [](Hints& h) {
       h.pp = 3, h.dp = 2, h.stage_layers = {1, 1, 1};
     }},
    {"gpipe_zero1", 3,
     [](Hints& h) {
       h.pp = 2, h.dp = 2, h.zero = 1, h.schedule = "gpipe", h.stage_layers = {1, 2};
     }},
    {"pp2_zero3", 2,
     [](Hints& h) {
       h.pp = 2, h.dp = 2, h.zero = 3, h.stage_layers = {1, 2};
     }},
};

class NetsLaw4 : public testing::TestWithParam<Row> {
 protected:
  void expect_law_4_of(ir::Graph (*net)(int64_t), const Start& start) {
    const Row& row = GetParam();
    Hints hints = one_device();
    row.change(hints);
    expect_law_4(laying_of(net, hints, row.micro_batches), laying_of(net, one_device(), row.micro_batches),
                 start, {ir::Optimizer::sgd, ir::Optimizer::momentum, ir::Optimizer::adam});
  }
};

TEST_P(NetsLaw4, an_mlp_trains_as_on_one_device) { expect_law_4_of(mlp, graph_start(6)); }
// Batch norm takes its mean and deviation from a micro-batch, so both sides have the same ones.
TEST_P(NetsLaw4, a_convolution_net_trains_as_on_one_device) {
  expect_law_4_of(convnet, graph_start(3 * 8 * 6));
}
INSTANTIATE_TEST_SUITE_P(Plans, NetsLaw4, testing::ValuesIn(rows),
                         [](const auto& info) { return std::string(info.param.name); });

// --- 16 bits

struct Narrow {
  ir::Precision precision;
  TransformerRow row;
};
std::ostream& operator<<(std::ostream& out, const Narrow& narrow) { return out << narrow.row; }

const Narrow narrow[] = {
    {ir::Precision::bf16,
     {"bf16_dp2_zero1", "gpt", 0.1, 1, [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 1; }}},
    {ir::Precision::bf16,
     {"bf16_sp2", "llama", 0.1, 2, [](Job& j) { j.parallel.tp = 2, j.parallel.sequence_parallel = true; }}},
    {ir::Precision::bf16,
     {"bf16_zero3", "llama", 0.1, 2, [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 3; }}},
    {ir::Precision::bf16,
     {"bf16_fused_optimizer", "gpt", 0.1, 3,
      [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 1, j.parallel.fused_optimizer = true; }}},
    {ir::Precision::fp16,
     {"fp16_fused_optimizer", "llama", 0.1, 2,
      [](Job& j) { j.parallel.tp = 2, j.parallel.fused_optimizer = true; }}},
    {ir::Precision::fp16, {"fp16_tp2_pp2", "gpt", 0.1, 3, [](Job& j) { j.parallel.tp = j.parallel.pp = 2; }}},
    {ir::Precision::fp16,
     {"fp16_dp2_zero2", "gpt", 0.1, 3, [](Job& j) { j.parallel.dp = 2, j.parallel.zero = 2; }}},
};

class NarrowLaw4 : public testing::TestWithParam<Narrow> {};

TEST_P(NarrowLaw4, losses_are_one_devices_within_rounding) {
  const auto& [precision, row] = GetParam();
  const TransformerRow alone{row.name, row.family, row.dropout, 1, [](Job&) {}};
  const auto laying = [](const TransformerRow& row) {
    return [&row](const ir::TrainOptions& options) { return planner::lay_out(job_of(row, batch, options)); };
  };
  expect_law_4_in_16_bits(precision, laying(row), laying(alone), transformer_start(job_of(alone, batch, {})));
}
INSTANTIATE_TEST_SUITE_P(Plans, NarrowLaw4, testing::ValuesIn(narrow),
                         [](const auto& info) { return std::string(info.param.row.name); });

}  // namespace
}  // namespace boxcar::tests
