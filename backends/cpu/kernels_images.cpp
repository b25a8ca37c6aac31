#include <deque>

#include "backends/cpu/kernels.h"
#include "ir/images.h"

namespace boxcar::backends::cpu {
namespace {

// A transposed image: channels first, in memory of its own.
struct Turned {
  std::unique_ptr<Kernel> turn;
  std::vector<std::byte> memory;
};

Turned turned(const ir::TensorType& from, const ir::TensorType& to, const ir::Shape& perm, int64_t bytes) {
  return {fast_kernels().at("transpose")({"transpose", {from}, {to}, {{"perm", perm}}}),
          std::vector<std::byte>(static_cast<size_t>(bytes))};
}

}  // namespace

std::unique_ptr<Kernel> on_images(const Call& call, Factory make, const std::vector<size_t>& inputs,
                                  bool output) {
  const ir::ImageAxes axes = ir::image_axes(call.attrs);
  if (axes.channel == 1) return make(call);
  Call first = call;
  first.attrs["channels_last"] = false;
  std::map<size_t, Turned> ins;
  std::deque<Turned> outs;  // one, or none
  for (const size_t i : inputs) {
    ir::TensorType& type = first.inputs[i];
    type.shape = axes.channels_first(type.shape);
    ins.emplace(i, turned(call.inputs[i], type, {0, 3, 1, 2}, type.bytes()));
  }
  if (output) {
    ir::TensorType& type = first.outputs[0];
    type.shape = axes.channels_first(type.shape);
    outs.push_back(turned(type, call.outputs[0], {0, 2, 3, 1}, type.bytes()));
  }
  std::unique_ptr<Kernel> made = make(first);
  if (!made) return nullptr;
  return kernel(
      [made = std::move(made), ins = std::move(ins), outs = std::move(outs)](const Operands& at) mutable {
        std::vector<const void*> from(at.inputs.begin(), at.inputs.end());
        std::vector<void*> to(at.outputs.begin(), at.outputs.end());
        for (auto& [i, image] : ins) {
          void* const memory = image.memory.data();
          image.turn->run({&at.inputs[i], 1}, {&memory, 1}, at.moment);
          from[i] = memory;
        }
        if (!outs.empty()) to[0] = outs[0].memory.data();
        made->run(from, to, at.moment);
        if (outs.empty()) return;
        const void* const image = to[0];
        outs[0].turn->run({&image, 1}, {&at.outputs[0], 1}, at.moment);
      });
}

}  // namespace boxcar::backends::cpu
