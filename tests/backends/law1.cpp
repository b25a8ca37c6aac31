#include "law1.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "backends/cpu/reference.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::tests {
namespace {

using backends::cpu::HostTensor;
using backends::cpu::Tensors;
using sbp::Reduction;
using sbp::Sbp;
using sbp::Signature;
using Random = std::mt19937_64;
using Layouts = std::vector<Sbp>;

constexpr int kDraws = 24, kDrawsOfFew = 96;  // one or two numbers agree by chance in a few

int64_t draw(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

double draw(Random& random, const ir::Domain& domain, double low, double high) {
  if (low >= high) return low;  // infinite bounds
  auto from = static_cast<int64_t>(std::ceil((low - domain.low) / domain.step));
  auto to = static_cast<int64_t>(std::floor((high - domain.low) / domain.step));
  return domain.low + domain.step * static_cast<double>(draw(random, from, to));
}

}  // namespace

HostTensor draw_tensor(Random& random, const ir::TensorType& type, const ir::Domain& domain, bool infinite) {
  HostTensor tensor = backends::cpu::zeros(type);
  for (double& x : tensor.data) x = draw(random, domain, domain.low, domain.high);
  if (infinite && domain.infinite && !tensor.data.empty())
    tensor.data[random() % tensor.data.size()] = INFINITY;
  return tensor;
}

namespace {

HostTensor mirror(HostTensor tensor, const ir::Domain& domain) {
  for (double& x : tensor.data) {
    if (std::isfinite(x)) x = domain.low + domain.high - x;
  }
  return tensor;
}

std::vector<sbp::Range> ranges(const ir::Shape& shape, Sbp layout, int64_t parts, int64_t index) {
  return sbp::local_ranges(shape, {layout}, {parts}, index);
}

}  // namespace

void split_element(Random& random, const ir::Domain& domain, Reduction reduction, double x,
                   std::vector<double>& parts) {
  size_t owner = random() % parts.size();
  double rest = x;
  // Mostly unequal if there is room; sometimes equal, since booleans would otherwise never be.
  auto step = [&](double value, double end) { return value == end || random() % 4 == 0 ? 0 : domain.step; };
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == owner) continue;
    if (reduction == Reduction::max)
      parts[i] = draw(random, domain, domain.low, std::min(x, domain.high) - step(x, domain.low));
    if (reduction == Reduction::min)
      parts[i] = draw(random, domain, std::max(x, domain.low) + step(x, domain.high), domain.high);
    if (reduction == Reduction::sum) parts[i] = domain.step * static_cast<double>(draw(random, -9, 9));
    rest -= parts[i];
  }
  parts[owner] = reduction == Reduction::sum ? rest : x;
}

namespace {

Tensors split(Random& random, const ir::Domain& domain, const HostTensor& whole, Sbp layout, int64_t parts) {
  Tensors result;
  for (int64_t i = 0; i < parts; ++i) {
    result.push_back(backends::cpu::take(whole, ranges(whole.type.shape, layout, parts, i)));
  }
  if (!layout.is_partial()) return result;
  std::vector<double> shares(static_cast<size_t>(parts));
  for (size_t at = 0; at < whole.data.size(); ++at) {
    split_element(random, domain, layout.reduction, whole.data[at], shares);
    for (size_t i = 0; i < shares.size(); ++i) result[i].data[at] = shares[i];
  }
  return result;
}

Layouts layouts_of(const ir::TensorType& type) {
  Layouts all = {Sbp::B(), Sbp::P(Reduction::max), Sbp::P(Reduction::min)};
  if (type.dtype != ir::DType::boolean) all.push_back(Sbp::P());
  for (size_t axis = 0; axis < type.shape.size(); ++axis) {
    if (type.shape[axis] > 1) all.push_back(Sbp::S(static_cast<int>(axis)));
  }
  return all;
}

}  // namespace

bool near(double got, double want, double tolerance) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return true;
  if (!std::isfinite(got) || !std::isfinite(want)) return false;
  return std::abs(got - want) <= tolerance * std::max({1.0, std::abs(got), std::abs(want)});
}

double combine(Reduction reduction, double a, double b) {
  if (reduction == Reduction::sum) return a + b;
  return reduction == Reduction::max ? std::max(a, b) : std::min(a, b);
}

