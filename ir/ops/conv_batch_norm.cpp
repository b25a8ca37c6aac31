// Batch normalisation of x[n, c, ...] by channel or, with channels_last, of x[n, ..., c], in training:
// y = (x - mean) rstd gamma + beta, with mean and variance over all but the channels.
//
// Splitting the batch would need the statistics of all parts. With `local`, a declared variant, each device
// normalises with the statistics of its own part, as published ResNet runs do. It is a different function of
// the global tensors for every number of devices, so laws 1 and 4 do not cover it. Layout B of mean and rstd
// then means that each device has its own.
//
// With a `share` the gradient also gives what running averages take from this micro-batch: mean and variance
// times the share, which is 1 over the number of parts of a step's data that have statistics of their own, so
// that the sum over all parts is the mean of their statistics. The variance is that of a sample, sum (x -
// mean)^2 / (n - 1), as in PyTorch's running averages. It follows from rstd, which is 1 / sqrt(sum (x -
// mean)^2 / n + eps). A step has one backward pass for each micro-batch, also if forward passes run again.
#include "ir/images.h"
#include "ir/ops/batch_statistics.h"
#include "ir/ops/nn_rows.h"

namespace boxcar::ir {
namespace {

void need_channels(const char* op, const char* operand, const TensorType& got, const TensorType& x,
                   const Attrs& attrs) {
  need_shape(op, operand, got, {x.shape[channel_axis(x.shape, attrs)]}, "x", x);
}

MapFunction norm_map(std::string_view first, std::string_view last) {
  return [first = ranked(first, 0, 2), last = ranked(last, 0, 2)](const Types& in, const Attrs& attrs) {
    return (attr_bool(attrs, "channels_last") ? last : first)(in, attrs);
  };
}

Types infer(const Types& in, const Attrs& attrs) {
  const char* op = "batch_norm";
  need_rank(op, "x", in[0], 2);
  need_float(op, "x", in[0]);
  need_channels(op, "gamma", in[1], in[0], attrs);
  need_channels(op, "beta", in[2], in[0], attrs);
  const TensorType stat = {in[1].shape, wide(in[0].dtype)};
  return {in[0], stat, stat};
}

Types infer_grad(const Types& in, const Attrs& attrs) {
  const char* op = "batch_norm_grad";
  const TensorType& x = in[1];
  need_rank(op, "x", x, 2);
  need_float(op, "x", x);
  same_shape(op, "dy", in[0], "x", x);
  need_channels(op, "gamma", in[2], x, attrs);
  need_channels(op, "mean", in[3], x, attrs);
  need_channels(op, "rstd", in[4], x, attrs);
  Types types = {x, in[2], in[2]};
  if (gives_shares(attrs)) types.insert(types.end(), {in[3], in[4]});
  return types;
}

bool splits_batch(const sbp::Signature& of_grad) { return of_grad.inputs[1] == sbp::Sbp::S(0); }

// Each part that has statistics of its own gives its share of their mean.
Attrs localize_grad(const Types&, const Attrs& attrs, const sbp::Signature& signature, int64_t parts,
                    int64_t) {
  Attrs local = attrs;
  if (splits_batch(signature)) local["share"] = attr_float(attrs, "share") / static_cast<double>(parts);
  return local;
}

// `rules`, and the split batch if statistics are declared local.
ExtraFunction with_local(std::initializer_list<std::string_view> rules, std::string_view split_batch) {
  return [rules = parse_all(rules), split_batch = sbp::parse_signature(split_batch)](
             const Types&, const Attrs& attrs, int64_t) {
    std::vector<sbp::Signature> result = rules;
    if (attr_bool(attrs, "local")) result.push_back(split_batch);
    return result;
  };
}

// Results beyond the gradients are laid out by channel, or as the parts of a split batch.
MapFunction with_shares(MapFunction of_gradients) {
  return [of_gradients = std::move(of_gradients)](const Types& in, const Attrs& attrs) {
    sbp::IndexMap map = of_gradients(in, attrs);
    if (gives_shares(attrs)) map.outputs.resize(5, map.outputs[1]);
    return map;
  };
}
ExtraFunction with_shares(ExtraFunction of_gradients) {
  return [of_gradients = std::move(of_gradients)](const Types& in, const Attrs& attrs, int64_t parts) {
    std::vector<sbp::Signature> all = of_gradients(in, attrs, parts);
    for (sbp::Signature& one : all)
      if (gives_shares(attrs)) one.outputs.resize(5, splits_batch(one) ? sbp::Sbp::P() : sbp::Sbp::B());
    return all;
  };
}

OpDef batch_norm() {
  return {.name = "batch_norm",
          .inputs = {"x", "gamma", "beta"},
          .outputs = {"y", "mean", "rstd"},
          .attrs = {{"eps", 1e-5}, {"local", false}, {"channels_last", false}},
          .infer = infer,
          .index_map = norm_map("_ c ~, c, c -> _ c ~, c, c", "_ ~ c, c, c -> _ ~ c, c, c"),
          .extra = with_local({"B, P(sum), P(sum) -> P(sum), B, B", "B, B, P(max) -> P(max), B, B",
                               "B, B, P(min) -> P(min), B, B"},
                              "S(0), B, B -> S(0), B, B"),
          .extra_reason =
              "y is linear in (gamma, beta) and increasing in beta, mean and rstd depend on neither; local "
              "statistics are a declared variant",
          // statistics first, then x again
          .work =
              [](const Types& in, const Types& out, const Attrs&) {
                return Work{0, bytes_of(in) + bytes_of(out) + static_cast<double>(in[0].bytes())};
              },
          .tolerance = 1e-9,
          .samples = [](const Extent& n) -> std::vector<Sample> {
            const int64_t c = n();
            const Attrs last = {{"channels_last", true}};
            return {{.inputs = {f32({n() + 2, c}), f32({c}), f32({c})}},
                    {.inputs = {f32({n(), c, n(), 2}), f32({c}), f32({c})}},
                    {.inputs = {f32({n(), n(), 2, c}), f32({c}), f32({c})}, .attrs = last},
                    {.inputs = {f32({2, n(), 2, 8}), f32({8}), f32({8})}, .attrs = last}};
          }};
}

OpDef batch_norm_grad() {
  return {
      .name = "batch_norm_grad",
      .inputs = {"dy", "x", "gamma", "mean", "rstd"},
      .outputs = {"dx", "dgamma", "dbeta", "mean_share?", "variance_share?"},
      .attrs = {{"eps", 1e-5}, {"share", 0.0}, {"local", false}, {"channels_last", false}},
      .infer = infer_grad,
      .index_map = with_shares(
          norm_map("_ c ~, _ c ~, c, c, c -> _ c ~, c, c", "_ ~ c, _ ~ c, c, c, c -> _ ~ c, c, c")),
      .extra = with_shares(
          with_local({"P(sum), B, B, B, B -> P(sum), P(sum), P(sum)", "B, B, P(sum), B, B -> P(sum), B, B"},
                     "S(0), S(0), B, B, B -> S(0), P(sum), P(sum)")),
      .extra_reason =
          "gradients are linear in dy and dx in gamma, which other results do not depend on; local "
          "statistics "
          "are a declared variant",
      .localize = localize_grad,
      .work =
          [](const Types& in, const Types& out, const Attrs&) {
            return Work{0, bytes_of(in) + bytes_of(out) + static_cast<double>(in[0].bytes() + in[1].bytes())};
          },
      .tolerance = 1e-9,
      .samples = [](const Extent& n) -> std::vector<Sample> {
        const int64_t b = n() + 1, c = n(), h = n();
        const auto sample = [](Shape x, int64_t channels, const Attrs& attrs) {
          const TensorType image = f32(std::move(x)), scale = f32({channels});
          return Sample{.inputs = {image, image, scale, scale, scale},
                        .attrs = attrs,
                        .domains = {{}, {}, {}, {}, {0.25, 2, 0.25}}};
        };
        const Attrs last = {{"channels_last", true}}, shares = {{"share", 0.5}};
        return {sample({b, c}, c, {}), sample({b, c, h, 2}, c, shares), sample({b, h, 2, c}, c, last),
                sample({2, h, 2, 8}, 8, {{"channels_last", true}, {"share", 0.25}})};
      }};
}

// The two ops below have no time of their own in simulation (Family::none): frameworks keep running averages
// inside the kernel of batch norm.

// accumulate_statistics(share) -> sum: accumulate, of a result of batch_norm_grad that is no gradient.
OpDef accumulate_statistics() {
  return {.name = accumulate_statistics_op,
          .inputs = {"share"},
          .outputs = {"sum"},
          .family = Family::none,
          .infer =
              [](const Types& in, const Attrs&) {
                need_float(accumulate_statistics_op, "share", in[0]);
                return in;
              },
          .index_map =
              [](const Types& in, const Attrs&) {
                sbp::IndexMap result;
                result.inputs = result.outputs = {indices("i", in[0].shape.size())};
                result.linear = {{0}};
                return result;
              },
          .samples = [](const Extent& n) -> std::vector<Sample> { return {{.inputs = {f32({n()})}}}; },
          .omitted = {{"adds over micro-batches: a sum of maxima is not the maximum of sums",
                       [](const sbp::Signature& s) {
                         return s.inputs[0].is_partial() && s.inputs[0].reduction != sbp::Reduction::sum;
                       }}}};
}

// running_average(average, new, finite?) = average + momentum (new - average), once a step. The average stays
// as it is if gradients are not finite.
OpDef running_average() {
  auto infer = [](const Types& in, const Attrs&) -> Types {
    need_float(running_average_op, "average", in[0]);
    same_shape(running_average_op, "new", in[1], "average", in[0]);
    if (in.size() > 2) need_shape(running_average_op, "finite", in[2], {}, "average", in[0]);
    return {in[0]};
  };
  auto samples = [](const Extent& n) -> std::vector<Sample> {
    const TensorType averages = f32({n()}), flag = {{}, DType::boolean};
    return {{.inputs = {averages, averages}},
            {.inputs = {averages, averages, flag}, .domains = {{}, {}, {0, 1, 1}}}};
  };
  return {.name = running_average_op,
          .inputs = {"average", "new", "finite?"},
          .outputs = {"average"},
          .attrs = {{"momentum", 0.1}},
          .family = Family::none,
          .infer = infer,
          .index_map = moving_average_map,
          .tolerance = 1e-12,
          .samples = samples};
}

}  // namespace

void add_batch_norm_ops(std::vector<OpDef>& out) {
  out.push_back(batch_norm());
  out.push_back(batch_norm_grad());
  out.push_back(accumulate_statistics());
  out.push_back(running_average());
}

}  // namespace boxcar::ir
