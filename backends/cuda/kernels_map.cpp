// Elementwise ops, as programs of launch.h.
#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/kernel_table.h"
#include "ir/ops/batch_statistics.h"
#include "ir/ops/fused.h"
#include "ir/ops/pointwise.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

struct Row {
  const char* op;
  Step step;
  const ir::PointwiseRow* pointwise = nullptr;
  bool is_op = true;
};
// One step on the op's inputs in order.
#define BOXCAR_ROWS(op)                     \
  {#op, Step::op, &ir::pointwise::op::row}, \
      {#op "_grad", Step::op##_grad, &ir::pointwise::op::row, ir::pointwise::op::row.has_grad_op},
constexpr Row rows[] = {{"identity", Step::identity},
                        {"accumulate", Step::identity},
                        {ir::accumulate_statistics_op, Step::identity},
                        {"scale", Step::scale},
                        {"cast", Step::identity},
                        {"dropout", Step::dropout},
                        {"dropout_grad", Step::dropout},
                        {"causal_mask", Step::causal_mask},
                        {"add", Step::add},
                        {"sub", Step::sub},
                        {"mul", Step::mul},
                        {"div", Step::div},
                        {"where", Step::where},
                        BOXCAR_POINTWISE(BOXCAR_ROWS)};
#undef BOXCAR_ROWS

const Row* row_of(std::string_view op) {
  const Row* const row =
      std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return op == r.op; });
  return row == std::end(rows) ? nullptr : row;
}

// How an input's elements are found from the result's.
MapInput input_of(const ir::Shape& own, const ir::Shape& result) {
  MapInput input;
  if (own == result) return input;
  if (elements(own) == 1) {
    input.mode = MapInput::scalar;
    return input;
  }
  size_t ones = 0;
  while (ones < own.size() && own[ones] == 1) ++ones;
  const size_t rank = own.size() - ones;
  if (std::equal(own.begin() + static_cast<std::ptrdiff_t>(ones), own.end(),
                 result.end() - static_cast<std::ptrdiff_t>(rank))) {
    input.mode = MapInput::row;
    input.period = elements(own);
    return input;
  }
  input.mode = MapInput::strided;
  const std::vector<int64_t> steps = strides(own);
  for (size_t d = 0; d < own.size(); ++d)
    if (own[d] != 1) input.stride[result.size() - own.size() + d] = steps[d];
  return input;
}

// A program under construction, with the values that a moment changes.
class Program {
 public:
  Program(const ir::Types& inputs, const ir::Shape& result) : shape_(result) {
    map_.count = elements(result);
    map_.dims = static_cast<int>(result.size());
    if (map_.dims > max_dims || inputs.size() > Map::max_inputs) fits_ = false;
    if (!fits_) return;
    std::copy(result.begin(), result.end(), map_.extent);
    for (const ir::TensorType& type : inputs) map_.input[map_.inputs++] = input_of(type.shape, result);
    map_.result = map_.inputs;
  }

