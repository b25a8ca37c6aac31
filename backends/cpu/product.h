// Matrix products, compiled for several vector widths and chosen for this processor at run time.
//
//   const float a[] = {1, 2}, b[] = {3, 4};
//   float c[1];
//   product<float>({a, 1, 2, 2, 1}, {b, 2, 1, 1, 1}, {c, 1, 1, 1, 1});      // c == {11}
//
// product_unit.h holds the algorithm and says how it is tuned. With the build option BOXCAR_BLAS products are
// Eigen's calls of a BLAS instead.
#pragma once

#include <cstdint>

namespace boxcar::backends::cpu {

// Element (i, j) is data[i * row_step + j * column_step].
template <class T>
struct Matrix {
  T* data;
  int64_t rows, columns, row_step, column_step;
};

// Row-major, or with `transposed` the transpose of that; rows and columns are the result's.
template <class T>
Matrix<T> matrix(T* data, int64_t rows, int64_t columns, bool transposed = false) {
  if (transposed) return {data, rows, columns, 1, rows};
  return {data, rows, columns, columns, 1};
}

// c = a b, or c += a b with `add`. T is float or double. REQUIRES that one of a's steps, one of b's and c's
// column_step are 1, and that c overlaps neither operand. Each element's sum runs over the columns of a in
// order, in blocks that depend only on their number: rows computed apart or together are the same to the bit.
template <class T>
void product(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool add = false);

// The products of one instruction set.
struct ProductUnit {
  const char* name;
  void (*in_float)(const Matrix<const float>& a, const Matrix<const float>& b, const Matrix<float>& c,
                   bool add);
  void (*in_double)(const Matrix<const double>& a, const Matrix<const double>& b, const Matrix<double>& c,
                    bool add);
};

// Units that this processor can run, the fastest last. product() takes the last.
struct ProductUnits {
  ProductUnit units[3];
  int count;
};
ProductUnits product_units();

}  // namespace boxcar::backends::cpu
