#include <algorithm>
#include <limits>
#include <set>

#include "backends/cpu/reference_groups.h"
#include "backends/sampling.h"
#include "sbp/sbp.h"

namespace boxcar::backends::cpu {
namespace {

struct Choice {
  bool of_label;
  int64_t draw, row;
};

bool is_drawn_before(const Choice& a, const Choice& b) {
  if (a.of_label != b.of_label) return a.of_label;
  return a.draw != b.draw ? a.draw < b.draw : a.row < b.row;
}

// Rows of the table that are drawn, in their order; none if a part has more classes of labels than it draws.
// Results are then NaN, or no place.
std::vector<int64_t> drawn(const HostTensor& labels, int64_t classes, int64_t samples,
                           const ir::Attrs& attrs) {
  const std::set<double> wanted(labels.data.begin(), labels.data.end());
  const int64_t first = ir::attr_int(attrs, "first"), parts = ir::attr_int(attrs, "parts");
  const RandomKey key = sampling_key(ir::attr_int(attrs, "seed"), ir::attr_int(attrs, "step"),
                                     ir::attr_int(attrs, "micro_batch"));
  std::vector<int64_t> rows;
  for (int64_t part = 0; part < parts; ++part) {
    const sbp::Range own = sbp::part_range(classes, parts, part);
    std::vector<Choice> choices;
    for (int64_t row = own.begin; row < own.end; ++row)
      choices.push_back(
          {wanted.contains(static_cast<double>(first + row)), draw_bits(key, first + row), row});
    std::sort(choices.begin(), choices.end(), is_drawn_before);
    const int64_t share = sbp::part_range(samples, parts, part).size();
    if (share < own.size() && choices[static_cast<size_t>(share)].of_label) return {};
    std::vector<int64_t> taken;
    for (int64_t i = 0; i < share; ++i) taken.push_back(choices[static_cast<size_t>(i)].row);
    std::sort(taken.begin(), taken.end());
    rows.insert(rows.end(), taken.begin(), taken.end());
  }
  return rows;
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void sample_rows(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const int64_t width = in[0].type.shape[1];
  std::fill(out[0].data.begin(), out[0].data.end(), kNan);
  auto to = out[0].data.begin();
  for (const int64_t row : drawn(in[1], in[0].type.shape[0], ir::attr_int(attrs, "samples"), attrs))
    to = std::copy_n(in[0].data.begin() + row * width, width, to);
}

void sample_rows_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const int64_t width = in[0].type.shape[1];
  const std::vector<int64_t> rows = drawn(in[1], ir::attr_int(attrs, "classes"), in[0].type.shape[0], attrs);
  std::fill(out[0].data.begin(), out[0].data.end(), rows.empty() ? kNan : 0);
  auto from = in[0].data.begin();
  for (const int64_t row : rows) {
    std::copy_n(from, width, out[0].data.begin() + row * width);
    from += width;
  }
}

void sample_labels(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const std::vector<int64_t> rows =
      drawn(in[0], ir::attr_int(attrs, "classes"), ir::attr_int(attrs, "samples"), attrs);
  for (size_t i = 0; i < in[0].data.size(); ++i) {
    const int64_t row = static_cast<int64_t>(in[0].data[i]) - ir::attr_int(attrs, "first");
    const auto place = std::find(rows.begin(), rows.end(), row) - rows.begin();
    out[0].data[i] = rows.empty() ? -1 : static_cast<double>(place);
  }
}

}  // namespace

void add_sampling_kernels(KernelTable& table) {
  table.insert({{"sample_rows", sample_rows},
                {"sample_rows_grad", sample_rows_grad},
                {"sample_labels", sample_labels}});
}

}  // namespace boxcar::backends::cpu