  // The value of a new step.
  int add(Step op, int a, int b = 0, int c = 0) {
    if (map_.steps == Map::max_steps) fits_ = false;
    if (!fits_) return 0;
    MapStep& step = map_.step[map_.steps];
    step.op = op, step.a = a, step.b = b, step.c = c;
    map_.result = map_.inputs + map_.steps;
    return map_.inputs + map_.steps++;
  }
  // A step that stands for an op of the table. -1: there is none.
  int add(std::string_view op, const std::vector<int>& operands, const ir::Attrs& attrs, ir::DType to) {
    const Row* const row = row_of(op);
    if (!row) return -1;
    const auto operand = [&](size_t i) { return i < operands.size() ? operands[i] : operands[0]; };
    Step kind = row->step;
    if (op == "cast" && to == ir::DType::boolean) kind = Step::to_boolean;
    const int value = add(kind, operand(0), operand(1), operand(2));
    if (!fits_) return -1;
    MapStep& step = map_.step[map_.steps - 1];
    if (op == "scale") step.x = ir::attr_float(attrs, "factor");
    if (row->pointwise) step.x = ir::parameter_of(*row->pointwise, attrs);
    if (op == "causal_mask") {
      step.x = ir::attr_float(attrs, "fill");
      step.rows = shape_[shape_.size() - 2], step.columns = shape_.back();
      step.ahead = ir::attr_int(attrs, "row_offset") - ir::attr_int(attrs, "column_offset");
      step.window = ir::attr_int(attrs, "window");
    }
    if (kind == Step::dropout) drops(attrs);
    return fits_ ? value : -1;
  }
  // The step before draws its dropout by these attributes; steps of one op and key draw alike.
  void drops(const ir::Attrs& attrs) {
    const auto known = std::find(drops_.begin(), drops_.end(), attrs);
    if (known == drops_.end() && drops_.size() == Map::max_drops) {
      fits_ = false;
      return;
    }
    map_.step[map_.steps - 1].drop = static_cast<int>(known - drops_.begin());
    if (known == drops_.end()) drops_.push_back(attrs);
  }

  bool fits() const { return fits_; }
  int values() const { return map_.inputs + map_.steps; }
  int inputs() const { return map_.inputs; }
  void result(int value) { map_.result = value; }

  // `others`: further results, at most Map::max_more.
  void launch(const Act& act, size_t first_input, Array out, bool wide,
              const std::vector<Map::More>& others = {}) const {
    Map map = map_;
    for (const Map::More& other : others) map.other[map.more++] = other;
    for (int i = 0; i < map.inputs; ++i) map.input[i].array = act.in(first_input + static_cast<size_t>(i));
    for (size_t d = 0; d < drops_.size(); ++d) map.drop[d] = drop_at(act, drops_[d], shape_);
    map.out = out;
    launch_map(map, wide, act.stream);
  }

 private:
  Map map_;
  ir::Shape shape_;
  std::vector<ir::Attrs> drops_;
  bool fits_ = true;
};

std::unique_ptr<Kernel> one_result(const Call& call, const Place& place, const Program& program, bool wide) {
  if (!program.fits()) return nullptr;
  return kernel(call, place, 0,
                [program, wide](const Act& act) { program.launch(act, 0, act.out(0), wide); });
}

std::unique_ptr<Kernel> make_table_row(const Call& call, const Place& place) {
  Program program(call.inputs, call.outputs[0].shape);
  std::vector<int> operands;
  for (int i = 0; i < program.inputs(); ++i) operands.push_back(i);
  if (!program.fits() || program.add(call.op, operands, call.attrs, call.outputs[0].dtype) < 0)
    return nullptr;
  return one_result(call, place, program, any_wide(call));
}