namespace {

// Whether the devices' tensors are `want` in this layout.
bool is_layout(const Tensors& got, const HostTensor& want, Sbp layout, double tolerance) {
  auto parts = static_cast<int64_t>(got.size());
  for (int64_t i = 0; i < parts; ++i) {
    if (at(got, i).type.shape != sbp::local_shape(want.type.shape, {layout}, {parts}, i)) return false;
  }
  auto same = [&](const std::vector<double>& a, const std::vector<double>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](double x, double y) { return near(x, y, tolerance); });
  };
  if (layout.is_partial()) {
    std::vector<double> total = got[0].data;
    for (size_t i = 1; i < got.size(); ++i) {
      for (size_t at = 0; at < total.size(); ++at) {
        total[at] = combine(layout.reduction, total[at], got[i].data[at]);
      }
    }
    return same(total, want.data);
  }
  for (int64_t i = 0; i < parts; ++i) {
    HostTensor part = backends::cpu::take(want, ranges(want.type.shape, layout, parts, i));
    if (!same(at(got, i).data, part.data)) return false;
  }
  return true;
}

// Global tensors and all ways to split the inputs, for one draw.
struct Draw {
  Tensors whole, outputs;
  std::vector<std::map<Sbp, Tensors>> inputs;  // by operand and layout: one tensor per device
};

class Checker {
 public:
  Checker(const ir::OpDef& def, const ir::Sample& sample, int64_t parts, uint64_t seed)
      : def_(def), sample_(sample), attrs_(ir::complete(def, sample.attrs)), parts_(parts), seed_(seed) {
    Random random(seed);
    for (int i = 0, draws = kDraws; i < draws; ++i) {
      draws_.push_back(make_draw(random, i % 2 == 1, i % 4 < 2));
      if (has_few_numbers(draws_[0].outputs)) draws = kDrawsOfFew;
    }
    for (const ir::TensorType& type : sample.inputs) input_layouts_.push_back(layouts_of(type));
    for (const HostTensor& output : draws_[0].outputs) output_layouts_.push_back(layouts_of(output.type));
    for (Signature& signature : ir::signatures(def, sample.inputs, attrs_, parts))
      offer(std::move(signature));
  }

  Law1 run() {
    Layouts splits;
    choose_splits(splits);
    for (const auto& [inputs, all] : offered_) {  // the remaining ones do not even fit
      for (const Layouts& outputs : all) report("wrong", {inputs, outputs});
    }
    return std::move(result_);
  }

 private:
  static bool has_few_numbers(const Tensors& outputs) {
    return std::all_of(outputs.begin(), outputs.end(),
                       [](const HostTensor& output) { return output.type.elements() <= 2; });
  }

  // Every other draw negates the previous one's values, so that factors have both signs.
  Draw make_draw(Random& random, bool mirrored, bool infinite) const {
    Draw made;
    Tensors whole;
    for (size_t i = 0; i < sample_.inputs.size(); ++i) {
      whole.push_back(mirrored ? mirror(draws_.back().whole[i], domain(i))
                               : draw_tensor(random, sample_.inputs[i], domain(i), infinite));
      auto& splits = made.inputs.emplace_back();
      for (Sbp layout : layouts_of(sample_.inputs[i])) {
        splits[layout] = split(random, domain(i), whole.back(), layout, parts_);
      }
    }
    made.outputs = backends::cpu::run_reference(def_.name, whole, attrs_);
    made.whole = std::move(whole);
    return made;
  }

  ir::Domain domain(size_t input) const {
    return input < sample_.domains.size() ? sample_.domains[input] : ir::Domain{};
  }

  void offer(Signature signature) {
    ++result_.offered;
    bool told_apart = signature.inputs.size() == input_layouts_.size();
    if (!told_apart || signature.outputs.size() != output_layouts_.size()) {
      return report("wrong number of operands", signature);
    }
    for (size_t i = 0; i < signature.inputs.size(); ++i)
      told_apart &= known(input_layouts_[i], signature.inputs[i]);
    for (size_t i = 0; i < signature.outputs.size(); ++i) {
      told_apart &= known(output_layouts_[i], signature.outputs[i]);
    }
    if (!told_apart) return;
    Signature splits = signature;
    forget_partial(splits);
    if (local_attrs(splits) != local_attrs(signature)) report("attributes depend on P", signature);
    if (!offered_[signature.inputs].insert(signature.outputs).second) report("offered twice", signature);
  }

