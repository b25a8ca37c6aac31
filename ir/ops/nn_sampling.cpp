// A loss over a sample of the classes (Partial FC: An et al. 2020, arXiv:2010.05222).
//
//   rows   = sample_rows(table[classes, h], labels) {samples=4, parts=2}    [4, h]: rows of the classes drawn
//   labels = sample_labels(labels) {classes=6, samples=4, parts=2}          their places in the sample
//   dtable = sample_rows_grad(drows, labels) {classes=6, parts=2}           zero for classes that were not
//   drawn
//
// Classes are divided into `parts`, each of which draws its share of the samples: the classes of all labels,
// then others at random, in the order of their numbers. Above, labels 4 and 0 may draw 0 2 | 4 5; they then
// become 2 and 0. So a table that is split into as many parts draws the same classes as a whole one, and each
// device has its own classes' rows. A part of the table begins at class `first`. The draw depends on the
// seed, the step and the micro-batch (backends/sampling.h). `below` is the limit of labels that the graph
// computes (index.cpp).
#include <fmt/format.h>

#include "ir/ops/nn_rows.h"

namespace boxcar::ir {
namespace {

Attrs sampling_attrs(std::string_view count) {
  return {{std::string(count), int64_t{0}},
          {"parts", int64_t{1}},
          {"first", int64_t{0}},
          {"seed", int64_t{0}},
          {"step", int64_t{0}},
          {"micro_batch", int64_t{0}},
          {"below", int64_t{0}}};
}

void check_parts(const char* op, const Attrs& attrs, int64_t samples) {
  const int64_t parts = attr_int(attrs, "parts");
  if (parts < 1 || parts > samples)
    refuse_attr(op, "parts", attrs, fmt::format("1 to {}, so that each draws a class", samples));
}

int64_t samples_of(const char* op, const Attrs& attrs, int64_t classes) {
  const int64_t samples = attr_int(attrs, "samples");
  if (samples < 1 || samples > classes)
    refuse_attr(op, "samples", attrs, fmt::format("at most one for each of {} classes", classes));
  check_parts(op, attrs, samples);
  return samples;
}

Types infer_sample_rows(const Types& in, const Attrs& attrs) {
  const char* op = "sample_rows";
  exact_rank(op, "table", in[0], 2);
  need_float(op, "table", in[0]);
  need_indices(op, "labels", in[1]);
  return {{{samples_of(op, attrs, in[0].shape[0]), in[0].shape[1]}, in[0].dtype}};
}

Types infer_sample_rows_grad(const Types& in, const Attrs& attrs) {
  const char* op = "sample_rows_grad";
  exact_rank(op, "drows", in[0], 2);
  need_float(op, "drows", in[0]);
  need_indices(op, "labels", in[1]);
  const int64_t classes = attr_int(attrs, "classes"), samples = in[0].shape[0];
  if (classes < samples)
    refuse_attr(op, "classes", attrs, fmt::format("at least the {} that are drawn", samples));
  check_parts(op, attrs, samples);
  return {{{classes, in[0].shape[1]}, in[0].dtype}};
}

Types infer_sample_labels(const Types& in, const Attrs& attrs) {
  need_indices("sample_labels", "labels", in[0]);
  samples_of("sample_labels", attrs, attr_int(attrs, "classes"));
  return {in[0]};
}

// The classes and how many of them are drawn: `count` is the attribute of the two, rows of the operand are
// the other.
struct Counts {
  int64_t classes, samples;
};
Counts counts_of(const std::string& count, const TensorType& operand, const Attrs& attrs) {
  const int64_t given = attr_int(attrs, count), rows = operand.shape[0];
  return count == "samples" ? Counts{rows, given} : Counts{given, rows};
}

// Whether devices that share classes and samples evenly each have whole parts of them.
bool has_whole_parts(const Counts& counts, int64_t parts, int64_t devices) {
  if (parts == devices) return true;
  return parts % devices == 0 && aligned(counts.classes, parts, devices) &&
         aligned(counts.samples, parts, devices);
}

// Attributes of a device's parts: the count, which the result's shape follows from, and the first class.
Attrs localize_sampling(const std::string& count, const TensorType& operand, const Attrs& attrs,
                        int64_t devices, int64_t index) {
  const int64_t classes = counts_of(count, operand, attrs).classes;
  const int64_t own = sbp::part_range(attr_int(attrs, count), devices, index).size();
  const Attrs moved = advanced(attrs, "first", sbp::part_range(classes, devices, index).begin);
  return with(with(moved, count, own), "parts", attr_int(attrs, "parts") / devices);
}

// The classes are read again for the draw: a key of 8 bytes each, written and read.
Work sampling_work(int64_t classes, const TensorType& labels, int64_t moved) {
  return {0, static_cast<double>(16 * classes + labels.bytes() + moved)};
}

// Each part draws half of its classes or a little more, and as many as there are labels. So where a label's
// class lies in the sample depends on the other labels.
struct Drawn {
  int64_t classes, samples, labels, parts;
};
std::vector<Drawn> some_draws(const Extent& n) {
  const int64_t labels = n() + 6;
  return {{2 * labels + 1, labels + 1, labels, 1},
          {4 * labels, 2 * labels, labels, 2},
          {6 * labels + 2, 3 * labels + 1, labels, 3},
          {8 * labels, 4 * labels, labels, 4}};
}
Domain classes_of(const Drawn& d) { return {0, static_cast<double>(d.classes - 1), 1}; }

// sample_rows and its gradient: rows of all classes to those of the sample, and back.
OpDef of_rows(std::string name, std::string from, std::string to, const std::string& count,
              std::function<Types(const Types&, const Attrs&)> infer) {
  return {
      .name = std::move(name),
      .inputs = {std::move(from), "labels"},
      .outputs = {std::move(to)},
      .attrs = sampling_attrs(count),
      .infer = std::move(infer),
      .index_map = ranked("_ h, ~ -> _ h ; linear 0 ; increasing 0", 1),
      .extra =
          [count](const Types& in, const Attrs& attrs, int64_t devices) {
            const Counts counts = counts_of(count, in[0], attrs);
            const bool whole = has_whole_parts(counts, attr_int(attrs, "parts"), devices);
            return whole ? parse_all({"S(0), B -> S(0)"}) : std::vector<sbp::Signature>();
          },
      .extra_reason = "each part of the classes draws its own, so a device with whole parts needs no others",
      .localize =
          [count](const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t devices,
                  int64_t index) {
            if (!split_at(signature.inputs[0], 0)) return attrs;
            return localize_sampling(count, in[0], attrs, devices, index);
          },
      .work =
          [](const Types& in, const Types& out, const Attrs&) {
            const int64_t rows = std::min(in[0].bytes(), out[0].bytes());
            return sampling_work(std::max(in[0].shape[0], out[0].shape[0]), in[1], rows + out[0].bytes());
          },
      .samples = [count](const Extent& n) -> std::vector<Sample> {
        std::vector<Sample> found;
        for (const Drawn& d : some_draws(n)) {
          const bool draws = count == "samples";
          found.push_back(
              {.inputs = {f32({draws ? d.classes : d.samples, n()}), i64({d.labels})},
               .attrs = {{count, draws ? d.samples : d.classes}, {"parts", d.parts}, {"seed", n()}},
               .domains = {{}, classes_of(d)}});
        }
        return found;
      }};
}

OpDef sample_labels() {
  Attrs attrs = sampling_attrs("samples");
  attrs["classes"] = int64_t{0};
  return {
      .name = "sample_labels",
      .inputs = {"labels"},
      .outputs = {"places"},
      .attrs = attrs,
      .infer = infer_sample_labels,
      .index_map = ranked("~ -> ~"),
      .work = [](const Types& in, const Types& out,
                 const Attrs& a) { return sampling_work(attr_int(a, "classes"), in[0], out[0].bytes()); },
      .samples = [](const Extent& n) -> std::vector<Sample> {
        std::vector<Sample> found;
        for (const Drawn& d : some_draws(n))
          found.push_back(
              {.inputs = {i64({d.labels})},
               .attrs = {{"classes", d.classes}, {"samples", d.samples}, {"parts", d.parts}, {"seed", n()}},
               .domains = {classes_of(d)}});
        return found;
      }};
}

}  // namespace

void add_sampling_ops(std::vector<OpDef>& out) {
  out.push_back(of_rows("sample_rows", "table", "rows", "samples", infer_sample_rows));
  out.push_back(of_rows("sample_rows_grad", "drows", "dtable", "classes", infer_sample_rows_grad));
  out.push_back(sample_labels());
}

}  // namespace boxcar::ir
