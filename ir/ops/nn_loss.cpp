// Cross entropy, whole and in the pieces that allow a split class dimension (paper, Figure 11):
//
//   m = reduce_max(logits, -1)                        P(max) if classes are split
//   z = sum_exp(logits, m)   = sum_c exp(logits - m)  P(sum)
//   c = pick(logits, labels) = logits[..., label]     P(sum): zero if the label is in another part
//   loss = nll(m, z, c)      = log z + m - c
//   dlogits = cross_entropy_grad(dloss, logits, m, z, labels) = dloss (exp(logits - m) / z - one_hot(labels))
//
// In fewer kernels, as far as the collectives between the pieces allow:
//
//   loss, m, z = cross_entropy_parts(logits, labels)    all of them, if classes are whole
//   z, c = sum_exp_pick(logits, m, labels)              both sums, if classes are split
//
// Only three values per token cross between devices. A part of the classes has the number of its first class,
// `offset`. The logits beyond `classes` are padding, which has no share in the loss (classes.h); labels are
// below it.
#include "ir/ops/nn_rows.h"

namespace boxcar::ir {
namespace {

void check_logits(const char* op, const TensorType& logits) {
  need_rank(op, "logits", logits, 1);
  need_float(op, "logits", logits);
}

Attrs class_attrs(Attrs more = {}) {
  more["classes"] = int64_t{0};
  return more;
}

void check_classes(const char* op, const Attrs& attrs) {
  if (attr_int(attrs, "classes") < 0)
    refuse_attr(op, "classes", attrs, "the number of classes, or 0 for all");
}

void check_labels(const char* op, const TensorType& labels, const TensorType& logits) {
  need_indices(op, "labels", labels);
  need_shape(op, "labels", labels, without_last(logits.shape), "logits", logits);
}

Types infer_cross_entropy(const Types& in, const Attrs& attrs) {
  check_logits("cross_entropy", in[0]);
  check_classes("cross_entropy", attrs);
  check_labels("cross_entropy", in[1], in[0]);
  return {{in[1].shape, wide(in[0].dtype)}};
}

Types infer_sum_exp(const Types& in, const Attrs& attrs) {
  check_logits("sum_exp", in[0]);
  check_classes("sum_exp", attrs);
  need_shape("sum_exp", "m", in[1], without_last(in[0].shape), "logits", in[0]);
  return {{in[1].shape, wide(in[0].dtype)}};
}

Types infer_pick(const Types& in, const Attrs&) {
  check_logits("pick", in[0]);
  check_labels("pick", in[1], in[0]);
  return {{in[1].shape, in[0].dtype}};
}

Types infer_nll(const Types& in, const Attrs&) {
  need_float("nll", "z", in[1]);
  same_shape("nll", "m", in[0], "z", in[1]);
  same_shape("nll", "c", in[2], "z", in[1]);
  return {in[1]};
}

Types infer_cross_entropy_grad(const Types& in, const Attrs& attrs) {
  const char* op = "cross_entropy_grad";
  const TensorType& logits = in[1];
  check_logits(op, logits);
  check_classes(op, attrs);
  need_shape(op, "dloss", in[0], without_last(logits.shape), "logits", logits);
  need_shape(op, "m", in[2], without_last(logits.shape), "logits", logits);
  need_shape(op, "z", in[3], without_last(logits.shape), "logits", logits);
  check_labels(op, in[4], logits);
  return {logits};
}

Types infer_cross_entropy_parts(const Types& in, const Attrs& attrs) {
  check_logits("cross_entropy_parts", in[0]);
  check_classes("cross_entropy_parts", attrs);
  check_labels("cross_entropy_parts", in[1], in[0]);
  return Types(3, {in[1].shape, wide(in[0].dtype)});
}

Types infer_sum_exp_pick(const Types& in, const Attrs& attrs) {
  check_logits("sum_exp_pick", in[0]);
  check_classes("sum_exp_pick", attrs);
  need_shape("sum_exp_pick", "m", in[1], without_last(in[0].shape), "logits", in[0]);
  check_labels("sum_exp_pick", in[2], in[0]);
  return Types(2, {in[1].shape, wide(in[0].dtype)});
}

// The offset of the classes of `in[operand]`, if they are split.
template <size_t operand>
Attrs localize_classes(const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                       int64_t index) {
  const size_t classes = in[operand].shape.size() - 1;
  if (!split_at(signature.inputs[operand], static_cast<int64_t>(classes))) return attrs;
  return advanced(attrs, "offset", part_of(in[operand], classes, parts, index).begin);
}

// The offset, if some classes are padding; without padding sums need none.
Attrs localize_padded(const Types& in, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                      int64_t index) {
  return attr_int(attrs, "classes") == 0 ? attrs : localize_classes<0>(in, attrs, signature, parts, index);
}

// Each sample once more, with a class of padding, and so many others that every part has some.
std::vector<Sample> also_padded(std::vector<Sample> samples, size_t logits) {
  for (size_t i = 0, whole = samples.size(); i < whole; ++i) {
    Sample padded = samples[i];
    padded.attrs["classes"] = padded.inputs[logits].shape.back() + 6;
    padded.inputs[logits].shape.back() += 7;
    samples.push_back(std::move(padded));
  }
  return samples;
}

Domain labels_of(int64_t classes) { return {0, static_cast<double>(classes - 1), 1}; }
const Domain kPositive = {1, 8, 1};

OpDef cross_entropy() {
  return {.name = "cross_entropy",
          .inputs = {"logits", "labels"},
          .outputs = {"loss"},
          .attrs = class_attrs({{"below", int64_t{0}}}),
          .infer = infer_cross_entropy,
          .index_map = ranked("* _, * -> *", 1),
          .tolerance = 1e-9,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t a = n(), b = n(), classes = n();
            return also_padded(
                {{.inputs = {f32({a, classes}), i64({a})}, .domains = {{}, labels_of(classes)}},
                 {.inputs = {f32({a, b, classes}), i64({a, b})}, .domains = {{}, labels_of(classes)}}},
                0);
          }};
}

OpDef sum_exp() {
  return {.name = "sum_exp",
          .inputs = {"logits", "m"},
          .outputs = {"z"},
          .attrs = class_attrs({{"offset", int64_t{0}}}),
          .infer = infer_sum_exp,
          .index_map = ranked("* c, * -> * ; sum c ; decreasing 1", 1),
          .localize = localize_padded,
          .tolerance = 1e-9,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t a = n(), b = n(), classes = n();
            return also_padded(
                {{.inputs = {f32({a, classes}), f32({a})}}, {.inputs = {f32({a, b, classes}), f32({a, b})}}},
                0);
          }};
}

