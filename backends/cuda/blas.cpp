#include "backends/cuda/blas.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <vector>

#include "backends/cuda/cuda_device.h"
#include "backends/cuda/shared_library.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error::fault("cuBLASLt", fmt::format("{}: status {}", what, static_cast<int>(status)));
}

cudaDataType_t type_of(Type type) {
  switch (type) {
    case Type::float64:
      return CUDA_R_64F;
    case Type::float16:
      return CUDA_R_16F;
    case Type::bfloat16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

}  // namespace

struct Blas::Library {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtGetVersion) version;
  cublasLtHandle_t handle = nullptr;
};

namespace {

constexpr int timed_runs = 3;

struct EpilogueRow {
  Epilogue epilogue;
  cublasLtEpilogue_t value;
  const char* text;
};
constexpr EpilogueRow epilogues[] = {
    {Epilogue::none, CUBLASLT_EPILOGUE_DEFAULT, ""},
    {Epilogue::add_bias, CUBLASLT_EPILOGUE_BIAS, ", a bias"},
    {Epilogue::bias_grad, CUBLASLT_EPILOGUE_BGRADA, ", a bias's gradient"},
    {Epilogue::bias_gelu, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, ", a bias and gelu"}};
const EpilogueRow& row_of(Epilogue epilogue) { return at(epilogues, epilogue); }

std::string text_of(const ProductShape& s) {
  return fmt::format("{} x {} x {}, {} of them, {}{}, {} to {}{}", s.m, s.n, s.k, s.batch,
                     s.transpose_a ? 't' : 'n', s.transpose_b ? 't' : 'n', static_cast<int>(s.in),
                     static_cast<int>(s.out), row_of(s.epilogue).text) +
         (s.adds ? ", added" : "");
}

// Measures the time between two points of a stream.
class Watch {
 public:
  Watch() {
    for (cudaEvent_t& event : events_)
      cuda::check(cudaEventCreateWithFlags(&event, cudaEventDefault), "an event is made");
  }
  ~Watch() {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  void start(cudaStream_t stream) { cuda::check(cudaEventRecord(events_[0], stream), "a time is taken"); }
  // In milliseconds; waits until the stream is there.
  float stop(cudaStream_t stream, cpu::Waits& waits) {
    float milliseconds = 0;
    cuda::check(cudaEventRecord(events_[1], stream), "a time is taken");
    wait_for([this] { return cudaEventQuery(events_[1]); }, waits);
    cuda::check(cudaEventElapsedTime(&milliseconds, events_[0], events_[1]), "a time is taken");
    return milliseconds;
  }

 private:
  cudaEvent_t events_[2] = {};
};

// A row-major [r, c] is a column-major [c, r]: cuBLASLt is asked for c^T = b^T a^T, with operands swapped.
template <class Library>
class LtProduct : public Product {
 public:
  // `machine`: the GPU and library that algorithms are for.
  LtProduct(const Library& lt, const ProductShape& s, cpu::Waits& waits,
            std::shared_ptr<Algorithms> algorithms, const std::string& machine)
      : lt_(lt),
        waits_(waits),
        wide_(s.in == Type::float64),
        text_(text_of(s)),
        known_as_(machine + ": " + text_),
        algorithms_(std::move(algorithms)) {
    const cudaDataType_t in = type_of(s.in), out = type_of(s.out), scale = wide_ ? CUDA_R_64F : CUDA_R_32F;
    check(lt.desc_create(&desc_, wide_ ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, scale),
          "a product is described");
    const cublasOperation_t op_a = s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            op_b = s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(lt.desc_set(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a), "a transposition");
    check(lt.desc_set(desc_, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b), "a transposition");
    const cublasLtEpilogue_t epilogue = row_of(s.epilogue).value;
    // The heuristics look only at the alignment of these, which is that of registers.
    void* const aligned = reinterpret_cast<void*>(512);
    if (s.epilogue != Epilogue::none) {
      check(lt.desc_set(desc_, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), "an epilogue");
      check(lt.desc_set(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &aligned, sizeof aligned), "an epilogue");
      const auto type = static_cast<int32_t>(out);
      check(lt.desc_set(desc_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type), "an epilogue");
    }
    if (s.epilogue == Epilogue::bias_gelu) {
      check(lt.desc_set(desc_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &s.n, sizeof s.n), "an epilogue");
      check(lt.desc_set(desc_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aligned, sizeof aligned),
            "an epilogue");
    }
    first_ = s.transpose_b ? layout(in, s.k, s.n, s.batch) : layout(in, s.n, s.k, s.batch);
    second_ = s.transpose_a ? layout(in, s.m, s.k, s.batch) : layout(in, s.k, s.m, s.batch);
    result_ = layout(out, s.n, s.m, s.batch);

    cublasLtMatmulPreference_t preference = nullptr;
    check(lt.preference_create(&preference), "a preference");
    const size_t workspace = Blas::workspace;
    lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    candidates_.resize(algorithms_ ? Blas::candidates : 1);
    int found = 0;
    const cublasStatus_t status =
        lt.heuristic(lt.handle, desc_, first_, second_, result_, result_, preference,
                     static_cast<int>(candidates_.size()), candidates_.data(), &found);
    lt.preference_destroy(preference);
    candidates_.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(found) : 0);
    if (!candidates_.empty())
      algorithm_ = candidates_[0].algo;
    else if (s.epilogue == Epilogue::none)
      throw Error::fault("cuBLASLt",
                         fmt::format("no algorithm for {}, status {}", text_, static_cast<int>(status)));
  }
  ~LtProduct() override {
    for (cublasLtMatrixLayout_t l : {first_, second_, result_}) lt_.layout_destroy(l);
    lt_.desc_destroy(desc_);
  }