std::unique_ptr<Kernel> make_bias_gelu(const Call& call, const Place& place) {
  Program p(call.inputs, call.outputs[0].shape);
  p.add("gelu", {p.add(Step::add, 0, 1)}, call.attrs, call.outputs[0].dtype);
  return one_result(call, place, p, any_float64(call));
}
std::unique_ptr<Kernel> make_bias_gelu_grad(const Call& call, const Place& place) {
  Program p(call.inputs, call.outputs[0].shape);
  p.add("gelu_grad", {0, p.add(Step::add, 1, 2)}, call.attrs, call.outputs[0].dtype);
  return one_result(call, place, p, any_float64(call));
}
std::unique_ptr<Kernel> make_bias_dropout_add(const Call& call, const Place& place) {
  Program p(call.inputs, call.outputs[0].shape);
  const int dropped = p.add(Step::dropout, p.add(Step::add, 0, 1));
  p.drops(call.attrs);
  p.add(Step::add, dropped, 2);
  return one_result(call, place, p, any_float64(call));
}
std::unique_ptr<Kernel> make_swiglu(const Call& call, const Place& place) {
  Program p(call.inputs, call.outputs[0].shape);
  p.add(Step::mul, p.add(Step::silu, 0), 1);
  return one_result(call, place, p, any_float64(call));
}
std::unique_ptr<Kernel> make_nll(const Call& call, const Place& place) {
  Program p(call.inputs, call.outputs[0].shape);
  p.add(Step::sub, p.add(Step::add, p.add(Step::log, 1), 0), 2);
  return one_result(call, place, p, any_float64(call));
}
// The third operand, if there is one, says whether the average moves.
std::unique_ptr<Kernel> make_running_average(const Call& call, const Place& place) {
  Program p(call.inputs, call.outputs[0].shape);
  const double momentum = ir::attr_float(call.attrs, "momentum");
  const ir::DType type = call.outputs[0].dtype;
  const int kept = p.add("scale", {0}, {{"factor", 1 - momentum}}, type),
            fresh = p.add("scale", {1}, {{"factor", momentum}}, type);
  const int next = p.add(Step::add, kept, fresh);
  if (p.inputs() > 2) p.add(Step::where, 2, next, 0);
  return one_result(call, place, p, any_float64(call));
}
// Seven at a time: the sum so far is an operand of the next launch.
std::unique_ptr<Kernel> make_sum(const Call& call, const Place& place) {
  const bool wide = any_wide(call);
  return kernel(call, place, 0, [wide](const Act& act) {
    const size_t count = act.call.inputs.size();
    for (size_t begin = 0; begin < count; begin += Map::max_inputs - 1) {
      const size_t n = std::min<size_t>(Map::max_inputs - 1, count - begin);
      Map map;
      map.count = act.call.outputs[0].elements();
      for (size_t i = 0; i < n; ++i) map.input[map.inputs++].array = act.in(begin + i);
      if (begin > 0) map.input[map.inputs++].array = act.out(0);
      int value = 0;
      for (int i = 1; i < map.inputs; ++i) {
        map.step[map.steps] = {Step::add, value, i};
        value = map.inputs + map.steps++;
      }
      if (map.steps == 0) map.step[map.steps++] = {Step::identity};
      map.result = map.inputs + map.steps - 1;
      map.out = act.out(0);
      launch_map(map, wide, act.stream);
    }
  });
}

// From the second element on; an empty part has no address.
Array second(Array x) {
  if (x.data) x.data = static_cast<std::byte*>(x.data) + ir::size_of(static_cast<ir::DType>(x.type));
  return x;
}

// dgate = dy up silu'(gate), dup = dy silu(gate). `apart`: elements between neighbours of gate, and of up.
std::unique_ptr<Kernel> swiglu_gradients(const Call& call, const Place& place, bool pairs) {
  const bool wide = any_float64(call);
  const int64_t count = call.inputs[0].elements();
  return kernel(call, place, 0, [=](const Act& act) {
    const Array none{nullptr, act.in(0).type};
    if (!wide && count > 0 &&
        launch_swiglu_grad(act.in(0), act.in(1), pairs ? none : act.in(2), act.out(0),
                           pairs ? none : act.out(1), count, act.stream))
      return;
    Map map;
    map.count = count;
    map.inputs = 3;
    map.dims = 1;
    map.extent[0] = count;
    map.input[0].array = act.in(0);
    map.input[1].array = act.in(1);
    map.input[2].array = pairs ? second(act.in(1)) : act.in(2);
    for (int i = 1; i < 3 && pairs; ++i) map.input[i].mode = MapInput::strided, map.input[i].stride[0] = 2;
    map.steps = 2;
    map.result = 4;
    map.out_stride = pairs ? 2 : 1;
    map.step[0] = {Step::mul, 0, 2};
    map.step[1] = {Step::silu_grad, 3, 1};
    map.out = act.out(0);
    launch_map(map, wide, act.stream);
    map.step[0] = {Step::silu, 1};
    map.step[1] = {Step::mul, 0, 3};
    map.out = pairs ? second(act.out(0)) : act.out(1);
    launch_map(map, wide, act.stream);
  });
}
std::unique_ptr<Kernel> make_swiglu_grad(const Call& call, const Place& place) {
  return swiglu_gradients(call, place, false);
}
std::unique_ptr<Kernel> make_swiglu_pairs_grad(const Call& call, const Place& place) {
  return swiglu_gradients(call, place, true);
}
std::unique_ptr<Kernel> make_swiglu_pairs(const Call& call, const Place& place) {
  const bool wide = any_float64(call);
  const int64_t count = call.outputs[0].elements();
  return kernel(call, place, 0, [=](const Act& act) {
    if (!wide && count > 0 && launch_swiglu_pairs(act.in(0), act.out(0), count, act.stream)) return;
    Map map;
    map.count = map.extent[0] = count;
    map.inputs = map.steps = 2;
    map.dims = 1;
    map.result = 3;
    map.input[0].array = act.in(0);
    map.input[1].array = second(act.in(0));
    for (MapInput* input : {&map.input[0], &map.input[1]})
      input->mode = MapInput::strided, input->stride[0] = 2;
    map.step[0] = {Step::silu, 0};
    map.step[1] = {Step::mul, 2, 1};
    map.out = act.out(0);
    launch_map(map, wide, act.stream);
  });
}

