#include "backends/kernel_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "backends/cpu/convert.h"
#include "backends/cpu/kernels.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/updates.h"
#include "law1.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::tests {

using backends::Call;
using backends::cpu::attrs_at;
using backends::cpu::HostTensor;
using backends::cpu::run_reference;
using backends::cpu::Tensors;
using backends::cpu::zeros;
using ir::DType;

// A tensor's bytes on the device; null where it has none. New memory is nonzero.
class KernelCases::Buffer {
 public:
  Buffer(KernelCases& cases, const ir::TensorType& type)
      : device_(cases.device()), type_(type), data_(type.bytes() > 0 ? cases.memory(type.bytes()) : nullptr) {
    write(std::vector<std::byte>(static_cast<size_t>(type.bytes()), std::byte{0x5a}));
  }
  Buffer(KernelCases& cases, const HostTensor& tensor) : Buffer(cases, tensor.type) {
    std::vector<std::byte> bytes(static_cast<size_t>(type_.bytes()));
    backends::cpu::store(tensor, bytes.data());
    write(bytes);
  }
  void* data() { return data_; }
  HostTensor tensor() {
    std::vector<std::byte> bytes(static_cast<size_t>(type_.bytes()));
    device_.to_host(bytes.data(), data_, type_.bytes());
    return backends::cpu::load(type_, bytes.data());
  }

 private:
  void write(const std::vector<std::byte>& bytes) {
    device_.from_host(data_, bytes.data(), static_cast<int64_t>(bytes.size()));
  }

  backends::Device& device_;
  ir::TensorType type_;
  void* data_;
};

namespace {

// Rounded to the tensor's type.
HostTensor rounded(const HostTensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.type.bytes()));
  backends::cpu::store(tensor, bytes.data());
  return backends::cpu::load(tensor.type, bytes.data());
}

std::string describe(const Call& call) {
  std::vector<std::string> types;
  for (const ir::TensorType& type : call.inputs) types.push_back(to_text(type));
  return fmt::format("{}({}) {}", call.op, fmt::join(types, ", "), ir::to_text(call.attrs));
}

// The seed of this process.
uint64_t run_seed() {
  static const uint64_t seed = [] {
    const char* given = std::getenv("BOXCAR_SEED");
    return given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  }();
  return seed;
}

// Between multiples of the domain's step, off by less than a quarter step, so that no zeros appear.
std::vector<HostTensor> draw_inputs(const Call& call, const std::vector<ir::Domain>& domains, uint64_t seed,
                                    bool between) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> off(-0.25, 0.25);
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const ir::Domain domain = i < domains.size() ? domains[i] : ir::Domain{};
    const auto steps = static_cast<uint64_t>((domain.high - domain.low) / domain.step) + 1;
    inputs.push_back(zeros(call.inputs[i]));
    for (double& x : inputs.back().data)
      x = domain.low + domain.step * static_cast<double>(random() % std::max<uint64_t>(steps, 1));
    if (between && is_float(call.inputs[i].dtype))
      for (double& x : inputs.back().data)
        x = std::clamp(x + domain.step * off(random), domain.low, domain.high);
    inputs.back() = rounded(inputs.back());
  }
  // A library may choose which of equal elements gets the gradient: so no equal elements are within 250
  // positions, or windows.
  if (call.op == "max_pool2d_grad" && ir::attr_bool(call.attrs, "channels_last")) {
    const uint64_t apart = 1 + random() % 250, first = random() % 251;
    for (uint64_t i = 0; double& x : inputs[1].data)
      x = static_cast<double>((first + apart * i++) % 251) - 125;
  }
  return inputs;
}

int state_operand(const Call& call, size_t output) {
  const ir::OpDef& def = ir::op(call.op);
  if (const auto updates = ir::updates_of(call.op, call.attrs))
    return output < updates->copy_at(0)
               ? static_cast<int>(updates->input(output / updates->states(), output % updates->states()))
               : -1;
  const auto found = std::find(def.inputs.begin(), def.inputs.end(),
                               def.outputs.at(std::min(output, def.outputs.size() - 1)));
  return found == def.inputs.end() ? -1 : static_cast<int>(found - def.inputs.begin());
}

