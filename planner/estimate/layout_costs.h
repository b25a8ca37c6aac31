// Costs of ops and boxings on one mesh of a cluster, by layout: the simulator's time models, applied to the
// kernels and collectives that lowering would make.
//
//   mesh {tp 8}, matmul float16[8, 512, 1024] x [1024, 4096]:
//     choices: B, B -> B;  S(0), B -> S(0);  B, S(1) -> S(2);  S(2), S(0) -> P(sum); ... each with its kernel
//     boxing float16[8, 512, 1024] P(sum) -> B: an all-reduce of 8 MiB over 8 devices
//
// On a mesh of several dimensions an op takes one signature per dimension, outermost first. Each applies to
// the operands' parts that the previous one leaves: matmul has 7 choices on a line and up to 49 on a grid.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "backends/machines/forward.h"
#include "ir/graph.h"
#include "planner/deduce.h"
#include "planner/mesh.h"
#include "planner/routes.h"
#include "sim/models/collective_time.h"

namespace boxcar::search {

// One way to run an op on a mesh.
struct OpChoice {
  planner::OpLayout layout;
  double seconds = 0;  // of its kernel on the device with the largest parts
  ir::Types outputs;   // there
};

struct Boxing {
  double compute = 0, communication = 0;  // s; infinite if it is impossible
  bool possible() const { return communication < std::numeric_limits<double>::infinity(); }
};

// Each cost is computed once. Not safe for use by several threads.
class LayoutCosts {
 public:
  // Costs are those of the first stage. Both arguments must outlive this.
  LayoutCosts(const backends::Cluster& cluster, const planner::Mesh& mesh);

  // By mesh dimension: its signature if that is given, else null.
  using Given = std::vector<const sbp::Signature*>;
  // All ways to run `op` with these signatures in which no part of a split axis is empty, in the registry's
  // order.
  const std::vector<OpChoice>& choices(const ir::Graph& graph, const ir::Op& op, const Given& given = {});
  // From one layout of a tensor to another. No boxing makes part of a tensor partial again.
  Boxing boxing(const ir::TensorType& type, const sbp::NdSbp& from, const sbp::NdSbp& to);
  // The same for a tensor in collectives with others, of `bucket` bytes in total: its share of one.
  Boxing boxing_in_bucket(const ir::TensorType& type, const sbp::NdSbp& from, const sbp::NdSbp& to,
                          double bucket);
  // Seconds of an op on local types; it need not be in the graph: an update, a cast.
  double kernel(const std::string& op, const ir::Types& inputs, const ir::Types& outputs,
                const ir::Attrs& attrs = {}) const;

  // Bytes on the device that holds the most.
  int64_t bytes(const ir::TensorType& type, const sbp::NdSbp& layout) const;
  ir::TensorType local(const ir::TensorType& type, const sbp::NdSbp& layout) const;

 private:
  struct Making;
  void extend(const Making& making, std::vector<OpChoice>& all) const;
  Boxing work_out(const ir::TensorType& type, const sbp::NdSbp& from, const sbp::NdSbp& to, double bucket);
  double collective(const sbp::MeshStep& step, int64_t bytes, double bucket);

  const backends::Cluster& cluster_;
  const planner::Mesh& mesh_;
  const int devices_on_node_;  // of the stage, at most: all communicate in the same way at once
  const double part_of_leaf_;  // that the stage takes
  planner::RouteTable routes_;
  std::unordered_map<std::string, std::vector<OpChoice>> choices_;
  std::map<std::tuple<ir::TensorType, sbp::NdSbp, sbp::NdSbp, double>, Boxing> boxings_;
  std::map<std::vector<int>, sim::Span> spans_;  // by mesh dimensions
};

}  // namespace boxcar::search
