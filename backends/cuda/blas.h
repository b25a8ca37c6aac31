// Matrix products by cuBLASLt, found in its library when the first one is prepared.
//
//   Blas blas;
//   auto product = blas.product({.m = 4, .n = 5, .k = 6, .transpose_b = true, .in = bfloat16, .out =
//   float32}, workspace); product->run(a, b, c, workspace, stream);        // c[4, 5] = a[4, 6] b[5, 6]^T,
//   row-major
#pragma once

#include <cstdint>
#include <memory>

#include "backends/cuda/kernels/launch.h"

namespace boxcar::backends::cuda {

struct ProductShape {
  int64_t m = 0, n = 0, k = 0, batch = 1;  // matrices of a batch lie one after the other
  bool transpose_a = false, transpose_b = false;
  Type in = Type::float32, out = Type::float32;
};

class Product {
 public:
  virtual ~Product() = default;
  virtual void run(const void* a, const void* b, void* c, void* workspace, Stream stream) const = 0;
};

// From any thread; on one GPU.
class Blas {
 public:
  static constexpr int64_t workspace = 32 << 20;

  Blas();  // throws Error (cannot run) where there is no cuBLASLt
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  // Of floats: both operands of one type, the result of that or of float32. Extents above 0. Throws Error
  // (fault) where cuBLASLt has no algorithm.
  std::unique_ptr<Product> product(const ProductShape& shape);

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace boxcar::backends::cuda
