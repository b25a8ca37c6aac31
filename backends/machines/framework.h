// Training frameworks as constants: costs that they add to a plan's kernels and collectives.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace boxcar::backends {

// Kernels that themselves write 8 bits for the products that read them: all that memory bounds, or norms.
enum class Float8Fuses : uint8_t { kernels, norms, nothing };
inline std::vector<std::string> words_of(Float8Fuses) { return {"kernels", "norms", "nothing"}; }

// Attention softmaxes that a framework's fused kernel takes, and the cost of single kernels for the others.
// Megatron's wants a multiple of 4 squares (heads x sequences of a device) of at most 2,048 keys.
struct FusedSoftmax {
  int64_t multiple = 0;              // of squares; 0: takes all
  int64_t longest = 0;               // keys
  double forward = 1, backward = 1;  // times its bytes
  int kernels = 1;                   // single kernels in its place, in either pass
  friend bool operator==(const FusedSoftmax&, const FusedSoftmax&) = default;
};

// An allocator from which a framework takes memory for a tensor when a kernel writes it, and to which it
// returns it after the last reader. It also gives matrix product libraries their workspaces.
struct CachingAllocator {
  int workspaces = 0;           // one for each thread that calls such a library
  double workspace_bytes = 0;   // of one; 0: DeviceProfile::library_workspace
  bool gradients_stay = false;  // memory of summed gradients is never given back
  friend bool operator==(const CachingAllocator&, const CachingAllocator&) = default;
};

// Fewer values that a framework runs if keys of a job have some values; both as in Framework::runs.
struct RunsWhere {
  std::map<std::string, std::string> where, runs;
  friend bool operator==(const RunsWhere&, const RunsWhere&) = default;
};

// Costs that a training framework adds to a plan's kernels and collectives:
// backends/presets/frameworks/*.yaml, each number with its source. Keys and meanings: docs/frameworks.md. The
// default, boxcar's own, adds nothing.
struct Framework {
  std::string name = "boxcar";
  std::optional<double> host_per_op;  // s, in place of Node::host_per_op
  // Launches of each forward or backward pass in addition to its ops: schedule, sends, batch. In a pipeline
  // the host has first waited for a transfer, and the device waits for all of them.
  double pass_launches = 0;
  std::map<std::string, double> op_launches;  // by op: launches that it stands for, 1 if absent
  // By op of a forward or backward pass: launches for which the device idles, since the host has read a
  // number from it just before.
  std::map<std::string, double> op_waits;
  // One process launches for all devices of a node, which take turns: a launch takes host_per_op for each.
  // The optimizer's launches, tensor by tensor, count too, as they wait for gradients of other devices.
  bool one_process = false;
  bool update_in_one = false;        // the optimizer takes all tensors of a device in a few kernels
  double piece_seconds = 0;          // s per rank, if gathers and scatters copy every rank's piece apart
  int64_t apart_elements = 0;        // tensors from this size on are gathered and scattered one by one
  bool gather_by_broadcast = false;  // after an update the rank that owns a tensor broadcasts it
  bool pads_channels = false;        // DeviceProfile::pads_channels
  // Products of weights' gradients add to sums in float32 themselves; no kernel adds them up.
  bool sums_in_products = false;
  bool sums_half_in_products = false;  // sums in 16 bits too
  Float8Fuses float8_fuses = Float8Fuses::kernels;
  bool float8_weights_stay = true;  // a weight's copy in 8 bits, for all micro-batches of a step
  // Operands that gradients of weights read are kept in 8 bits; those that other ops read too in both types.
  bool float8_operands_stay = false;
  bool float8_expert_results_stay = false;  // of experts' products, until their gradients are made
  // By op: factor on the bytes that boxcar's own kernel moves; and a further one if operands have 16 bits.
  std::map<std::string, double> op_bytes, half_op_bytes;
  bool reduce_whole = false;        // gradients of sharded states are all-reduced
  bool reduce_in_float32 = false;   // these, whatever their type
  bool ring_attention = false;      // gathered keys and values go round in a ring (sim/ring_attention.h)
  bool products_in_chunks = false;  // beside tensor parallelism's collectives (sim/product_rings.h)
  // Exchanges of experts: a token goes to a node once, and there to each GPU once
  // (sim/models/expert_exchange.h); those to experts in 8 bits, with precision fp8; beside the passes of
  // another micro-batch (sim/paired_passes.h), where their kernels occupy so many multiprocessors.
  bool experts_by_node = false;
  bool float8_dispatch = false;
  bool exchanges_beside_passes = false;
  int exchange_multiprocessors = 0;
  double outside_bytes = 0;  // of a device's memory outside tensors: context, libraries, NCCL
  double fragmentation = 0;  // memory that is held but unused, as a share of memory that comes and goes
  std::optional<CachingAllocator> allocator;  // none: an arena whose layout is planned
  FusedSoftmax fused_softmax;
  std::map<std::string, double> all_reduces;  // by tensor of a layer: how often tensor parallelism reduces it
  // By op: how often its results are copied if a device has more than one sequence, since positions lie
  // before sequences there. By tensor: how often it is copied, part by part, after it has been gathered.
  std::map<std::string, double> batch_copies, gather_copies;
  std::map<std::string, double> retained_bytes;  // by op: times the bytes of its output that stay with it
  bool gathered_stay = false;  // activations that a forward pass gathers are not gathered again
  std::map<std::string, std::string> defaults;  // of job keys by path, if a job does not set them
  // Values of job keys, by path, that a search uses instead of a slower default, if a flag of the framework
  // allows it.
  std::map<std::string, std::string> searched_as;
  // Job keys, by path, for which it runs fewer values than Boxcar: one value, several, "bf16|fp32", or a
  // range, "0..1".
  std::map<std::string, std::string> runs;
  std::map<std::string, RunsWhere> runs_where;  // by the condition in words: "pp is 2 or more"
  friend bool operator==(const Framework&, const Framework&) = default;
};