  bool has_algorithm() const { return !candidates_.empty(); }
  void run(const void* a, const void* b, void* c, void* workspace, Stream stream, const void* bias,
           const void* h, const void* added) override {
    if (h) check(lt_.desc_set(desc_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &h, sizeof h), "gelu");
    if (bias) check(lt_.desc_set(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias), "a bias");
    const Operands x{a, b, added, c, workspace, static_cast<cudaStream_t>(stream)};
    if (algorithms_ && !chosen_) choose(x);
    check(launch(algorithm_, x), "a product");
  }

 private:
  struct Operands {
    const void *a, *b, *added;  // the last may be null
    void *c, *workspace;
    cudaStream_t stream;
  };
  cublasStatus_t launch(const cublasLtMatmulAlgo_t& algorithm, const Operands& x) const {
    const double one64 = 1, zero64 = 0;
    const float one32 = 1, zero32 = 0;
    const void* const one = wide_ ? static_cast<const void*>(&one64) : &one32;
    const void* const zero = wide_ ? static_cast<const void*>(&zero64) : &zero32;
    return lt_.matmul(lt_.handle, desc_, one, x.b, first_, x.a, second_, x.added ? one : zero,
                      x.added ? x.added : x.c, result_, x.c, result_, &algorithm, x.workspace,
                      Blas::workspace, x.stream);
  }

  // Each candidate that runs writes the same product, so timing them on the operands at hand changes nothing.
  // Nothing can be timed while a graph is captured: it keeps the first, and a later run chooses.
  void choose(const Operands& x) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cuda::check(cudaStreamIsCapturing(x.stream, &capture), "a stream is asked");
    if (capture != cudaStreamCaptureStatusNone) return;
    chosen_ = true;
    static_assert(sizeof algorithm_ == sizeof(Algorithms::Choice));
    Algorithms::Choice choice{};
    if (const auto known = algorithms_->find(known_as_)) {
      choice = *known;
    } else {
      const cublasLtMatmulAlgo_t best = quickest(x);
      std::memcpy(choice.data(), &best, sizeof best);
      choice = algorithms_->keep(known_as_, choice);
    }
    std::memcpy(&algorithm_, choice.data(), sizeof algorithm_);
  }

