// Law 1 on meshes: an op on the parts of a mesh of two and three dimensions gives the global result, under
// every combination of signatures, and in every order of nested splits, that the planner allows. Sizes may be
// uneven.
//
//   scaled_dot_product_attention, q [1, 4, 2, 2], k [1, 2, 2, 2], mesh 2x2
//   (S(1,inner), S(1)), (B, S(1)), (B, S(1)) -> (S(1,inner), S(1))   device 3 has query head 3 and key head 1
//
// One dimension alone is law 1 (tests/backends/law1_test.cpp), which also finds missing signatures.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "backends/cpu/reference.h"
#include "ir/rank_attrs.h"
#include "law1.h"
#include "planner/deduce.h"
#include "planner/local_attrs.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::planner {
namespace {

using backends::cpu::HostTensor;
using backends::cpu::Tensors;
using sbp::NdSbp;
using sbp::Sbp;
using sbp::Signature;
using Engine = std::mt19937_64;

int64_t draw(Engine& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

Mesh draw_mesh(Engine& random) {
  Mesh mesh;
  const int64_t dims = draw(random, 2, 3);
  for (int64_t d = 0; d < dims; ++d) {
    mesh.names.push_back(fmt::format("d{}", d));
    mesh.extents.push_back(draw(random, 2, dims == 2 ? 4 : 3));
  }
  return mesh;
}

// Groups of places that differ only along partial dimensions of the layout, outermost first.
std::vector<std::vector<int>> partial_groups(const NdSbp& layout, const Mesh& mesh) {
  std::map<std::vector<int64_t>, std::vector<int>> groups;
  for (int place = 0; place < mesh.devices(); ++place) {
    std::vector<int64_t> key;
    int64_t rest = place;
    for (size_t d = mesh.dims(); d-- > 0; rest /= mesh.extents[d])
      if (!layout[d].is_partial()) key.push_back(rest % mesh.extents[d]);
    groups[key].push_back(place);
  }
  std::vector<std::vector<int>> result;
  for (auto& [key, places] : groups) result.push_back(std::move(places));
  return result;
}

struct PartialDim {
  sbp::Reduction reduction;
  int64_t extent;
};
std::vector<PartialDim> partial_dims(const NdSbp& layout, const Mesh& mesh) {
  std::vector<PartialDim> dims;
  for (size_t d = 0; d < layout.size(); ++d)
    if (layout[d].is_partial()) dims.push_back({layout[d].reduction, mesh.extents[d]});
  return dims;
}

// Values that reduce to x along these dimensions, the inner ones first.
std::vector<double> spread(Engine& random, const ir::Domain& domain, const std::vector<PartialDim>& dims,
                           size_t from, double x) {
  if (from == dims.size()) return {x};
  std::vector<double> parts(static_cast<size_t>(dims[from].extent)), all;
  tests::split_element(random, domain, dims[from].reduction, x, parts);
  for (const double part : parts) {
    const std::vector<double> inside = spread(random, domain, dims, from + 1, part);
    all.insert(all.end(), inside.begin(), inside.end());
  }
  return all;
}

double reduced(const std::vector<PartialDim>& dims, std::vector<double> values) {
  for (size_t d = dims.size(); d-- > 0;) {
    const auto extent = static_cast<size_t>(dims[d].extent);
    std::vector<double> outer;
    for (size_t i = 0; i < values.size(); i += extent) {
      outer.push_back(values[i]);
      for (size_t k = 1; k < extent; ++k)
        outer.back() = tests::combine(dims[d].reduction, outer.back(), values[i + k]);
    }
    values = std::move(outer);
  }
  return values[0];
}

// Parts by place. Two copies of a P hold different partials.
Tensors lay_out(Engine& random, const ir::Domain& domain, const HostTensor& whole, const NdSbp& layout,
                const Mesh& mesh) {
  Tensors parts(static_cast<size_t>(mesh.devices()));
  for (const std::vector<int>& group : partial_groups(layout, mesh)) {
    const HostTensor value =
        backends::cpu::take(whole, sbp::local_ranges(whole.type.shape, layout, mesh.extents, group[0]));
    for (const int place : group) at(parts, place) = value;
    for (size_t i = 0; i < value.data.size(); ++i) {
      const auto shares = spread(random, domain, partial_dims(layout, mesh), 0, value.data[i]);
      for (size_t k = 0; k < group.size(); ++k) at(parts, group[k]).data[i] = shares[k];
    }
  }
  return parts;
}

// Empty where the parts are `want` in this layout.
std::string difference(const Tensors& got, const HostTensor& want, const NdSbp& layout, const Mesh& mesh,
                       double tolerance) {
  for (const std::vector<int>& group : partial_groups(layout, mesh)) {
    const HostTensor part =
        backends::cpu::take(want, sbp::local_ranges(want.type.shape, layout, mesh.extents, group[0]));
    for (const int place : group)
      // An empty part of a grouped convolution's weight has no groups to divide its channels by.
      if (const auto& shape = at(got, place).type.shape; shape != part.type.shape && !part.data.empty())
        return fmt::format("place {} has shape [{}], expected [{}]", place, fmt::join(shape, ", "),
                           fmt::join(part.type.shape, ", "));
    for (size_t i = 0; i < part.data.size(); ++i) {
      std::vector<double> values;
      for (const int place : group) values.push_back(at(got, place).data[i]);
      const double value = reduced(partial_dims(layout, mesh), values);
      if (!tests::near(value, part.data[i], std::max(tolerance, 1e-12)))
        return fmt::format("place {} element {} is {}, expected {}", group[0], i, value, part.data[i]);
    }
  }
  return {};
}

// One op and its possible inputs.
struct Example {
  const ir::OpDef& def;
  ir::Sample sample;
  ir::Graph graph;

  Example(const ir::OpDef& d, ir::Sample s) : def(d), sample(std::move(s)) {
    ir::Builder builder("example");
    std::vector<ir::TensorId> inputs;
    for (size_t i = 0; i < sample.inputs.size(); ++i)
      inputs.push_back(builder.input(fmt::format("x{}", i), sample.inputs[i]));
    builder.op(def.name, inputs, sample.attrs, "op");
    graph = builder.finish();
  }
  const ir::Op& op() const { return graph.ops.back(); }
  ir::Domain domain(size_t input) const {
    return input < sample.domains.size() ? sample.domains[input] : ir::Domain{};
  }

  std::string text(const OpLayout& layout, const Mesh& mesh) const {
    std::vector<std::string> types, in, out;
    for (const ir::TensorType& type : sample.inputs) types.push_back(ir::to_text(type));
    for (const NdSbp& x : layout.inputs) in.push_back(sbp::to_text(x));
    for (const NdSbp& x : layout.outputs) out.push_back(sbp::to_text(x));
    return fmt::format("{}({}) {} on mesh {}: {} -> {}", def.name, fmt::join(types, ", "),
                       ir::to_text(op().attrs), fmt::join(mesh.extents, "x"), fmt::join(in, ", "),
                       fmt::join(out, ", "));
  }

  // Runs the op on the parts; empty where they give the global result.
  std::string run(Engine& random, const OpLayout& layout, const Mesh& mesh) const {
    try {
      return run_parts(random, layout, mesh);
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::string run_parts(Engine& random, const OpLayout& layout, const Mesh& mesh) const {
    Tensors whole;
    std::vector<Tensors> parts;
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      whole.push_back(tests::draw_tensor(random, sample.inputs[i], domain(i), false));
      parts.push_back(lay_out(random, domain(i), whole.back(), layout.inputs[i], mesh));
    }
    const Tensors want = backends::cpu::run_reference(def.name, whole, op().attrs);
    std::vector<Tensors> got(want.size());
    for (int place = 0; place < mesh.devices(); ++place) {
      Tensors inputs;
      for (const Tensors& operand : parts) inputs.push_back(at(operand, place));
      Tensors outputs =
          backends::cpu::run_reference(def.name, inputs, local_attrs(graph, op(), layout, mesh, {place}));
      for (size_t o = 0; o < outputs.size(); ++o) got[o].push_back(std::move(outputs[o]));
    }
    for (size_t o = 0; o < want.size(); ++o)
      if (std::string found = difference(got[o], want[o], layout.outputs[o], mesh, def.tolerance);
          !found.empty())
        return fmt::format("output {}: {}", o, found);
    return {};
  }

  // The attributes of a class of places with equally shaped parts hold for each of its places.
  void expect_class_attrs(const OpLayout& layout, const Mesh& mesh) const {
    std::map<std::vector<sbp::Shape>, std::vector<int>> classes;
    for (int place = 0; place < mesh.devices(); ++place) {
      std::vector<sbp::Shape> shapes;
      const auto add = [&](const std::vector<ir::TensorId>& tensors, const std::vector<NdSbp>& layouts) {
        for (size_t i = 0; i < tensors.size(); ++i)
          shapes.push_back(
              sbp::local_shape(graph.tensor(tensors[i]).type.shape, layouts[i], mesh.extents, place));
      };
      add(op().inputs, layout.inputs), add(op().outputs, layout.outputs);
      classes[shapes].push_back(place);
    }
    for (const auto& [shapes, places] : classes) {
      const ir::Attrs attrs = local_attrs(graph, op(), layout, mesh, places);
      for (size_t k = 0; k < places.size(); ++k) {
        const auto coordinate = [&](const std::string& dim, int64_t place) {
          for (size_t d = mesh.dims(); d-- > 0; place /= mesh.extents[d])
            if (mesh.names[d] == dim) return place % mesh.extents[d];
          return int64_t{-1};
        };
        const ir::Attrs own = ir::rank_attrs(attrs, [&](const std::string& dim) -> ir::Coordinates {
          if (dim == "rank") return {static_cast<int64_t>(k), 0};
          return {coordinate(dim, places[k]), coordinate(dim, places[0])};
        });
        ASSERT_EQ(ir::to_text(own), ir::to_text(local_attrs(graph, op(), layout, mesh, {places[k]})))
            << "place " << places[k] << " of " << fmt::format("{}", fmt::join(places, ", ")) << ": "
            << text(layout, mesh);
      }
    }
  }

  // Any signature on each dimension, nested splits in any order.
  OpLayout draw_layout(Engine& random, const Mesh& mesh) const {
    OpLayout layout;
    layout.inputs.resize(op().inputs.size()), layout.outputs.resize(op().outputs.size());
    for (size_t d = 0; d < mesh.dims(); ++d) {
      const auto all = ir::signatures(def, sample.inputs, op().attrs, mesh.extents[d]);
      const Signature& signature = all[random() % all.size()];
      const auto inner = static_cast<int8_t>(draw(random, 0, 2));
      const auto add = [&](NdSbp& operand, Sbp sbp) {
        if (sbp.is_split()) sbp.inner = inner;
        operand.push_back(sbp);
      };
      for (size_t i = 0; i < layout.inputs.size(); ++i) add(layout.inputs[i], signature.inputs[i]);
      for (size_t o = 0; o < layout.outputs.size(); ++o) add(layout.outputs[o], signature.outputs[o]);
      layout.signatures.push_back(signature);
    }
    return layout;
  }

  // The layout that deduction chooses for operands laid out like these; nothing where no signature fits.
  OpLayout deduced(const OpLayout& like, const Mesh& mesh) const {
    Pins pins;
    pins.stored.assign(graph.tensors.size(), PartialSbp(mesh.dims()));
    pins.used.resize(graph.tensors.size());
    for (size_t i = 0; i < op().inputs.size(); ++i)
      at(pins.stored, op().inputs[i]).assign(like.inputs[i].begin(), like.inputs[i].end());
    return deduce(graph, pins, mesh).ops.back();
  }
};

std::vector<ir::Sample> samples_of(const ir::OpDef& def, uint64_t seed) {
  std::vector<ir::Sample> samples = tests::draw_samples(def, seed);
  const auto scaled = [&](auto change) {  // heads of both numbers
    for (const int64_t groups : {2, 4}) {
      ir::Sample more = samples[0];
      change(more, groups);
      samples.push_back(std::move(more));
    }
  };
  if (def.name == "scaled_dot_product_attention")
    scaled([](ir::Sample& s, int64_t groups) {
      s.inputs[0].shape[1] = 2 * groups, s.inputs[1].shape[1] = s.inputs[2].shape[1] = groups;
    });
  if (def.name == "scaled_dot_product_attention_grad")
    scaled([](ir::Sample& s, int64_t groups) {
      for (const size_t i : {0u, 1u, 4u, 5u}) s.inputs[i].shape[1] = 2 * groups;
      s.inputs[2].shape[1] = s.inputs[3].shape[1] = groups;
    });
  return samples;
}

class Law1Mesh : public testing::TestWithParam<std::string> {
 protected:
  void expect_right(uint64_t first_seed, uint64_t seeds, int rounds) {
    const ir::OpDef& def = ir::op(GetParam());
    for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed)
      for (const ir::Sample& sample : samples_of(def, seed)) {
        Engine random(seed);
        const Example example(def, sample);
        int legal = 0;
        for (int round = 0; round < rounds; ++round) {
          const Mesh mesh = draw_mesh(random);
          const OpLayout drawn = example.draw_layout(random, mesh);
          std::vector<OpLayout> all = {example.deduced(drawn, mesh)};
          if (is_legal(def, sample.inputs, example.op().attrs, drawn, mesh.extents)) {
            all.push_back(drawn), ++legal;
            EXPECT_NO_THROW(deduce_chosen(example, drawn, mesh));
          } else {
            EXPECT_THROW(deduce_chosen(example, drawn, mesh), Error);
          }
          for (const OpLayout& layout : all) {
            example.expect_class_attrs(layout, mesh);
            for (int values = 0; values < 2; ++values) {
              const std::string found = example.run(random, layout, mesh);
              ASSERT_EQ(found, "") << "seed " << seed << ": " << example.text(layout, mesh)
                                   << (&layout == all.data() ? " deduced for " : " and ")
                                   << example.text(drawn, mesh);
            }
          }
          if (HasFatalFailure()) return;
        }
        EXPECT_GT(legal, 0) << example.text({}, {});
      }
  }

  static void deduce_chosen(const Example& example, const OpLayout& layout, const Mesh& mesh) {
    Pins pins;
    pins.stored.assign(example.graph.tensors.size(), PartialSbp(mesh.dims()));
    pins.used.resize(example.graph.tensors.size());
    Layouts chosen;
    chosen.ops.resize(example.graph.ops.size());
    chosen.ops.back() = layout;
    deduce(example.graph, pins, mesh, chosen);
  }
};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const ir::OpDef& def : ir::all_ops()) all.push_back(def.name);
  return all;
}

