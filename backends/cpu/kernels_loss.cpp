// Cross entropy by row, whole and in the pieces for a split class dimension. A label in another part of the
// classes is -1 here.
#include "backends/cpu/chunks.h"
#include "backends/cpu/fast_math.h"
#include "backends/cpu/reference.h"
#include "backends/index_limit.h"
#include "ir/ops/classes.h"

namespace boxcar::backends::cpu {
namespace {

// Labels are read in double, which holds every class.
class Labels {
 public:
  Labels(const Call& call, size_t operand, int64_t classes, int64_t offset)
      : labels_(call, operand), classes_(classes), offset_(offset), limit_(call) {}

  int64_t at(const Operands& operands, int64_t row) const {
    const double index = labels_.element(operands, row);
    limit_.check(index);
    const int64_t label = static_cast<int64_t>(index) - offset_;
    return label >= 0 && label < classes_ ? label : -1;
  }

 private:
  In<double> labels_;
  int64_t classes_, offset_;
  IndexLimit limit_;
};

template <class A>
double exp_sum(const Operands& operands, const In<A>& logits, int64_t start, int64_t classes, A most) {
  return row_sum(operands, logits, start, classes, [most](A v) { return fast_exp(v - most); });
}

// With the maximum and the sum if the op has them as results.
std::unique_ptr<Kernel> make_cross_entropy(const Call& call) {
  const Around rows = around(call.inputs[0].shape, -1);
  const int64_t classes = ir::classes_here(call.attrs, rows.extent);
  return for_acc(call, [&]<class A>() {
    std::vector<Out<double>> parts;
    for (size_t i = 1; i < call.outputs.size(); ++i) parts.emplace_back(call, i);
    return kernel([rows, classes, parts, logits = In<A>(call, 0), labels = Labels(call, 1, rows.extent, 0),
                   loss = Out<double>(call, 0)](const Operands& operands) {
      Chunk<A> buffer;
      for (int64_t row = 0; row < rows.outer; ++row) {
        const int64_t start = row * rows.extent, label = labels.at(operands, row);
        A most = -std::numeric_limits<A>::infinity();
        for_chunks(classes, [&](int64_t at, int64_t n) {
          most = std::max(most, max_of(
                                    n, [](A v) { return v; }, logits.load(operands, start + at, n, buffer)));
        });
        const double sum = exp_sum(operands, logits, start, classes, most);
        const double picked = label < 0 ? 0 : logits.element(operands, start + label);
        loss.put(std::log(sum) + most - picked, operands, row);
        if (!parts.empty()) parts[0].put(most, operands, row), parts[1].put(sum, operands, row);
      }
    });
  });
}

std::unique_ptr<Kernel> make_sum_exp(const Call& call) {
  const Around rows = around(call.inputs[0].shape, -1);
  const int64_t classes = ir::classes_here(call.attrs, rows.extent);
  return for_acc(call, [&]<class A>() {
    return kernel([rows, classes, logits = In<A>(call, 0), m = In<A>(call, 1),
                   z = Out<double>(call, 0)](const Operands& operands) {
      for (int64_t row = 0; row < rows.outer; ++row) {
        const A most = m.element(operands, row);
        z.put(exp_sum(operands, logits, row * rows.extent, classes, most), operands, row);
      }
    });
  });
}

// Operand `of_labels`, result `of_picked`.
template <size_t of_labels, size_t of_picked>
std::unique_ptr<Kernel> make_pick(const Call& call) {
  const Around rows = around(call.inputs[0].shape, -1);
  return for_acc(call, [&]<class A>() {
    return kernel([rows, logits = In<A>(call, 0),
                   labels = Labels(call, of_labels, rows.extent, ir::attr_int(call.attrs, "offset")),
                   c = Out<A>(call, of_picked)](const Operands& operands) {
      for (int64_t row = 0; row < rows.outer; ++row) {
        const int64_t label = labels.at(operands, row);
        c.put(label < 0 ? 0 : logits.element(operands, row * rows.extent + label), operands, row);
      }
    });
  });
}

std::unique_ptr<Kernel> make_sum_exp_pick(const Call& call) {
  std::shared_ptr<Kernel> sum = make_sum_exp(call), pick = make_pick<2, 1>(call);
  if (!sum || !pick) return nullptr;
  return kernel([sum, pick](const Operands& operands) {
    sum->run(operands.inputs, operands.outputs, operands.moment);
    pick->run(operands.inputs, operands.outputs, operands.moment);
  });
}

// log z + m - c, in double: a few numbers.
std::unique_ptr<Kernel> make_nll(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([count = call.outputs[0].elements(), m = In<double>(call, 0), z = In<double>(call, 1),
                   c = In<double>(call, 2), loss = Out<double>(call, 0)](const Operands& operands) {
      Chunk<double> from_m, from_z, from_c, to;
      for_chunks(count, [&](int64_t at, int64_t n) {
        each(
            n, [](double most, double sum, double picked) { return std::log(sum) + most - picked; }, to.at,
            m.load(operands, at, n, from_m), z.load(operands, at, n, from_z),
            c.load(operands, at, n, from_c));
        loss.store(to.at, operands, at, n);
      });
    });
  });
}

// dloss (exp(logits - m) / z - one_hot(label))
std::unique_ptr<Kernel> make_cross_entropy_grad(const Call& call) {
  const Around rows = around(call.inputs[1].shape, -1);
  const int64_t classes = ir::classes_here(call.attrs, rows.extent);
  return for_acc(call, [&]<class A>() {
    return kernel([rows, classes, dloss = In<A>(call, 0), logits = In<A>(call, 1), m = In<A>(call, 2),
                   z = In<A>(call, 3),
                   labels = Labels(call, 4, rows.extent, ir::attr_int(call.attrs, "offset")),
                   dlogits = Out<A>(call, 0)](const Operands& operands) {
      Chunk<A> from, to;
      for (int64_t row = 0; row < rows.outer; ++row) {
        const int64_t start = row * rows.extent, label = labels.at(operands, row);
        const A d = dloss.element(operands, row), most = m.element(operands, row);
        const A inverse = A(1) / z.element(operands, row);
        for_chunks(rows.extent, [&](int64_t at, int64_t n) {
          each(
              n, [=](A v) { return fast_exp(v - most) * inverse; }, to.at,
              logits.load(operands, start + at, n, from));
          if (const int64_t real = std::clamp<int64_t>(classes - at, 0, n); real < n)
            std::fill(to.at + real, to.at + n, A(0));
          if (label >= at && label < at + n) to.at[label - at] -= A(1);
          change_each(
              n, [d](A v) { return v * d; }, to.at);
          dlogits.store(to.at, operands, start + at, n);
        });
      }
    });
  });
}

}  // namespace

void add_loss_kernels(Factories& table) {
  table.insert({{"cross_entropy", make_cross_entropy},
                {"cross_entropy_parts", make_cross_entropy},
                {"sum_exp", make_sum_exp},
                {"sum_exp_pick", make_sum_exp_pick},
                {"pick", make_pick<1, 0>},
                {"nll", make_nll},
                {"cross_entropy_grad", make_cross_entropy_grad}});
}

}  // namespace boxcar::backends::cpu
