// Matrix products by cuBLASLt's interface and rules: matrices are column-major, d = alpha op(a) op(b) + beta
// c, sums are in float, or in double for matrices of doubles. It refuses what cuBLASLt refuses: operands that
// do not fit, mixtures of types, algorithms that its heuristics did not propose. It writes to the workspace,
// as cuBLASLt may. Of the proposed algorithms, the first is slow, the second fails to run, and the third is
// the fastest.
#include "cublasLt.h"

#include <cmath>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include "elements.h"
#include "tally.h"

struct cublasLtContext {};
struct cublasLtMatmulDesc {
  cublasComputeType_t compute;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  int32_t bias_type = -1;
  void* aux = nullptr;  // of the type of d
  int64_t aux_leading = 0;
  bool has_gelu() const { return epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS; }
};
struct cublasLtMatrixLayout {
  cudaDataType_t type;
  int64_t rows, columns, leading;
  int32_t batch = 1;
  int64_t stride = 0;
};
struct cublasLtMatmulPreference {
  size_t workspace = 0;
};

namespace {

constexpr uint64_t mark = 0xb0c5;  // of an algorithm
constexpr size_t workspace_used = 4096;
constexpr float steep = 1.5957691216057308F, cubic = 0.044715F;
constexpr double milliseconds[] = {5, 0, 2, 3};  // by algorithm
constexpr uint64_t algorithms = std::size(milliseconds), refuses = 1;

using cuda_on_cpu::read, cuda_on_cpu::write;

struct Product {
  cublasLtMatmulDesc desc;
  cublasLtMatrixLayout a, b, c, d;
  const void *at_a, *at_b, *at_c;
  void* at_d;
  double alpha, beta;
  void* workspace;
  uint64_t algorithm;

  // Extents of op(x): [rows, columns].
  static int64_t rows(const cublasLtMatrixLayout& x, cublasOperation_t op) {
    return op == CUBLAS_OP_N ? x.rows : x.columns;
  }
  static int64_t columns(const cublasLtMatrixLayout& x, cublasOperation_t op) {
    return op == CUBLAS_OP_N ? x.columns : x.rows;
  }
  bool fits() const {
    for (const cublasLtMatrixLayout* x : {&a, &b, &c, &d})
      if (x->leading < x->rows || x->batch != d.batch || x->rows <= 0 || x->columns <= 0) return false;
    return rows(a, desc.a) == d.rows && columns(b, desc.b) == d.columns &&
           columns(a, desc.a) == rows(b, desc.b) && c.rows == d.rows && c.columns == d.columns;
  }
  bool known() const {
    const bool wide = desc.compute == CUBLAS_COMPUTE_64F;
    return a.type == b.type && c.type == d.type && (a.type == CUDA_R_64F) == wide &&
           (d.type == a.type || (!wide && d.type == CUDA_R_32F)) &&
           (desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
            ((!wide || desc.has_gelu()) && d.batch == 1 && desc.bias_type == d.type && desc.bias)) &&
           (!desc.has_gelu() || (desc.aux && desc.aux_leading >= d.rows && desc.aux_leading % 8 == 0));
  }

  // The kernel that does it.
  std::string kernel() const {
    return "cublasLt " + std::to_string(algorithm) + " " + std::to_string(a.type) + " " +
           std::to_string(d.type) + " " + std::to_string(desc.epilogue);
  }

  // In the form with tanh; in float32 for float64 too, as on an H200.
  static float gelu(float x) { return x / (1 + std::exp(-steep * (x + cubic * x * x * x))); }
  double after(double result, int64_t row, int64_t column) const {
    const int64_t at = column * desc.aux_leading + row;
    if (desc.epilogue & CUBLASLT_EPILOGUE_BIAS) result += read(desc.bias, d.type, row);
    if (desc.epilogue != CUBLASLT_EPILOGUE_GELU_AUX_BIAS) return result;
    write(desc.aux, d.type, at, result);
    return gelu(static_cast<float>(result));
  }

