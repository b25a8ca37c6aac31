// Matrix products by cuBLASLt, found in its library when the first one is prepared.
//
//   Blas blas;
//   auto product =
//       blas.product({.m = 4, .n = 5, .k = 6, .transpose_b = true, .in = bfloat16, .out = float32});
//   product->run(a, b, c, workspace, stream);        // c[4, 5] = a[4, 6] b[5, 6]^T, row-major
//
// The algorithm is the first that cuBLASLt's heuristics propose, so that bits do not depend on timing. With
// Algorithms, the first few are timed when a product first runs, and the fastest is used from then on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/cuda/blas_algorithms.h"
#include "backends/cuda/kernels/launch.h"

namespace boxcar::backends::cpu {
class Waits;
}

namespace boxcar::backends::cuda {

// Extra work of a product's kernel: adds a bias [n] to each row of c, or writes the sums [n] of the columns
// of b, if a b is the gradient of a weight. With GELU, in its tanh form: adds the bias, writes the sum to h
// [m, n] and its GELU to c.
enum class Epilogue { none, add_bias, bias_grad, bias_gelu };

struct ProductShape {
  int64_t m = 0, n = 0, k = 0, batch = 1;  // matrices of a batch lie one after the other
  bool transpose_a = false, transpose_b = false;
  Type in = Type::float32, out = Type::float32;
  bool adds = false;                   // a matrix of c's type to c
  Epilogue epilogue = Epilogue::none;  // bias, gradient and h are of type `out`
};

class Product {
 public:
  virtual ~Product() = default;
  // By one thread at a time.
  virtual void run(const void* a, const void* b, void* c, void* workspace, Stream stream,
                   const void* bias = nullptr, const void* h = nullptr, const void* added = nullptr) = 0;
};

// From any thread; on one GPU, the calling thread's at construction.
class Blas {
 public:
  static constexpr int64_t workspace = 32 << 20;

  static constexpr int candidates = 8;  // algorithms that are timed

  // Throws Error (cannot run) if there is no cuBLASLt. Without `algorithms` nothing is timed; `waits` end a
  // timing if the run has failed.
  explicit Blas(cpu::Waits& waits, std::shared_ptr<Algorithms> algorithms = nullptr);
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  // For floats: both operands of one type, the result of that type or float32. Extents above 0. If cuBLASLt
  // has no algorithm: null with an epilogue, otherwise throws Error (fault).
  std::unique_ptr<Product> product(const ProductShape& shape);

 private:
  struct Library;
  cpu::Waits& waits_;
  std::unique_ptr<Library> library_;
  const std::shared_ptr<Algorithms> algorithms_;
  std::string machine_;  // with algorithms: the GPU and library that they are for
};

}  // namespace boxcar::backends::cuda
