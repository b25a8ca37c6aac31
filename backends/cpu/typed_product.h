// Products of matrices of any float type. 16-bit ones are computed in float: parts of a, b and c are
// converted and multiplied, and each element of c is rounded once.
//
//   ProductScratch scratch;                                  // kept between products of one kernel
//   typed_product<Half>(matrix(a, m, k), matrix(b, k, n), matrix(c, m, n), scratch);
#pragma once

#include <algorithm>
#include <vector>

#include "backends/cpu/kernels.h"
#include "backends/cpu/product.h"

namespace boxcar::backends::cpu {

struct ProductScratch {
  std::vector<float> a, b, c;
};

// A row-major copy in float.
template <class T>
Matrix<const float> to_float(const Matrix<const T>& from, std::vector<float>& to) {
  to.resize(static_cast<size_t>(from.rows * from.columns));
  float* at = to.data();
  if (from.column_step == 1) {
    for (int64_t i = 0; i < from.rows; ++i, at += from.columns) {
      const T* row = from.data + i * from.row_step;
      for (int64_t j = 0; j < from.columns; ++j) at[j] = static_cast<float>(row[j]);
    }
  } else {
    for (int64_t j = 0; j < from.columns; ++j) {
      const T* column = from.data + j * from.column_step;
      for (int64_t i = 0; i < from.rows; ++i)
        at[i * from.columns + j] = static_cast<float>(column[i * from.row_step]);
    }
  }
  return matrix<const float>(to.data(), from.rows, from.columns);
}

// c = a b; see product().
template <class T>
void typed_product(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c,
                   ProductScratch& scratch) {
  if constexpr (std::is_same_v<T, Acc<T>>) {
    product<T>(a, b, c);
  } else {
    constexpr int64_t kRows = 256, kColumns = 1024;
    for (int64_t j = 0; j < c.columns; j += kColumns) {
      const int64_t columns = std::min(kColumns, c.columns - j);
      const Matrix<const float> right =
          to_float<T>({b.data + j * b.column_step, b.rows, columns, b.row_step, b.column_step}, scratch.b);
      for (int64_t i = 0; i < c.rows; i += kRows) {
        const int64_t rows = std::min(kRows, c.rows - i);
        const Matrix<const float> left =
            to_float<T>({a.data + i * a.row_step, rows, a.columns, a.row_step, a.column_step}, scratch.a);
        scratch.c.resize(static_cast<size_t>(rows * columns));
        product<float>(left, right, matrix(scratch.c.data(), rows, columns));
        for (int64_t r = 0; r < rows; ++r) {
          T* to = c.data + (i + r) * c.row_step + j;
          const float* from = scratch.c.data() + r * columns;
          for (int64_t q = 0; q < columns; ++q) to[q] = static_cast<T>(from[q]);
        }
      }
    }
  }
}

}  // namespace boxcar::backends::cpu