// Sizes for which products and attention take several blocks. Small values keep sums exact.
struct Large {
  std::string op;
  std::vector<ir::Shape> inputs;
  ir::Attrs attrs = {};
  std::vector<ir::Domain> domains = {};
  int indices = -1;  // the operand that has whole numbers
};

// More tensors than a kernel takes at once, with empty ones between them.
Large many_tensors(const char* op, bool norms) {
  constexpr int64_t tensors = 330;
  Large large{op, {}, {{"tensors", tensors}, {"copies", ir::Shape{1, 2, 40, 99}}}};
  for (int64_t t = 0; t < tensors; ++t) {
    for (const double low : {-4.0, -4.0, -4.0, 0.5}) {  // w, g, m, v
      large.inputs.push_back({t % 7 == 3 ? 0 : t % 5 * 300 + 1});
      large.domains.push_back({low, 4, 0.5});
    }
    if (!norms) continue;
    large.inputs.push_back({2});
    large.domains.push_back({0.25, 16, 0.25});
  }
  return large;
}

// Tables that are large beside the indices, of which some rows are read several times, or two very often.
void add_tables(std::vector<Large>& cases) {
  const ir::Domain some{0, 4999, 50}, two{0, 139999, 139999};
  cases.push_back({"embedding_grad", {{100, 8}, {100}}, {{"rows", int64_t{5000}}}, {{}, some}, 1});
  cases.push_back({"sgd_rows", {{5000, 8}, {100, 8}, {100}}, {}, {{}, {}, some}, 2});
  cases.push_back({"sgd_rows", {{140000, 4}, {3000, 4}, {3000}}, {}, {{}, {}, two}, 2});
}

// Convolutions: many windows, whole and by rows; few windows, several images at a time; padding as wide as
// the image; read in place.
void add_convolutions(std::vector<Large>& cases) {
  struct Images {
    ir::Shape x, weight, y;
    int64_t stride, padding, groups;
  };
  const Images all[] = {{{2, 2, 40, 30}, {3, 2, 3, 3}, {2, 3, 40, 30}, 1, 1, 1},
                        {{2, 4, 41, 30}, {4, 2, 3, 3}, {2, 4, 21, 15}, 2, 1, 2},
                        {{1, 2, 60, 61}, {3, 2, 7, 7}, {1, 3, 30, 31}, 2, 3, 1},
                        {{7, 3, 12, 11}, {2, 3, 5, 3}, {7, 2, 12, 13}, 1, 2, 1},
                        {{3, 2, 2, 2}, {2, 2, 7, 7}, {3, 2, 2, 2}, 1, 3, 1},
                        {{2, 6, 12, 12}, {4, 3, 1, 1}, {2, 4, 12, 12}, 1, 0, 2}};
  for (const auto& [x, weight, y, stride, padding, groups] : all) {
    const ir::Attrs attrs = {{"stride", stride}, {"padding", padding}, {"groups", groups}};
    ir::Attrs of_x = attrs, of_weight = attrs;
    of_x["input_size"] = std::vector<int64_t>{x[2], x[3]};
    of_weight["kernel"] = std::vector<int64_t>{weight[2], weight[3]};
    cases.push_back({"conv2d", {x, weight}, attrs});
    cases.push_back({"conv2d_input_grad", {y, weight}, of_x});
    cases.push_back({"conv2d_weight_grad", {y, x}, of_weight});
  }
}

// Every pointwise op as a separate step, and its slope where it has several.
void add_fused(std::vector<Large>& cases) {
  for (const ir::PointwiseRow& row : ir::pointwise_rows()) {
    const ir::Domain domain{row.values.low, row.values.high, row.values.step};
    std::string step = fmt::format("{}(0)", row.name);
    if (row.kind == ir::PointwiseRow::choice) step += fmt::format(" {{{}=true}}", row.parameter);
    if (row.kind == ir::PointwiseRow::number) step += fmt::format(" {{{}={}}}", row.parameter, row.other);
    for (const std::string& program :
         {fmt::format("{}(0)", row.name), step + "; add(1, 0); scale(2) {factor=0.5}"}) {
      for (const int64_t width : {300, 304}) {  // with and without whole vectors of 16 bytes
        cases.push_back({"fused", {{5, width}}, {{"program", program}}, {domain}});
        cases.push_back({"fused_grad", {{5, width}, {5, width}}, {{"program", program}}, {{}, domain}});
      }
    }
  }
}

