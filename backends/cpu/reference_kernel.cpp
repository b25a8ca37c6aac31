// A reference kernel as a kernel of the device, for all ops without a fast one.
#include <fmt/format.h>

#include "backends/cpu/convert.h"
#include "backends/cpu/kernels.h"
#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

void check_stored(const Call& call, const ir::Types& types) {
  for (const ir::TensorType& type : types) {
    if (!is_stored(type.dtype))
      throw Error::fault(call.op, fmt::format("no kernel on the CPU for {}", to_text(type)));
  }
}

class ReferenceRun : public Kernel {
 public:
  ReferenceRun(Call call, ReferenceKernel run) : call_(std::move(call)), run_(run) {}

  // Everything is read before anything is written, so that updates may be in place.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           const Moment& moment) override {
    Tensors in, out;
    for (size_t i = 0; i < inputs.size(); ++i) in.push_back(load(call_.inputs[i], inputs[i]));
    for (const ir::TensorType& type : call_.outputs) out.push_back(zeros(type));
    run_(in, out, attrs_at(call_, moment));
    for (size_t i = 0; i < outputs.size(); ++i) store(out[i], outputs[i]);
  }

 private:
  Call call_;
  ReferenceKernel run_;
};

}  // namespace

std::unique_ptr<Kernel> make_reference_kernel(const Call& call) {
  const auto found = reference_kernels().find(call.op);
  if (found == reference_kernels().end()) throw Error::fault(call.op, "has no kernel on the CPU");
  check_stored(call, call.inputs);
  check_stored(call, call.outputs);
  return std::make_unique<ReferenceRun>(call, found->second);
}

}  // namespace boxcar::backends::cpu
