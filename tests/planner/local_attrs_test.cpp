#include "planner/local_attrs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "ir/op.h"
#include "ir/rank_attrs.h"
#include "planner/laid_out.h"
#include "planner/small_jobs.h"

namespace boxcar::planner {
namespace {

// x split by rows over a mesh of one dimension, with dropout, which draws by an element's place in the whole.
struct Rows {
  ir::Graph graph;
  OpLayout layout;
  Mesh mesh;

  Rows(int64_t rows, Mesh m) : mesh(std::move(m)) {
    ir::Builder builder("rows");
    const ir::TensorId x = builder.input("x", {{rows, 3}, ir::DType::float32});
    builder.op1("dropout", {x}, {{"p", 0.5}}, "drop");
    graph = builder.finish();
    const auto split = [&](size_t d) { return mesh.names[d] == "dp" ? sbp::Sbp::S(0) : sbp::Sbp::B(); };
    sbp::NdSbp operand;
    for (size_t d = 0; d < mesh.dims(); ++d) operand.push_back(split(d));
    layout.inputs = layout.outputs = {operand};
    for (size_t d = 0; d < mesh.dims(); ++d) layout.signatures.push_back({{split(d)}, {split(d)}});
  }

  ir::Attrs at(const std::vector<int>& places) const {
    return local_attrs(graph, graph.ops.back(), layout, mesh, places);
  }
};

TEST(LocalAttrs, ThoseOfEvenlySpacedPlacesGrowByAStep) {
  const Rows rows(12, {{"dp"}, {6}});
  EXPECT_EQ(std::get<std::vector<int64_t>>(rows.at({1, 3, 5}).at("starts_step_rank")),
            (std::vector<int64_t>{4, 0}));
  EXPECT_EQ(std::get<std::vector<int64_t>>(rows.at({0, 1, 4}).at("starts_by_rank")),
            (std::vector<int64_t>{0, 0, 2, 0, 8, 0}));
}

// Attributes taken from a like op of another layer equal the op's own, whether parts are even or not.
TEST(LocalAttrs, OfLikeOpsAreTheirOwn) {
  int fused = 0;
  for (const int heads : {4, 6})
    for (const bool flash : {false, true}) {
      Job job = small_job(2, 2, 1, 3, 2);
      job.model->heads = heads, job.model->hidden = 4 * heads, job.model->dropout = 0.1;
      job.parallel.cp = 2, job.gpus = 8;
      job.train.flash = flash;
      if (heads == 6) job.train.off = {"fuse_patterns"};  // so that chains have dropouts
      const LaidOut laid = lay_out(resolve(job));
      for (const std::vector<int>& places : {std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}, {0, 3, 4}, {5}}) {
        LocalAttrs like(laid.graph, laid.mesh, places);
        for (size_t o = 0; o < laid.graph.ops.size(); ++o) {
          const ir::Op& op = laid.graph.ops[o];
          if (!ir::has_op(op.type)) continue;
          const ir::Attrs own = local_attrs(laid.graph, op, laid.layouts.ops[o], laid.mesh, places);
          EXPECT_EQ(like.of(op, laid.layouts.ops[o]), own) << op.name;
          const auto program = op.attrs.find("program");
          fused += program != op.attrs.end() &&
                   std::get<std::string>(program->second).find("{op=") != std::string::npos;
        }
      }
    }
  EXPECT_GT(fused, 10);  // with dropouts in them
}

// A class's attributes at its k-th place equal those computed for that place alone.
TEST(LocalAttrs, OfAClassAreThoseOfEachPlace) {
  std::mt19937 random(7);
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  int uneven = 0;
  for (int round = 0; round < 300; ++round) {
    const int parts = draw(2, 9), others = draw(1, 3);
    const int64_t count = draw(0, 1) ? parts * draw(1, 4) : draw(parts, 40);
    uneven += count % parts != 0;
    const Rows rows(count, others == 1 ? Mesh{{"dp"}, {parts}} : Mesh{{"dp", "tp"}, {parts, others}});
    std::vector<int> places;
    for (int place = 0; place < rows.mesh.devices(); ++place)
      if (draw(0, 2)) places.push_back(place);
    if (places.empty() || places.size() == static_cast<size_t>(rows.mesh.devices())) continue;
    const ir::Attrs all = rows.at(places);
    for (size_t k = 0; k < places.size(); ++k) {
      const auto own = [&](const std::string&) -> ir::Coordinates { return {static_cast<int64_t>(k), 0}; };
      EXPECT_EQ(ir::to_text(ir::rank_attrs(all, own)), ir::to_text(rows.at({places[k]}))) << fmt::format(
          "place {} of {}, {} rows in {} parts, {} beside", places[k], k, count, parts, others);
    }
  }
  EXPECT_GT(uneven, 50);
}

}  // namespace
}  // namespace boxcar::planner
