// Mixture of experts: the slot of each choice of each token, and moves of tokens to and from slots.
#include <optional>

#include "backends/cpu/chunks.h"
#include "backends/cpu/reference.h"
#include "backends/index_limit.h"

namespace boxcar::backends::cpu {
namespace {

int64_t from_end(const ir::TensorType& type, size_t back) { return type.shape[type.shape.size() - back]; }

// A device's part of x[..., t, h], y[..., e, c, h] and index[..., all tokens, k], and the row of y that each
// choice of its tokens takes, -1 if it has none here. Slots are counted over all tokens of `index`, group by
// group.
class Slots {
 public:
  Slots(const Call& call, size_t index, const ir::TensorType& x, const ir::TensorType& y)
      : width(from_end(x, 1)),
        choices(from_end(call.inputs[index], 1)),
        tokens(around(x.shape, -1).outer),
        index_(call, index),
        count_(call.inputs[index].elements()),
        all_(from_end(call.inputs[index], 2)),
        here_(from_end(x, 2)),
        experts_(from_end(y, 3)),
        capacity_(from_end(y, 2)),
        first_expert_(ir::attr_int(call.attrs, "expert_offset")),
        first_token_(ir::attr_int(call.attrs, "token_offset")),
        limit_(call) {}

  void find(const Operands& operands) {
    slots_.assign(static_cast<size_t>(tokens * choices), -1);
    taken_.assign(static_cast<size_t>(experts_), 0);
    for (int64_t at = 0; at < count_; ++at) {
      const int64_t group = at / (all_ * choices), token = at / choices % all_ - first_token_;
      if (at % (all_ * choices) == 0) std::fill(taken_.begin(), taken_.end(), 0);
      const double index = index_.element(operands, at);
      limit_.check(index);
      const int64_t expert = static_cast<int64_t>(index) - first_expert_;
      if (expert < 0 || expert >= experts_) continue;
      const int64_t slot = taken_[static_cast<size_t>(expert)]++;
      if (slot >= capacity_ || token < 0 || token >= here_) continue;
      slots_[static_cast<size_t>((group * here_ + token) * choices + at % choices)] =
          (group * experts_ + expert) * capacity_ + slot;
    }
  }

  int64_t slot(int64_t token, int64_t choice) const {
    return slots_[static_cast<size_t>(token * choices + choice)];
  }

  const int64_t width, choices, tokens;  // tokens of all groups: rows of x

 private:
  In<double> index_;
  int64_t count_, all_, here_, experts_, capacity_, first_expert_, first_token_;
  IndexLimit limit_;
  std::vector<int64_t> slots_, taken_;  // taken_ by expert
};

void zero(const Operands& operands, size_t output, int64_t bytes) {
  if (bytes > 0) std::memset(operands.outputs[output], 0, static_cast<size_t>(bytes));
}

std::unique_ptr<Kernel> make_dispatch(const Call& call) {
  return kernel([slots = Slots(call, 1, call.inputs[0], call.outputs[0]), bytes = call.outputs[0].bytes(),
                 size = ir::size_of(call.inputs[0].dtype)](const Operands& operands) mutable {
    slots.find(operands);
    zero(operands, 0, bytes);
    const int64_t row = slots.width * size;
    if (row == 0) return;
    for (int64_t token = 0; token < slots.tokens; ++token) {
      for (int64_t choice = 0; choice < slots.choices; ++choice) {
        const int64_t slot = slots.slot(token, choice);
        if (slot < 0) continue;
        std::memcpy(operands.out<std::byte>(0) + slot * row, operands.in<std::byte>(0) + token * row,
                    static_cast<size_t>(row));
      }
    }
  });
}

// x = sum over choices of weight y[slot], rounded once; all weights 1 without `weight`.
template <class A>
struct Gathered {
  Slots slots;
  In<A> y;
  std::optional<In<A>> weight;
  Out<A> x;

  void operator()(const Operands& operands) {
    slots.find(operands);
    Chunk<A> from, sum;
    for (int64_t token = 0; token < slots.tokens; ++token) {
      for_chunks(slots.width, [&](int64_t at, int64_t n) {
        std::fill_n(sum.at, kChunk, A(0));
        for (int64_t choice = 0; choice < slots.choices; ++choice) {
          const int64_t slot = slots.slot(token, choice);
          if (slot < 0) continue;
          const A by = weight ? weight->element(operands, token * slots.choices + choice) : A(1);
          const A* __restrict more = y.load(operands, slot * slots.width + at, n, from);
          for (int64_t i = 0; i < n; ++i) sum.at[i] += by * more[i];
        }
        x.store(sum.at, operands, token * slots.width + at, n);
      });
    }
  }
};

std::unique_ptr<Kernel> make_dispatch_grad(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel(Gathered<A>{Slots(call, 1, call.outputs[0], call.inputs[0]), In<A>(call, 0), std::nullopt,
                              Out<A>(call, 0)});
  });
}

std::unique_ptr<Kernel> make_combine(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel(Gathered<A>{Slots(call, 1, call.outputs[0], call.inputs[0]), In<A>(call, 0), In<A>(call, 2),
                              Out<A>(call, 0)});
  });
}

// dy[slot] = weight dout, dweight = dout y[slot]
std::unique_ptr<Kernel> make_combine_grad(const Call& call) {
  return for_acc(call, [&]<class A>() {
    return kernel([slots = Slots(call, 2, call.inputs[0], call.inputs[1]), bytes = call.outputs[0].bytes(),
                   dout = In<A>(call, 0), y = In<A>(call, 1), weight = In<A>(call, 3), dy = Out<A>(call, 0),
                   dweight = Out<A>(call, 1)](const Operands& operands) mutable {
      slots.find(operands);
      zero(operands, 0, bytes);
      Chunk<A> from_dout, from_y, to;
      for (int64_t i = 0; i < slots.tokens * slots.choices; ++i) {
        const int64_t token = i / slots.choices, slot = slots.slot(token, i % slots.choices);
        double dot = 0;
        if (slot >= 0) {
          const A by = weight.element(operands, i);
          for_chunks(slots.width, [&](int64_t at, int64_t n) {
            const A* d = dout.load(operands, token * slots.width + at, n, from_dout);
            const int64_t there = slot * slots.width + at;
            dot += sum_of(
                n, [](A a, A b) { return a * b; }, d, y.load(operands, there, n, from_y));
            each(
                n, [by](A a) { return by * a; }, to.at, d);
            dy.store(to.at, operands, there, n);
          });
        }
        dweight.put(dot, operands, i);
      }
    });
  });
}

}  // namespace

void add_moe_kernels(Factories& table) {
  table.insert({{"moe_dispatch", make_dispatch},
                {"moe_dispatch_grad", make_dispatch_grad},
                {"moe_combine", make_combine},
                {"moe_combine_grad", make_combine_grad}});
}

}  // namespace boxcar::backends::cpu
