#include "sbp/index_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "sbp/at.h"
#include "sbp/text.h"

namespace boxcar::sbp {
namespace {

using Indices = std::vector<Index>;

bool is_loop(const Index& index) { return index != "_" && index != "1"; }

std::vector<Indices> read_tensors(Cursor& in) {
  std::vector<Indices> tensors(1);
  while (true) {
    if (in.take(",")) {
      tensors.emplace_back();
    } else if (const std::string_view index = in.word(); !index.empty()) {
      tensors.back().emplace_back(index);
    } else {
      return tensors;
    }
  }
}

std::vector<int> read_inputs(Cursor& in, const IndexMap& map) {
  std::vector<int> inputs;
  do inputs.push_back(static_cast<int>(in.number(static_cast<int64_t>(map.inputs.size()) - 1, "an input")));
  while (!in.done() && !in.rest().starts_with(";"));
  return inputs;
}

bool has(const std::vector<Indices>& tensors, const Index& index) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const Indices& dims) {
    return std::find(dims.begin(), dims.end(), index) != dims.end();
  });
}

void read_reduced(Cursor& in, IndexMap& map, Reduction reduction) {
  do {
    const Index index(in.word());
    if (index.empty()) in.fail("expected an index");
    if (!is_loop(index) || !has(map.inputs, index)) in.fail(fmt::format("no input has index \"{}\"", index));
    map.reduced.push_back({index, reduction});
  } while (!in.done() && !in.rest().starts_with(";"));
}

void append(std::vector<int>& to, const std::vector<int>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

void read_clause(Cursor& in, IndexMap& map) {
  const std::string name(in.word());
  if (name == "sum") return read_reduced(in, map, Reduction::sum);
  if (name == "max") return read_reduced(in, map, Reduction::max);
  if (name == "min") return read_reduced(in, map, Reduction::min);
  if (name == "linear") return map.linear.push_back(read_inputs(in, map));
  if (name == "increasing") return append(map.increasing, read_inputs(in, map));
  if (name == "decreasing") return append(map.decreasing, read_inputs(in, map));
  if (name == "after") return append(map.after, read_inputs(in, map));
  in.fail(fmt::format(
      "unknown clause \"{}\", expected sum, max, min, linear, increasing, decreasing or after", name));
}

std::string tensors_text(const std::vector<Indices>& tensors) {
  std::vector<std::string> texts;
  for (const Indices& dims : tensors) texts.push_back(fmt::format("{}", fmt::join(dims, " ")));
  return fmt::format("{}", fmt::join(texts, ", "));
}

// The signatures of one map, in the order given in the header.
class Deriver {
 public:
  explicit Deriver(const IndexMap& map) : map_(map) {}

  std::vector<Signature> run() {
    add(broadcast());
    for (const Index& index : loop_indices()) split(index);
    for (const auto& inputs : map_.linear) partial(inputs, Reduction::sum, Reduction::sum);
    for (const int input : map_.increasing) monotone(input, Reduction::max, Reduction::min);
    for (const int input : map_.decreasing) monotone(input, Reduction::min, Reduction::max);
    return std::move(result_);
  }

 private:
  Signature broadcast() const {
    return {std::vector<Sbp>(map_.inputs.size()), std::vector<Sbp>(map_.outputs.size())};
  }

  // Parallel indices in order of appearance, then those that no output has, in order of declaration.
  std::vector<Index> loop_indices() const {
    std::vector<Index> indices;
    const auto append_new = [&](const Index& index) {
      if (is_loop(index) && std::find(indices.begin(), indices.end(), index) == indices.end())
        indices.push_back(index);
    };
    for (const auto* tensors : {&map_.inputs, &map_.outputs})
      for (const Indices& dims : *tensors)
        for (const Index& index : dims)
          if (has(map_.outputs, index)) append_new(index);
    for (const ReducedIndex& reduced : map_.reduced) append_new(reduced.index);
    return indices;
  }

  // The reduction over `index`; none if it is not reduced, or if it is reduced in two ways, which no rule can
  // use.
  const Reduction* reduction(const Index& index) const {
    const ReducedIndex* found = nullptr;
    for (const ReducedIndex& reduced : map_.reduced) {
      if (reduced.index != index) continue;
      if (found && found->reduction != reduced.reduction) return nullptr;
      found = &reduced;
    }
    return found ? &found->reduction : nullptr;
  }

  void split(const Index& index) {
    const Reduction* reduced = reduction(index);
    Signature signature = broadcast();
    for (size_t i = 0; i < map_.inputs.size(); ++i)
      if (!place(index, map_.inputs[i], signature.inputs[i])) return;
    bool adds = false;
    for (size_t o = 0; o < map_.outputs.size(); ++o) {
      if (!place(index, map_.outputs[o], signature.outputs[o])) return;
      if (signature.outputs[o].is_split()) continue;
      if (!reduced) return;  // no rule gives this output's layout
      signature.outputs[o] = Sbp::P(*reduced);
      adds = *reduced == Reduction::sum;
    }
    // A term added after a sum is summed with it; max and min commute with an addition, so there it stays B.
    for (const int input : map_.after)
      if (adds && at(signature.inputs, input).is_broadcast()) at(signature.inputs, input) = Sbp::P();
    add(std::move(signature));
  }

  // S(dim) if `dims` has the index; false if it has it twice (a diagonal), which no split can follow.
  static bool place(const Index& index, const Indices& dims, Sbp& sbp) {
    const auto at = std::find(dims.begin(), dims.end(), index);
    if (at == dims.end()) return true;
    sbp = Sbp::S(static_cast<int>(at - dims.begin()));
    return std::find(at + 1, dims.end(), index) == dims.end();
  }

  void partial(const std::vector<int>& inputs, Reduction in, Reduction out) {
    Signature signature = broadcast();
    for (const int input : inputs) at(signature.inputs, input) = Sbp::P(in);
    for (Sbp& output : signature.outputs) output = Sbp::P(out);
    add(std::move(signature));
  }

  // A reduction by max gives P(max) only: a maximum of minima is not the minimum of the maxima.
  void monotone(int input, Reduction from_max, Reduction from_min) {
    if (commutes(from_max)) partial({input}, Reduction::max, from_max);
    if (commutes(from_min)) partial({input}, Reduction::min, from_min);
  }

  bool commutes(Reduction out) const {
    return std::all_of(map_.reduced.begin(), map_.reduced.end(), [&](const ReducedIndex& reduced) {
      return reduced.reduction == Reduction::sum || reduced.reduction == out;
    });
  }

  void add(Signature signature) {
    if (std::find(result_.begin(), result_.end(), signature) == result_.end())
      result_.push_back(std::move(signature));
  }

  const IndexMap& map_;
  std::vector<Signature> result_;
};

std::vector<Sbp> read_layouts(Cursor& in) {
  std::vector<Sbp> layouts;
  if (in.done() || in.rest().starts_with("->")) return layouts;
  do layouts.push_back(read_sbp(in));
  while (in.take(","));
  return layouts;
}

}  // namespace

