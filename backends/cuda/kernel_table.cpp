#include "backends/cuda/kernel_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_device.h"
#include "backends/index_limit.h"
#include "backends/random.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

constexpr std::initializer_list<void (*)(Factories&)> groups = {
    add_map_kernels,    add_move_kernels,    add_reduce_kernels,    add_row_kernels,
    add_update_kernels, add_product_kernels, add_attention_kernels, add_convolution_kernels,
    add_image_kernels,  add_expert_kernels,  add_sampling_kernels};

// Types, each once, as in the call.
std::string types_of(const Call& call) {
  std::vector<std::string> names;
  for (const ir::Types* types : {&call.inputs, &call.outputs})
    for (const ir::TensorType& type : *types)
      if (std::find(names.begin(), names.end(), ir::to_text(type.dtype)) == names.end())
        names.emplace_back(ir::to_text(type.dtype));
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_whole(const ir::TensorType& type) {
  return type.dtype == ir::DType::int64 || type.dtype == ir::DType::int32;
}

// A kernel behind one that checks the indices that it reads.
class Checked : public Kernel {
 public:
  Checked(std::unique_ptr<Kernel> check, std::unique_ptr<Kernel> kernel)
      : check_(std::move(check)), kernel_(std::move(kernel)) {}
  void run(std::span<const void* const> inputs, std::span<void* const> outputs,
           const Moment& moment) override {
    check_->run(inputs, outputs, moment);
    kernel_->run(inputs, outputs, moment);
  }

 private:
  const std::unique_ptr<Kernel> check_, kernel_;
};

// The kernel itself if its op's indices have no limit.
std::unique_ptr<Kernel> with_limit(std::unique_ptr<Kernel> made, const Call& call, const Place& place) {
  const IndexLimit limit(call);
  if (limit.below() == 0) return made;
  const auto last = std::find_if(call.inputs.rbegin(), call.inputs.rend(), is_whole);
  if (last == call.inputs.rend())
    throw Error::fault(call.op, "has a limit of indices, but no operand of them");
  const auto operand = static_cast<size_t>(call.inputs.rend() - last) - 1;
  KernelFault& fault =
      place.queue.faults().add([limit](int64_t index) { limit.check(static_cast<double>(index)); });
  auto check = kernel(call, place, 0,
                      [operand, &fault, below = limit.below(), count = last->elements()](const Act& act) {
                        fault.launched();
                        launch_check_limit(act.in(operand), count, below, fault.found, act.stream);
                      });
  return std::make_unique<Checked>(std::move(check), std::move(made));
}

}  // namespace

static_assert(static_cast<int>(Type::float64) == static_cast<int>(ir::DType::float64) &&
              static_cast<int>(Type::bfloat16) == static_cast<int>(ir::DType::bfloat16) &&
              static_cast<int>(Type::int64) == static_cast<int>(ir::DType::int64) &&
              static_cast<int>(Type::boolean) == static_cast<int>(ir::DType::boolean));

Entered enter(CudaQueue& queue) {
  std::unique_lock<std::mutex> turn = queue.turn();
  queue.use();
  return {std::move(turn), queue.stream(), queue.scratch(), queue.steps()};
}
void leave(const std::string& op) { check(cudaGetLastError(), op.c_str()); }
void zero(const Act& act, Array out, int64_t bytes) {
  if (bytes > 0)
    check(cudaMemsetAsync(out.data, 0, static_cast<size_t>(bytes), static_cast<cudaStream_t>(act.stream)),
          "zeros");
}
void need_scratch(CudaQueue& queue, int64_t bytes) { queue.need_scratch(bytes); }

const Factories& kernels() {
  static const Factories table = [] {
    Factories all;
    for (auto add : groups) add(all);
    return all;
  }();
  return table;
}

Blas& Libraries::blas() {
  if (!blas_) blas_ = std::make_unique<Blas>(waits_, algorithms_);
  return *blas_;
}
Dnn& Libraries::dnn() {
  if (!dnn_) dnn_ = std::make_unique<Dnn>();
  return *dnn_;
}

bool Libraries::has_dnn() {
  try {
    dnn();
    return true;
  } catch (const Error& error) {
    if (error.code() != Exit::cannot_run) throw;
    why_no_dnn_ = error.what();
    return false;
  }
}

void Libraries::prepared(const std::string& op) {
  Made made = std::exchange(taken_, {});
  made.op = op;
  if (made.how.empty()) made.how = "own kernels";
  made_.insert(std::move(made));
}

std::unique_ptr<Kernel> make_kernel(const Call& call, CudaQueue& queue, Libraries& libraries) {
  const auto found = kernels().find(call.op);
  if (found == kernels().end()) throw Error::fault(call.op, "has no kernel on the CUDA backend");
  std::unique_ptr<Kernel> kernel = any_float8(call) ? nullptr : found->second(call, {queue, libraries});
  if (!kernel)
    throw Error::fault(call.op, fmt::format("has no kernel on the CUDA backend for {}", types_of(call)));
  libraries.prepared(call.op);
  return with_limit(std::move(kernel), call, {queue, libraries});
}