OpDef pick() {
  return {.name = "pick",
          .inputs = {"logits", "labels"},
          .outputs = {"c"},
          .attrs = {{"offset", int64_t{0}}, {"below", int64_t{0}}},
          .infer = infer_pick,
          .index_map = ranked("* _, * -> * ; linear 0 ; increasing 0", 1),
          .extra = [](const Types& in, const Attrs&, int64_t) -> std::vector<sbp::Signature> {
            const int classes = static_cast<int>(in[1].shape.size());
            return {{{sbp::Sbp::S(classes), sbp::Sbp::B()}, {sbp::Sbp::P()}}};
          },
          .extra_reason = "a part of the classes adds zeros for the labels that it does not hold",
          .localize = localize_classes<0>,
          .work =
              [](const Types& in, const Types& out, const Attrs&) {
                return Work{0, static_cast<double>(in[1].bytes() + 2 * out[0].bytes())};
              },
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t a = n() + 3, b = n(), classes = n();
            return {{.inputs = {f32({a, classes}), i64({a})}, .domains = {{}, labels_of(classes)}},
                    {.inputs = {f32({a, b, classes}), i64({a, b})}, .domains = {{}, labels_of(classes)}}};
          }};
}

OpDef nll() {
  return {.name = "nll",
          .inputs = {"m", "z", "c"},
          .outputs = {"loss"},
          .infer = infer_nll,
          .index_map = ranked("*, *, * -> * ; increasing 0 1 ; decreasing 2"),
          .tolerance = 1e-9,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t a = n(), b = n();
            return {{.inputs = Types(3, f32({a})), .domains = {{}, kPositive}},
                    {.inputs = Types(3, f32({a, b})), .domains = {{}, kPositive}}};
          }};
}

