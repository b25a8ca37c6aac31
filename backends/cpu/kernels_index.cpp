// Ops that compute with positions: embedding and gather with their gradients, one_hot, cumsum, top_k.
#include <numeric>

#include "backends/cpu/chunks.h"
#include "backends/cpu/reference.h"
#include "backends/index_limit.h"
#include "sbp/at.h"

namespace boxcar::backends::cpu {
namespace {

// --- tables: rows of a table[outer, extent, inner] by index; an index outside a part is -1

class Indices {
 public:
  Indices(const Call& call, size_t operand, int64_t rows)
      : indices_(call, operand), rows_(rows), offset_(ir::attr_int(call.attrs, "offset")), limit_(call) {}

  int64_t row(const Operands& operands, int64_t at) const {
    const double index = indices_.element(operands, at);
    limit_.check(index);
    const int64_t row = static_cast<int64_t>(index) - offset_;
    return row >= 0 && row < rows_ ? row : -1;
  }

 private:
  In<double> indices_;  // holds integers up to 2^53
  int64_t rows_, offset_;
  IndexLimit limit_;
};

std::unique_ptr<Kernel> take_rows(const Call& call, const Around& table) {
  const int64_t bytes = table.inner * ir::size_of(call.inputs[0].dtype), count = call.inputs[1].elements();
  return kernel([=, indices = Indices(call, 1, table.extent)](const Operands& operands) {
    if (bytes == 0) return;
    std::byte* to = operands.out<std::byte>(0);
    for (int64_t i = 0; i < table.outer; ++i) {
      for (int64_t j = 0; j < count; ++j, to += bytes) {
        const int64_t row = indices.row(operands, j);
        if (row < 0) {
          std::memset(to, 0, static_cast<size_t>(bytes));
        } else {
          std::memcpy(to, operands.in<std::byte>(0) + (i * table.extent + row) * bytes,
                      static_cast<size_t>(bytes));
        }
      }
    }
  });
}

// Every row of the result is written once: the sum of the rows whose index names it, in order.
template <class A>
class AddRows {
 public:
  AddRows(const Call& call, const Around& table)
      : table_(table),
        count_(call.inputs[1].elements()),
        dy_(call, 0),
        indices_(call, 1, table.extent),
        dx_(call, 0) {}

  void operator()(const Operands& operands) {
    sort(operands);
    for (int64_t outer = 0; outer < table_.outer; ++outer) {
      for (int64_t row = 0; row < table_.extent; ++row) add_row(operands, outer, row);
    }
  }

 private:
  // Positions of the indices by row: those of row r at begins_[r] to begins_[r + 1].
  void sort(const Operands& operands) {
    begins_.assign(static_cast<size_t>(table_.extent) + 1, 0);
    rows_.resize(static_cast<size_t>(count_));
    for (int64_t j = 0; j < count_; ++j) {
      const int64_t row = rows_[static_cast<size_t>(j)] = indices_.row(operands, j);
      if (row >= 0) ++begins_[static_cast<size_t>(row) + 1];
    }
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    std::vector<int64_t> next(begins_.begin(), begins_.end() - 1);
    positions_.resize(static_cast<size_t>(begins_.back()));
    for (int64_t j = 0; j < count_; ++j) {
      const int64_t row = rows_[static_cast<size_t>(j)];
      if (row >= 0) positions_[static_cast<size_t>(next[static_cast<size_t>(row)]++)] = j;
    }
  }

  void add_row(const Operands& operands, int64_t outer, int64_t row) {
    const int64_t begin = begins_[static_cast<size_t>(row)], end = begins_[static_cast<size_t>(row) + 1];
    for_chunks(table_.inner, [&](int64_t at, int64_t n) {
      std::fill_n(sum_.at, kChunk, A(0));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = (outer * count_ + positions_[static_cast<size_t>(i)]) * table_.inner + at;
        change_each(
            n, [](A sum, A more) { return sum + more; }, sum_.at, dy_.load(operands, from, n, buffer_));
      }
      dx_.store(sum_.at, operands, (outer * table_.extent + row) * table_.inner + at, n);
    });
  }

  Around table_;
  int64_t count_;
  In<A> dy_;
  Indices indices_;
  Out<A> dx_;
  std::vector<int64_t> begins_, rows_, positions_;
  Chunk<A> sum_, buffer_;
};

std::unique_ptr<Kernel> add_rows(const Call& call, const Around& table) {
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  return for_acc(call, [&]<class A>() { return kernel(AddRows<A>(call, table)); });
}

std::unique_ptr<Kernel> make_gather(const Call& call) {
  return take_rows(call, around(call.inputs[0].shape, ir::attr_int(call.attrs, "axis")));
}
std::unique_ptr<Kernel> make_gather_grad(const Call& call) {
  return add_rows(call, around(call.outputs[0].shape, ir::attr_int(call.attrs, "axis")));
}
std::unique_ptr<Kernel> make_embedding(const Call& call) {
  return take_rows(call, around(call.inputs[0].shape, 0));
}
std::unique_ptr<Kernel> make_embedding_grad(const Call& call) {
  return add_rows(call, around(call.outputs[0].shape, 0));
}

std::unique_ptr<Kernel> make_one_hot(const Call& call) {
  const int64_t depth = call.outputs[0].shape.back(), count = call.inputs[0].elements();
  return kernel([=, classes = Indices(call, 0, depth)](const Operands& operands) {
    auto* y = operands.out<float>(0);
    std::fill_n(y, count * depth, 0.0F);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = classes.row(operands, i);
      if (at >= 0) y[i * depth + at] = 1;
    }
  });
}