std::vector<Large> large_cases() {
  const ir::Attrs causal = {{"causal", true}}, ahead = {{"causal", true}, {"offset", int64_t{40}}};
  // Windows shorter than a block of queries and longer, that end inside the keys and beyond them.
  const ir::Attrs near = {{"causal", true}, {"window", int64_t{7}}},
                  far = {{"causal", true}, {"window", int64_t{70}}, {"offset", int64_t{110}}},
                  near_dropped = {{"causal", true}, {"window", int64_t{21}}, {"p", 0.25}, {"op", int64_t{5}}};
  const ir::Attrs drop = {{"p", 0.25}, {"op", int64_t{5}}};
  struct Heads {
    ir::Shape q, k, v, out, sums;
  };
  const Heads narrow = {{1, 4, 100, 5}, {1, 2, 130, 5}, {1, 2, 130, 3}, {1, 4, 100, 3}, {1, 4, 100}},
              of_tensor_cores = {{1, 4, 68, 16}, {1, 2, 90, 16}, {1, 2, 90, 16}, {1, 4, 68, 16}, {1, 4, 68}};
  const std::vector<ir::Domain> unit(3, {-1, 1, 0.5});
  const std::vector<ir::Domain> grad = {{}, {-1, 1, 0.5}, {-1, 1, 0.5}, {}, {}, {4, 12, 1}};
  std::vector<Large> cases = {
      {"matmul", {{300, 40}, {40, 1030}}},
      {"matmul", {{2, 150, 300}, {70, 300}}, {{"transpose_b", true}}},
      {"matmul", {{30, 400}, {30, 20}}, {{"transpose_a", true}}},
      {"matmul_weight_grad", {{3, 100, 50}, {3, 100, 60}}},
      {"matmul_add", {{2, 15, 40}, {40, 64}, {2, 15, 64}}},
      {"matmul_add", {{15, 40}, {40, 64}, {15, 64}, {64}}},
      {"matmul_bias_gelu", {{2, 15, 40}, {40, 64}, {64}}, {}, unit},
      {"matmul_dgelu", {{2, 15, 40}, {64, 40}, {2, 15, 64}}, {{"transpose_b", true}}, unit},
  };
  for (const auto& [q, k, v, out, sums] : {narrow, of_tensor_cores}) {
    for (const ir::Attrs& attrs : {ir::Attrs{}, causal, ahead, drop, near, far, near_dropped}) {
      cases.push_back({"scaled_dot_product_attention", {q, k, v}, attrs, unit});
      cases.push_back({"scaled_dot_product_attention_grad", {out, q, k, v, out, sums}, attrs, grad});
    }
  }
  cases.push_back(many_tensors("adam_all", false));
  cases.push_back(many_tensors("lamb_all", true));
  const ir::Shape stretches = {3, 6000};  // that several blocks measure
  cases.push_back(
      {"lamb_norms", {stretches, stretches, stretches, stretches}, {}, {{}, {}, {}, {0.5, 4, 0.5}}});
  add_convolutions(cases);
  add_tables(cases);
  add_fused(cases);
  return cases;
}

}  // namespace

bool KernelCases::near(double got, double want, DType dtype, double scale) const {
  if (got == want || (std::isnan(got) && std::isnan(want))) return true;
  constexpr double largest_float16 =
      65504;  // float16 must hold the values, since some types are copied through it
  if (std::isinf(got) && std::abs(want) > largest_float16 && std::signbit(got) == std::signbit(want))
    return true;
  return std::abs(got - want) <= tolerance(dtype) * std::max(scale, std::abs(want));
}