IndexMap parse_index_map(std::string_view text) {
  Cursor in(text, "index map");
  IndexMap map;
  map.inputs = read_tensors(in);
  if (!in.take("->")) in.fail("expected an index, \",\" or \"->\"");
  map.outputs = read_tensors(in);
  while (in.take(";")) read_clause(in, map);
  if (!in.done()) in.fail("expected an index, \",\" or \";\"");
  return map;
}

std::string to_text(const IndexMap& map) {
  std::string text = fmt::format("{} -> {}", tensors_text(map.inputs), tensors_text(map.outputs));
  auto out = std::back_inserter(text);
  for (const ReducedIndex& reduced : map.reduced)
    fmt::format_to(out, " ; {} {}", to_text(reduced.reduction), reduced.index);
  for (const auto& inputs : map.linear) fmt::format_to(out, " ; linear {}", fmt::join(inputs, " "));
  const std::pair<const char*, const std::vector<int>&> clauses[] = {
      {"increasing", map.increasing}, {"decreasing", map.decreasing}, {"after", map.after}};
  for (const auto& [name, inputs] : clauses)
    if (!inputs.empty()) fmt::format_to(out, " ; {} {}", name, fmt::join(inputs, " "));
  return text;
}

std::string to_text(const Signature& signature) {
  const auto side = [](const std::vector<Sbp>& layouts) {
    std::vector<std::string> texts;
    for (const Sbp sbp : layouts) texts.push_back(to_text(sbp));
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  return fmt::format("{} -> {}", side(signature.inputs), side(signature.outputs));
}

Signature parse_signature(std::string_view text) {
  Cursor in(text, "signature");
  Signature signature;
  signature.inputs = read_layouts(in);
  if (!in.take("->")) in.fail("expected \",\" or \"->\"");
  signature.outputs = read_layouts(in);
  if (!in.done()) in.fail("expected \",\"");
  return signature;
}

std::vector<Signature> derive(const IndexMap& map) { return Deriver(map).run(); }

}  // namespace boxcar::sbp
