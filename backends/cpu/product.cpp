#include "backends/cpu/product.h"

#include <type_traits>

#include "backends/cpu/product_units.h"
#include "backends/cpu/vectors.h"

#ifdef BOXCAR_BLAS
#define EIGEN_USE_BLAS
#include <Eigen/Core>
#endif

namespace boxcar::backends::cpu {

ProductUnits product_units() {
  ProductUnits units{{product_baseline()}, 1};
#ifdef BOXCAR_X86
  if (widest_vectors >= Vectors::avx2) units.units[units.count++] = product_avx2();
  if (widest_vectors >= Vectors::avx512) units.units[units.count++] = product_avx512();
#endif
  return units;
}

#ifdef BOXCAR_BLAS

namespace {

template <class T, int Order>
using Map = Eigen::Map<Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Order>,
                       Eigen::Unaligned, Eigen::OuterStride<>>;

// visit(map): as a matrix of Eigen, whose order is part of its type.
template <class T, class Visit>
void as_eigen(const Matrix<const T>& m, Visit visit) {
  auto* data = const_cast<T*>(m.data);
  if (m.column_step == 1)
    return visit(Map<T, Eigen::RowMajor>(data, m.rows, m.columns, Eigen::OuterStride<>(m.row_step)));
  visit(Map<T, Eigen::ColMajor>(data, m.rows, m.columns, Eigen::OuterStride<>(m.column_step)));
}

}  // namespace

template <class T>
void product(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool add) {
  Map<T, Eigen::RowMajor> to(c.data, c.rows, c.columns, Eigen::OuterStride<>(c.row_step));
  as_eigen(a, [&](const auto& left) {
    as_eigen(b, [&](const auto& right) {
      if (add)
        to.noalias() += left * right;
      else
        to.noalias() = left * right;
    });
  });
}

#else

namespace {

const ProductUnit& fastest() {
  static const ProductUnits all = product_units();
  return all.units[all.count - 1];
}

}  // namespace

template <class T>
void product(const Matrix<const T>& a, const Matrix<const T>& b, const Matrix<T>& c, bool add) {
  if constexpr (std::is_same_v<T, float>)
    fastest().in_float(a, b, c, add);
  else
    fastest().in_double(a, b, c, add);
}

#endif

template void product(const Matrix<const float>&, const Matrix<const float>&, const Matrix<float>&, bool);
template void product(const Matrix<const double>&, const Matrix<const double>&, const Matrix<double>&, bool);

}  // namespace boxcar::backends::cpu