// Describes the first element that is not near. The error bound of a sum grows with its number of `terms` and
// with the tensor's largest number.
std::string KernelCases::difference(const HostTensor& got, const HostTensor& want, double terms) const {
  double scale = 1;
  for (const double x : want.data)
    if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
  scale *= std::max(1.0, std::sqrt(terms) / 8);
  for (size_t i = 0; i < want.data.size(); ++i) {
    if (!near(got.data[i], want.data[i], want.type.dtype, scale))
      return fmt::format("element {} is {}, expected {}", i, got.data[i], want.data[i]);
  }
  return {};
}

// Number of terms in a sum of an output; larger where the numbers never cancel exactly.
static double terms_of(const Call& call, size_t output, bool between) {
  int64_t most = 1;
  for (const ir::TensorType& type : call.inputs) most = std::max(most, type.elements());
  const double terms =
      static_cast<double>(most) / static_cast<double>(std::max<int64_t>(call.outputs[output].elements(), 1));
  return between ? 32 * 32 * std::max(terms, 1.0) : terms;
}

// Runs the device's kernel twice, with separate outputs and, where the op updates state, in place.
void KernelCases::check(const Call& call, const std::vector<ir::Domain>& domains) {
  const bool between = calls_ % 2 == 1;
  const Tensors inputs = draw_inputs(call, domains, run_seed() + calls_++, between);
  Tensors want = run_reference(call.op, inputs, attrs_at(call, moment_));
  for (HostTensor& tensor : want) tensor = rounded(tensor);
  if (leaves_out(call)) return;
  const auto queue = device().queue(ir::QueueKind::compute);
  const auto kernel = device().prepare(call, *queue);
  for (const bool in_place : {false, true}) {
    forget();
    std::vector<Buffer> in, out;
    for (const HostTensor& tensor : inputs) in.emplace_back(*this, tensor);
    for (const ir::TensorType& type : call.outputs) out.emplace_back(*this, type);
    std::vector<const void*> from;
    std::vector<void*> to;
    for (Buffer& buffer : in) from.push_back(buffer.data());
    std::vector<Buffer*> written;
    for (size_t i = 0; i < out.size(); ++i) {
      const int state = in_place ? state_operand(call, i) : -1;
      written.push_back(state < 0 ? &out[i] : &at(in, state));
      to.push_back(written.back()->data());
    }
    kernel->run(from, to, moment_);
    queue->finish();
    for (size_t i = 0; i < out.size(); ++i) {
      const std::string found = difference(written[i]->tensor(), want[i], terms_of(call, i, between));
      ASSERT_TRUE(found.empty()) << describe(call) << (in_place ? " in place" : "") << ": output " << i
                                 << ": " << found << "; BOXCAR_SEED=" << run_seed();
    }
  }
}

// Checks the sample with float32 replaced by `dtype` in all operands, in one, in all but one.
void KernelCases::check_types(const ir::OpDef& def, const ir::Sample& sample, DType dtype) {
  std::vector<std::vector<bool>> choices = {std::vector<bool>(sample.inputs.size(), true)};
  for (size_t i = 0; i < sample.inputs.size() && size_of(dtype) == 2; ++i) {
    choices.emplace_back(sample.inputs.size(), false)[i] = true;
    choices.emplace_back(sample.inputs.size(), true)[i] = false;
  }
  for (const std::vector<bool>& choice : choices) {
    ir::Sample typed = sample;
    for (size_t i = 0; i < choice.size(); ++i) {
      if (choice[i] && sample.inputs[i].dtype == DType::float32) typed.inputs[i].dtype = dtype;
    }
    check_sample(def, typed);
    if (HasFatalFailure()) return;
  }
}

// Does nothing where the op refuses this combination of types.
void KernelCases::check_sample(const ir::OpDef& def, const ir::Sample& sample) {
  Call call{def.name, sample.inputs, {}, ir::complete(def, sample.attrs)};
  try {
    call.outputs = def.infer(call.inputs, call.attrs);
  } catch (const Error&) {
    return;
  }
  check(call, sample.domains);
}

