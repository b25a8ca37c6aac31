// Checks that the operands and results of a plan's acts fit; ir/plan.h gives the rules.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ir/op.h"
#include "ir/plan.h"
#include "ir/plan_require.h"
#include "ir/rank_attrs.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::ir {
namespace {

using sbp::Collective;

std::string types_text(const Types& types) {
  std::vector<std::string> texts;
  for (const TensorType& type : types) texts.push_back(to_text(type));
  return texts.empty() ? "nothing" : fmt::format("{}", fmt::join(texts, ", "));
}

// The types that an actor reads, without control edges.
Types read_types(const Program& program, const Actor& actor) {
  Types types;
  for (const Input& in : actor.inputs)
    if (const Register& reg = at(program.registers, in.reg); !is_control(reg))
      types.push_back(input_type(reg, in));
  return types;
}
Types written_types(const Program& program, const Actor& actor) {
  Types types;
  for (const int out : actor.outputs)
    if (const Register& reg = at(program.registers, out); !is_control(reg)) types.push_back(reg.type);
  return types;
}

template <typename Value>
const Value* attr(const Attrs& attrs, std::string_view name) {
  const auto found = attrs.find(name);
  return found == attrs.end() ? nullptr : std::get_if<Value>(&found->second);
}

// The place of each device in its group of a communicator; -1: in none.
class DeviceCoordinates {
 public:
  explicit DeviceCoordinates(const Plan& plan) : plan_(plan) {}

  const std::vector<int>* along(const std::string& dim) {
    const auto [found, added] = by_comm_.try_emplace(dim);
    if (!added) return found->second.empty() ? nullptr : &found->second;
    for (const Comm& comm : plan_.comms) {
      if (comm.name != dim) continue;
      found->second.assign(static_cast<size_t>(plan_.devices), -1);
      for (const std::vector<int>& group : comm.groups)
        for (size_t k = 0; k < group.size(); ++k) at(found->second, group[k]) = static_cast<int>(k);
      return &found->second;
    }
    return nullptr;
  }

 private:
  const Plan& plan_;
  std::map<std::string, std::vector<int>> by_comm_;
};

class TypeChecker {
 public:
  explicit TypeChecker(const Plan& plan) : plan_(plan), coordinates_(plan), classes_(plan.programs.size()) {
    for (const RankClass& cls : plan.classes) at(classes_, cls.program).push_back(&cls);
  }

  void run() {
    for (size_t p = 0; p < plan_.programs.size(); ++p) {
      const Program& program = plan_.programs[p];
      for (const Register& reg : program.registers) holds(program, reg);
      for (const Actor& actor : program.actors) {
        uses_memory(program, actor);
        if (actor.kind == ActorKind::pull)
          pull(static_cast<int>(p), actor);
        else if (actor.kind == ActorKind::collective)
          collective_attrs(program, actor);
        else
          act(static_cast<int>(p), actor);
      }
    }
    for (size_t c = 0; c < plan_.comms.size(); ++c) joint_acts(static_cast<int>(c));
  }

 private:
  void holds(const Program& program, const Register& reg) const {
    const PlanPlace where(program, reg.name, "%");
    if (is_control(reg)) return;
    const Actor& producer = at(program.actors, reg.producer);
    if (producer.is(OpKind::copy)) return;  // copy() compares it with its operand
    require(reg.host_bytes == 0 || producer.kind == ActorKind::pull || runs_on_host(program, producer), where,
            "lies in host memory, where {} cannot write", producer.name);
    if (!reg.over) {
      require(slot_bytes(reg) >= reg.type.bytes(), where, "{} bytes a slot, {} has {}", slot_bytes(reg),
              to_text(reg.type), reg.type.bytes());
      return;
    }
    if (size_of(reg.type.dtype) == 2 && 2 * slot_bytes(reg) >= reg.type.bytes()) return;  // kept in 8 bits
    int64_t most = 0;
    for (const Input& in : producer.inputs) {
      if (in.program < 0) most = std::max(most, at(program.registers, in.reg).type.bytes());
    }
    require(producer.kind == ActorKind::kernel && most >= reg.type.bytes(), where,
            "is written over an operand of {}, and none has the {} bytes of {}", producer.name,
            reg.type.bytes(), to_text(reg.type));
  }