// Inputs 0 and 1: the gates and ups of pairs x[rows, 2 n]; 2: w[rows, 1], a number for each row.
Map weighed_pairs(Array x, Array w, int64_t rows, int64_t n) {
  Map map;
  map.count = rows * n;
  map.dims = 2;
  map.extent[0] = rows, map.extent[1] = n;
  map.inputs = 3;
  for (int i = 0; i < 3; ++i) map.input[i].mode = MapInput::strided;
  for (int i = 0; i < 2; ++i) map.input[i].stride[0] = 2 * n, map.input[i].stride[1] = 2;
  map.input[0].array = x, map.input[1].array = second(x), map.input[2].array = w;
  map.input[2].stride[0] = 1;
  return map;
}

std::unique_ptr<Kernel> make_weighed_swiglu_pairs(const Call& call, const Place& place) {
  const bool wide = any_float64(call);
  const int64_t n = call.outputs[0].shape.back(), rows = call.inputs[1].elements();
  return kernel(call, place, 0, [=](const Act& act) {
    Map map = weighed_pairs(act.in(0), act.in(1), rows, n);
    map.steps = 3;
    map.result = 5;
    map.step[0] = {Step::silu, 0};
    map.step[1] = {Step::mul, 3, 1};
    map.step[2] = {Step::mul, 4, 2};
    map.out = act.out(0);
    launch_map(map, wide, act.stream);
  });
}

// dgate = dy w up silu'(gate), dup = dy w silu(gate), dw = the sum of dy up silu(gate) over a row.
std::unique_ptr<Kernel> make_weighed_swiglu_pairs_grad(const Call& call, const Place& place) {
  const bool wide = any_float64(call);
  const int64_t n = call.inputs[0].shape.back(), rows = call.inputs[2].elements();
  const ir::TensorType whole{call.inputs[0].shape, wide ? ir::DType::float64 : ir::DType::float32};
  const Reduce sum = reduce_to(whole, call.outputs[1]);
  const int64_t before = (scratch_of(sum) + 511) / 512 * 512;
  return kernel(call, place, before + whole.bytes(), [=](const Act& act) {
    Map map = weighed_pairs(act.in(1), act.in(2), rows, n);
    map.inputs = 4;
    map.input[3].array = act.in(0);
    const auto launch = [&](std::initializer_list<MapStep> steps, Array out, int64_t stride) {
      map.steps = 0;
      for (const MapStep& step : steps) map.step[map.steps++] = step;
      map.result = map.inputs + map.steps - 1;
      map.out = out;
      map.out_stride = stride;
      launch_map(map, wide, act.stream);
    };
    launch({{Step::mul, 3, 2}, {Step::mul, 4, 1}, {Step::silu_grad, 5, 0}}, act.out(0), 2);
    launch({{Step::mul, 3, 2}, {Step::silu, 0}, {Step::mul, 4, 5}}, second(act.out(0)), 2);
    const Array memory{static_cast<std::byte*>(act.scratch) + before, static_cast<Type>(whole.dtype)};
    launch({{Step::silu, 0}, {Step::mul, 4, 1}, {Step::mul, 5, 3}}, memory, 1);
    Reduce reduce = sum;
    reduce.in = memory;
    reduce.out = act.out(1);
    launch_reduce(reduce, act.scratch, wide, act.stream);
  });
}

