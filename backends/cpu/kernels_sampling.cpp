// Rows of classes that are drawn at random together with those of all labels (ir/ops/nn_sampling.cpp).
#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/chunks.h"
#include "backends/index_limit.h"
#include "backends/sampling.h"
#include "sbp/error.h"

namespace boxcar::backends::cpu {
namespace {

class Sampler {
 public:
  Sampler(const Call& call, size_t labels, int64_t classes, int64_t samples)
      : op_(call.op),
        labels_(call, labels),
        count_(call.inputs[labels].elements()),
        classes_(classes),
        samples_(samples),
        parts_(ir::attr_int(call.attrs, "parts")),
        first_(ir::attr_int(call.attrs, "first")),
        seed_(ir::attr_int(call.attrs, "seed")),
        step_(ir::attr_int(call.attrs, "step")),
        micro_batch_(ir::attr_int(call.attrs, "micro_batch")),
        limit_(call),
        keys_(static_cast<size_t>(classes)) {}

  // The rows of the table that are drawn, in their order. Throws Error (fault) if a part has more classes of
  // labels than it draws.
  const std::vector<int64_t>& rows(const Operands& operands) {
    draw(operands);
    rows_.clear();
    for (int64_t part = 0; part < parts_; ++part) take_part(part);
    return rows_;
  }

  int64_t labels() const { return count_; }
  // The row of a label; it is outside of the table if the label's class is in another part.
  int64_t row_of_label(const Operands& operands, int64_t at) const {
    const double label = labels_.element(operands, at);
    limit_.check(label);
    return static_cast<int64_t>(label) - first_;
  }

 private:
  static constexpr int64_t kRowBits = 38;  // below a draw of 24 bits

  // A key for each class, in the order in which classes are drawn: those of labels first, then by draw.
  void draw(const Operands& operands) {
    const Moment& moment = operands.moment;
    const RandomKey key =
        sampling_key(seed_ + moment.seed, step_ + moment.step, micro_batch_ + moment.micro_batch);
    for (int64_t row = 0; row < classes_; ++row)
      keys_[static_cast<size_t>(row)] = (draw_bits(key, first_ + row) + 1) << kRowBits | row;
    for (int64_t i = 0; i < count_; ++i)
      if (const int64_t row = row_of_label(operands, i); row >= 0 && row < classes_)
        keys_[static_cast<size_t>(row)] = row;
  }

  void take_part(int64_t part) {
    const sbp::Range own = sbp::part_range(classes_, parts_, part);
    const int64_t share = sbp::part_range(samples_, parts_, part).size();
    const auto begin = keys_.begin() + own.begin, end = keys_.begin() + own.end, last = begin + share;
    std::nth_element(begin, last, end);
    if (std::any_of(last, end, [](int64_t key) { return key >> kRowBits == 0; }))
      refuse_part(op_, classes_, samples_, parts_, first_, part);
    const auto before = static_cast<std::ptrdiff_t>(rows_.size());
    for (auto at = begin; at != last; ++at) rows_.push_back(*at & ((int64_t{1} << kRowBits) - 1));
    std::sort(rows_.begin() + before, rows_.end());
  }

  std::string op_;
  In<double> labels_;
  int64_t count_, classes_, samples_, parts_, first_, seed_, step_, micro_batch_;
  IndexLimit limit_;
  std::vector<int64_t> keys_, rows_;
};

std::unique_ptr<Kernel> make_sample_rows(const Call& call) {
  const int64_t bytes = call.inputs[0].shape[1] * ir::size_of(call.inputs[0].dtype);
  return kernel([bytes, sampler = Sampler(call, 1, call.inputs[0].shape[0], call.outputs[0].shape[0])](
                    const Operands& operands) mutable {
    std::byte* to = operands.out<std::byte>(0);
    for (const int64_t row : sampler.rows(operands)) {
      std::copy_n(operands.in<std::byte>(0) + row * bytes, bytes, to);
      to += bytes;
    }
  });
}

std::unique_ptr<Kernel> make_sample_rows_grad(const Call& call) {
  const int64_t bytes = call.inputs[0].shape[1] * ir::size_of(call.inputs[0].dtype);
  return kernel([bytes, all = call.outputs[0].bytes(),
                 sampler = Sampler(call, 1, call.outputs[0].shape[0], call.inputs[0].shape[0])](
                    const Operands& operands) mutable {
    std::byte* const to = operands.out<std::byte>(0);
    std::fill_n(to, all, std::byte{0});
    const std::byte* from = operands.in<std::byte>(0);
    for (const int64_t row : sampler.rows(operands)) {
      std::copy_n(from, bytes, to + row * bytes);
      from += bytes;
    }
  });
}

std::unique_ptr<Kernel> make_sample_labels(const Call& call) {
  const int64_t classes = ir::attr_int(call.attrs, "classes");
  return kernel(
      [sampler = Sampler(call, 0, classes, ir::attr_int(call.attrs, "samples")), out = Out<double>(call, 0),
       places = std::vector<int64_t>(static_cast<size_t>(classes))](const Operands& operands) mutable {
        int64_t place = 0;
        for (const int64_t row : sampler.rows(operands)) places[static_cast<size_t>(row)] = place++;
        for (int64_t i = 0; i < sampler.labels(); ++i)
          out.put(static_cast<double>(places.at(static_cast<size_t>(sampler.row_of_label(operands, i)))),
                  operands, i);
      });
}

}  // namespace

void add_sampling_kernels(Factories& table) {
  table.insert({{"sample_rows", make_sample_rows},
                {"sample_rows_grad", make_sample_rows_grad},
                {"sample_labels", make_sample_labels}});
}

}  // namespace boxcar::backends::cpu