  template <class Sum>
  void run() const {
    std::memset(workspace, 0xff, workspace_used);
    const int64_t k = columns(a, desc.a);
    const auto at = [](const cublasLtMatrixLayout& x, bool turned, int64_t row, int64_t column) {
      return turned ? row * x.leading + column : column * x.leading + row;
    };
    for (int64_t n = 0; n < d.batch; ++n) {
      for (int64_t column = 0; column < d.columns; ++column) {
        for (int64_t row = 0; row < d.rows; ++row) {
          Sum sum = 0;
          for (int64_t i = 0; i < k; ++i)
            sum +=
                static_cast<Sum>(read(at_a, a.type, n * a.stride + at(a, desc.a == CUBLAS_OP_T, row, i))) *
                static_cast<Sum>(read(at_b, b.type, n * b.stride + at(b, desc.b == CUBLAS_OP_T, i, column)));
          double result = after(alpha * static_cast<double>(sum), row, column);
          if (beta != 0) result += beta * read(at_c, c.type, n * c.stride + at(c, false, row, column));
          write(at_d, d.type, n * d.stride + at(d, false, row, column), result);
        }
      }
    }
  }
  // Sums of the rows of op(a).
  void bias_grad() const {
    for (int64_t row = 0; row < d.rows; ++row) {
      float sum = 0;
      for (int64_t i = 0; i < columns(a, desc.a); ++i)
        sum += static_cast<float>(
            read(at_a, a.type, desc.a == CUBLAS_OP_T ? row * a.leading + i : i * a.leading + row));
      write(desc.bias, d.type, row, sum);
    }
  }
  void act() const {
    desc.compute == CUBLAS_COMPUTE_64F ? run<double>() : run<float>();
    if (desc.epilogue == CUBLASLT_EPILOGUE_BGRADA) bias_grad();
    if (desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT) cuda_on_cpu::tally("epilogue");
    cuda_on_cpu::spend(milliseconds[algorithm]);
    cuda_on_cpu::tally("product by algorithm " + std::to_string(algorithm));
  }
};

template <class T>
cublasStatus_t set(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t destroy(T* thing) {
  delete thing;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() { return 130000; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy(handle); }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if ((compute == CUBLAS_COMPUTE_64F) != (scale == CUDA_R_64F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *desc = new cublasLtMatmulDesc{.compute = compute};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t bytes) {
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(desc->a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(desc->b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(desc->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return set(desc->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return set(desc->aux_leading, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return set(desc->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  *layout =
      new cublasLtMatrixLayout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name, const void* value,
                                                size_t bytes) {
  return name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? set(layout->batch, value, bytes)
                                                    : set(layout->stride, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t, const void* value,
                                                    size_t bytes) {
  return set(preference->workspace, value, bytes);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  const Product product{*desc, *a, *b, *c, *d, nullptr, nullptr, nullptr, nullptr, 1, 0, nullptr, 0};
  *found = 0;
  if (!product.fits() || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (!product.known() || preference->workspace < workspace_used) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (; *found < wanted && *found < static_cast<int>(algorithms); ++*found)
    results[*found] = {.algo = {.data = {mark, static_cast<uint64_t>(*found)}},
                       .workspaceSize = workspace_used,
                       .state = CUBLAS_STATUS_SUCCESS};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm,
                              void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  const bool wide = desc->compute == CUBLAS_COMPUTE_64F;
  const auto scalar = [&](const void* x) { return read(x, wide ? CUDA_R_64F : CUDA_R_32F, 0); };
  const Product product{*desc, *a_layout,     *b_layout,    *c_layout, *d_layout,         a, b, c,
                        d,     scalar(alpha), scalar(beta), workspace, algorithm->data[1]};
  if (!product.fits() || !product.known() || algorithm->data[0] != mark || workspace_bytes < workspace_used)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT && !desc->bias) return CUBLAS_STATUS_INVALID_VALUE;
  if (product.algorithm == refuses) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool launched = cuda_on_cpu::put(
                            stream, [product] { product.act(); }, product.kernel()) == cudaSuccess;
  return launched ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
}