// The steps of a fused op's program. False where one has no kernel.
bool add_steps(Program& program, const ir::FusedProgram& steps) {
  for (const ir::FusedStep& step : steps) {
    ir::DType to = ir::DType::float32;
    if (step.op == "cast") to = ir::parse_dtype(ir::attr_text(step.attrs, "to"));
    if (program.add(step.op, step.operands, step.attrs, to) < 0) return false;
  }
  return program.fits();
}

std::unique_ptr<Kernel> make_fused(const Call& call, const Place& place) {
  Program program(call.inputs, call.outputs[0].shape);
  if (!program.fits() ||
      !add_steps(program, ir::parse_fused(ir::attr_text(call.attrs, "program"), call.inputs.size())))
    return nullptr;
  return one_result(call, place, program, any_float64(call));
}

// Adjoints of a program's values, as more steps of it: forwards, then backwards. Inputs are dy and the xs.
class Backwards {
 public:
  Backwards(Program& program, const ir::FusedProgram& steps) : p_(program), steps_(steps) {}

  // By input, dy not among them; -1: none. Empty if a step has no slope here.
  std::vector<int> adjoints() {
    const int inputs = p_.inputs() - 1;
    std::vector<int> value;  // of the fused program's values: xs are inputs 1 and up
    for (int i = 0; i < inputs; ++i) value.push_back(1 + i);
    for (const ir::FusedStep& step : steps_) {
      std::vector<int> operands;
      for (const int operand : step.operands) operands.push_back(at(value, operand));
      value.push_back(p_.add(step.op, operands, step.attrs, ir::DType::float32));
      if (value.back() < 0) return {};
    }
    adjoint_.assign(value.size(), -1);
    adjoint_.back() = 0;
    for (size_t s = steps_.size(); s-- > 0;) {
      const size_t at = static_cast<size_t>(inputs) + s;
      if (adjoint_[at] >= 0 && !back(steps_[s], value, at)) return {};
    }
    return {adjoint_.begin(), adjoint_.begin() + inputs};
  }

 private:
  void give(int operand, int value) {
    int& sum = at(adjoint_, operand);
    sum = sum < 0 ? value : p_.add(Step::add, sum, value);
  }
  bool back(const ir::FusedStep& step, const std::vector<int>& value, size_t at) {
    const int g = adjoint_[at], y = value[at];
    const auto x = [&](size_t i) { return value[static_cast<size_t>(step.operands[i])]; };
    const int a = step.operands[0], b = step.operands.size() > 1 ? step.operands[1] : -1;
    const std::string& op = step.op;
    if (op == "identity" || op == "cast") return give(a, g), true;
    if (const ir::PointwiseRow* const row = ir::find_pointwise(op)) {
      const int read = row->grad_reads == ir::PointwiseRow::y ? y : x(0);
      return give(a, p_.add(ir::grad_op(*row), {g, read}, step.attrs, ir::DType::float32)), true;
    }
    if (op == "scale" || op == "dropout")
      return give(a, p_.add(op, {g}, step.attrs, ir::DType::float32)), true;
    if (op == "causal_mask") {  // nothing goes back to what was filled
      ir::Attrs attrs = step.attrs;
      attrs["fill"] = 0.0;
      return give(a, p_.add(op, {g}, attrs, ir::DType::float32)), true;
    }
    if (op == "add") return give(a, g), give(b, g), true;
    if (op == "sub") return give(a, g), give(b, p_.add(Step::neg, g)), true;
    if (op == "mul") {
      const int to_a = p_.add(Step::mul, g, x(1)), to_b = p_.add(Step::mul, g, x(0));
      return give(a, to_a), give(b, to_b), true;
    }
    if (op == "div") {
      const int to_a = p_.add(Step::div, g, x(1));
      const int to_b = p_.add(Step::neg, p_.add(Step::div, p_.add(Step::mul, g, y), x(1)));
      return give(a, to_a), give(b, to_b), true;
    }
    return false;
  }