OpDef cross_entropy_grad() {
  return {.name = "cross_entropy_grad",
          .inputs = {"dloss", "logits", "m", "z", "labels"},
          .outputs = {"dlogits"},
          .attrs = class_attrs({{"offset", int64_t{0}}}),
          .infer = infer_cross_entropy_grad,
          .index_map = ranked("*, * c, *, *, * -> * c ; linear 0"),
          .localize = localize_classes<1>,
          .tolerance = 1e-9,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t a = n(), b = n(), classes = n();
            const std::vector<Domain> domains = {{}, {}, {}, kPositive, labels_of(classes)};
            return also_padded(
                {{.inputs = {f32({a}), f32({a, classes}), f32({a}), f32({a}), i64({a})}, .domains = domains},
                 {.inputs = {f32({a, b}), f32({a, b, classes}), f32({a, b}), f32({a, b}), i64({a, b})},
                  .domains = domains}},
                1);
          }};
}

OpDef cross_entropy_parts() {
  OpDef def = cross_entropy();
  def.name = "cross_entropy_parts";
  def.outputs = {"loss", "m", "z"};
  def.infer = infer_cross_entropy_parts;
  def.index_map = ranked("* _, * -> *, *, *", 1);
  return def;
}

OpDef sum_exp_pick() {
  return {
      .name = "sum_exp_pick",
      .inputs = {"logits", "m", "labels"},
      .outputs = {"z", "c"},
      .attrs = class_attrs({{"offset", int64_t{0}}, {"below", int64_t{0}}}),
      .infer = infer_sum_exp_pick,
      .index_map = ranked("* _, *, * -> *, *", 1),
      .extra = [](const Types& in, const Attrs&, int64_t) -> std::vector<sbp::Signature> {
        using sbp::Sbp;
        const Sbp max = Sbp::P(sbp::Reduction::max), min = Sbp::P(sbp::Reduction::min);
        return {{{Sbp::S(static_cast<int>(in[1].shape.size())), Sbp::B(), Sbp::B()}, {Sbp::P(), Sbp::P()}},
                {{Sbp::B(), max, Sbp::B()}, {min, Sbp::B()}},
                {{Sbp::B(), min, Sbp::B()}, {max, Sbp::B()}}};
      },
      .extra_reason = "a part of the classes has a part of either sum; c does not depend on m",
      .localize = localize_classes<0>,
      .tolerance = 1e-9,
      .samples = [](const Extent& n) -> std::vector<Sample> {
        const int64_t a = n() + 3, b = n(), classes = n();
        const std::vector<Domain> domains = {{}, {}, labels_of(classes)};
        return also_padded({{.inputs = {f32({a, classes}), f32({a}), i64({a})}, .domains = domains},
                            {.inputs = {f32({a, b, classes}), f32({a, b}), i64({a, b})}, .domains = domains}},
                           0);
      }};
}

}  // namespace

void add_loss_ops(std::vector<OpDef>& out) {
  out.push_back(cross_entropy());
  out.push_back(sum_exp());
  out.push_back(pick());
  out.push_back(nll());
  out.push_back(cross_entropy_grad());
  out.push_back(cross_entropy_parts());
  out.push_back(sum_exp_pick());
}

}  // namespace boxcar::ir