// Every key of a framework file, with its bounds, once, for a visitor as constants.h describes it; flag,
// text, texts and word are for truth values, words, and words of an enum. The effect of a constant on an act
// is a row of sim/framework_effects.cpp.
template <class Visitor>
void visit(Visitor& v, FusedSoftmax& fused) {
  for (const char* key : {"multiple", "longest", "forward", "backward", "kernels"}) v.require(key);
  v.whole("multiple", int64_t{1}, int64_t{1024}, fused.multiple);
  v.whole("longest", int64_t{1}, int64_t{1} << 40, fused.longest);
  v.number("forward", 0.1, 100, fused.forward);
  v.number("backward", 0.1, 100, fused.backward);
  v.whole("kernels", 1, 100, fused.kernels);
}

template <class Visitor>
void visit(Visitor& v, CachingAllocator& allocator) {
  v.whole("workspaces", 0, 100, allocator.workspaces);
  v.number("workspace_bytes", 0, 1e12, allocator.workspace_bytes);
  v.flag("gradients_stay", allocator.gradients_stay);
}

template <class Visitor>
void visit(Visitor& v, Framework& f) {
  v.text("name", f.name);
  v.number("host_per_op", 0, 1, f.host_per_op);
  v.number("pass_launches", 0, 1000, f.pass_launches);
  v.names("op_launches", 0, 1000, f.op_launches);
  v.names("op_waits", 0, 1000, f.op_waits);
  v.flag("one_process", f.one_process);
  v.flag("update_in_one", f.update_in_one);
  v.flag("sums_in_products", f.sums_in_products);
  v.flag("sums_half_in_products", f.sums_half_in_products);
  v.word("float8_fuses", f.float8_fuses);
  v.flag("float8_weights_stay", f.float8_weights_stay);
  v.flag("float8_operands_stay", f.float8_operands_stay);
  v.flag("float8_expert_results_stay", f.float8_expert_results_stay);
  v.flag("gather_by_broadcast", f.gather_by_broadcast);
  v.number("piece_seconds", 0, 1, f.piece_seconds);
  v.whole("apart_elements", int64_t{0}, int64_t{1} << 40, f.apart_elements);
  v.inside("fused_softmax", true, [&] { visit(v, f.fused_softmax); });
  v.names("all_reduces", 1, 100, f.all_reduces);
  v.names("batch_copies", 0, 100, f.batch_copies);
  v.names("gather_copies", 0, 100, f.gather_copies);
  v.flag("reduce_whole", f.reduce_whole);
  v.flag("reduce_in_float32", f.reduce_in_float32);
  v.flag("ring_attention", f.ring_attention);
  v.flag("products_in_chunks", f.products_in_chunks);
  v.flag("experts_by_node", f.experts_by_node);
  v.flag("float8_dispatch", f.float8_dispatch);
  v.flag("exchanges_beside_passes", f.exchanges_beside_passes);
  v.whole("exchange_multiprocessors", 0, 1000, f.exchange_multiprocessors);
  v.names("op_bytes", 0.1, 100, f.op_bytes);
  v.names("half_op_bytes", 0.01, 100, f.half_op_bytes);
  v.flag("pads_channels", f.pads_channels);
  v.number("outside_bytes", 0, 1e12, f.outside_bytes);
  v.number("fragmentation", 0, 0.9, f.fragmentation);
  v.optional("allocator", f.allocator, [&](CachingAllocator& allocator) { visit(v, allocator); });
  v.names("retained_bytes", 0, 100, f.retained_bytes);
  v.flag("gathered_stay", f.gathered_stay);
  v.texts("defaults", f.defaults);
  v.texts("searched_as", f.searched_as);
  v.texts("runs", f.runs);
  v.by_name("runs_where", f.runs_where, [&](RunsWhere& some) {
    v.require("where"), v.require("runs");
    v.texts("where", some.where);
    v.texts("runs", some.runs);
  });
}

// By name, or a YAML file by path. Throws Error (bad input, place "framework") naming the nearest name, or
// naming the file.
Framework load_framework(const std::string& name);
// Reads back what backends/presets/frameworks/ holds; messages name `file`.
Framework parse_framework(const std::string& yaml, const std::string& file);
std::vector<std::string> framework_names();  // sorted

}  // namespace boxcar::backends