// --- along an axis

std::unique_ptr<Kernel> make_cumsum(const Call& call) {
  if (!ir::is_float(call.inputs[0].dtype)) return nullptr;
  const Around axis = around(call.inputs[0].shape, ir::attr_int(call.attrs, "axis"));
  return for_acc(call, [&]<class A>() {
    return kernel([axis, x = In<A>(call, 0), y = Out<double>(call, 0)](const Operands& operands) {
      Chunk<A> from;
      Chunk<double> total{};
      for (int64_t outer = 0; outer < axis.outer; ++outer) {
        const int64_t first = outer * axis.extent * axis.inner;
        if (axis.inner == 1) {  // along memory
          double sum = 0;
          for_chunks(axis.extent, [&](int64_t at, int64_t n) {
            const A* more = x.load(operands, first + at, n, from);
            for (int64_t i = 0; i < n; ++i) total.at[i] = sum += static_cast<double>(more[i]);
            y.store(total.at, operands, first + at, n);
          });
          continue;
        }
        for_chunks(axis.inner, [&](int64_t at, int64_t n) {
          std::fill_n(total.at, kChunk, 0.0);
          for (int64_t i = 0; i < axis.extent; ++i) {
            const int64_t here = first + i * axis.inner + at;
            const A* __restrict more = x.load(operands, here, n, from);
            for (int64_t k = 0; k < n; ++k) total.at[k] += static_cast<double>(more[k]);
            y.store(total.at, operands, here, n);
          }
        });
      }
    });
  });
}

// Sorts the first `count` of `places` by their numbers: the largest first, NaN before all; of equal ones the
// earlier.
void sort_best(std::vector<int64_t>& places, int64_t count, const std::vector<double>& numbers) {
  std::partial_sort(places.begin(), places.begin() + count, places.end(), [&](int64_t a, int64_t b) {
    const double x_a = at(numbers, a), x_b = at(numbers, b);
    const bool nan_a = std::isnan(x_a), nan_b = std::isnan(x_b);
    if (nan_a || nan_b) return nan_a != nan_b ? nan_a : a < b;
    return x_a != x_b ? x_a > x_b : a < b;
  });
}

// Places in a row, in groups of equal size.
class Choice {
 public:
  Choice(int64_t extent, int64_t groups, int64_t top_groups)
      : size_(extent / groups), top_groups_(top_groups), scores_(static_cast<size_t>(groups)) {}

  // Those of the best elements, up to the k-th.
  const std::vector<int64_t>& best(const std::vector<double>& row, int64_t k) {
    groups_.resize(scores_.size());
    std::iota(groups_.begin(), groups_.end(), int64_t{0});
    if (top_groups_ < std::ssize(groups_)) {
      for (const int64_t group : groups_) at(scores_, group) = score(row, group);
      sort_best(groups_, top_groups_, scores_);
      groups_.resize(static_cast<size_t>(top_groups_));
    }
    places_.clear();
    for (const int64_t group : groups_)
      for (int64_t i = 0; i < size_; ++i) places_.push_back(group * size_ + i);
    sort_best(places_, k, row);
    return places_;
  }

 private:
  // The sum of a group's two best elements.
  double score(const std::vector<double>& row, int64_t group) {
    places_.resize(static_cast<size_t>(size_));
    std::iota(places_.begin(), places_.end(), group * size_);
    sort_best(places_, std::min<int64_t>(2, size_), row);
    return size_ == 1 ? at(row, places_[0]) : at(row, places_[0]) + at(row, places_[1]);
  }

  int64_t size_, top_groups_;
  std::vector<double> scores_;            // of groups
  std::vector<int64_t> groups_, places_;  // in their order
};

std::unique_ptr<Kernel> make_top_k(const Call& call) {
  if (!is_stored(call.inputs[0].dtype)) return nullptr;
  const Around rows = around(call.inputs[0].shape, -1);
  const int64_t k = call.outputs[0].shape.back();
  return kernel([=, x = In<double>(call, 0), values = Out<double>(call, 0),
                 choice = Choice(rows.extent, ir::attr_int(call.attrs, "groups"),
                                 ir::attr_int(call.attrs, "top_groups")),
                 numbers = std::vector<double>()](const Operands& operands) mutable {
    numbers.resize(static_cast<size_t>(rows.extent));
    Chunk<double> from;
    for (int64_t row = 0; row < rows.outer; ++row) {
      for_chunks(rows.extent, [&](int64_t at, int64_t n) {
        std::copy_n(x.load(operands, row * rows.extent + at, n, from), n, numbers.begin() + at);
      });
      const std::vector<int64_t>& best = choice.best(numbers, k);
      for (int64_t i = 0; i < k; ++i) {
        values.put(at(numbers, at(best, i)), operands, row * k + i);
        operands.out<int64_t>(1)[row * k + i] = at(best, i);
      }
    }
  });
}

}  // namespace

void add_index_kernels(Factories& table) {
  table.insert({{"embedding", make_embedding},
                {"embedding_grad", make_embedding_grad},
                {"gather", make_gather},
                {"gather_grad", make_gather_grad},
                {"one_hot", make_one_hot},
                {"cumsum", make_cumsum},
                {"top_k", make_top_k}});
}

}  // namespace boxcar::backends::cpu