  static bool known(const Layouts& layouts, Sbp layout) {
    return std::ranges::find(layouts, layout) != layouts.end();
  }

  // Goes through all combinations of input layouts: first which inputs are split and how, then, where such
  // parts fit together, whether the others are B or P.
  void choose_splits(Layouts& splits) {
    const bool all = splits.size() == input_layouts_.size();
    if (all && fits_somehow(splits)) choose_partial(splits, 0);
    if (all) return;
    for (Sbp layout : input_layouts_[splits.size()]) {
      if (layout.is_partial()) continue;
      splits.push_back(layout);
      choose_splits(splits);
      splits.pop_back();
    }
  }

  void choose_partial(Layouts& inputs, size_t from) {
    if (from == inputs.size()) return judge(inputs);
    choose_partial(inputs, from + 1);
    if (inputs[from].is_split()) return;
    for (Sbp layout : input_layouts_[from]) {
      if (!layout.is_partial()) continue;
      inputs[from] = layout;
      choose_partial(inputs, from + 1);
    }
    inputs[from] = Sbp::B();
  }

  bool fits_somehow(const Layouts& splits) {
    fitting_.clear();
    size_t output = 0;
    const auto fits = [&](Sbp layout) { return fitting_attrs(splits, output, layout) >= 0; };
    while (output < output_layouts_.size() && std::ranges::any_of(output_layouts_[output], fits)) ++output;
    return output == output_layouts_.size();
  }

  void judge(const Layouts& inputs) {
    ++result_.tried;
    std::set<Layouts> right = right_outputs(inputs);
    const auto entry = offered_.extract(inputs);
    const std::set<Layouts> offered = entry ? entry.mapped() : std::set<Layouts>{};
    for (const Layouts& outputs : offered) {
      if (!right.count(outputs)) report("wrong", {inputs, outputs});
    }
    for (const Layouts& outputs : right) {
      if (!offered.count(outputs) && !is_omitted({inputs, outputs})) report("missing", {inputs, outputs});
    }
  }

  bool is_omitted(const Signature& signature) {
    for (const ir::Omission& omission : def_.omitted) {
      if (!omission.covers(signature)) continue;
      result_.omitted.insert(omission.reason);
      return true;
    }
    return false;
  }

  // Every choice of a right layout for each output; none where some output has no right layout.
  std::set<Layouts> right_outputs(const Layouts& inputs) {
    std::set<Layouts> tuples = {{}};
    for (size_t output = 0; output < output_layouts_.size() && !tuples.empty(); ++output) {
      std::set<Layouts> longer;
      for (Sbp layout : right_layouts(inputs, output)) {
        for (Layouts tuple : tuples) {
          tuple.push_back(layout);
          longer.insert(std::move(tuple));
        }
      }
      tuples = std::move(longer);
    }
    runs_.clear();
    return tuples;
  }

  Layouts right_layouts(const Layouts& inputs, size_t output) {
    Layouts right;
    bool is_whole = false;
    for (Sbp layout : output_layouts_[output]) {
      const bool weaker = is_whole && layout.is_partial() && layout.reduction != Reduction::sum;
      if (!weaker && is_right(inputs, output, layout)) right.push_back(layout);
      is_whole |= !right.empty() && right.back().is_broadcast();  // B comes first
    }
    return right;
  }

  bool is_right(const Layouts& inputs, size_t output, Sbp layout) {
    const int attrs = fitting_attrs(inputs, output, layout);
    if (attrs < 0) return false;
    for (int i = 0; i < static_cast<int>(draws_.size()); ++i) {
      const std::vector<Tensors>& run = run_parts(inputs, attrs, i);
      if (!is_layout(run[output], at(draws_, i).outputs[output], layout, def_.tolerance)) return false;
    }
    return true;
  }

  // The parts' attributes in local_attrs_; -1 where shapes do not fit. Depends on splits only (see offer).
  int fitting_attrs(const Layouts& inputs, size_t output, Sbp layout) {
    Signature splits{inputs, Layouts(output_layouts_.size(), Sbp::B())};
    splits.outputs[output] = layout;
    forget_partial(splits);
    auto [found, is_new] = fitting_.try_emplace({output, splits.outputs[output]}, -1);
    if (is_new && fits(splits, output)) found->second = intern(local_attrs(splits));
    return found->second;
  }