namespace {

template <class Is>
bool any(const Call& call, Is is) {
  for (const ir::Types* types : {&call.inputs, &call.outputs})
    for (const ir::TensorType& type : *types)
      if (is(type.dtype)) return true;
  return false;
}

}  // namespace

bool any_float64(const Call& call) {
  return any(call, [](ir::DType t) { return t == ir::DType::float64; });
}
bool any_wide(const Call& call) {
  return any(call, [](ir::DType t) {
    return t == ir::DType::float64 || t == ir::DType::int64 || t == ir::DType::int32;
  });
}
bool any_float8(const Call& call) {
  return any(call, [](ir::DType t) { return t == ir::DType::float8; });
}

namespace {

int64_t aligned(int64_t bytes) { return (bytes + 511) / 512 * 512; }

void convert(Array from, Array to, int64_t count, bool wide, Stream stream) {
  Map map;
  map.count = count;
  map.inputs = map.steps = map.result = 1;
  map.input[0].array = from;
  map.out = to;
  launch_map(map, wide, stream);
}

}  // namespace

Widened::Widened(const ir::Types& types, ir::DType to, int64_t workspace)
    : type_(static_cast<Type>(to)), wide_(to == ir::DType::float64), end_(aligned(workspace)) {
  for (const ir::TensorType& type : types) {
    counts_.push_back(type.elements());
    starts_.push_back(end_);
    end_ += aligned(type.elements() * ir::size_of(to));
  }
}
Array Widened::place(const Act& act, size_t i) const {
  return {static_cast<std::byte*>(act.scratch) + starts_[i], type_};
}
Array Widened::in(const Act& act, size_t i) const {
  convert(act.in(i), place(act, i), counts_[i], wide_, act.stream);
  return place(act, i);
}
void Widened::out(const Act& act, size_t i) const {
  convert(place(act, i), act.out(0), counts_[i], wide_, act.stream);
}

int64_t elements(const ir::Shape& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

std::vector<int64_t> strides(const ir::Shape& shape) {
  std::vector<int64_t> result(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) result[i - 1] = result[i] * shape[i];
  return result;
}

Around around(const ir::Shape& shape, int64_t axis) {
  Around result;
  const auto rank = static_cast<int64_t>(shape.size());
  if (axis < 0) axis += rank;
  for (int64_t a = 0; a < rank; ++a) {
    int64_t& part = a < axis ? result.outer : a == axis ? result.extent : result.inner;
    part *= at(shape, a);
  }
  return result;
}

Drop drop_at(const Act& act, const ir::Attrs& attrs, const ir::Shape& local) {
  Drop drop;
  const Moment& moment = act.moment;
  const double p = ir::attr_float(attrs, "p");
  if (p == 0) return drop;
  drop.least = static_cast<int64_t>(std::ceil(p * 0x1p24));
  drop.kept = 1 / (1 - p);
  const auto key_at = [seed = ir::attr_int(attrs, "seed"), step = ir::attr_int(attrs, "step"),
                       op = ir::attr_int(attrs, "op")](const Moment& at) {
    return random_key(seed + at.seed, step + at.step, op).value;
  };
  drop.key = key_at(moment);
  if (act.steps)
    drop.key_at = static_cast<const uint64_t*>(act.steps->vary(1, [key_at](const Moment& at, void* to) {
      const uint64_t key = key_at(at);
      std::memcpy(to, &key, sizeof key);
    }));
  const std::vector<int64_t>&starts = ir::attr_ints(attrs, "starts"), &whole = ir::attr_ints(attrs, "shape");
  drop.first = (ir::attr_int(attrs, "micro_batch") + moment.micro_batch) *
               elements(starts.empty() ? local : ir::Shape(whole));
  if (starts.empty()) return drop;
  drop.dims = static_cast<int>(starts.size());
  const std::vector<int64_t> steps = strides(whole);
  for (size_t i = 0; i < starts.size(); ++i) {
    drop.local[i] = local[i];
    drop.start[i] = starts[i];
    drop.stride[i] = steps[i];
  }
  return drop;
}

Reduce reduce_to(const ir::TensorType& in, const ir::TensorType& out) {
  Reduce reduce;
  reduce.in.type = static_cast<Type>(in.dtype), reduce.out.type = static_cast<Type>(out.dtype);
  const std::vector<int64_t> steps = strides(in.shape);
  const size_t missing = in.shape.size() - out.shape.size();
  for (size_t d = 0; d < in.shape.size(); ++d) {
    const bool kept = d >= missing && out.shape[d - missing] == in.shape[d];
    int& dims = kept ? reduce.keep_dims : reduce.reduce_dims;
    (kept ? reduce.keep_extent : reduce.reduce_extent)[dims] = in.shape[d];
    (kept ? reduce.keep_stride : reduce.reduce_stride)[dims++] = steps[d];
    (kept ? reduce.kept : reduce.reduced) *= in.shape[d];
  }
  return reduce;
}

}  // namespace boxcar::backends::cuda
