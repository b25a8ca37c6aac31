// Chains of elementwise ops, chunk by chunk: a program's steps run one after the other on chunks that stay in
// the first-level cache, forwards, and for the gradient backwards. Nothing is rounded between steps.
#include "backends/cpu/broadcast_rows.h"
#include "backends/cpu/chunks.h"
#include "backends/cpu/drop_factors.h"
#include "backends/cpu/pointwise_loops.h"
#include "ir/ops/fused.h"

namespace boxcar::backends::cpu {
namespace {

// One chunk of every value of a program: the inputs first, then one per step.
template <class A>
struct Values {
  explicit Values(size_t count) : buffers(count), at(count), gradients(count) {}
  int64_t start = 0, count = 0;  // where in the result
  std::vector<Chunk<A>> buffers;
  std::vector<const A*> at;  // buffers, or where an input lies
  std::vector<Chunk<A>> gradients;
};

// A step made ready for an act: computes its value, and adds its gradient's share to its operands' gradients.
template <class A>
struct Step {
  std::function<void(Values<A>&)> forward, backward;
};

struct StepCall {
  const ir::Attrs& attrs;
  size_t a, b, y;  // operands and result; b is a if there is one operand
  const ir::Shape& shape;
  const Moment& moment;
};

template <class A, class Slope, class... X>
void add_gradient(Values<A>& v, size_t operand, Slope slope, const X*... x) {
  Chunk<A> more;
  each(v.count, slope, more.at, x...);
  change_each(
      v.count, [](A sum, A d) { return sum + d; }, v.gradients[operand].at, static_cast<const A*>(more.at));
}

// y = f(x), dx += slope(dy, x, y)
template <class A, class F, class Slope>
Step<A> unary(const StepCall& c, F f, Slope slope) {
  return {[=, x = c.a, y = c.y](Values<A>& v) { each(v.count, f, v.buffers[y].at, v.at[x]); },
          [=, x = c.a, y = c.y](Values<A>& v) {
            add_gradient(v, x, slope, v.gradients[y].at, v.at[x], v.at[y]);
          }};
}

// y = f(a, b), da += slope_a(dy, a, b), db += slope_b(dy, a, b)
template <class A, class F, class SlopeA, class SlopeB>
Step<A> binary(const StepCall& c, F f, SlopeA slope_a, SlopeB slope_b) {
  return {
      [=, a = c.a, b = c.b, y = c.y](Values<A>& v) { each(v.count, f, v.buffers[y].at, v.at[a], v.at[b]); },
      [=, a = c.a, b = c.b, y = c.y](Values<A>& v) {
        add_gradient(v, a, slope_a, v.gradients[y].at, v.at[a], v.at[b]);
        add_gradient(v, b, slope_b, v.gradients[y].at, v.at[a], v.at[b]);
      }};
}

template <class A>
Step<A> dropout(const StepCall& c) {
  const Dropout drop = Dropout(c.attrs, c.shape).at(c.moment);
  constexpr auto times = [](A x, A factor) { return x * factor; };
  return {[=, x = c.a, y = c.y, shape = c.shape](Values<A>& v) {
            Chunk<A> factors;
            drop_factors(drop, shape, v.start, v.count, factors);
            each(v.count, times, v.buffers[y].at, v.at[x], factors.at);
          },
          [=, x = c.a, y = c.y, shape = c.shape](Values<A>& v) {
            Chunk<A> factors;
            drop_factors(drop, shape, v.start, v.count, factors);
            add_gradient(v, x, times, v.gradients[y].at, factors.at);
          }};
}

// 1 where a mask shows the element, else 0.
template <class A>
void visible(const ir::Shape& shape, int64_t ahead, int64_t window, const Values<A>& v, Chunk<A>& shown) {
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  for (int64_t i = 0; i < v.count; ++i) {
    const int64_t row = (v.start + i) / columns % rows, column = (v.start + i) % columns;
    const bool seen = column <= row + ahead && (window == 0 || column > row + ahead - window);
    shown.at[i] = seen ? A(1) : A(0);
  }
}

template <class A>
Step<A> causal_mask(const StepCall& c) {
  const A fill = static_cast<A>(ir::attr_float(c.attrs, "fill"));
  const int64_t ahead = ir::attr_int(c.attrs, "row_offset") - ir::attr_int(c.attrs, "column_offset");
  const int64_t window = ir::attr_int(c.attrs, "window");
  return {[=, x = c.a, y = c.y, shape = c.shape](Values<A>& v) {
            Chunk<A> shown{};
            visible(shape, ahead, window, v, shown);
            each(
                v.count, [fill](A value, A show) { return show != A(0) ? value : fill; }, v.buffers[y].at,
                v.at[x], shown.at);
          },
          [=, x = c.a, y = c.y, shape = c.shape](Values<A>& v) {
            Chunk<A> shown{};
            visible(shape, ahead, window, v, shown);
            add_gradient(
                v, x, [](A dy, A show) { return show != A(0) ? dy : A(0); }, v.gradients[y].at, shown.at);
          }};
}

template <class Op, class A>
Step<A> pointwise(const StepCall& c) {
  return with_parameter<Op, A>(c.attrs, [&](auto p) {
    return unary<A>(
        c, [p](A x) { return forward<Op>(x, p); },
        [p](A dy, A x, A y) {
          return backward<Op>(dy, Op::row.grad_reads == ir::PointwiseRow::y ? y : x, p);
        });
  });
}

template <class A>
using MakeStep = Step<A> (*)(const StepCall& call);

template <class A>
std::map<std::string_view, MakeStep<A>> makers() {
  using C = const StepCall&;
  std::map<std::string_view, MakeStep<A>> table = {
      {"add",
       [](C c) {
         return binary<A>(
             c, [](A a, A b) { return a + b; }, [](A dy, A, A) { return dy; }, [](A dy, A, A) { return dy; });
       }},
      {"sub",
       [](C c) {
         return binary<A>(
             c, [](A a, A b) { return a - b; }, [](A dy, A, A) { return dy; },
             [](A dy, A, A) { return -dy; });
       }},
      {"mul",
       [](C c) {
         return binary<A>(
             c, [](A a, A b) { return a * b; }, [](A dy, A, A b) { return dy * b; },
             [](A dy, A a, A) { return dy * a; });
       }},
      {"div",
       [](C c) {
         return binary<A>(
             c, [](A a, A b) { return a / b; }, [](A dy, A, A b) { return dy / b; },
             [](A dy, A a, A b) { return -dy * a / (b * b); });
       }},
      {"scale",
       [](C c) {
         const A factor = static_cast<A>(ir::attr_float(c.attrs, "factor"));
         return unary<A>(
             c, [factor](A x) { return factor * x; }, [factor](A dy, A, A) { return factor * dy; });
       }},
      {"cast",
       [](C c) {
         return unary<A>(
             c, [](A x) { return x; }, [](A dy, A, A) { return dy; });
       }},
      {"identity",
       [](C c) {
         return unary<A>(
             c, [](A x) { return x; }, [](A dy, A, A) { return dy; });
       }},
      {"dropout", dropout<A>},
      {"causal_mask", causal_mask<A>}};
  ir::each_pointwise([&]<class Op>() { table[Op::row.name] = pointwise<Op, A>; });
  return table;
}

template <class A>
MakeStep<A> maker(std::string_view op) {
  static const std::map<std::string_view, MakeStep<A>> table = makers<A>();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

template <class A>
std::vector<Step<A>> ready(const ir::FusedProgram& program, size_t inputs, const ir::Shape& shape,
                           const Moment& moment) {
  std::vector<Step<A>> steps;
  for (const ir::FusedStep& step : program) {
    const auto a = static_cast<size_t>(step.operands.front()), b = static_cast<size_t>(step.operands.back());
    steps.push_back(maker<A>(step.op)({step.attrs, a, b, inputs + steps.size(), shape, moment}));
  }
  return steps;
}

// A program with its inputs, which are the call's from `first` on.
template <class A>
class Program {
 public:
  Program(const Call& call, size_t first)
      : first_(first),
        inputs_(call.inputs.size() - first),
        shape_(call.outputs[0].shape),
        program_(ir::parse_fused(ir::attr_text(call.attrs, "program"), inputs_)),
        rows_(shape_, shapes(call, first)),
        values_(inputs_ + program_.size()) {
    for (size_t i = 0; i < inputs_; ++i) sources_.emplace_back(call, first + i);
  }

  // Whether every step has a rule.
  bool is_known() const {
    return std::all_of(program_.begin(), program_.end(),
                       [](const ir::FusedStep& step) { return maker<A>(step.op) != nullptr; });
  }

  // visit(steps, values) for every chunk, inputs loaded.
  template <class Visit>
  void run(const Operands& operands, Visit visit) {
    const auto steps = ready<A>(program_, inputs_, shape_, operands.moment);
    rows_.each([&](int64_t start, const int64_t* starts) {
      for_chunks(rows_.width(), [&](int64_t at, int64_t n) {
        values_.start = start + at;
        values_.count = n;
        for (size_t i = 0; i < inputs_; ++i) {
          const int64_t step = rows_.step(i);
          values_.at[i] = sources_[i].load_step(operands, starts[i] + step * at, step, n, values_.buffers[i]);
        }
        for (size_t i = inputs_; i < values_.at.size(); ++i) values_.at[i] = values_.buffers[i].at;
        for (const Step<A>& step : steps) step.forward(values_);
        visit(steps, values_);
      });
    });
  }

  size_t inputs() const { return inputs_; }

 private:
  static std::vector<ir::Shape> shapes(const Call& call, size_t first) {
    std::vector<ir::Shape> result;
    for (size_t i = first; i < call.inputs.size(); ++i) result.push_back(call.inputs[i].shape);
    return result;
  }

  size_t first_, inputs_;
  ir::Shape shape_;
  ir::FusedProgram program_;
  BroadcastRows rows_;
  std::vector<In<A>> sources_;
  Values<A> values_;
};

std::unique_ptr<Kernel> make_fused(const Call& call) {
  return for_acc(call, [&]<class A>() -> std::unique_ptr<Kernel> {
    Program<A> program(call, 0);
    if (!program.is_known()) return nullptr;
    return kernel([program, y = Out<A>(call, 0)](const Operands& operands) mutable {
      program.run(operands, [&](const std::vector<Step<A>>&, Values<A>& v) {
        y.store(v.at.back(), operands, v.start, v.count);
      });
    });
  });
}

// Gradients have the result's shape: what was broadcast is summed by another op.
std::unique_ptr<Kernel> make_fused_grad(const Call& call) {
  return for_acc(call, [&]<class A>() -> std::unique_ptr<Kernel> {
    Program<A> program(call, 1);
    if (!program.is_known()) return nullptr;
    std::vector<Out<A>> sinks;
    for (size_t i = 0; i < call.outputs.size(); ++i) sinks.emplace_back(call, i);
    return kernel([program, sinks, dy = In<A>(call, 0)](const Operands& operands) mutable {
      program.run(operands, [&](const std::vector<Step<A>>& steps, Values<A>& v) {
        for (Chunk<A>& gradient : v.gradients) std::fill_n(gradient.at, v.count, A(0));
        Chunk<A> buffer;
        std::copy_n(dy.load(operands, v.start, v.count, buffer), v.count, v.gradients.back().at);
        for (size_t i = steps.size(); i-- > 0;) steps[i].backward(v);
        for (size_t i = 0; i < sinks.size(); ++i)
          sinks[i].store(v.gradients[i].at, operands, v.start, v.count);
      });
    });
  });
}

}  // namespace

void add_fused_kernels(Factories& table) {
  table.insert({{"fused", make_fused}, {"fused_grad", make_fused_grad}});
}

}  // namespace boxcar::backends::cpu