  static void forget_partial(Signature& signature) {
    for (Layouts* layouts : {&signature.inputs, &signature.outputs}) {
      for (Sbp& layout : *layouts) layout = layout.is_partial() ? Sbp::B() : layout;
    }
  }

  bool fits(const Signature& splits, size_t output) const {
    for (int64_t part = 0; part < parts_; ++part) {
      ir::Types types = sample_.inputs;
      for (size_t i = 0; i < types.size(); ++i) {
        types[i].shape = sbp::local_shape(types[i].shape, {splits.inputs[i]}, {parts_}, part);
      }
      const ir::Shape& whole = draws_[0].outputs[output].type.shape;
      try {
        const ir::Attrs attrs = ir::localize(def_, sample_.inputs, attrs_, splits, parts_, part);
        const ir::Shape got = def_.infer(types, attrs).at(output).shape;
        if (got != sbp::local_shape(whole, {splits.outputs[output]}, {parts_}, part)) return false;
      } catch (const Error&) {
        return false;
      }
    }
    return true;
  }

  std::vector<ir::Attrs> local_attrs(const Signature& signature) const {
    std::vector<ir::Attrs> attrs;
    for (int64_t i = 0; i < parts_; ++i) {
      attrs.push_back(ir::localize(def_, sample_.inputs, attrs_, signature, parts_, i));
    }
    return attrs;
  }

  int intern(std::vector<ir::Attrs> attrs) {
    auto found = std::find(local_attrs_.begin(), local_attrs_.end(), attrs);
    if (found == local_attrs_.end()) found = local_attrs_.insert(found, std::move(attrs));
    return static_cast<int>(found - local_attrs_.begin());
  }

  // Outputs by output and device. Cached for the current input layouts.
  const std::vector<Tensors>& run_parts(const Layouts& inputs, int attrs, int draw) {
    auto [found, is_new] = runs_.try_emplace({draw, attrs});
    if (!is_new) return found->second;
    found->second.resize(output_layouts_.size());
    for (size_t part = 0; part < static_cast<size_t>(parts_); ++part) {
      Tensors local;
      for (size_t i = 0; i < inputs.size(); ++i) {
        local.push_back(at(draws_, draw).inputs[i].at(inputs[i])[part]);
      }
      const ir::Attrs& local_attrs = at(local_attrs_, attrs)[part];
      Tensors got = backends::cpu::run_reference(def_.name, local, local_attrs);
      for (size_t i = 0; i < got.size(); ++i) found->second[i].push_back(std::move(got[i]));
    }
    return found->second;
  }

  void report(std::string_view what, const Signature& signature) {
    std::vector<std::string> types;
    for (const ir::TensorType& type : sample_.inputs) types.push_back(ir::to_text(type));
    result_.findings.push_back(fmt::format("{}({}) {} on {} devices, seed {}: {}: {}", def_.name,
                                           fmt::join(types, ", "), ir::to_text(sample_.attrs), parts_, seed_,
                                           what, sbp::to_text(signature)));
  }

  const ir::OpDef& def_;
  const ir::Sample& sample_;
  ir::Attrs attrs_;
  int64_t parts_;
  uint64_t seed_;
  std::vector<Draw> draws_;
  std::vector<Layouts> input_layouts_, output_layouts_;
  std::map<Layouts, std::set<Layouts>> offered_;
  std::map<std::pair<size_t, Sbp>, int> fitting_;  // for inputs split in one way: by output and its layout
  std::vector<std::vector<ir::Attrs>> local_attrs_;
  std::map<std::pair<int, int>, std::vector<Tensors>> runs_;  // by draw and attributes
  Law1 result_;
};

}  // namespace

Law1 check_law1(const ir::OpDef& def, const ir::Sample& sample, int64_t parts, uint64_t seed) {
  return Checker(def, sample, parts, seed).run();
}

std::vector<ir::Sample> draw_samples(const ir::OpDef& def, uint64_t seed) {
  Random random(seed);
  return def.samples([&random] { return draw(random, 2, 7); });
}

}  // namespace boxcar::tests
