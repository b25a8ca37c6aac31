// Mixture of experts: the slot of each choice of each token, and moves of tokens to and from slots.
#include <map>

#include "backends/cpu/reference_groups.h"

namespace boxcar::backends::cpu {
namespace {

int64_t from_end(const HostTensor& tensor, size_t back) {
  return tensor.type.shape[tensor.type.shape.size() - back];
}

// A device's part of x[..., t, h], y[..., e, c, h] and weight[..., t, k].
struct Part {
  int64_t tokens, width, experts, capacity;
};

Part part_of(const HostTensor& x, const HostTensor& y) {
  return {from_end(x, 2), from_end(x, 1), from_end(y, 3), from_end(y, 2)};
}

// visit(row of x, row of y, element of weight) for every choice that has a slot and whose token and expert
// are here. Slots are counted over all tokens of `index`, group by group.
template <class Visit>
void each_slot(const HostTensor& index, const Part& part, const ir::Attrs& attrs, Visit visit) {
  const int64_t all = from_end(index, 2), choices = from_end(index, 1);
  const int64_t first_expert = ir::attr_int(attrs, "expert_offset"),
                first_token = ir::attr_int(attrs, "token_offset");
  std::map<int64_t, int64_t> taken;  // by expert
  for (int64_t at = 0; at < static_cast<int64_t>(index.data.size()); ++at) {
    const int64_t group = at / (all * choices), token = at / choices % all - first_token;
    if (at % (all * choices) == 0) taken.clear();
    const auto chosen = static_cast<int64_t>(index.data[static_cast<size_t>(at)]);
    const int64_t slot = taken[chosen]++, expert = chosen - first_expert;
    if (slot >= part.capacity || expert < 0 || expert >= part.experts || token < 0 || token >= part.tokens)
      continue;
    const int64_t x = group * part.tokens + token, y = (group * part.experts + expert) * part.capacity + slot;
    visit(static_cast<size_t>(x * part.width), static_cast<size_t>(y * part.width),
          static_cast<size_t>(x * choices + at % choices));
  }
}

void dispatch(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const Part part = part_of(in[0], out[0]);
  each_slot(in[1], part, attrs, [&](size_t x, size_t y, size_t) {
    for (size_t i = 0; i < static_cast<size_t>(part.width); ++i) out[0].data[y + i] = in[0].data[x + i];
  });
}

void dispatch_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const Part part = part_of(out[0], in[0]);
  each_slot(in[1], part, attrs, [&](size_t x, size_t y, size_t) {
    for (size_t i = 0; i < static_cast<size_t>(part.width); ++i) out[0].data[x + i] += in[0].data[y + i];
  });
}

void combine(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const Part part = part_of(out[0], in[0]);
  each_slot(in[1], part, attrs, [&](size_t x, size_t y, size_t weight) {
    for (size_t i = 0; i < static_cast<size_t>(part.width); ++i) {
      out[0].data[x + i] += in[2].data[weight] * in[0].data[y + i];
    }
  });
}

void combine_grad(const Tensors& in, Tensors& out, const ir::Attrs& attrs) {
  const Part part = part_of(in[0], in[1]);
  each_slot(in[2], part, attrs, [&](size_t x, size_t y, size_t weight) {
    for (size_t i = 0; i < static_cast<size_t>(part.width); ++i) {
      out[0].data[y + i] = in[3].data[weight] * in[0].data[x + i];
      out[1].data[weight] += in[0].data[x + i] * in[1].data[y + i];
    }
  });
}

}  // namespace

void add_moe_kernels(KernelTable& table) {
  table.insert({{"moe_dispatch", dispatch},
                {"moe_dispatch_grad", dispatch_grad},
                {"moe_combine", combine},
                {"moe_combine_grad", combine_grad}});
}

}  // namespace boxcar::backends::cpu
