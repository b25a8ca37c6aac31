// Parts of an optimizer step: updates, accumulation over micro-batches, the norm for clipping.
//
//   adam(w, g, m, v, scale?, finite?) -> w, m, v     master weights in float32 or float64,
//   moments in these or bfloat16, in any split; never partial
//   lamb_norms(w, g, m, v, scale?) -> norms          with the moments that it measures; float32[2], or
//   float64[2]; P(sum) if w is split
//   lamb(w, g, m, v, norms, scale?, finite?)         a row with a trust ratio (optimizer_rows.h)
//
// `scale` is a factor of the gradient (from clip_scale: clipping, 1 / loss scale). If `finite` is false, the
// state does not change. On a device the update ops write their state in place; here outputs are ordinary
// values.
#include <fmt/format.h>

#include "ir/ops/ops.h"
#include "ir/ops/optimizers.h"

namespace boxcar::ir {
namespace {

using sbp::IndexMap;

const Omission kNoExtremum = {"weights, gradients and moments are sums, never P(max) or P(min)",
                              has_extremum};

// Checks that w, the gradient in any float type and the moments have one shape.
Types states_of(const std::string& name, const std::vector<std::string>& operands, const Types& in) {
  for (size_t i = 1; i < operands.size(); ++i) same_shape(name, operands[i], in[i], operands[0], in[0]);
  Types states = {in[0]};
  states.insert(states.end(), in.begin() + 2, in.begin() + static_cast<std::ptrdiff_t>(operands.size()));
  return states;
}

// States keep their types; norms are two numbers; scale and finite are scalars.
std::function<Types(const Types&, const Attrs&)> infer_update(const std::string& name,
                                                              const std::vector<std::string>& operands,
                                                              bool has_norms) {
  return [name, operands, has_norms](const Types& in, const Attrs&) -> Types {
    size_t at = operands.size();
    if (has_norms && in[at].shape != Shape{2}) refuse(name, "norms", in[at], "[2]");
    if (has_norms) ++at;
    for (size_t i = at; i < in.size(); ++i)
      if (!in[i].shape.empty()) refuse(name, i == at ? "scale" : "finite", in[i], "a scalar");
    return states_of(name, operands, in);
  };
}

std::function<IndexMap(const Types&, const Attrs&)> update_map(size_t operands, bool linear, bool has_norms) {
  return [operands, linear, has_norms](const Types& in, const Attrs&) {
    IndexMap map;
    Indices names = indices("i", in[0].shape.size());
    map.inputs.assign(operands, names);
    map.inputs.resize(in.size());  // scalars
    if (has_norms) map.inputs[operands] = {"_"};
    map.outputs.assign(operands - 1, names);
    if (linear) {
      map.linear = {{}};
      for (int i = 0; i < static_cast<int>(operands); ++i) map.linear[0].push_back(i);
      const size_t scale = operands + (has_norms ? 1 : 0);
      if (in.size() > scale) {  // linear in the factor in place of the gradient
        map.linear.push_back(map.linear[0]);
        map.linear[1].erase(map.linear[1].begin() + 1);
        map.linear[1].push_back(static_cast<int>(scale));
      }
    }
    return map;
  };
}

std::function<std::vector<Sample>(const Extent&)> update_samples(size_t operands,
                                                                 std::vector<Domain> domains) {
  return [operands, domains = std::move(domains)](const Extent& n) -> std::vector<Sample> {
    int64_t a = n(), b = n();
    return {{.inputs = Types(operands, f32({a, b})), .domains = domains},
            {.inputs = Types(operands, f32({a})), .domains = domains}};
  };
}

// Samples of a row's operands, followed by norms if it has them: with a factor, with a factor and a flag for
// finite gradients, and with neither.
std::function<std::vector<Sample>(const Extent&)> optimizer_samples(size_t operands,
                                                                    std::vector<Domain> domains,
                                                                    bool has_norms) {
  return [operands, domains, has_norms](const Extent& n) {
    std::vector<Sample> samples = update_samples(operands, domains)(n);
    samples.push_back(update_samples(operands, domains)(n)[0]);
    for (Sample& sample : samples) {
      sample.domains.resize(operands);
      if (!has_norms) continue;
      sample.inputs.push_back(f32({2}));
      sample.domains.push_back({0.25, 16, 0.25});
    }
    for (size_t i = 0; i < 2; ++i) {
      samples[i].inputs.push_back(f32({}));
      samples[i].domains.push_back({0.25, 2, 0.25});
      if (i == 0) continue;
      samples[i].inputs.push_back({{}, DType::boolean});
      samples[i].domains.push_back({0, 1, 1});
    }
    return samples;
  };
}

std::vector<std::string> operands_named(int moments) {
  std::vector<std::string> operands = {"w", "g", "m", "v"};
  operands.resize(static_cast<size_t>(2 + moments));
  return operands;
}

Attrs attrs_of(const OptimizerRow& row) {
  Attrs attrs = {{"weight_decay", 0.0}};
  for (int i = 0; i < row.numbers; ++i) attrs[row.number[i].name] = row.number[i].value;
  if (row.counts) attrs["step"] = int64_t{1};
  return attrs;
}

std::vector<Domain> domains_of(const OptimizerRow& row) {
  if (row.positive == 0) return {};
  std::vector<Domain> domains(static_cast<size_t>(1 + row.positive));
  domains.push_back({0, 8, 0.5});
  return domains;
}

OpDef op_of(const OptimizerRow& row) {
  const std::vector<std::string> operands = operands_named(row.moments);
  std::vector<std::string> outputs = operands;
  outputs.erase(outputs.begin() + 1);  // all but g
  std::vector<std::string> inputs = operands;
  if (row.has_trust()) inputs.push_back("norms");
  inputs.insert(inputs.end(), {"scale?", "finite?"});
  Attrs attrs = attrs_of(row);
  attrs["lr"] = row.rate;
  return {.name = row.name,
          .inputs = inputs,
          .outputs = outputs,
          .attrs = std::move(attrs),
          .infer = infer_update(row.name, operands, row.has_trust()),
          .index_map = update_map(operands.size(), row.linear, row.has_trust()),
          .work = per_element(row.flops),
          .tolerance = 1e-12,
          .samples = optimizer_samples(operands.size(), domains_of(row), row.has_trust()),
          .omitted = {kNoExtremum}};
}

// i0 i1, ... -> _ ; sum i0 i1
IndexMap norms_map(const Types& in, size_t operands) {
  IndexMap map;
  map.inputs.assign(operands, indices("i", in[0].shape.size()));
  map.inputs.resize(in.size());  // the factor
  map.outputs = {{"_"}};
  for (const sbp::Index& name : map.inputs[0]) map.reduced.push_back({name, sbp::Reduction::sum});
  return map;
}

OpDef norms_op_of(const OptimizerRow& row) {
  const std::string name = norms_op(row);
  const std::vector<std::string> operands = operands_named(row.measured_moments);
  std::vector<std::string> inputs = operands;
  inputs.emplace_back("scale?");
  auto infer = [name, operands](const Types& in, const Attrs&) -> Types {
    if (in.size() > operands.size() && !in.back().shape.empty()) refuse(name, "scale", in.back(), "a scalar");
    return {{{2}, wide(states_of(name, operands, in)[0].dtype)}};
  };
  auto samples = [count = operands.size(), domains = domains_of(row)](const Extent& n) {
    std::vector<Sample> some = update_samples(count, domains)(n);
    some[0].domains.resize(count);
    some[0].inputs.push_back(f32({}));
    some[0].domains.push_back({0.25, 2, 0.25});
    return some;
  };
  return {
      .name = name,
      .inputs = inputs,
      .outputs = {"norms"},
      .attrs = attrs_of(row),
      .infer = infer,
      .index_map = [count = operands.size()](const Types& in, const Attrs&) { return norms_map(in, count); },
      .work = per_element(row.flops),
      .tolerance = 1e-12,
      .samples = samples,
      .omitted = row.linear ? std::vector{kNoExtremum} : std::vector<Omission>()};
}

void add_optimizers(std::vector<OpDef>& out) {
  for (const OptimizerRow& row : optimizer_rows()) {
    out.push_back(op_of(row));
    if (row.has_trust()) out.push_back(norms_op_of(row));
  }
}

// i0 i1 -> ; sum i0 i1
IndexMap scalar_map(const Types& in, sbp::Reduction reduction) {
  IndexMap map;
  map.inputs = {indices("i", in[0].shape.size())};
  map.outputs = {{}};
  for (const sbp::Index& name : map.inputs[0]) map.reduced.push_back({name, reduction});
  return map;
}

void add_norm(std::vector<OpDef>& out) {
  auto scalar = [](const Types& in, const Attrs&) -> Types { return {{{}, wide(in[0].dtype)}}; };
  auto samples = [](Domain domain) {
    return [domain](const Extent& n) -> std::vector<Sample> {
      int64_t a = n(), b = n();
      return {{.inputs = {f32({a, b})}, .domains = {domain}}, {.inputs = {f32({a})}, .domains = {domain}}};
    };
  };
  out.push_back(
      {.name = "square_sum",
       .inputs = {"x"},
       .outputs = {"norm2"},
       .infer = scalar,
       .index_map = [](const Types& in, const Attrs&) { return scalar_map(in, sbp::Reduction::sum); },
       .work = per_element(2),
       .samples = samples({})});
  out.push_back(
      {.name = "all_finite",
       .inputs = {"x"},
       .outputs = {"finite"},
       .infer = [](const Types&, const Attrs&) -> Types {
         return {{{}, DType::boolean}};
       },
       .index_map = [](const Types& in, const Attrs&) { return scalar_map(in, sbp::Reduction::min); },
       .work = per_element(1),
       .samples = samples({.infinite = true}),
       .omitted = {{"finite parts may add up to more than the type holds; part of a maximum may be infinite",
                    has_partial}}});
  auto scalars = [](const Extent&) -> std::vector<Sample> {
    return {{.inputs = {f32({})}, .domains = {{0.25, 16, 0.25}}}};
  };
  out.push_back({.name = "clip_scale",
                 .inputs = {"norm2"},
                 .outputs = {"factor"},
                 .attrs = {{"max_norm", 1.0}, {"loss_scale", 1.0}},
                 .infer = scalar,
                 .index_map = fixed_map("-> ; decreasing 0"),
                 .tolerance = 1e-12,
                 .samples = scalars});
}

// sum(xs...): as in ONNX, without broadcasting.
void add_sum(std::vector<OpDef>& out) {
  auto infer = [](const Types& in, const Attrs&) -> Types {
    for (size_t i = 1; i < in.size(); ++i) same_type("sum", "xs", in[i], "the first", in[0]);
    return {in[0]};
  };
  auto map = [](const Types& in, const Attrs&) {
    IndexMap result;
    result.inputs.assign(in.size(), indices("i", in[0].shape.size()));
    result.outputs = {result.inputs[0]};
    result.linear = {{}};
    // Maxima of one of very many terms are left out: they would be two signatures for each of n terms, each n
    // layouts long.
    constexpr size_t many = 64;
    for (int i = 0; i < static_cast<int>(in.size()); ++i) {
      result.linear[0].push_back(i);
      if (in.size() <= many) result.increasing.push_back(i);
    }
    return result;
  };
  auto samples = [](const Extent& n) -> std::vector<Sample> {
    int64_t a = n(), b = n();
    return {{.inputs = Types(3, f32({a, b}))}, {.inputs = Types(4, f32({}))}, {.inputs = Types(1, f32({a}))}};
  };
  out.push_back({.name = "sum",
                 .inputs = {"xs..."},
                 .outputs = {"y"},
                 .infer = infer,
                 .index_map = map,
                 .samples = samples});
}

void add_accumulate(std::vector<OpDef>& out) {
  auto infer = [](const Types& in, const Attrs& attrs) -> Types {
    return {{in[0].shape, parse_dtype(attr_text(attrs, "to"))}};
  };
  auto map = [](const Types& in, const Attrs&) {
    IndexMap result;
    result.inputs = {indices("i", in[0].shape.size())};
    result.outputs = result.inputs;
    result.linear = {{0}};
    return result;
  };
  // Reads the gradient, reads and writes the running sum.
  auto work = [](const Types& in, const Types& result, const Attrs&) {
    return Work{static_cast<double>(in[0].elements()), bytes_of(in) + 2 * bytes_of(result)};
  };
  out.push_back(
      {.name = "accumulate",
       .inputs = {"g"},
       .outputs = {"sum"},
       .attrs = {{"to", "float32"}},
       .infer = infer,
       .index_map = map,
       .work = work,
       .samples = update_samples(1, {}),
       .omitted = {{"adds over micro-batches: a sum of maxima is not the maximum of sums", has_extremum}}});
}

// second_moment(new, old, finite?) = (1 - p) old + p (new + eps) with p = step^-power: of a factored row,
// from the means of squared gradients. It stays as it is if gradients are not finite.
void add_second_moment(std::vector<OpDef>& out) {
  auto infer = [](const Types& in, const Attrs&) -> Types {
    same_shape("second_moment", "new", in[0], "old", in[1]);
    if (in.size() > 2 && !in[2].shape.empty()) refuse("second_moment", "finite", in[2], "a scalar");
    return {in[1]};
  };
  auto samples = [](const Extent& n) {
    std::vector<Sample> some = update_samples(2, {{0, 8, 0.5}, {0, 8, 0.5}})(n);
    some[1].inputs.push_back({{}, DType::boolean});
    some[1].domains.push_back({0, 1, 1});
    for (Sample& sample : some) sample.attrs = {{"step", int64_t{3}}};  // the first leaves nothing of `old`
    return some;
  };
  out.push_back({.name = "second_moment",
                 .inputs = {"new", "old", "finite?"},
                 .outputs = {"moment"},
                 .attrs = {{"power", 0.8}, {"eps", 1e-30}, {"step", int64_t{1}}},
                 .infer = infer,
                 .index_map = moving_average_map,
                 .work = per_element(4),
                 .tolerance = 1e-12,
                 .samples = samples});
}

}  // namespace

void add_update_ops(std::vector<OpDef>& out) {
  add_optimizers(out);
  add_update_all(out);
  add_update_rows(out);
  add_second_moment(out);
  add_accumulate(out);
  add_norm(out);
  add_sum(out);
}

}  // namespace boxcar::ir
