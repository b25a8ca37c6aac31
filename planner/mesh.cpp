#include "planner/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "planner/sharding.h"
#include "sbp/error.h"

namespace boxcar::planner {

int Mesh::devices() const {
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent;
  return static_cast<int>(count);
}

int Mesh::dim(const std::string& name) const {
  const auto at = std::find(names.begin(), names.end(), name);
  return at == names.end() ? -1 : static_cast<int>(at - names.begin());
}

int Mesh::device(int place, int stage) const {
  if (!stage_order.empty()) stage = stage_order[static_cast<size_t>(stage)];
  if (strides.empty()) return stage * devices() + place;
  int result = stage * stage_stride;
  for (size_t d = dims(); d-- > 0; place /= static_cast<int>(extents[d]))
    result += place % static_cast<int>(extents[d]) * strides[d];
  return result;
}

int Mesh::stage_of(int device, int stages) const {
  const int stands = device / stage_stride % stages;
  if (stage_order.empty()) return stands;
  return static_cast<int>(std::find(stage_order.begin(), stage_order.end(), stands) - stage_order.begin());
}

Mesh mesh_of(const Hints& hints) {
  const int group = hints.fsdp_group > 0 && sharding_of(hints).states ? hints.fsdp_group : hints.dp;
  const struct {
    std::string name, key;
    int extent;
  } dims[] = {{"replica", "dp", hints.dp / group},
              {"dp", "dp", group / hints.ep},
              {"ep", "dp", hints.ep},
              {"cp", "cp", hints.cp},
              {"tp", "tp", hints.tp}};
  // Of each, from one to the next: all that are inside of it.
  std::map<std::string, int> stride;
  int inside = 1;
  const std::vector<std::string> order = mesh_order_of(hints.mesh_order);
  Mesh mesh;
  mesh.stage_order = hints.stage_order;
  for (auto key = order.rbegin(); key != order.rend(); ++key) {
    if (*key == "pp") mesh.stage_stride = std::exchange(inside, inside * hints.pp);
    for (auto dim = std::rbegin(dims); dim != std::rend(dims); ++dim)
      if (dim->key == *key) stride[dim->name] = std::exchange(inside, inside * dim->extent);
  }
  for (const auto& dim : dims) {
    if (dim.extent == 1) continue;
    mesh.names.push_back(dim.name);
    mesh.extents.push_back(dim.extent);
    mesh.strides.push_back(stride[dim.name]);
  }
  if (mesh.names.empty()) return {{"dp"}, {1}, {1}, mesh.stage_stride, mesh.stage_order};
  return mesh;
}

std::vector<std::string> mesh_order_of(const std::string& text) {
  std::vector<std::string> order;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    order.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  const std::vector<std::string> all{"pp", "dp", "cp", "tp"};
  if (!std::is_permutation(order.begin(), order.end(), all.begin(), all.end()))
    throw Error::input("parallel.mesh_order",
                       fmt::format("unknown order '{}' (give each of {} once, outermost first: ranks of the "
                                   "last lie beside each other)",
                                   text, fmt::join(all, ", ")));
  return order;
}

sbp::NdSbp broadcast(const Mesh& mesh) { return sbp::NdSbp(mesh.dims(), sbp::Sbp::B()); }

}  // namespace boxcar::planner
