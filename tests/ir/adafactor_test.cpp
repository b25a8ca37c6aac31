// Adafactor as transformers has it, with a given learning rate: steps of a whole graph against the same steps
// written out here.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "graphs.h"
#include "ir/passes/passes.h"
#include "sbp/at.h"

namespace boxcar::tests {
namespace {

using backends::cpu::Values;
using ir::Graph;
using ir::TrainOptions;
using Numbers = std::vector<double>;

// The gradient that an update's direction is made of.
std::string gradient_of(const Graph& graph, const ir::Update& update) {
  ir::TensorId t = at(graph.ops, graph.tensor(update.next).producer).inputs[1];
  while (graph.tensor(t).role != ir::Role::gradient) t = at(graph.ops, graph.tensor(t).producer).inputs.at(0);
  return graph.tensor(t).name;
}

// A parameter and what Adafactor(scale_parameter=False, relative_step=False, weight_decay=...) keeps of it.
struct Parameter {
  std::string gradient;
  size_t matrices = 1, rows = 0, columns = 0;  // rows 0: a vector
  Numbers value, by_row, by_column, by_element;
};

double mean(const Numbers& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

void step(Parameter& p, Numbers gradient, int t, double lr, double decay) {
  const double beta = 1 - std::pow(t, -0.8);
  Numbers squares, update;
  for (const double g : gradient) squares.push_back(g * g + 1e-30);
  if (p.rows == 0) {
    p.by_element.resize(gradient.size());
    for (size_t i = 0; i < gradient.size(); ++i) {
      p.by_element[i] = beta * p.by_element[i] + (1 - beta) * squares[i];
      update.push_back(gradient[i] / std::sqrt(p.by_element[i]));
    }
  } else {
    p.by_row.resize(p.matrices * p.rows), p.by_column.resize(p.matrices * p.columns);
    for (size_t m = 0; m < p.matrices; ++m) {
      const auto at = [&](size_t r, size_t c) { return (m * p.rows + r) * p.columns + c; };
      Numbers rows(p.rows), columns(p.columns);
      for (size_t r = 0; r < p.rows; ++r)
        for (size_t c = 0; c < p.columns; ++c) {
          rows[r] += squares[at(r, c)] / static_cast<double>(p.columns);
          columns[c] += squares[at(r, c)] / static_cast<double>(p.rows);
        }
      Numbers own;
      for (size_t r = 0; r < p.rows; ++r) {
        double& kept = p.by_row[m * p.rows + r];
        own.push_back(kept = beta * kept + (1 - beta) * rows[r]);
      }
      for (size_t c = 0; c < p.columns; ++c) {
        double& kept = p.by_column[m * p.columns + c];
        kept = beta * kept + (1 - beta) * columns[c];
      }
      for (size_t r = 0; r < p.rows; ++r)
        for (size_t c = 0; c < p.columns; ++c)
          update.push_back(gradient[at(r, c)] / std::sqrt(own[r] / mean(own)) /
                           std::sqrt(p.by_column[m * p.columns + c]));
    }
  }
  Numbers squared;
  for (const double u : update) squared.push_back(u * u);
  const double clip = std::max(1.0, std::sqrt(mean(squared)));
  for (size_t i = 0; i < update.size(); ++i)
    p.value[i] -= lr * update[i] / clip + lr * (p.rows > 0 ? decay : 0) * p.value[i];
}

void set_step(Graph& graph, int64_t step) {
  for (ir::Op& op : graph.ops)
    if (op.attrs.contains("step")) op.attrs.insert_or_assign("step", step);
}

void expect_as_written(const Graph& forward, double clip_norm) {
  TrainOptions options = plain();
  ir::set_optimizer(options, ir::Optimizer::adafactor);
  options.learning_rate = 0.05, options.weight_decay = 0.1, options.clip_norm = clip_norm;
  Graph graph = step_of(forward, options);
  Values state = backends::cpu::draw(graph, 3, 11);
  std::map<std::string, Parameter> parameters;
  for (const ir::Update& update : graph.updates) {
    const ir::Tensor& tensor = graph.tensor(update.state);
    if (ir::is_of_moment(graph, update)) continue;
    Parameter& p = parameters[tensor.name];
    const ir::Shape& shape = tensor.type.shape;
    p.gradient = gradient_of(graph, update);
    p.value = state.at(tensor.name).data;
    if (shape.size() < 2) continue;
    p.columns = static_cast<size_t>(shape.back()), p.rows = static_cast<size_t>(shape[shape.size() - 2]);
    p.matrices = p.value.size() / p.rows / p.columns;
  }
  EXPECT_GT(parameters.size(), 5U);
  for (int t = 1; t <= 4; ++t) {
    set_step(graph, t);
    const Values made = backends::cpu::evaluate(graph, state);
    const double scale = clip_norm > 0 ? made.at("grad_scale").data[0] : 1;
    for (auto& [name, p] : parameters) {
      Numbers gradient = made.at(p.gradient).data;
      for (double& g : gradient) g *= scale;
      step(p, std::move(gradient), t, options.learning_rate, options.weight_decay);
    }
    for (const ir::Update& update : graph.updates)
      state.insert_or_assign(graph.tensor(update.state).name, made.at(graph.tensor(update.next).name));
    for (const auto& [name, p] : parameters) {
      SCOPED_TRACE(name);
      const auto expect = [&](const Numbers& got, const Numbers& wanted) {
        ASSERT_EQ(got.size(), wanted.size());
        for (size_t i = 0; i < got.size(); ++i)  // 1e-6 is in the clipping of norms
          ASSERT_NEAR(got[i], wanted[i], 2e-6 * std::max(1.0, std::abs(wanted[i])));
      };
      expect(state.at(name).data, p.value);
      if (p.rows == 0) {
        expect(state.at(name + ".v").data, p.by_element);
      } else {
        expect(state.at(name + ".r").data, p.by_row);
        expect(state.at(name + ".c").data, p.by_column);
      }
    }
  }
}

TEST(Adafactor, TakesTheStepsOfTransformers) {
  expect_as_written(gpt(), 0);
  expect_as_written(gpt(), 0.01);
  ir::models::Transformer experts = tiny("llama");
  experts.experts = 3, experts.top_k = 2;
  expect_as_written(ir::models::build(ir::models::complete(experts), 2), 0);
}

// Its point: 24 x 8 numbers have 32 moments, 8 numbers 8.
TEST(Adafactor, KeepsFewMoments) {
  TrainOptions options = plain();
  ir::set_optimizer(options, ir::Optimizer::adafactor);
  const Graph step = step_of(gpt(), options);
  const auto elements = [&](const char* name) {
    return step.tensor(ir::find_tensor(step, name)).type.elements();
  };
  EXPECT_EQ(elements("h0.attn.qkv.weight"), 8 * 24);
  EXPECT_EQ(elements("h0.attn.qkv.weight.r"), 8);
  EXPECT_EQ(elements("h0.attn.qkv.weight.c"), 24);
  EXPECT_EQ(elements("h0.ln1.weight.v"), 8);
}

// In fp16 a step whose gradients are not finite leaves moments as they are.
TEST(Adafactor, SkipsAStep) {
  TrainOptions options;
  options.precision = ir::Precision::fp16;
  ir::set_optimizer(options, ir::Optimizer::adafactor);
  int updates = 0;
  for (const ir::Op& op : step_of(gpt(), options).ops) {
    if (op.type != "second_moment" && op.type != "adafactor") continue;
    ++updates;
    EXPECT_EQ(op.inputs.size(), op.type == "adafactor" ? 4U : 3U) << op.name;
  }
  EXPECT_GT(updates, 20);
}

}  // namespace
}  // namespace boxcar::tests
