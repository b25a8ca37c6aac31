#include "planner/places.h"

#include <set>
#include <utility>

#include "planner/laid_out.h"
#include "planner/lowering/states.h"
#include "planner/sharding.h"
#include "sbp/at.h"

namespace boxcar::planner {

using ir::TensorId;
using sbp::NdSbp;

namespace {

class Finder {
 public:
  explicit Finder(const LaidOut& laid) : laid_(laid), readers_(ir::consumers(laid.graph)) {
    for (const ir::Update& update : laid.graph.updates)
      if (ir::is_of_moment(laid.graph, update)) moments_.insert(update.state);
  }

  Places run() {
    const ir::Graph& graph = laid_.graph;
    for (const ir::Op& op : graph.ops) {
      const TensorId t = op.outputs[0];
      if (op.is(ir::OpKind::input) && !at(readers_, t).empty())
        add(t, "", stored(t), t, false, Holding::input);
      else if (op.is(ir::OpKind::parameter))
        add_state(t);
      else if (op.phase == ir::Phase::update && op.is(ir::OpKind::cast) && source(t) >= 0)
        add_copy(op);
    }
    for (size_t t = 0; t < graph.tensors.size(); ++t)
      if (graph.tensors[t].name == ir::loss_name) {
        const auto loss = static_cast<TensorId>(t);
        add(loss, "", made(loss), loss, false, Holding::loss);  // in its layout as made, reduced or not
      }
    return std::move(places_);
  }

 private:
  const ir::Tensor& tensor(TensorId t) const { return laid_.graph.tensor(t); }
  const NdSbp& stored(TensorId t) const { return at(laid_.layouts.stored, t); }
  const NdSbp& made(TensorId t) const { return at(laid_.layouts.ops, tensor(t).producer).outputs[0]; }
  const ir::Op& producer(TensorId t) const { return at(laid_.graph.ops, tensor(t).producer); }
  int stage_of(ir::OpId op) const { return at(laid_.sites, op).stage; }
  // An input is loaded on every stage that reads it.
  std::set<int> stages(TensorId t) const {
    std::set<int> all;
    if (producer(t).is(ir::OpKind::input))
      for (ir::OpId reader : at(readers_, t)) all.insert(stage_of(reader));
    else
      all.insert(stage_of(tensor(t).producer));
    all.erase(-1);
    return all;
  }

  // The parameter that `t` copies; -1 if it is not a copy.
  TensorId source(TensorId t) const {
    while (producer(t).is(ir::OpKind::cast)) t = producer(t).inputs[0];
    return producer(t).is(ir::OpKind::parameter) ? t : -1;
  }

  void add_state(TensorId t) {
    add(t, "", stored(t), t, false, moments_.contains(t) ? Holding::moment : Holding::weight);
    const auto& used = at(laid_.pins.used, t);
    if (is_kept_whole(laid_.graph, at(readers_, t), stored(t), used, sharding_of(laid_.hints)))
      add(t, ".whole", *used, t, true);
  }

  void add_copy(const ir::Op& op) {
    const TensorId t = op.outputs[0];
    add(t, "", stored(t), source(t), true);
    if (made(t) != stored(t)) add(t, ".shard", made(t), source(t), true);
  }

  void add(TensorId t, const std::string& suffix, const NdSbp& layout, TensorId of, bool derived,
           Holding holding = Holding::weight) {
    Place place{tensor(t).name + suffix,
                producer(of).replica_of.empty() ? tensor(of).name : producer(of).replica_of,
                holding,
                tensor(t).type,
                derived,
                false,
                {},
                {},
                {}};
    for (sbp::Sbp s : layout) place.partial = place.partial || s.is_partial();
    const auto devices = static_cast<size_t>(laid_.mesh.devices() * laid_.pipeline.stages);
    place.holds.resize(devices);
    place.ranges.resize(devices);
    place.first.resize(devices);
    for (const int on : stages(t))
      for (int rank = 0; rank < laid_.mesh.devices(); ++rank) {
        const auto device = static_cast<size_t>(laid_.mesh.device(rank, on));
        place.holds[device] = true;
        place.ranges[device] = sbp::local_ranges(place.type.shape, layout, laid_.mesh.extents, rank);
        place.first[device] = !derived && taken_.insert({place.tensor, part(layout, rank)}).second;
      }
    places_.places.push_back(std::move(place));
  }

  // Equal for ranks that hold the same part: the coordinates along the dimensions that split it or have
  // shares of its value.
  sbp::Shape part(const NdSbp& layout, int64_t rank) const {
    sbp::Shape coordinates(layout.size(), 0);
    for (size_t d = layout.size(); d-- > 0; rank /= laid_.mesh.extents[d])
      if (!layout[d].is_broadcast()) coordinates[d] = rank % laid_.mesh.extents[d];
    return coordinates;
  }

  const LaidOut& laid_;
  std::vector<std::vector<ir::OpId>> readers_;
  std::set<TensorId> moments_;
  std::set<std::pair<std::string, sbp::Shape>> taken_;
  Places places_;
};

}  // namespace

bool is_state(const Place& place) { return place.holding <= Holding::moment && !place.derived; }

const Place* Places::find(const std::string& reg) const {
  for (const Place& place : places)
    if (place.reg == reg) return &place;
  return nullptr;
}

const Place* Places::loss() const {
  for (const Place& place : places)
    if (place.holding == Holding::loss) return &place;
  return nullptr;
}

Places places_of(const LaidOut& laid) { return Finder(laid).run(); }

Places places_of(const ResolvedJob& job) { return places_of(lay_out(job)); }

}  // namespace boxcar::planner
