#include "backends/cuda/blas.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include "backends/cuda/shared_library.h"
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
  cublasLtHandle_t handle = nullptr;
};

namespace {

// A row-major [r, c] is a column-major [c, r]: c^T = b^T a^T is what cuBLASLt is asked for, with operands
// swapped.
template <class Library>
class LtProduct : public Product {
 public:
  LtProduct(const Library& lt, const ProductShape& s) : lt_(lt), wide_(s.in == Type::float64) {
    const cudaDataType_t in = type_of(s.in), out = type_of(s.out), scale = wide_ ? CUDA_R_64F : CUDA_R_32F;
    check(lt.desc_create(&desc_, wide_ ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, scale),
          "a product is described");
    const cublasOperation_t op_a = s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                            op_b = s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(lt.desc_set(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a), "a transposition");
    check(lt.desc_set(desc_, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b), "a transposition");
    first_ = s.transpose_b ? layout(in, s.k, s.n, s.batch) : layout(in, s.n, s.k, s.batch);
    second_ = s.transpose_a ? layout(in, s.m, s.k, s.batch) : layout(in, s.k, s.m, s.batch);
    result_ = layout(out, s.n, s.m, s.batch);

    cublasLtMatmulPreference_t preference = nullptr;
    check(lt.preference_create(&preference), "a preference");
    const size_t workspace = Blas::workspace;
    lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status =
        lt.heuristic(lt.handle, desc_, first_, second_, result_, result_, preference, 1, &best, &found);
    lt.preference_destroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS || found == 0)
      throw Error::fault("cuBLASLt", fmt::format("no algorithm for {} x {} x {}, {} of them, status {}", s.m,
                                                 s.n, s.k, s.batch, static_cast<int>(status)));
    algorithm_ = best.algo;
  }
  ~LtProduct() override {
    for (cublasLtMatrixLayout_t l : {first_, second_, result_}) lt_.layout_destroy(l);
    lt_.desc_destroy(desc_);
  }

  void run(const void* a, const void* b, void* c, void* workspace, Stream stream) const override {
    const double one64 = 1, zero64 = 0;
    const float one32 = 1, zero32 = 0;
    const void* const one = wide_ ? static_cast<const void*>(&one64) : &one32;
    const void* const zero = wide_ ? static_cast<const void*>(&zero64) : &zero32;
    check(lt_.matmul(lt_.handle, desc_, one, b, first_, a, second_, zero, c, result_, c, result_, &algorithm_,
                     workspace, Blas::workspace, static_cast<cudaStream_t>(stream)),
          "a product");
  }

 private:
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
  const bool wide_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace

Blas::Blas() : library_(std::make_unique<Library>()) {
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
  check(lt.create(&lt.handle), "it is started");
}

Blas::~Blas() { library_->destroy(library_->handle); }

std::unique_ptr<Product> Blas::product(const ProductShape& shape) {
  return std::make_unique<LtProduct<Library>>(*library_, shape);
}

}  // namespace boxcar::backends::cuda
