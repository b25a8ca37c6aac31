// Rows of classes that are drawn at random together with those of all labels (ir/ops/nn_sampling.cpp).
#include <cstring>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/kernel_table.h"
#include "backends/cuda/kernels/sampling.h"
#include "backends/sampling.h"

namespace boxcar::backends::cuda {
namespace {

// The shapes of a draw, and where its kernel tells that a part has too many labels.
struct Draws {
  Sampling shape;
  KernelFault* fault = nullptr;
};
Draws draws_of(const Call& call, const Place& place, size_t labels, int64_t classes, int64_t samples) {
  Sampling s;
  s.label_count = call.inputs[labels].elements(), s.classes = classes, s.samples = samples;
  s.parts = ir::attr_int(call.attrs, "parts"), s.first = ir::attr_int(call.attrs, "first");
  KernelFault& fault = place.queue.faults().add([op = call.op, s](int64_t found) {
    refuse_part(op, s.classes, s.samples, s.parts, s.first, found - 1);
  });
  s.found = fault.found;
  return {s, &fault};
}

// With the labels and the key of the act's moment; draws.
Sampling drawn(const Draws& draws, const Act& act, size_t labels) {
  draws.fault->launched();
  Sampling s = draws.shape;
  s.labels = act.in(labels);
  const ir::Attrs& attrs = act.call.attrs;
  const auto key_at = [seed = ir::attr_int(attrs, "seed"), step = ir::attr_int(attrs, "step"),
                       micro_batch = ir::attr_int(attrs, "micro_batch")](const Moment& at) {
    return sampling_key(seed + at.seed, step + at.step, micro_batch + at.micro_batch).value;
  };
  s.key = key_at(act.moment);
  if (act.steps) {
    const int64_t micro_batch = act.moment.micro_batch;
    s.key_at = static_cast<const uint64_t*>(act.steps->vary(1, [key_at, micro_batch](Moment at, void* to) {
      at.micro_batch = micro_batch;
      const uint64_t key = key_at(at);
      std::memcpy(to, &key, sizeof key);
    }));
  }
  launch_draw(s, act.scratch, act.stream);
  return s;
}

std::unique_ptr<Kernel> make_sample_rows(const Call& call, const Place& place) {
  const Draws draws = draws_of(call, place, 1, call.inputs[0].shape[0], call.outputs[0].shape[0]);
  return kernel(
      call, place, scratch_of(draws.shape), [draws, width = call.inputs[0].shape[1]](const Act& act) {
        launch_sample_rows(drawn(draws, act, 1), act.in(0), act.out(0), width, act.scratch, act.stream);
      });
}

std::unique_ptr<Kernel> make_sample_rows_grad(const Call& call, const Place& place) {
  const Draws draws = draws_of(call, place, 1, call.outputs[0].shape[0], call.inputs[0].shape[0]);
  return kernel(
      call, place, scratch_of(draws.shape), [draws, width = call.inputs[0].shape[1]](const Act& act) {
        launch_sample_rows_grad(drawn(draws, act, 1), act.in(0), act.out(0), width, act.scratch, act.stream);
      });
}

std::unique_ptr<Kernel> make_sample_labels(const Call& call, const Place& place) {
  const Draws draws =
      draws_of(call, place, 0, ir::attr_int(call.attrs, "classes"), ir::attr_int(call.attrs, "samples"));
  return kernel(call, place, scratch_of(draws.shape), [draws](const Act& act) {
    launch_sample_labels(drawn(draws, act, 0), act.out(0), act.scratch, act.stream);
  });
}

}  // namespace

void add_sampling_kernels(Factories& table) {
  table.insert({{"sample_rows", make_sample_rows},
                {"sample_rows_grad", make_sample_rows_grad},
                {"sample_labels", make_sample_labels}});
}

}  // namespace boxcar::backends::cuda
