// Updates of the rows of look-up tables that a step read (ir/passes/sparse_tables.cpp).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/op.h"
#include "planner/verify.h"
#include "small_jobs.h"

namespace boxcar::planner {
namespace {

Job sparse_job(int dp, int tp, int pp) {
  Job job = small_job(dp, tp, pp, 2);
  job.train.sparse_tables = true, job.train.clip_norm = 0;
  job.train.precision = ir::Precision::fp32, job.model->tied = false;
  return job;
}

std::vector<const ir::Actor*> updates_of_rows(const ir::Program& program) {
  std::vector<const ir::Actor*> found;
  for (const ir::Actor& actor : program.actors)
    if (actor.op == "adam_rows") found.push_back(&actor);
  return found;
}

TEST(SparseTables, HaveNoGradientInAPlan) {
  for (const int zero : {0, 1, 2, 3}) {
    Job job = sparse_job(2, 2, 1);
    job.parallel.zero = zero;
    const ir::Plan plan = compile(resolve(job));
    verify(plan);
    for (const ir::Program& program : plan.programs) {
      ASSERT_EQ(updates_of_rows(program).size(), 1u);
      const ir::Actor& update = *updates_of_rows(program)[0];
      const std::string table = at(program.registers, update.inputs[0].reg).name;
      EXPECT_EQ(table, "embedding.word");
      for (size_t state = 0; state < 3; ++state)  // in place
        EXPECT_EQ(update.outputs[state], update.inputs[state == 0 ? 0 : state + 1].reg);
      for (const ir::Register& reg : program.registers) {
        EXPECT_FALSE(reg.name.starts_with(table + ".grad")) << reg.name;
        EXPECT_TRUE(reg.memory != ir::MemoryKind::gradients || reg.type.shape != ir::Shape({64, 16}) ||
                    reg.name.starts_with("head.weight"))
            << reg.name;
      }
    }
  }
}

// Replicas exchange the rows that they read, in place of gradients of the table.
TEST(SparseTables, RowsAreGathered) {
  Job job = sparse_job(2, 1, 1);
  const std::string update = communication(compile(resolve(job)), 0, "U");
  EXPECT_THAT(update, testing::HasSubstr("all_gather"));
}

// 2 of 10 rows, of 4 numbers: indices and gradients are read, weights and two moments are read and written.
TEST(SparseTables, MoveOnlyTheRowsThatAreRead) {
  const ir::TensorType table{{10, 4}, ir::DType::float32}, half{{5, 4}, ir::DType::float32};
  const auto bytes = [](const ir::TensorType& w) {
    const ir::OpDef& op = ir::op("adam_rows");
    const ir::Attrs attrs = ir::complete(op, {{"rows", int64_t{10}}});
    const ir::Types in{w, {{2, 4}, ir::DType::float32}, w, w, {{2}, ir::DType::int64}};
    return ir::work(op, in, op.infer(in, attrs), attrs).bytes;
  };
  EXPECT_EQ(bytes(table), 2 * 8 + 2 * 16 + 2 * 3 * 2 * 16);
  EXPECT_EQ(bytes(half), 2 * 8 + 1 * 16 + 2 * 3 * 1 * 16);  // one of them is in this half
}

TEST(SparseTables, OfTiedHeadsStayDense) {
  Job job = sparse_job(1, 1, 2);
  job.model->tied = true;
  try {
    compile(resolve(job));
    FAIL() << "expected a refusal";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "train.sparse_tables: no table is read by one embedding alone, on one stage (switch it off)");
  }
}

}  // namespace
}  // namespace boxcar::planner
