// Products of every instruction set of this processor, exact on small integers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backends/cpu/product.h"
#include "sbp/at.h"

namespace boxcar::backends::cpu {
namespace {

struct ProductCase {
  int64_t m, n, k;
  bool transpose_a, transpose_b, add;
};

std::string to_text(const ProductCase& c) {
  return fmt::format("{} x {} x {}{}{}{}", c.m, c.n, c.k, c.transpose_a ? ", a transposed" : "",
                     c.transpose_b ? ", b transposed" : "", c.add ? ", added" : "");
}

template <class T>
T element(const Matrix<const T>& m, int64_t i, int64_t j) {
  return m.data[i * m.row_step + j * m.column_step];
}

// c has one column more than is written, which must stay unchanged.
template <class T, class Product>
void check(const ProductCase& x, Product product) {
  std::mt19937_64 random(7);
  const auto draw = [&](int64_t count) {
    std::vector<T> values(static_cast<size_t>(count));
    for (T& value : values) value = static_cast<T>(random() % 7) - 3;
    return values;
  };
  const std::vector<T> a_values = draw(x.m * x.k), b_values = draw(x.k * x.n);
  std::vector<T> c = draw(x.m * (x.n + 1));
  const auto a = matrix(a_values.data(), x.m, x.k, x.transpose_a);
  const auto b = matrix(b_values.data(), x.k, x.n, x.transpose_b);
  std::vector<T> want = c;
  for (int64_t i = 0; i < x.m; ++i)
    for (int64_t j = 0; j < x.n; ++j) {
      T& sum = at(want, i * (x.n + 1) + j);
      if (!x.add) sum = 0;
      for (int64_t k = 0; k < x.k; ++k) sum += element<T>(a, i, k) * element<T>(b, k, j);
    }
  product(a, b, Matrix<T>{c.data(), x.m, x.n, x.n + 1, 1}, x.add);
  ASSERT_EQ(c, want) << to_text(x);
}

std::vector<ProductCase> cases() {
  std::vector<ProductCase> all;
  std::mt19937_64 random(3);
  const int64_t extents[] = {0, 1, 2, 3, 5, 8, 12, 13, 16, 17, 31, 32, 33, 64, 100};
  const auto pick = [&] { return extents[random() % std::size(extents)]; };
  const auto flag = [&] { return random() % 2 == 0; };
  for (int i = 0; i < 150; ++i) all.push_back({pick(), pick(), pick(), flag(), flag(), flag()});
  all.push_back({400, 40, 3, false, false, false});  // more than one block of rows, of columns, of depth
  all.push_back({5, 600, 3, false, false, true});
  all.push_back({13, 20, 600, true, false, false});
  all.push_back({290, 40, 20, true, false, false});  // neighbours in a row of a are far apart
  all.push_back({390, 300, 260, false, true, true});
  return all;
}

TEST(Product, IsExactInEveryUnit) {
  const ProductUnits units = product_units();
  ASSERT_GE(units.count, 1);
  for (int i = 0; i < units.count; ++i) {
    SCOPED_TRACE(units.units[i].name);
    for (const ProductCase& x : cases()) {
      check<float>(x, units.units[i].in_float);
      check<double>(x, units.units[i].in_double);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Product, TakesTheFastestUnit) {
  for (const ProductCase& x : cases()) {
    check<float>(x, product<float>);
    check<double>(x, product<double>);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace boxcar::backends::cpu