// Lists all legal pairs of signatures, and each gives the global result.
TEST_P(Law1Mesh, ListsWhatIsLegal) {
  const ir::OpDef& def = ir::op(GetParam());
  const ir::Sample sample = samples_of(def, 1).front();
  const Example example(def, sample);
  const Mesh mesh = {{"dp", "tp"}, {2, 2}};
  const auto texts = [&](const std::vector<OpLayout>& layouts) {
    std::vector<std::string> texts;
    for (const OpLayout& layout : layouts) texts.push_back(example.text(layout, mesh));
    return texts;
  };
  std::vector<OpLayout> pairs;
  const auto signatures = ir::signatures(def, sample.inputs, example.op().attrs, 2);
  for (const Signature& outer : signatures)
    for (const Signature& inner : signatures) {
      OpLayout layout{{}, {}, {outer, inner}};
      for (size_t i = 0; i < outer.inputs.size(); ++i)
        layout.inputs.push_back({outer.inputs[i], inner.inputs[i]});
      for (size_t o = 0; o < outer.outputs.size(); ++o)
        layout.outputs.push_back({outer.outputs[o], inner.outputs[o]});
      if (is_legal(def, sample.inputs, example.op().attrs, layout, mesh.extents)) pairs.push_back(layout);
    }
  const std::vector<OpLayout> listed = legal_layouts(def, sample.inputs, example.op().attrs, mesh.extents);
  EXPECT_EQ(texts(listed), texts(pairs));
  Engine random(1);
  for (const OpLayout& layout : listed)
    EXPECT_EQ(example.run(random, layout, mesh), "") << example.text(layout, mesh);
}

TEST_P(Law1Mesh, LayoutsThatGoTogetherAreRight) { expect_right(1, 2, 40); }
TEST_P(Law1Mesh, LongLayoutsThatGoTogetherAreRight) { expect_right(3, 10, 300); }

INSTANTIATE_TEST_SUITE_P(Registry, Law1Mesh, testing::ValuesIn(names()),
                         [](const testing::TestParamInfo<std::string>& param) { return param.param; });

}  // namespace
}  // namespace boxcar::planner
