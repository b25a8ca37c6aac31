// The device's kernels: a table from op to a factory, one file per group.
//
//   std::unique_ptr<Kernel> make_softmax(const Call& call, const Place& place) {
//     const Rows rows = ...;                                 // types and attributes, read once
//     return kernel(place, [=](const Act& act) {             // addresses and the moment, at every act
//       launch_softmax({act.in(0), act.out(0), ...}, wide, act.stream);
//     });
//   }
//
// A factory returns null for types that it has no kernel for; the call is then refused by name.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/blas.h"
#include "backends/cuda/dnn.h"
#include "backends/cuda/kernels/launch.h"
#include "backends/cuda/step_values.h"
#include "backends/device.h"

namespace boxcar::backends::cpu {
class Waits;
}

namespace boxcar::backends::cuda {

class CudaQueue;

// NVIDIA's libraries for one device, each loaded when a kernel first needs it. For the thread that prepares.
class Libraries {
 public:
  // With `algorithms`, takes the fastest, even if its bits differ between runs.
  Libraries(cpu::Waits& waits, std::shared_ptr<Algorithms> algorithms)
      : waits_(waits), algorithms_(std::move(algorithms)) {}
  bool fast() const { return algorithms_ != nullptr; }
  // Bytes of scores that a gradient of attention with repeatable bits keeps at a time, if one key head needs
  // no more.
  static constexpr int64_t most_scores_usually = int64_t{256} << 20;
  int64_t most_scores = most_scores_usually;
  Blas& blas();
  Dnn& dnn();
  bool has_dnn();  // for ops that can do without; why_no_dnn() gives the reason if not
  const std::string& why_no_dnn() const { return why_no_dnn_; }

  // Says how the kernel being prepared is carried out; the last call counts. Without one it is Boxcar's own
  // kernel. `why`: as in Made.
  void takes(std::string how, std::string why = "") { taken_ = {"", std::move(how), std::move(why)}; }
  // Records that as one kernel of this op.
  void prepared(const std::string& op);
  const std::set<Made>& made() const { return made_; }

 private:
  cpu::Waits& waits_;
  const std::shared_ptr<Algorithms> algorithms_;
  std::unique_ptr<Blas> blas_;
  std::unique_ptr<Dnn> dnn_;
  std::string why_no_dnn_;
  Made taken_;
  std::set<Made> made_;
};

// The place where a kernel will run.
struct Place {
  CudaQueue& queue;
  Libraries& libraries;
};

// One act: operands with their types, scratch memory, and the stream on which it is launched.
struct Act {
  const Call& call;
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  const Moment& moment;
  Stream stream;
  void* scratch;
  StepValues* steps;  // null unless the act is recorded: it then reads values of the step there

  Array in(size_t i) const { return {const_cast<void*>(inputs[i]), static_cast<Type>(call.inputs[i].dtype)}; }
  Array out(size_t i) const { return {outputs[i], static_cast<Type>(call.outputs[i].dtype)}; }
};

// Makes its device the calling thread's, and holds the turn while it lives.
struct Entered {
  std::unique_lock<std::mutex> turn;
  Stream stream;
  void* scratch;
  StepValues* steps;
};
Entered enter(CudaQueue& queue);
// Throws Error (fault) if an earlier launch was refused.
void leave(const std::string& op);

// Writes zeros.
void zero(const Act& act, Array out, int64_t bytes);

// A kernel whose run is `body(const Act&)`, with this many bytes at act.scratch.
void need_scratch(CudaQueue& queue, int64_t bytes);
template <class Body>
std::unique_ptr<Kernel> kernel(const Call& call, const Place& place, int64_t scratch, Body body) {
  struct Wrapped : Kernel {
    Wrapped(Call c, CudaQueue& q, Body b) : call(std::move(c)), queue(q), body(std::move(b)) {}
    void run(std::span<const void* const> inputs, std::span<void* const> outputs,
             const Moment& moment) override {
      const Entered here = enter(queue);
      body(Act{call, inputs, outputs, moment, here.stream, here.scratch, here.steps});
      leave(call.op);
    }
    Call call;
    CudaQueue& queue;
    Body body;
  };
  need_scratch(place.queue, scratch);
  return std::make_unique<Wrapped>(call, place.queue, std::move(body));
}

using Factory = std::unique_ptr<Kernel> (*)(const Call& call, const Place& place);
using Factories = std::map<std::string, Factory, std::less<>>;

// The groups, one file each: kernels_map.cpp and so on.
void add_map_kernels(Factories& table);
void add_move_kernels(Factories& table);
void add_reduce_kernels(Factories& table);
void add_row_kernels(Factories& table);
void add_update_kernels(Factories& table);
void add_product_kernels(Factories& table);
void add_attention_kernels(Factories& table);
void add_convolution_kernels(Factories& table);
void add_image_kernels(Factories& table);
void add_expert_kernels(Factories& table);
void add_sampling_kernels(Factories& table);

const Factories& kernels();
// Throws Error (fault) for an op or types without a kernel, naming both.
std::unique_ptr<Kernel> make_kernel(const Call& call, CudaQueue& queue, Libraries& libraries);

// --- for factories

bool any_float64(const Call& call);
// True also for arithmetic on whole numbers: double holds more of them.
bool any_wide(const Call& call);
bool any_float8(const Call& call);
// Two operands and a result in one type, in scratch memory behind what a library uses there.
//
//   const Widened widened({a, b, c}, DType::float32, workspace);   // the kernel needs widened.end() bytes
//   library(widened.in(act, 0), widened.in(act, 1), widened.place(act, 2)), widened.out(act, 2);
class Widened {
 public:
  Widened(const ir::Types& types, ir::DType to, int64_t workspace);
  int64_t end() const { return end_; }
  Array place(const Act& act, size_t i) const;
  Array in(const Act& act, size_t i) const;  // with input i, widened
  void out(const Act& act, size_t i) const;  // rounds it to output 0

 private:
  Type type_;
  bool wide_;
  std::vector<int64_t> counts_, starts_;
  int64_t end_;
};
// A shape as rows of its last axis, and as outer x extent x inner around one.
struct Around {
  int64_t outer = 1, extent = 1, inner = 1;
};
Around around(const ir::Shape& shape, int64_t axis);
int64_t elements(const ir::Shape& shape);
std::vector<int64_t> strides(const ir::Shape& shape);
// Draws of a random op with these attributes, on a part of this shape, at the act's moment.
Drop drop_at(const Act& act, const ir::Attrs& attrs, const ir::Shape& local);
// Sums of `in` over the axes that `out`, broadcast to its shape, does not have.
Reduce reduce_to(const ir::TensorType& in, const ir::TensorType& out);

}  // namespace boxcar::backends::cuda