  cublasLtMatmulAlgo_t quickest(const Operands& x) const {
    Watch watch;
    float least = std::numeric_limits<float>::infinity();
    cublasLtMatmulAlgo_t best = algorithm_;
    for (const cublasLtMatmulHeuristicResult_t& candidate : candidates_) {
      if (launch(candidate.algo, x) != CUBLAS_STATUS_SUCCESS)
        continue;  // also loads code that the others find loaded
      watch.start(x.stream);
      for (int run = 0; run < timed_runs; ++run) check(launch(candidate.algo, x), "a product");
      if (const float time = watch.stop(x.stream, waits_); time < least) least = time, best = candidate.algo;
    }
    return best;
  }

  cublasLtMatrixLayout_t layout(cudaDataType_t type, int64_t rows, int64_t columns, int64_t batch) {
    cublasLtMatrixLayout_t result = nullptr;
    check(lt_.layout_create(&result, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows),
          "a layout");
    if (batch > 1) {
      const auto count = static_cast<int32_t>(batch);
      const int64_t stride = rows * columns;
      check(lt_.layout_set(result, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "a batch");
      check(lt_.layout_set(result, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
            "a batch");
    }
    return result;
  }

  const Library& lt_;
  cpu::Waits& waits_;
  const bool wide_;
  const std::string text_, known_as_;
  const std::shared_ptr<Algorithms> algorithms_;
  std::vector<cublasLtMatmulHeuristicResult_t> candidates_;
  bool chosen_ = false;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace

Blas::Blas(cpu::Waits& waits, std::shared_ptr<Algorithms> algorithms)
    : waits_(waits), library_(std::make_unique<Library>()), algorithms_(std::move(algorithms)) {
  const SharedLibrary library(
      fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR),
      "matrix products on GPUs need it: install the CUDA toolkit's cuBLAS, or name its folder in "
      "LD_LIBRARY_PATH",
      BOXCAR_CUDA_LIBRARIES);
  Library& lt = *library_;
  library.find("cublasLtCreate", lt.create);
  library.find("cublasLtDestroy", lt.destroy);
  library.find("cublasLtMatmul", lt.matmul);
  library.find("cublasLtMatmulDescCreate", lt.desc_create);
  library.find("cublasLtMatmulDescDestroy", lt.desc_destroy);
  library.find("cublasLtMatmulDescSetAttribute", lt.desc_set);
  library.find("cublasLtMatrixLayoutCreate", lt.layout_create);
  library.find("cublasLtMatrixLayoutDestroy", lt.layout_destroy);
  library.find("cublasLtMatrixLayoutSetAttribute", lt.layout_set);
  library.find("cublasLtMatmulPreferenceCreate", lt.preference_create);
  library.find("cublasLtMatmulPreferenceDestroy", lt.preference_destroy);
  library.find("cublasLtMatmulPreferenceSetAttribute", lt.preference_set);
  library.find("cublasLtMatmulAlgoGetHeuristic", lt.heuristic);
  library.find("cublasLtGetVersion", lt.version);
  check(lt.create(&lt.handle), "it is started");
  if (!algorithms_) return;
  int gpu = 0;
  cudaDeviceProp properties{};
  cuda::check(cudaGetDevice(&gpu), "a GPU is asked");
  cuda::check(cudaGetDeviceProperties(&properties, gpu), "a GPU is asked");
  machine_ = fmt::format("{}, cuBLASLt {}", properties.name, lt.version());
}

Blas::~Blas() { library_->destroy(library_->handle); }

std::unique_ptr<Product> Blas::product(const ProductShape& shape) {
  auto product = std::make_unique<LtProduct<Library>>(*library_, shape, waits_, algorithms_, machine_);
  if (!product->has_algorithm()) return nullptr;
  return product;
}

}  // namespace boxcar::backends::cuda
