#include <algorithm>
#include <numeric>

#include "backends/cpu/reference.h"
#include "sbp/at.h"

namespace boxcar::backends::cpu {
namespace {

// The position of each index in a table of `extent` rows that begins at the attribute offset; -1 outside.
std::vector<int64_t> positions(const HostTensor& indices, int64_t extent, const ir::Attrs& attrs) {
  int64_t offset = ir::attr_int(attrs, "offset");
  std::vector<int64_t> rows;
  for (double index : indices.data) {
    int64_t row = static_cast<int64_t>(index) - offset;
    rows.push_back(0 <= row && row < extent ? row : -1);
  }
  return rows;
}

// Calls visit(flat in the picked tensor, flat in the table) for all that lie inside.
template <class Visit>
void for_picked(Around table, const std::vector<int64_t>& rows, Visit visit) {
  auto count = static_cast<int64_t>(rows.size());
  for (int64_t i = 0; i < table.outer; ++i) {
    for (int64_t j = 0; j < count; ++j) {
      int64_t row = at(rows, j);
      for (int64_t k = 0; row >= 0 && k < table.inner; ++k) {
        visit(static_cast<size_t>((i * count + j) * table.inner + k),
              static_cast<size_t>((i * table.extent + row) * table.inner + k));
      }
    }
  }
}

void gather(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  Around table = around(in[0].type.shape, ir::attr_int(attrs, "axis"));
  for_picked(table, positions(in[1], table.extent, attrs),
             [&](size_t picked, size_t at) { out[0].data[picked] = in[0].data[at]; });
}

void gather_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  Around table = around(out[0].type.shape, ir::attr_int(attrs, "axis"));
  for_picked(table, positions(in[1], table.extent, attrs),
             [&](size_t picked, size_t at) { out[0].data[at] += in[0].data[picked]; });
}

void one_hot(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  int64_t depth = ir::attr_int(attrs, "depth");
  std::vector<int64_t> classes = positions(in[0], depth, attrs);
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i] >= 0) out[0].data[i * static_cast<size_t>(depth) + static_cast<size_t>(classes[i])] = 1;
  }
}

void cumsum(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  Around shape = around(in[0].type.shape, ir::attr_int(attrs, "axis"));
  for (int64_t i = 0; i < shape.outer; ++i) {
    for (int64_t k = 0; k < shape.inner; ++k) {
      double total = 0;
      for (int64_t j = 0; j < shape.extent; ++j) {
        auto at = static_cast<size_t>((i * shape.extent + j) * shape.inner + k);
        out[0].data[at] = total += in[0].data[at];
      }
    }
  }
}

// The places in a row of the elements of its best groups.
std::vector<size_t> places_of_groups(const double* x, size_t extent, size_t groups, size_t best) {
  const size_t size = extent / groups;
  std::vector<double> scores;
  std::vector<size_t> order(groups), places;
  for (size_t g = 0; g < groups; ++g) {
    std::vector<double> own(x + g * size, x + (g + 1) * size);
    std::sort(own.begin(), own.end(), std::greater<>());
    scores.push_back(size == 1 ? own[0] : own[0] + own[1]);
  }
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(best);
  std::sort(order.begin(), order.end());
  for (const size_t g : order)
    for (size_t i = 0; i < size; ++i) places.push_back(g * size + i);
  return places;
}

// The largest first; of equal ones the earlier.
void top_k(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  auto extent = static_cast<size_t>(in[0].type.shape.back()),
       k = static_cast<size_t>(out[0].type.shape.back());
  const auto groups = static_cast<size_t>(ir::attr_int(attrs, "groups")),
             best = static_cast<size_t>(ir::attr_int(attrs, "top_groups"));
  for (size_t row = 0; extent > 0 && row < in[0].data.size() / extent; ++row) {
    const double* x = in[0].data.data() + row * extent;
    std::vector<size_t> order = places_of_groups(x, extent, groups, best);
    std::stable_sort(order.begin(), order.end(), [x](size_t a, size_t b) { return x[a] > x[b]; });
    for (size_t i = 0; i < k; ++i) {
      out[0].data[row * k + i] = x[order[i]];
      out[1].data[row * k + i] = static_cast<double>(order[i]);
    }
  }
}

}  // namespace

void add_index_kernels(KernelTable& table) {
  table.insert({{"gather", gather},
                {"gather_grad", gather_grad},
                {"one_hot", one_hot},
                {"cumsum", cumsum},
                {"top_k", top_k}});
}

}  // namespace boxcar::backends::cpu