  // Copies use both memories, kernels of the host and pulls between hosts the host's own alone, and all else
  // that of the device alone.
  void uses_memory(const Program& program, const Actor& x) const {
    if (x.is(OpKind::copy) || x.is(OpKind::save)) return;
    const PlanPlace where(program, x.name);
    const auto on_host = [](const Register& reg) { return reg.host_bytes > 0; };
    const bool between_hosts =  // with empty parts on one side
        x.kind == ActorKind::pull &&
        (on_host(at(at(plan_.programs, x.inputs[0].program).registers, x.inputs[0].reg)) ||
         std::any_of(x.outputs.begin(), x.outputs.end(),
                     [&](int out) { return on_host(at(program.registers, out)); }));
    const bool host = between_hosts || runs_on_host(program, x);
    for (const Input& in : x.inputs) {
      const Program& source = in.program < 0 ? program : at(plan_.programs, in.program);
      const Register& reg = at(source.registers, in.reg);
      require(reg.host_bytes == 0 || host, where, "cannot read %{}, which lies in host memory", reg.name);
      require(reg.bytes == 0 || !host, where,
              "runs on the host and cannot read %{}, which lies on the device", reg.name);
    }
    for (const int out : x.outputs)
      require(at(program.registers, out).bytes == 0 || !host, where,
              "runs on the host and cannot write %{}, which lies on the device",
              at(program.registers, out).name);
  }

  // Calls visit(attributes, device) for each rank of the class whose attributes may differ from those of
  // earlier ones.
  template <typename Visit>
  void each_rank(int program, const Actor& actor, Visit visit) {
    const PlanPlace where(at(plan_.programs, program), actor.name);
    const std::set<std::string> dims = differing_dims(actor.attrs);
    for (const RankClass* cls : at(classes_, program)) {
      std::set<std::vector<int64_t>> seen;
      for (size_t rank = 0; rank < cls->devices.size(); ++rank) {
        std::map<std::string, Coordinates> places;
        std::vector<int64_t> key;
        for (const std::string& dim : dims) {
          places[dim] = coordinates(where, dim, *cls, rank);
          key.push_back(places[dim].own);
        }
        if (!seen.insert(std::move(key)).second) continue;
        Attrs attrs;
        try {
          attrs = rank_attrs(actor.attrs, [&](const std::string& dim) { return places.at(dim); });
        } catch (const Error& error) {
          throw Error::input(where.text(), error.what());
        }
        attrs.erase("seconds");
        visit(attrs, cls->devices[rank]);
        if (dims.empty()) return;
      }
    }
  }

  Coordinates coordinates(const PlanPlace& where, const std::string& dim, const RankClass& cls, size_t rank) {
    if (dim == "rank") return {static_cast<int64_t>(rank), 0};
    const std::vector<int>* along = coordinates_.along(dim);
    require(along != nullptr, where, "its attributes differ along {}, which is no communicator", dim);
    for (const int device : {cls.devices[0], cls.devices[rank]})
      require(at(*along, device) >= 0, where,
              "its attributes differ along {}, but device {} is in no group of it", dim, device);
    return {at(*along, cls.devices[rank]), at(*along, cls.devices[0])};
  }

  // Checks a kernel, a copy or an act of the host.
  void act(int p, const Actor& x) {
    const Program& program = at(plan_.programs, p);
    const PlanPlace where(program, x.name);
    const Types in = read_types(program, x), out = written_types(program, x);
    if (x.is(OpKind::load) || x.is(OpKind::parameter) || x.is(OpKind::constant)) {
      require(in.empty() && out.size() == 1, where,
              "{} reads {} and writes {}, expected one result and no operands", x.op, types_text(in),
              types_text(out));
      require(!x.is(OpKind::constant) || attr<double>(x.attrs, "value"), where,
              "a constant has an attribute value, a number such as 0.5");
      return;
    }
    if (x.is(OpKind::copy)) return copy(program, x, where);
    if (x.is(OpKind::save)) {
      require(in.size() == 1 && out.empty(), where, "save reads {} and writes {}, expected one operand",
              types_text(in), types_text(out));
      require(attr<int64_t>(x.attrs, "behind"), where, "save has an attribute behind, a whole number");
      return;
    }
    if (!has_op(x.op)) return known_time(where, x);
    const OpDef& def = op(x.op);
    each_rank(p, x, [&](const Attrs& attrs, int device) {
      Types made;
      try {
        made = def.infer(in, complete(def, attrs));
      } catch (const Error& error) {
        throw Error::input(where.text(), error.what());
      }
      require(made == out, where, "{} makes {} of {} on device {}, but its results are {}", x.op,
              types_text(made), types_text(in), device, types_text(out));
    });
  }

