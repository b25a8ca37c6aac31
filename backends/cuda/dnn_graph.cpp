#if __has_include(<cudnn.h>)  // else dnn.cpp says that it was not there

#include "backends/cuda/dnn_graph.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "sbp/error.h"

namespace boxcar::backends::cuda {

cudnnDataType_t dnn_type(Type type) {
  switch (type) {
    case Type::float64:
      return CUDNN_DATA_DOUBLE;
    case Type::float16:
      return CUDNN_DATA_HALF;
    case Type::bfloat16:
      return CUDNN_DATA_BFLOAT16;
    case Type::int8:
      return CUDNN_DATA_INT8;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

std::vector<int64_t> channels_last(const std::vector<int64_t>& extents) {
  const int64_t c = extents[1], h = extents[2], w = extents[3];
  return {h * w * c, 1, w * c, c};
}

DnnDescriptor::DnnDescriptor(const DnnLibrary& dnn, cudnnBackendDescriptorType_t type, const char* what)
    : dnn_(&dnn), what_(what) {
  check(dnn.create_descriptor(type, &descriptor_), "is made");
}
DnnDescriptor::DnnDescriptor(DnnDescriptor&& other) noexcept
    : dnn_(other.dnn_), what_(other.what_), descriptor_(std::exchange(other.descriptor_, nullptr)) {}
DnnDescriptor& DnnDescriptor::operator=(DnnDescriptor&& other) noexcept {
  std::swap(dnn_, other.dnn_);
  std::swap(what_, other.what_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}
DnnDescriptor::~DnnDescriptor() {
  if (descriptor_) dnn_->destroy_descriptor(descriptor_);
}

void DnnDescriptor::check(cudnnStatus_t status, const char* how) const {
  if (status != CUDNN_STATUS_SUCCESS)
    throw Error::fault("cuDNN", fmt::format("{} {}: {}", what_, how, dnn_->error_string(status)));
}

class DnnGraph::Plan : public DnnPlan {
 public:
  Plan(const DnnGraph& graph, DnnDescriptor plan, int64_t workspace)
      : dnn_(graph.dnn_),
        what_(graph.what_),
        plan_(std::move(plan)),
        given_(graph.given_.size()),
        workspace_(workspace),
        scratch_(graph.scratch_),
        scratch_bytes_(graph.scratch_bytes_),
        constants_(graph.constants_) {
    ids_ = graph.given_;
    for (const auto& [id, at] : scratch_) ids_.push_back(id);
    for (const Constant& constant : constants_) ids_.push_back(constant.id);
  }

  void run(std::span<const void* const> tensors, void* workspace, Stream stream) override {
    if (!dnn_.handle)
      throw Error::fault("cuDNN", fmt::format("{} was planned for a GPU that is not here", what_));
    if (tensors.size() != given_)
      throw Error::fault("cuDNN",
                         fmt::format("{} of {} tensors is run with {}", what_, given_, tensors.size()));
    auto* const memory = static_cast<std::byte*>(workspace);
    std::vector<const void*> at(tensors.begin(), tensors.end());
    for (const auto& [id, begin] : scratch_) at.push_back(memory + begin);
    for (const Constant& constant : constants_) at.push_back(constant.value.data());
    DnnDescriptor pack(dnn_, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, what_);
    pack.whole(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids_)
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, at)
        .one(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, memory + scratch_bytes_)
        .ready();
    const std::lock_guard lock(dnn_.mutex);
    pack.check(dnn_.set_stream(dnn_.handle, static_cast<cudaStream_t>(stream)), "gets its stream");
    pack.check(dnn_.execute(dnn_.handle, plan_.get(), pack.get()), "is launched");
  }
  int64_t workspace() const override { return scratch_bytes_ + workspace_; }

 private:
  DnnLibrary& dnn_;
  const char* const what_;
  DnnDescriptor plan_;
  const size_t given_;
  const int64_t workspace_;
  const std::vector<std::pair<int64_t, int64_t>> scratch_;
  const int64_t scratch_bytes_;
  const std::vector<Constant> constants_;
  std::vector<int64_t> ids_;
};

namespace {

DnnGraph::Shape row_major(const DnnGraph::Shape& extents) {
  DnnGraph::Shape strides(extents.size(), 1);
  for (size_t i = extents.size(); i-- > 1;) strides[i - 1] = strides[i] * extents[i];
  return strides;
}

constexpr auto in_memory = CUDNN_ATTR_TENSOR_UNIQUE_ID;

}  // namespace

DnnGraph::Tensor DnnGraph::make(cudnnDataType_t type, const Shape& extents, const Shape& strides,
                                cudnnBackendAttributeName_t kind) {
  DnnDescriptor& result = tensors_.emplace_back(descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR));
  result.one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .whole(CUDNN_ATTR_TENSOR_DIMENSIONS, extents)
      .whole(CUDNN_ATTR_TENSOR_STRIDES, strides.empty() ? row_major(extents) : strides)
      .whole(CUDNN_ATTR_TENSOR_UNIQUE_ID, {static_cast<int64_t>(tensors_.size())})
      .whole(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {16});
  if (kind != in_memory) result.one(kind, CUDNN_TYPE_BOOLEAN, true);
  return &result.ready();
}

DnnGraph::Tensor DnnGraph::tensor(Type type, const Shape& extents, const Shape& strides) {
  const Tensor made = make(dnn_type(type), extents, strides, in_memory);
  given_.push_back(static_cast<int64_t>(tensors_.size()));
  return made;
}

DnnGraph::Tensor DnnGraph::scratch(Type type, const Shape& extents) {
  const Tensor made = make(dnn_type(type), extents, {}, in_memory);
  scratch_.emplace_back(static_cast<int64_t>(tensors_.size()), scratch_bytes_);
  const int64_t bytes = row_major(extents)[0] * extents[0] * (type == Type::float64 ? 8 : 4);
  scratch_bytes_ += (bytes + 511) / 512 * 512;
  return made;
}

DnnGraph::Tensor DnnGraph::between(cudnnDataType_t type, const Shape& extents, const Shape& strides) {
  return make(type, extents, strides, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

template <class T>
DnnGraph::Tensor DnnGraph::constant(cudnnDataType_t type, T value) {
  const Tensor made = make(type, {1, 1, 1, 1}, {}, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  Constant& constant = constants_.emplace_back(Constant{static_cast<int64_t>(tensors_.size()), {}});
  static_assert(sizeof value == sizeof constant.value);
  std::memcpy(constant.value.data(), &value, sizeof value);
  return made;
}
template DnnGraph::Tensor DnnGraph::constant(cudnnDataType_t, float);
template DnnGraph::Tensor DnnGraph::constant(cudnnDataType_t, int32_t);

DnnDescriptor& DnnGraph::operation(cudnnBackendDescriptorType_t type) {
  return operations_.emplace_back(descriptor(type));
}

void DnnGraph::pointwise(cudnnPointwiseMode_t mode, const std::vector<Tensor>& x, Tensor y,
                         cudnnDataType_t precision, int64_t axis) {
  DnnDescriptor how = descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .one(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, precision);
  if (axis >= 0) how.whole(CUDNN_ATTR_POINTWISE_AXIS, {axis});
  how.ready();
  DnnDescriptor& op = operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how).set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y);
  constexpr cudnnBackendAttributeName_t operands[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                      CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                      CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  for (size_t i = 0; i < x.size(); ++i) op.set(operands[i], *x[i]);
  op.ready();
}

void DnnGraph::product(Tensor a, Tensor b, Tensor c) {
  DnnDescriptor how = descriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.one(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT).ready();
  operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how)
      .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a)
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b)
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c)
      .ready();
}

