#include "actors/joint.h"

#include <fmt/format.h>

#include <numeric>

#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::actors {
namespace {

int64_t elements(const std::vector<ir::TensorType>& tensors) {
  int64_t sum = 0;
  for (const ir::TensorType& type : tensors) sum += type.elements();
  return sum;
}

}  // namespace

void Joint::misfit(size_t tensor, const std::string& why) const {
  throw Error::input(fmt::format("{}: tensor {}", spec_.name, tensor), why);
}

// All of every tensor.
Joint::Side Joint::whole(const std::vector<ir::TensorType>& tensors) const {
  Side side;
  side.direct = tensors.size() == 1;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Move move = part_of(tensors[i].shape, ir::size_of(tensors[i].dtype), -1, 0, 0);
    move.operand = static_cast<int>(i);
    move.buffer = side.bytes;
    side.bytes += move.bytes;
    side.moves.push_back(move);
  }
  return side;
}

// Every tensor cut along its axis, into parts of the lengths in `others`.
Joint::Side Joint::parts(const std::vector<ir::TensorType>& tensors, const std::vector<int64_t>& axes,
                         const std::vector<std::vector<ir::TensorType>>& others) const {
  Side side;
  side.counts.assign(others.size(), 0);
  side.direct = tensors.size() == 1;
  std::vector<int64_t> begin(tensors.size());
  for (size_t m = 0; m < others.size(); ++m) {
    for (size_t i = 0; i < tensors.size() && i < others[m].size(); ++i) {
      const sbp::Shape& shape = tensors[i].shape;
      const int64_t axis = i < axes.size() ? axes[i] : 0;
      if (axis < 0 || axis >= static_cast<int64_t>(shape.size()) || others[m][i].shape.size() != shape.size())
        misfit(i, fmt::format("{} has no axis {}", ir::to_text(tensors[i]), axis));
      const int64_t end = begin[i] + at(others[m][i].shape, axis);
      Move move = part_of(shape, ir::size_of(tensors[i].dtype), axis, begin[i], end);
      begin[i] = end;
      move.operand = static_cast<int>(i);
      move.buffer = side.bytes;
      side.bytes += move.rows * move.bytes;
      side.counts[m] += move.rows * move.bytes / ir::size_of(tensors[i].dtype);
      side.direct = side.direct && move.rows <= 1;
      side.moves.push_back(move);
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t axis = i < axes.size() ? axes[i] : 0;
    if (begin[i] != at(tensors[i].shape, axis))
      misfit(i,
             fmt::format("parts along axis {} add up to {} of {}", axis, begin[i], ir::to_text(tensors[i])));
  }
  return side;
}

Joint::Joint(const JointSpec& spec) : spec_(spec) {
  using sbp::Collective;
  const auto rank = static_cast<size_t>(spec.rank);
  const std::vector<ir::TensorType>&in = spec.inputs[rank], &out = spec.outputs[rank];
  const std::vector<ir::TensorType>* some = nullptr;
  for (const auto& tensors : spec.inputs)
    if (!tensors.empty()) some = &tensors;
  if (some) dtype_ = some->front().dtype;
  for (const auto* side : {&spec.inputs, &spec.outputs})
    for (const auto& tensors : *side)
      for (size_t i = 0; i < tensors.size(); ++i)
        if (tensors[i].dtype != dtype_)
          misfit(i, fmt::format("{} beside {}", ir::to_text(tensors[i].dtype), ir::to_text(dtype_)));

  in_ = whole(in);
  out_ = whole(out);
  switch (spec.collective) {
    case Collective::all_gather:
      out_ = out.empty() ? Side{} : parts(out, spec.axes, spec.inputs);
      for (const auto& tensors : spec.inputs) own_counts_.push_back(elements(tensors));
      break;
    case Collective::reduce_scatter:
      in_ = parts(in, spec.axes, spec.outputs);
      for (const auto& tensors : spec.outputs) own_counts_.push_back(elements(tensors));
      break;
    case Collective::all_to_all:
      in_ = parts(in, spec.axes2, spec.outputs);
      out_ = parts(out, spec.axes, spec.inputs);
      break;
    case Collective::reduce:
      own_counts_.assign(spec.inputs.size(), 0);
      own_counts_[0] = some ? elements(*some) : 0;
      break;
    case Collective::all_reduce:
    case Collective::broadcast:
      own_counts_ = {some ? elements(*some) : 0};
      break;
    default:
      throw Error::input(spec.name,
                         fmt::format("{} is no collective of a group", sbp::to_text(spec.collective)));
  }
  if (out.empty() && spec.collective != Collective::reduce_scatter && spec.collective != Collective::reduce) {
    const int64_t all = std::accumulate(own_counts_.begin(), own_counts_.end(), int64_t{0});
    out_.bytes = all * ir::size_of(dtype_);  // the result arrives and is dropped
  }
  in_bytes_ = in_.direct ? 0 : aligned(in_.bytes);
  out_bytes_ = out_.direct ? 0 : aligned(out_.bytes);
}

void Joint::run(backends::Communicator& communicator, backends::Queue& queue,
                std::span<const void* const> inputs, std::span<void* const> outputs,
                std::byte* scratch) const {
  const auto byte = [](const void* address) { return static_cast<const std::byte*>(address); };
  const void* in = scratch;
  void* out = scratch + in_bytes_;
  if (in_.direct) in = inputs.empty() ? nullptr : inputs[0];
  if (out_.direct) out = outputs[0];
  if (!in_.direct)
    for (const Move& move : in_.moves) pack(queue, move, scratch, byte(at(inputs, move.operand)));
  switch (spec_.collective) {
    case sbp::Collective::all_reduce:
      communicator.all_reduce(in, out, own_counts_[0], dtype_, spec_.reduction);
      break;
    case sbp::Collective::broadcast:
      communicator.broadcast(in, out, own_counts_[0], dtype_);
      break;
    case sbp::Collective::all_gather:
      communicator.all_gather(in, out, own_counts_, dtype_);
      break;
    case sbp::Collective::all_to_all:
      communicator.all_to_all(in, in_.counts, out, out_.counts, dtype_);
      break;
    default:
      communicator.reduce_scatter(in, out, own_counts_, dtype_, spec_.reduction);
  }
  if (!out_.direct)
    for (const Move& move : out_.moves)
      unpack(queue, move, static_cast<std::byte*>(at(outputs, move.operand)),
             static_cast<const std::byte*>(out));
}

}  // namespace boxcar::actors