  Program& p_;
  const ir::FusedProgram& steps_;
  std::vector<int> adjoint_;
};

std::unique_ptr<Kernel> make_fused_grad(const Call& call, const Place& place) {
  const ir::Shape& shape = call.inputs[0].shape;
  Program program(call.inputs, shape);
  if (!program.fits()) return nullptr;
  const ir::FusedProgram steps =
      ir::parse_fused(ir::attr_text(call.attrs, "program"), call.inputs.size() - 1);
  const std::vector<int> adjoints = Backwards(program, steps).adjoints();
  if (adjoints.empty() || !program.fits()) return nullptr;
  const bool wide = any_float64(call);
  const ir::TensorType whole{shape, wide ? ir::DType::float64 : ir::DType::float32};
  std::vector<Reduce> sums;
  int64_t partial = 0;
  for (const ir::TensorType& out : call.outputs) {
    sums.push_back(reduce_to(whole, out));
    partial = std::max(partial, scratch_of(sums.back()));
  }
  const int64_t before = (partial + 511) / 512 * 512;
  return kernel(call, place, before + whole.bytes(), [=](const Act& act) {
    const auto same = [&](size_t i) {
      return i < adjoints.size() && act.outputs[i] && adjoints[i] >= 0 &&
             act.call.outputs[i].shape == act.call.inputs[0].shape;
    };
    for (size_t i = 0; i < adjoints.size(); ++i) {
      if (!act.outputs[i]) continue;
      const ir::TensorType& type = act.call.outputs[i];
      if (adjoints[i] < 0) {
        zero(act, act.out(i), type.bytes());
        continue;
      }
      Program one = program;
      one.result(adjoints[i]);
      if (same(i)) {  // with the next ones
        const Array out = act.out(i);
        std::vector<Map::More> others;
        for (; others.size() < Map::max_more && same(i + 1); ++i)
          others.push_back({act.out(i + 1), adjoints[i + 1]});
        one.launch(act, 0, out, wide, others);
        continue;
      }
      const Array memory{static_cast<std::byte*>(act.scratch) + before, static_cast<Type>(whole.dtype)};
      one.launch(act, 0, memory, wide);
      Reduce reduce = sums[i];
      reduce.in = memory;
      reduce.out = act.out(i);
      launch_reduce(reduce, act.scratch, wide, act.stream);
    }
  });
}

}  // namespace

void add_map_kernels(Factories& table) {
  for (const Row& row : rows)
    if (row.is_op) table[row.op] = make_table_row;
  table.insert({{"bias_gelu", make_bias_gelu},
                {"bias_gelu_grad", make_bias_gelu_grad},
                {"bias_dropout_add", make_bias_dropout_add},
                {"swiglu", make_swiglu},
                {"swiglu_grad", make_swiglu_grad},
                {"swiglu_pairs", make_swiglu_pairs},
                {"swiglu_pairs_grad", make_swiglu_pairs_grad},
                {"weighed_swiglu_pairs", make_weighed_swiglu_pairs},
                {"weighed_swiglu_pairs_grad", make_weighed_swiglu_pairs_grad},
                {"nll", make_nll},
                {ir::running_average_op, make_running_average},
                {"sum", make_sum},
                {"fused", make_fused},
                {"fused_grad", make_fused_grad}});
}

}  // namespace boxcar::backends::cuda
