// Batch normalisation of x[n, c, ...] by channel or, with channels_last, of x[n, ..., c], in training:
// y = (x - mean) rstd gamma + beta, with mean and variance over all but the channels.
//
// Splitting the batch would need the statistics of all parts. With `local`, a declared variant, each device
// normalises with the statistics of its own part, as published ResNet runs do. It is a different function of
// the global tensors for every number of devices, so laws 1 and 4 do not cover it. Layout B of mean and rstd
// then means that each device has its own.
#include "ir/images.h"
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
  return {x, in[2], in[2]};
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
      .outputs = {"dx", "dgamma", "dbeta"},
      .attrs = {{"local", false}, {"channels_last", false}},
      .infer = infer_grad,
      .index_map = norm_map("_ c ~, _ c ~, c, c, c -> _ c ~, c, c ; linear 0",
                            "_ ~ c, _ ~ c, c, c, c -> _ ~ c, c, c ; linear 0"),
      .extra =
          with_local({"B, B, P(sum), B, B -> P(sum), B, B"}, "S(0), S(0), B, B, B -> S(0), P(sum), P(sum)"),
      .extra_reason =
          "dx is linear in gamma, dgamma and dbeta do not depend on it; local statistics are a declared "
          "variant",
      .work =
          [](const Types& in, const Types& out, const Attrs&) {
            return Work{0, bytes_of(in) + bytes_of(out) + static_cast<double>(in[0].bytes() + in[1].bytes())};
          },
      .tolerance = 1e-9,
      .samples = [](const Extent& n) -> std::vector<Sample> {
        const int64_t b = n() + 1, c = n(), h = n();
        const auto sample = [](Shape x, int64_t channels, const Attrs& attrs) {
          const TensorType image = f32(std::move(x)), scale = f32({channels});
          return Sample{.inputs = {image, image, scale, scale, scale}, .attrs = attrs};
        };
        const Attrs last = {{"channels_last", true}};
        return {sample({b, c}, c, {}), sample({b, c, h, 2}, c, {}), sample({b, h, 2, c}, c, last),
                sample({2, h, 2, 8}, 8, last)};
      }};
}

}  // namespace

void add_batch_norm_ops(std::vector<OpDef>& out) {
  out.push_back(batch_norm());
  out.push_back(batch_norm_grad());
}

}  // namespace boxcar::ir