// Checks the part of the last of `parts` devices, for every way to split.
void KernelCases::check_parts(const ir::OpDef& def, const ir::Sample& sample, int64_t parts) {
  const ir::Attrs attrs = ir::complete(def, sample.attrs);
  for (const sbp::Signature& signature : ir::signatures(def, sample.inputs, attrs, parts)) {
    ir::Sample part = sample;
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      part.inputs[i].shape =
          sbp::local_shape(sample.inputs[i].shape, {signature.inputs[i]}, {parts}, parts - 1);
    }
    part.attrs = ir::localize(def, sample.inputs, attrs, signature, parts, parts - 1);
    check_sample(def, part);
    if (HasFatalFailure()) return;
  }
}

void KernelCases::every_type(const std::string& op) {
  const ir::OpDef& def = ir::op(op);
  for (const uint64_t more : {1, 2, 3}) {
    for (const ir::Sample& sample : draw_samples(def, run_seed() + more)) {
      for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
        check_types(def, sample, dtype);
        if (HasFatalFailure()) return;
      }
    }
  }
}

void KernelCases::parts(const std::string& op) {
  const ir::OpDef& def = ir::op(op);
  for (const ir::Sample& sample : draw_samples(def, run_seed() + 4)) {
    check_parts(def, sample, 2);
    check_parts(def, sample, 16);  // the last part of most axes is empty
    if (HasFatalFailure()) return;
  }
}

// Samples in which one extent in six is longer than kernels take at once, and no round number; except where
// that would take long.
void KernelCases::long_axes(const std::string& op) {
  const ir::OpDef& def = ir::op(op);
  for (int64_t longest = 0; longest < 6; ++longest) {
    int64_t calls = 0;
    const auto extent = [&]() -> int64_t { return calls++ % 6 == longest ? 523 : 2 + calls % 2; };
    for (const ir::Sample& sample : def.samples(extent)) {
      const auto is_large = [](const ir::TensorType& type) { return type.elements() > 200'000; };
      if (std::any_of(sample.inputs.begin(), sample.inputs.end(), is_large)) continue;
      for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16}) {
        check_types(def, sample, dtype);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Samples whose extents are whole vectors of 16 bytes: all of them, and one in three, long ones too.
void KernelCases::whole_vectors(const std::string& op, std::initializer_list<int64_t> extents) {
  const ir::OpDef& def = ir::op(op);
  for (const int64_t longest : extents) {
    for (int64_t which = 0; which < 3; ++which) {
      int64_t calls = 0;
      const auto extent = [&]() -> int64_t {
        return longest <= 16 ? longest : calls++ % 3 == which ? longest : 2 + calls % 2;
      };
      for (const ir::Sample& sample : def.samples(extent)) {
        const auto is_large = [](const ir::TensorType& type) { return type.elements() > 100'000; };
        if (std::any_of(sample.inputs.begin(), sample.inputs.end(), is_large)) continue;
        for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
          check_types(def, sample, dtype);
          if (HasFatalFailure()) return;
        }
      }
      if (longest <= 16) break;
    }
  }
}

void KernelCases::blocks(const std::string& op) {
  const ir::OpDef& def = ir::op(op);
  for (const Large& large : large_cases()) {
    if (large.op != def.name) continue;
    ir::Sample sample{.attrs = large.attrs, .domains = large.domains};
    for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
      sample.inputs.clear();
      for (const ir::Shape& shape : large.inputs) sample.inputs.push_back({shape, dtype});
      if (large.inputs.size() == 6 && size_of(dtype) == 2) sample.inputs[5].dtype = DType::float32;  // sums
      if (large.indices >= 0) at(sample.inputs, large.indices).dtype = DType::int64;
      check_sample(def, sample);
      if (HasFatalFailure()) return;
    }
  }
}

std::vector<std::string> KernelCases::ops() {
  std::vector<std::string> all;
  for (const ir::OpDef& def : ir::all_ops()) all.push_back(def.name);
  return all;
}
std::vector<std::string> KernelCases::ops_in_blocks() {
  return {"adam_all",
          "embedding_grad",
          "fused",
          "fused_grad",
          "lamb_all",
          "lamb_norms",
          "matmul",
          "matmul_weight_grad",
          "matmul_add",
          "matmul_bias_gelu",
          "matmul_dgelu",
          "scaled_dot_product_attention",
          "scaled_dot_product_attention_grad",
          "sgd_rows"};
}

}  // namespace boxcar::tests