  // Each result is its operand. One that is smaller than its type has the operand's bytes.
  static void copy(const Program& program, const Actor& x, const PlanPlace& where) {
    std::vector<const Register*> in, out;
    for (const Input& input : x.inputs)
      if (const Register& reg = at(program.registers, input.reg); !is_control(reg)) in.push_back(&reg);
    for (const int reg : x.outputs)
      if (!is_control(at(program.registers, reg))) out.push_back(&at(program.registers, reg));
    const auto text = [](const Register& reg) {
      return fmt::format("%{}, {} in {} bytes", reg.name, to_text(reg.type), slot_bytes(reg));
    };
    require(x.kind == ActorKind::copy && !in.empty() && in.size() == out.size(), where,
            "copy has {} operands and {} results, expected as many", in.size(), out.size());
    for (size_t i = 0; i < in.size(); ++i)
      require(in[i]->type == out[i]->type &&
                  slot_bytes(*out[i]) >= (in[i]->over ? slot_bytes(*in[i]) : in[i]->type.bytes()),
              where, "copies {} to {}", text(*in[i]), text(*out[i]));
  }

  // The time of an op outside the registry is unknown unless the plan gives it.
  static void known_time(const PlanPlace& where, const Actor& x) {
    if (x.is(OpKind::write) || x.is(OpKind::read) || x.is(OpKind::decode) || x.attrs.contains("seconds"))
      return;
    std::vector<std::string> names;
    for (const OpDef& def : all_ops()) names.push_back(def.name);
    require(false, where, "no op is named \"{}\"{}", x.op, did_you_mean(x.op, names));
  }

  void known_attrs(const PlanPlace& where, const Actor& x,
                   std::initializer_list<std::string_view> known) const {
    for (const auto& [name, value] : x.attrs) {
      require(std::find(known.begin(), known.end(), changed_attr(name)) != known.end(), where,
              "no attribute {}; known are {}", name, fmt::join(known, ", "));
    }
  }

  void pull(int p, const Actor& x) {
    const Program& program = at(plan_.programs, p);
    const PlanPlace where(program, x.name);
    const Input& in = x.inputs[0];
    const Register& source = at(at(plan_.programs, in.program).registers, in.reg);
    const Types out = written_types(program, x);
    known_attrs(where, x, {"starts", "ends", "seconds"});
    if (out.empty()) return;
    require(!is_control(source) && out.size() == 1, where, "pulls %{}, {}, into {}", source.name,
            is_control(source) ? "a control register" : to_text(source.type), types_text(out));
    require(out[0].dtype == source.type.dtype, where, "pulls %{}, {}, as {}", source.name,
            to_text(source.type), to_text(out[0]));
    each_rank(p, x, [&](const Attrs& attrs, int device) {
      TensorType block = source.type;
      if (!attrs.empty())
        block.shape = block_of(where, source, in.view.value_or(source.type.shape), attrs, device);
      require(block.elements() == out[0].elements(), where, "pulls {} of %{} on device {}, into {}",
              to_text(block), source.name, device, to_text(out[0]));
    });
  }

  // `shape`: in which the source is read.
  static Shape block_of(const PlanPlace& where, const Register& source, const Shape& shape,
                        const Attrs& attrs, int device) {
    const auto *starts = attr<std::vector<int64_t>>(attrs, "starts"),
               *ends = attr<std::vector<int64_t>>(attrs, "ends");
    bool inside = starts && ends && starts->size() == shape.size() && ends->size() == shape.size();
    Shape block;
    for (size_t a = 0; inside && a < shape.size(); ++a) {
      inside = 0 <= (*starts)[a] && (*starts)[a] <= (*ends)[a] && (*ends)[a] <= shape[a];
      if (inside) block.push_back((*ends)[a] - (*starts)[a]);
    }
    require(inside, where, "starts and ends are no block of %{}, {}, on device {}", source.name,
            to_text(source.type), device);
    return block;
  }