void DnnGraph::reduce(cudnnReduceTensorOp_t how, Tensor x, Tensor y) {
  DnnDescriptor reduction = descriptor(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.one(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, how)
      .one(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .ready();
  operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y)
      .ready();
}

void DnnGraph::view(Tensor x, Tensor y) {
  operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x)
      .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y)
      .ready();
}

// Configurations of engines, the most promising first; none if the heuristics have none.
std::vector<DnnDescriptor> DnnGraph::engines(const DnnDescriptor& graph, cudnnBackendHeurMode_t mode) {
  DnnDescriptor heuristics = descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .one(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
#if CUDNN_VERSION >= 90800
  if (dnn_.device)
    heuristics.one(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, dnn_.device);
#endif
  std::vector<DnnDescriptor> result;
  if (!heuristics.finalize()) return result;
  int64_t count = 0;
  if (dnn_.get(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
               nullptr) != CUDNN_STATUS_SUCCESS)
    return result;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < count; ++i) {
    result.push_back(descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(result.back().get());
  }
  heuristics.check(dnn_.get(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                            count, &count, raw.data()),
                   "asks for engines");
  result.erase(result.begin() + count, result.end());
  return result;
}

// Whether bits are the same in every run and the engine suits.
bool DnnGraph::repeats(const DnnDescriptor& configuration, const Suits& suits) {
  DnnDescriptor engine = descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0;
  if (dnn_.get(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
               &raw) != CUDNN_STATUS_SUCCESS)
    return false;
  std::vector<cudnnBackendNumericalNote_t> notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  if (dnn_.get(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
               CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()) != CUDNN_STATUS_SUCCESS)
    return false;
  notes.resize(static_cast<size_t>(count));
  for (const cudnnBackendNumericalNote_t note : notes)
    if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || !suits(note)) return false;
  return true;
}

std::unique_ptr<DnnPlan> DnnGraph::plan(const Suits& suits, int64_t most_workspace) {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const DnnDescriptor& operation : operations_) operations.push_back(operation.get());
  DnnDescriptor graph = descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
  if (dnn_.handle) graph.one(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, dnn_.handle);
  if (!graph.finalize()) return nullptr;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const DnnDescriptor& engine : engines(graph, mode)) {
      if (!repeats(engine, suits)) continue;
      DnnDescriptor plan = descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
      if (dnn_.handle) plan.one(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, dnn_.handle);
#if CUDNN_VERSION >= 90800
      if (dnn_.device)
        plan.one(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, dnn_.device);
#endif
      int64_t count = 0, workspace = 0;
      if (plan.finalize() &&
          dnn_.get(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                   &workspace) == CUDNN_STATUS_SUCCESS &&
          workspace <= most_workspace)
        return std::make_unique<Plan>(*this, std::move(plan), workspace);
    }
  }
  return nullptr;
}

}  // namespace boxcar::backends::cuda

#endif
