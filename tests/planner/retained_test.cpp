// Memory that a framework keeps for the backward pass, as bytes of registers.
#include "planner/retained.h"

#include <gtest/gtest.h>

#include "ir/plan.h"
#include "planner/verify.h"
#include "sbp/at.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

const ir::Register& register_of(const ir::Program& program, const std::string& name) {
  for (const ir::Register& reg : program.registers)
    if (reg.name == name) return reg;
  throw std::out_of_range(name);
}

// Only gradients of weights read the results of a layer's norm and of its activation function; the gradient
// of GELU reads the first product's.
TEST(Retained, GradientsOfWeightsReadOperandsOf8Bits) {
  Job job = small_job(1, 1, 1);
  job.model->dropout = 0, job.model->hidden = job.model->seq = 64;
  job.train.precision = ir::Precision::bf16;
  const ir::Plan whole = compile(resolve(job));
  job.parallel.keeps_float8 = true;
  const ir::Plan plan = compile(resolve(job));
  verify(plan);
  for (const auto& [name, share] : {std::pair{"h0.ln2", 0.5}, {"h0.mlp.gelu", 0.5}, {"h0.mlp.fc1", 1.0}}) {
    const ir::Register &before = register_of(whole.programs[0], name),
                       &reg = register_of(plan.programs[0], name);
    EXPECT_EQ(static_cast<double>(reg.bytes), share * static_cast<double>(before.bytes)) << name;
    EXPECT_EQ(reg.over, share < 1) << name;
  }
}

TEST(Retained, OperandsThatOtherActsReadTooAreThereInBothTypes) {
  ir::Program program = ir::parse_plan(R"(plan both
devices 2
micro_batches 1
comm tp: {0-1}
class 0-1: p

program p
  phases F, B
  schedule F[0] B[0]
  queue compute: compute
  queue net: network
  %part: bfloat16[32, 64] x1 activations
  %whole: bfloat16[64, 64] x1 activations
  %fewer: bfloat16[32, 64] x1 activations bytes 512 over
  %x: bfloat16[32, 64] x1 activations
  %read: bfloat16[32, 64] x1 activations
  %score: bfloat16[32, 64] x1 activations
  %dy: bfloat16[32, 32] x1 activations
  %dw: bfloat16[64, 32] x1 gradients
  %dz: bfloat16[64, 32] x1 gradients
  %dw2: bfloat16[64, 32] x1 gradients
  %dw3: bfloat16[64, 32] x1 gradients
  %ds: bfloat16[64, 32] x1 activations
  a host test() -> %x, %read, %score, %part, %fewer on compute in F
  b host test() -> %dy on compute in B
  c matmul_weight_grad(%x, %dy) -> %dw on compute in B layer 0
  gather all_gather(%part) -> %whole on net in B over tp bytes 4096
  g matmul_weight_grad(%whole, %dy) -> %dw2 on compute in B layer 0
  h matmul_weight_grad(%fewer, %dy) -> %dw3 on compute in B layer 0
  d matmul_weight_grad(%read, %dy) -> %dz on compute in B layer 0
  e batch_matmul(%score, %dy) {transpose_a=true} -> %ds on compute in B layer 0
  f host test(%read, %score, %dw, %dz, %ds, %dw2, %dw3) on compute in B
)")
                            .programs[0];
  keep_operands_in_float8(program);
  EXPECT_EQ(register_of(program, "x").bytes, 2048);
  EXPECT_EQ(register_of(program, "part").bytes, 2048);  // cast before it is gathered
  EXPECT_EQ(register_of(program, "fewer").bytes, 512);  // as the framework has it
  EXPECT_EQ(register_of(program, "read").bytes, 6144);
  EXPECT_EQ(register_of(program, "score").bytes, 4096);  // no gradient of a weight
  EXPECT_EQ(register_of(program, "dy").bytes, 2048);     // of the backward pass
}

// The second part of a split backward pass reads gradients of results in 8 bits.
TEST(Retained, SplitBackwardPassesKeepOperandsOf8Bits) {
  Job job = small_job(1, 1, 2);
  llama(job);
  job.model->hidden = job.model->seq = 64;
  job.train.precision = ir::Precision::bf16, job.parallel.schedule = Schedule::zb_h1;
  const ir::Plan whole = compile(resolve(job));
  job.parallel.keeps_float8 = true;
  const ir::Plan plan = compile(resolve(job));
  verify(plan);
  // The gradient of fc1's weight reads that of its result; nothing later reads the norm's.
  for (const auto& [name, share] :
       {std::pair{"h0.mlp.swiglu", 0.5}, {"h0.mlp.fc1.grad", 0.5}, {"h0.ln2.grad", 1.0}}) {
    const ir::Register &before = register_of(whole.programs[0], name),
                       &reg = register_of(plan.programs[0], name);
    EXPECT_EQ(static_cast<double>(reg.bytes), share * static_cast<double>(before.bytes)) << name;
  }
}

// SwiGLU is recomputed from what it read, and the gradient reads that too.
TEST(Retained, ResultsOfExpertsAreKeptIn8Bits) {
  Job job = small_job(1, 1, 1);
  llama(job);
  job.model->hidden = job.model->seq = 64, job.model->experts = 4, job.model->top_k = 2;
  job.train.precision = ir::Precision::bf16;
  const ir::Plan whole = compile(resolve(job));
  job.parallel.keeps_float8_of_experts = true;
  const ir::Plan plan = compile(resolve(job));
  verify(plan);
  int halved = 0;
  for (size_t r = 0; r < plan.programs[0].registers.size(); ++r) {
    const ir::Register &before = whole.programs[0].registers[r], &reg = plan.programs[0].registers[r];
    const double share =
        reg.name.ends_with(".mlp.fc1") ? 0.5 : 1.0;  // fc2's is read by the forward pass alone
    EXPECT_EQ(static_cast<double>(reg.bytes), share * static_cast<double>(before.bytes)) << reg.name;
    halved += reg.over ? 1 : 0;
  }
  EXPECT_EQ(halved, job.model->layers);
}

// Tokens that came over an exchange are kept in 8 bits, though they lie over no operand.
TEST(Retained, ExchangedTokensOf8BitsAreAPlan) {
  Job job = small_job(2, 1, 1);
  llama(job);
  job.model->hidden = job.model->seq = 64, job.model->experts = 4, job.model->top_k = 2;
  job.parallel.ep = 2, job.train.precision = ir::Precision::bf16;
  const ir::Plan whole = compile(resolve(job));
  job.parallel.keeps_float8 = true;
  const ir::Plan plan = compile(resolve(job));
  ir::check_types(plan);  // as of a plan that is read from a file
  const ir::Register& tokens = register_of(plan.programs[0], "h0.mlp.slots.all_to_all");
  EXPECT_TRUE(tokens.over);
  EXPECT_EQ(2 * tokens.bytes, register_of(whole.programs[0], "h0.mlp.slots.all_to_all").bytes);
}

TEST(Retained, ARunHereKeepsAllThatItReads) {
  Hints hints;
  hints.retained_bytes["gelu"] = 2, hints.keeps_float8 = hints.keeps_float8_of_experts = true;
  keep_as_here(hints);
  EXPECT_EQ(hints, Hints());
}

}  // namespace
}  // namespace boxcar::planner
