#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <system_error>

#include "chakra.pb.h"
#include "ir/op.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sim/act_view.h"
#include "sim/chakra/chakra.h"
#include "sim/chakra/device_step.h"
#include "sim/durations.h"

namespace boxcar::chakra {
namespace {

namespace proto = ChakraProtoMsg;

constexpr const char* trace_schema = "0.0.4";  // as in Chakra's own generator

struct CommType {
  sbp::Collective collective;
  proto::CollectiveCommType type;
};
constexpr std::array comm_types = {
    CommType{sbp::Collective::all_reduce, proto::ALL_REDUCE},
    CommType{sbp::Collective::all_gather, proto::ALL_GATHER},
    CommType{sbp::Collective::reduce_scatter, proto::REDUCE_SCATTER},
    CommType{sbp::Collective::all_to_all, proto::ALL_TO_ALL},
    CommType{sbp::Collective::broadcast, proto::BROADCAST},
    CommType{sbp::Collective::reduce, proto::REDUCE},
};

// Writes an attribute in the type of number in which readers ask for it (src/feeder/et_feeder_node.cpp).
template <typename Value, void (proto::AttributeProto::*set_value)(Value)>
void set(proto::Node& node, const char* name, Value value) {
  proto::AttributeProto& attr = *node.add_attr();
  attr.set_name(name);
  (attr.*set_value)(value);
}
constexpr auto set_bool = set<bool, &proto::AttributeProto::set_bool_val>;
constexpr auto set_int32 = set<int32_t, &proto::AttributeProto::set_int32_val>;
constexpr auto set_int64 = set<int64_t, &proto::AttributeProto::set_int64_val>;
constexpr auto set_uint64 = set<uint64_t, &proto::AttributeProto::set_uint64_val>;
template <typename Message>
void set_string(Message& message, const char* name, const std::string& value) {
  proto::AttributeProto& attr = *message.add_attr();
  attr.set_name(name);
  attr.set_string_val(value);
}

// Writes a message after its length.
void write_message(const google::protobuf::MessageLite& message, std::ostream& out) {
  std::string text;
  {
    google::protobuf::io::StringOutputStream stream(&text);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.WriteVarint32(static_cast<uint32_t>(message.ByteSizeLong()));
    message.SerializeWithCachedSizes(&coded);
  }
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

// Whole microseconds whose sum over a queue is within one of the sum of the exact times.
class Rounding {
 public:
  explicit Rounding(size_t queues) : ended_(queues, 0) {}
  uint64_t micros(int queue, double seconds) {
    double& ended = at(ended_, queue);
    const int64_t before = std::llround(ended * 1e6);
    ended += seconds;
    return static_cast<uint64_t>(std::llround(ended * 1e6) - before);
  }

 private:
  std::vector<double> ended_;  // by queue: seconds
};

class ChakraWriter {
 public:
  ChakraWriter(const ir::Plan& plan, const backends::Cluster& cluster)
      : plan_(plan), steps_(plan), groups_(plan), act_costs_(plan, cluster), work_(plan.programs.size()) {
    for (size_t p = 0; p < plan.programs.size(); ++p) {
      const ir::Program& program = plan.programs[p];
      for (const ir::Actor& actor : program.actors) work_[p].push_back(work_of(program, actor));
      std::vector<std::vector<int>> micro_batches(program.phases.size());
      for (const ir::PhaseRun& run : program.schedule)
        at(micro_batches, run.phase).push_back(run.micro_batch);
      micro_batches_.push_back(std::move(micro_batches));
    }
  }

  const ChakraGroups& groups() const { return groups_; }

  void write(int device, std::ostream& out) {
    const int program_index = steps_.program_of(device);
    const ir::Program& program = at(plan_.programs, program_index);
    proto::GlobalMetadata metadata;
    metadata.set_version(trace_schema);
    set_string(metadata, "producer", "boxcar");
    set_string(metadata, "plan", plan_.name);
    set_string(metadata, "program", program.name);
    write_message(metadata, out);
    const std::vector<sim::ActCost> costs = act_costs_.of(program_index, device);
    Rounding rounding(program.queues.size());
    const std::vector<StepNode> nodes = steps_.of(device);
    for (size_t n = 0; n < nodes.size(); ++n) {
      proto::Node node;
      node.set_id(n);
      for (const int from : nodes[n].data) node.add_data_deps(static_cast<uint64_t>(from));
      for (const int from : nodes[n].order) node.add_ctrl_deps(static_cast<uint64_t>(from));
      name(nodes[n], node);
      set_bool(node, "is_cpu_op", !nodes[n].sends && actor_of(nodes[n]).kind == ir::ActorKind::host);
      if (nodes[n].sends) {
        transfer(nodes[n], proto::COMM_SEND_NODE, device, node);
      } else {
        const ir::Actor& actor = actor_of(nodes[n]);
        node.set_duration_micros(rounding.micros(actor.queue, at(costs, nodes[n].actor).total()));
        describe(nodes[n], actor, node);
      }
      write_message(node, out);
    }
  }

 private:
  static ir::Work work_of(const ir::Program& program, const ir::Actor& actor) {
    if (actor.kind != ir::ActorKind::kernel || !ir::has_op(actor.op)) return {};
    const ir::OpDef& def = ir::op(actor.op);
    if (def.family == ir::Family::none) return {};
    return ir::work(def, sim::input_types(program, actor), sim::output_types(program, actor), actor.attrs);
  }

  const ir::Actor& actor_of(const StepNode& n) const {
    return at(at(plan_.programs, n.program).actors, n.actor);
  }

  // "h3.attn.qkv F0[2]"
  void name(const StepNode& n, proto::Node& node) const {
    const ir::Actor& actor = actor_of(n);
    const std::string& phase = at(plan_.programs, n.program).phase_of(actor).name;
    const int micro_batch = at(at(at(micro_batches_, n.program), actor.phase), n.act);
    const std::string text = fmt::format("{} {}[{}]", actor.name, phase, micro_batch);
    node.set_name(n.sends ? fmt::format("send {} of device {}", text, n.device) : text);
  }

  void describe(const StepNode& n, const ir::Actor& actor, proto::Node& node) const {
    switch (actor.kind) {
      case ir::ActorKind::kernel: {
        const ir::Work& work = at(at(work_, n.program), n.actor);
        node.set_type(proto::COMP_NODE);
        // Rooflines divide by the operations of a kernel that moves bytes.
        set_int64(node, "num_ops", std::llround(work.bytes > 0 ? std::max(1.0, work.flops) : work.flops));
        set_uint64(node, "tensor_size", static_cast<uint64_t>(std::llround(work.bytes)));
        return;
      }
      case ir::ActorKind::collective:
        return collective(n, actor, node);
      case ir::ActorKind::pull:
        return transfer(n, proto::COMM_RECV_NODE, steps_.source(actor, n.device), node);
      case ir::ActorKind::copy:
        return copy(n, actor, node);
      case ir::ActorKind::host:
        node.set_type(proto::COMP_NODE);
        return;
    }
  }

  // A device that is alone in its group has no collective.
  void collective(const StepNode& n, const ir::Actor& actor, proto::Node& node) const {
    const ChakraGroups::Group* group = groups_.of(actor.comm, n.device);
    const auto* type = std::find_if(comm_types.begin(), comm_types.end(),
                                    [&](const CommType& t) { return t.collective == actor.collective; });
    node.set_type(group && type != comm_types.end() ? proto::COMM_COLL_NODE : proto::COMP_NODE);
    if (node.type() == proto::COMP_NODE) return;
    set_int64(node, "comm_type", type->type);
    set_int64(node, "comm_size",
              chakra_bytes(actor.collective, actor.comm_bytes, static_cast<int>(group->members.size())));
    set_string(node, "pg_name", fmt::format("{}", group->number));
    set_string(node, "pg_desc", group->name);
  }

  void transfer(const StepNode& n, proto::NodeType type, int source, proto::Node& node) const {
    node.set_type(type);
    set_int32(node, "comm_src", source);
    set_int32(node, "comm_dst", n.device);
    set_int32(node, "comm_tag", steps_.tag(n.program, n.actor, n.act));
    set_int64(node, "comm_size", actor_of(n).comm_bytes);
  }

  void copy(const StepNode& n, const ir::Actor& actor, proto::Node& node) const {
    const ir::Program& program = at(plan_.programs, n.program);
    const bool out = at(program.queues, actor.queue).kind == ir::QueueKind::copy_out;
    int64_t bytes = 0;
    for (const ir::TensorType& type : (out ? sim::input_types : sim::output_types)(program, actor))
      bytes += type.bytes();
    node.set_type(out ? proto::MEM_STORE_NODE : proto::MEM_LOAD_NODE);
    set_uint64(node, "tensor_size", static_cast<uint64_t>(bytes));
  }

  const ir::Plan& plan_;
  const DeviceSteps steps_;
  const ChakraGroups groups_;
  sim::ActCosts act_costs_;
  std::vector<std::vector<ir::Work>> work_;                   // by program and actor
  std::vector<std::vector<std::vector<int>>> micro_batches_;  // by program, phase and act
};

}  // namespace

void write_chakra(const ir::Plan& plan, const backends::Cluster& cluster, const ChakraRequest& request) {
  std::error_code failed;
  std::filesystem::create_directories(request.folder, failed);
  if (failed) throw Error::input(request.folder, "cannot be made: " + failed.message());
  ChakraWriter writer(plan, cluster);
  const std::string prefix = request.folder + "/step.";
  request.write_file(prefix + "groups.json", [&](std::ostream& out) {
    nlohmann::ordered_json groups = nlohmann::ordered_json::object();
    for (const ChakraGroups::Group& group : writer.groups().all())
      groups[fmt::format("{}", group.number)] = group.members;
    out << groups.dump() << "\n";
  });
  for (size_t i = 0; i < request.devices.size(); ++i) {
    const int device = request.devices[i];
    if (request.tell)
      request.tell(fmt::format("writing device {}, {} of {}", device, i + 1, request.devices.size()));
    request.write_file(fmt::format("{}{}.et", prefix, device),
                       [&](std::ostream& out) { writer.write(device, out); });
  }
}

}  // namespace boxcar::chakra
