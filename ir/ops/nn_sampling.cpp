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

// Whether devices that share classes and samples evenly each have whole parts of them.
bool has_whole_parts(int64_t classes, int64_t samples, int64_t parts, int64_t devices) {
  if (parts == devices) return true;
  return parts % devices == 0 && aligned(classes, parts, devices) && aligned(samples, parts, devices);
}

std::vector<sbp::Signature> split_classes(int64_t classes, int64_t samples, const Attrs& attrs,
                                          int64_t devices) {
  if (!has_whole_parts(classes, samples, attr_int(attrs, "parts"), devices)) return {};
  return parse_all({"S(0), B -> S(0)"});
}

// Attributes of a device's parts: `count`, which the result's shape follows from, and the first class.
Attrs localize_sampling(const Attrs& attrs, std::string_view count, int64_t classes, int64_t devices,
                        int64_t index) {
  const int64_t own = sbp::part_range(attr_int(attrs, count), devices, index).size();
  const Attrs moved = advanced(attrs, "first", sbp::part_range(classes, devices, index).begin);
  return with(with(moved, count, own), "parts", attr_int(attrs, "parts") / devices);
}

// The classes are read again for the draw: a key of 8 bytes each, written and read.
Work sampling_work(double classes, const TensorType& labels, double moved) {
  return {0, 16 * classes + static_cast<double>(labels.bytes()) + moved};
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

OpDef sample_rows() {
  return {
      .name = "sample_rows",
      .inputs = {"table", "labels"},
      .outputs = {"rows"},
      .attrs = sampling_attrs("samples"),
      .infer = infer_sample_rows,
      .index_map = ranked("_ h, ~ -> _ h ; linear 0 ; increasing 0", 1),
      .extra =
          [](const Types& in, const Attrs& attrs, int64_t devices) {
            return split_classes(in[0].shape[0], attr_int(attrs, "samples"), attrs, devices);
          },
      .extra_reason = "each part of the classes draws its own, so a device with whole parts needs no others",
      .localize =
          [](const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t devices,
             int64_t index) {
            if (!split_at(signature.inputs[0], 0)) return attrs;
            return localize_sampling(attrs, "samples", in[0].shape[0], devices, index);
          },
      .work =
          [](const Types& in, const Types& out, const Attrs&) {
            return sampling_work(static_cast<double>(in[0].shape[0]), in[1],
                                 static_cast<double>(2 * out[0].bytes()));
          },
      .samples = [](const Extent& n) -> std::vector<Sample> {
        std::vector<Sample> found;
        for (const Drawn& d : some_draws(n))
          found.push_back({.inputs = {f32({d.classes, n()}), i64({d.labels})},
                           .attrs = {{"samples", d.samples}, {"parts", d.parts}, {"seed", n()}},
                           .domains = {{}, classes_of(d)}});
        return found;
      }};
}

OpDef sample_rows_grad() {
  return {
      .name = "sample_rows_grad",
      .inputs = {"drows", "labels"},
      .outputs = {"dtable"},
      .attrs = sampling_attrs("classes"),
      .infer = infer_sample_rows_grad,
      .index_map = ranked("_ h, ~ -> _ h ; linear 0 ; increasing 0", 1),
      .extra =
          [](const Types& in, const Attrs& attrs, int64_t devices) {
            return split_classes(attr_int(attrs, "classes"), in[0].shape[0], attrs, devices);
          },
      .extra_reason = "each part of the classes draws its own, so a device with whole parts needs no others",
      .localize =
          [](const Types&, const Attrs& attrs, const sbp::Signature& signature, int64_t devices,
             int64_t index) {
            if (!split_at(signature.outputs[0], 0)) return attrs;
            return localize_sampling(attrs, "classes", attr_int(attrs, "classes"), devices, index);
          },
      .work =
          [](const Types& in, const Types& out, const Attrs&) {
            return sampling_work(static_cast<double>(out[0].shape[0]), in[1],
                                 static_cast<double>(in[0].bytes() + out[0].bytes()));
          },
      .samples = [](const Extent& n) -> std::vector<Sample> {
        std::vector<Sample> found;
        for (const Drawn& d : some_draws(n))
          found.push_back({.inputs = {f32({d.samples, n()}), i64({d.labels})},
                           .attrs = {{"classes", d.classes}, {"parts", d.parts}, {"seed", n()}},
                           .domains = {{}, classes_of(d)}});
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
      .work =
          [](const Types& in, const Types& out, const Attrs& a) {
            return sampling_work(static_cast<double>(attr_int(a, "classes")), in[0],
                                 static_cast<double>(out[0].bytes()));
          },
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
  out.push_back(sample_rows());
  out.push_back(sample_rows_grad());
  out.push_back(sample_labels());
}

}  // namespace boxcar::ir