  void collective_attrs(const Program& program, const Actor& x) const {
    const PlanPlace where(program, x.name);
    known_attrs(where, x, {"axes", "axes2", "reduction", "in_place", "seconds"});
    const auto is = [&](const char* name, bool right, const char* expected) {
      const auto found = x.attrs.find(name);
      require(found == x.attrs.end() || right, where, "attribute {} is {}, expected {}", name,
              found == x.attrs.end() ? "" : to_text(found->second), expected);
    };
    is("axes", attr<std::vector<int64_t>>(x.attrs, "axes"), "a list of axes, one for each operand");
    is("axes2", attr<std::vector<int64_t>>(x.attrs, "axes2"), "a list of axes, one for each operand");
    is("in_place", attr<bool>(x.attrs, "in_place"), "true or false");
    const auto* reduction = attr<std::string>(x.attrs, "reduction");
    is("reduction", reduction && (*reduction == "sum" || *reduction == "max" || *reduction == "min"),
       "sum, max or min");
  }

  static bool in_place(const Actor& x) {
    const bool* value = attr<bool>(x.attrs, "in_place");
    return value && *value;
  }

  // Operands and results of one member of a group.
  struct Member {
    const Program* program;
    const Actor* actor;
    Types in, out;
  };
  using Members = std::vector<Member>;

  // Checks the groups of a communicator. Groups with the same programs in the same places are checked once.
  void joint_acts(int comm) {
    std::map<std::string_view, std::vector<const Actor*>> joints;  // by name: by program
    for (size_t p = 0; p < plan_.programs.size(); ++p)
      for (const Actor& x : plan_.programs[p].actors) {
        if (x.comm != comm) continue;
        auto& actors = joints[x.joint.empty() ? x.name : x.joint];
        actors.resize(plan_.programs.size());
        actors[p] = &x;
      }
    if (joints.empty()) return;
    std::set<std::vector<int>> kinds;
    for (const std::vector<int>& group : at(plan_.comms, comm).groups) {
      std::vector<int> programs;
      for (const int device : group) programs.push_back(program_of(device));
      kinds.insert(std::move(programs));
    }
    for (const auto& [name, actors] : joints)
      for (const std::vector<int>& programs : kinds) {
        if (!at(actors, programs[0])) continue;
        Members members;
        for (const int p : programs) {
          const Program& program = at(plan_.programs, p);
          const Actor& x = *at(actors, p);
          members.push_back({&program, &x, read_types(program, x), written_types(program, x)});
        }
        joint_act(members);
      }
  }

  int program_of(int device) {
    if (program_of_.empty()) {
      program_of_.resize(static_cast<size_t>(plan_.devices));
      for (const RankClass& cls : plan_.classes)
        for (const int d : cls.devices) at(program_of_, d) = cls.program;
    }
    return at(program_of_, device);
  }

  void joint_act(Members& members) const {
    const Actor& first = *members[0].actor;
    for (Member& m : members) {
      const PlanPlace where(*m.program, m.actor->name);
      require(in_place(*m.actor) == in_place(first) &&
                  attr_or_none(m, "axes") == attr_or_none(members[0], "axes") &&
                  attr_or_none(m, "axes2") == attr_or_none(members[0], "axes2") &&
                  attr_or_none(m, "reduction") == attr_or_none(members[0], "reduction"),
              where, "has attributes {}, but {} of {} has {}", to_text(m.actor->attrs), first.name,
              members[0].program->name, to_text(first.attrs));
      if (!in_place(*m.actor)) continue;
      require(m.out.empty(), where, "writes over its operands, and {} beside", types_text(m.out));
      require(first.collective == Collective::all_reduce, where, "a {} cannot write over its operands",
              sbp::to_text(first.collective));
      m.out = m.in;
    }
    const bool from_root = first.collective == Collective::broadcast,
               to_root = first.collective == Collective::reduce;
    const size_t tensors = members[0].in.size();
    const DType dtype = tensors > 0 ? members[0].in[0].dtype : DType::float32;
    for (size_t k = 0; k < members.size(); ++k) {
      const Member& m = members[k];
      const PlanPlace where(*m.program, m.actor->name);
      const bool gives = m.in.size() == tensors || (from_root && k > 0 && m.in.empty());
      const bool gets = m.out.size() == tensors || (m.out.empty() && (to_root ? k > 0 : from_root && k == 0));
      require(gives && gets, where,
              "reads {} and writes {}, but the group's first member, {} of {}, reads {}", types_text(m.in),
              types_text(m.out), first.name, members[0].program->name, types_text(members[0].in));
      for (const Types* types : {&m.in, &m.out})
        for (const TensorType& type : *types)
          require(type.dtype == dtype, where, "{} beside {}", to_text(type), to_text(members[0].in[0]));
    }
    for (size_t i = 0; i < tensors; ++i) tensor(members, i);
  }

