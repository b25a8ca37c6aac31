#include "planner/lowering/stage.h"

#include <utility>

#include "sbp/at.h"

namespace boxcar::planner {

using ir::OpId;
using ir::TensorId;
using sbp::NdSbp;

namespace {

std::vector<OpId> ops_of(const LoweringInput& input, int stage) {
  std::vector<OpId> ops;
  for (OpId o = 0; o < static_cast<OpId>(input.sites.size()); ++o)
    if (at(input.sites, o).is_on(stage)) ops.push_back(o);
  return ops;
}

}  // namespace

Stage::Stage(const LoweringInput& input, int index, std::vector<int> places, std::string name)
    : in(input),
      index(index),
      places(std::move(places)),
      name(std::move(name)),
      phases{input.pipeline.chunks, splits_backward(input.pipeline, index)},
      ops(ops_of(input, index)) {}

int Stage::phase(OpId o) const {
  const OpSite& s = site(o);
  switch (s.run) {
    case Run::forward:
      return phases.forward(s.chunk);
    case Run::backward:
      return phases.backward(s.chunk);
    case Run::weight:
      return phases.weight(s.chunk);
    case Run::reduce:
      return phases.reduce();
    case Run::update:
      return phases.update();
  }
  return -1;
}

bool Stage::kept_from_forward(TensorId t, int in_phase) const {
  const OpId producer = tensor(t).producer;
  return phases.per_micro_batch(in_phase) && !phases.is_forward(in_phase) &&
         site(producer).run == Run::forward && site(producer).stage == index && !is_source(op(producer));
}

NdSbp Stage::sent(TensorId t) const {
  const Mesh& mesh = in.mesh;
  NdSbp layout = stored(t);
  const int tp = mesh.dim(MeshDim::tp);
  const auto dim = static_cast<size_t>(tp);
  if (!in.hints.scatter_gather || tp < 0 || !layout[dim].is_broadcast()) return layout;
  const sbp::Shape& shape = tensor(t).type.shape;
  for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis) {
    int64_t parts = mesh.extents[dim];
    for (size_t d = 0; d < layout.size(); ++d)
      if (layout[d].is_split() && layout[d].axis == axis) parts *= mesh.extents[d];
    if (at(shape, axis) % parts != 0) continue;
    layout[dim] = sbp::Sbp::S(axis);
    return layout;
  }
  return layout;
}

bool Stage::read_elsewhere(TensorId t) const {
  return any_of(readers(t), [&](OpId reader) { return !here(reader); });
}

ir::TensorType Stage::local_type(TensorId t, const NdSbp& layout) const {
  const ir::TensorType& type = tensor(t).type;
  return {sbp::local_shape(type.shape, layout, in.mesh.extents, places[0]), type.dtype};
}

}  // namespace boxcar::planner