  static Attr attr_or_none(const Member& m, std::string_view name) {
    const auto found = m.actor->attrs.find(name);
    return found == m.actor->attrs.end() ? Attr(false) : found->second;
  }

  // Checks operand `i` of every member and its result.
  void tensor(const Members& members, size_t i) const {
    const TensorType& given = members[0].in[i];
    const auto side = [&](bool in) {
      Types types;
      for (const Member& m : members) {
        const Types& own = in ? m.in : m.out;
        if (!own.empty()) types.push_back(own[i]);
      }
      return types;
    };
    const Types in = side(true), out = side(false);
    switch (members[0].actor->collective) {
      case Collective::all_gather:
        return whole_of_parts(members, i, "axes", in, out, "gathers");
      case Collective::reduce_scatter:
        same(members, i, in, given);
        return parts_of_whole(members, i, "axes", out, given, "scatters");
      case Collective::all_to_all:
        return exchanged(members, i, in, out);
      default:
        same(members, i, in, given);
        same(members, i, out, given);
    }
  }

  void same(const Members& members, size_t i, const Types& types, const TensorType& as) const {
    for (const TensorType& type : types)
      require(type == as, PlanPlace(*members[0].program, members[0].actor->name),
              "its members hold {} and {} of tensor {}", to_text(as), to_text(type), i);
  }

  size_t axis_of(const Members& members, size_t i, const char* name, const TensorType& of) const {
    const Actor& x = *members[0].actor;
    const auto* axes = attr<std::vector<int64_t>>(x.attrs, name);
    const bool known = axes && axes->size() == members[0].in.size();
    const int64_t axis = known ? (*axes)[i] : -1;
    require(axis >= 0 && axis < static_cast<int64_t>(of.shape.size()), PlanPlace(*members[0].program, x.name),
            "{} is {}, which names no axis of tensor {}, {}", name, axes ? to_text(Attr(*axes)) : "missing",
            i, to_text(of));
    return static_cast<size_t>(axis);
  }

  // `parts` side by side along an axis are all of `whole`.
  void parts_of_whole(const Members& members, size_t i, const char* axes, const Types& parts,
                      const TensorType& whole, const char* verb) const {
    const size_t axis = axis_of(members, i, axes, whole);
    int64_t sum = 0;
    bool fit = true;
    for (const TensorType& part : parts) {
      TensorType filled = part;
      fit = fit && part.shape.size() == whole.shape.size() && part.shape[axis] <= whole.shape[axis];
      if (!fit) break;
      sum += part.shape[axis];
      filled.shape[axis] = whole.shape[axis];
      fit = filled == whole && sum <= whole.shape[axis];
    }
    require(fit && sum == whole.shape[axis], PlanPlace(*members[0].program, members[0].actor->name),
            "{} {} along axis {}, which are not the parts of {}", verb, types_text(parts), axis,
            to_text(whole));
  }

  void whole_of_parts(const Members& members, size_t i, const char* axes, const Types& parts,
                      const Types& wholes, const char* verb) const {
    for (const TensorType& whole : wholes) parts_of_whole(members, i, axes, parts, whole, verb);
  }

  // Member k gives part m of its tensor along axes2 to member m, which joins the parts along axes.
  void exchanged(const Members& members, size_t i, const Types& in, const Types& out) const {
    const size_t gathered = axis_of(members, i, "axes", in[0]), split = axis_of(members, i, "axes2", in[0]);
    const PlanPlace where(*members[0].program, members[0].actor->name);
    require(gathered != split, where, "gathers and splits tensor {} along axis {}", i, split);
    bool fit = true;
    for (const Types* types : {&in, &out})
      for (const TensorType& type : *types) fit = fit && type.shape.size() == in[0].shape.size();
    if (fit) {
      // The whole tensor: members hold its parts along `gathered` before, and along `split` after.
      TensorType whole = in[0];
      whole.shape[gathered] = out[0].shape[gathered];
      parts_of_whole(members, i, "axes", in, whole, "gathers");
      parts_of_whole(members, i, "axes2", out, whole, "splits");
    }
    require(fit, where, "its members hold {} and get {} of tensor {}", types_text(in), types_text(out), i);
  }

  const Plan& plan_;
  DeviceCoordinates coordinates_;
  std::vector<std::vector<const RankClass*>> classes_;  // by program
  std::vector<int> program_of_;                         // by device
};

}  // namespace

void check_types(const Plan& plan) { TypeChecker(plan).run(); }

}  // namespace boxcar::ir
