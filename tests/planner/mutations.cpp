#include "planner/mutations.h"

#include <algorithm>
#include <set>
#include <utility>

#include "sbp/at.h"

namespace boxcar::planner {
namespace {

using ir::Actor;
using ir::Input;
using ir::Plan;
using ir::Program;
using ir::Register;

int pick(Random& random, int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

template <typename List>
int index_in(Random& random, const List& list) {
  return list.empty() ? -1 : pick(random, 0, static_cast<int>(list.size()) - 1);
}
template <typename List>
auto* any(Random& random, List& list) {
  const int i = index_in(random, list);
  return i < 0 ? nullptr : &at(list, i);
}
template <typename List>
bool drop_any(Random& random, List& list) {
  const int i = index_in(random, list);
  if (i >= 0) list.erase(list.begin() + i);
  return i >= 0;
}
template <typename List>
bool double_any(Random& random, List& list) {
  const int i = index_in(random, list);
  if (i < 0) return false;
  const auto copy = at(list, i);
  list.insert(list.begin() + pick(random, 0, static_cast<int>(list.size())), copy);
  return true;
}
template <typename List>
bool swap_any(Random& random, List& list) {
  if (list.size() < 2) return false;
  const int a = index_in(random, list), b = index_in(random, list);
  std::swap(at(list, a), at(list, b));
  return a != b;
}

// A different number: nearby, or far away.
int64_t other(Random& random, int64_t number) {
  const auto value = static_cast<uint64_t>(number);  // may wrap around
  const auto drawn = [&] { return static_cast<int64_t>(value + (uint64_t{1} << pick(random, 0, 62))); };
  switch (pick(random, 0, 6)) {
    case 0:
      return static_cast<int64_t>(value + 1);
    case 1:
      return static_cast<int64_t>(value - 1);
    case 2:
      return static_cast<int64_t>(value * 2);
    case 3:
      return number / 2;
    case 4:
      return static_cast<int64_t>(-value);
    case 5:
      return pick(random, 0, 8);
    default:
      return drawn();
  }
}
template <typename Number>
bool change_number(Random& random, Number& value) {
  const auto before = value;
  value = static_cast<Number>(other(random, value));
  return value != before;
}

Program& any_program(Plan& plan, Random& random) { return *any(random, plan.programs); }
Actor* any_actor(Plan& plan, Random& random) { return any(random, any_program(plan, random).actors); }
Register* any_register(Plan& plan, Random& random) {
  return any(random, any_program(plan, random).registers);
}
Input* any_input(Plan& plan, Random& random) {
  Actor* actor = any_actor(plan, random);
  return actor ? any(random, actor->inputs) : nullptr;
}

void drop_registers(Plan& plan, int p, const std::set<int>& gone) {
  Program& program = at(plan.programs, p);
  std::vector<int> now(program.registers.size(), -1);
  std::vector<Register> left;
  for (size_t r = 0; r < now.size(); ++r) {
    if (gone.contains(static_cast<int>(r))) continue;
    now[r] = static_cast<int>(left.size());
    left.push_back(program.registers[r]);
  }
  program.registers = std::move(left);
  for (size_t q = 0; q < plan.programs.size(); ++q)
    for (Actor& actor : plan.programs[q].actors) {
      const auto here = [&](const Input& in) {
        return (in.program < 0 ? static_cast<int>(q) : in.program) == p;
      };
      std::erase_if(actor.inputs, [&](const Input& in) { return here(in) && gone.contains(in.reg); });
      for (Input& in : actor.inputs)
        if (here(in)) in.reg = at(now, in.reg);
      if (static_cast<int>(q) != p) continue;
      std::erase_if(actor.outputs, [&](int r) { return gone.contains(r); });
      for (int& r : actor.outputs) r = at(now, r);
    }
}

// Removes an actor with its outputs, and these from its readers' inputs.
bool drop_actor(Plan& plan, Random& random) {
  const int p = index_in(random, plan.programs);
  Program& program = at(plan.programs, p);
  const int a = index_in(random, program.actors);
  if (a < 0) return false;
  const std::vector<int> outputs = at(program.actors, a).outputs;
  drop_registers(plan, p, {outputs.begin(), outputs.end()});
  program.actors.erase(program.actors.begin() + a);
  for (Register& reg : program.registers) reg.producer -= reg.producer > a;
  return true;
}

// Copies an actor under another name, with its own results.
bool double_actor(Plan& plan, Random& random) {
  Program& program = any_program(plan, random);
  const int a = index_in(random, program.actors);
  if (a < 0) return false;
  Actor copy = at(program.actors, a);
  copy.name += ".copy";
  for (int& out : copy.outputs) {
    Register reg = at(program.registers, out);
    reg.name += ".copy";
    reg.producer = static_cast<int>(program.actors.size());
    if (pick(random, 0, 1) == 0) reg.offset = -1;
    out = static_cast<int>(program.registers.size());
    program.registers.push_back(reg);
  }
  program.actors.push_back(copy);
  return true;
}

void swap_actors(Program& program, int a, int b) {
  std::swap(at(program.actors, a), at(program.actors, b));
  for (Register& reg : program.registers) {
    if (reg.producer == a || reg.producer == b) reg.producer = a + b - reg.producer;
  }
}

bool swap_any_actors(Plan& plan, Random& random) {
  Program& program = any_program(plan, random);
  const int a = index_in(random, program.actors), b = index_in(random, program.actors);
  if (a != b) swap_actors(program, a, b);
  return a != b;
}
bool swap_next_actors(Plan& plan, Random& random) {
  Program& program = any_program(plan, random);
  const int a = index_in(random, program.actors);
  if (a < 1) return false;
  swap_actors(program, a, a - 1);
  return true;
}

bool is_control_input(const Program& program, const Input& in) {
  return in.program < 0 && ir::is_control(at(program.registers, in.reg));
}
// Drops a control input if `control`, otherwise another input.
bool drop_input(Plan& plan, Random& random, bool control) {
  Program& program = any_program(plan, random);
  std::vector<std::pair<Actor*, int>> all;
  for (Actor& actor : program.actors)
    for (size_t i = 0; i < actor.inputs.size(); ++i)
      if (is_control_input(program, actor.inputs[i]) == control) all.push_back({&actor, static_cast<int>(i)});
  const auto* drawn = any(random, all);
  if (drawn) drawn->first->inputs.erase(drawn->first->inputs.begin() + drawn->second);
  return drawn;
}

// Drops the completion signal of a collective that writes over its operands.
bool drop_done(Plan& plan, Random& random) {
  Program& program = any_program(plan, random);
  std::vector<int> done;
  for (const Actor& actor : program.actors)
    if (actor.attrs.contains("in_place")) done.insert(done.end(), actor.outputs.begin(), actor.outputs.end());
  const int* reg = any(random, done);
  if (!reg) return false;
  std::vector<Actor*> readers;
  for (Actor& actor : program.actors)
    for (const Input& in : actor.inputs)
      if (in.program < 0 && in.reg == *reg) readers.push_back(&actor);
  Actor** reader = any(random, readers);
  if (reader)
    std::erase_if((*reader)->inputs, [&](const Input& in) { return in.program < 0 && in.reg == *reg; });
  return reader;
}

bool change_attr(Plan& plan, Random& random) {
  Actor* actor = any_actor(plan, random);
  if (!actor || actor->attrs.empty()) return false;
  auto it = std::next(actor->attrs.begin(), pick(random, 0, static_cast<int>(actor->attrs.size()) - 1));
  ir::Attr& attr = it->second;
  if (auto* number = std::get_if<int64_t>(&attr)) return change_number(random, *number);
  if (auto* list = std::get_if<std::vector<int64_t>>(&attr)) {
    if (pick(random, 0, 3) == 0) return drop_any(random, *list);
    if (pick(random, 0, 3) == 0) return double_any(random, *list);
    int64_t* element = any(random, *list);
    return element && change_number(random, *element);
  }
  if (auto* truth = std::get_if<bool>(&attr)) return *truth = !*truth, true;
  if (auto* text = std::get_if<std::string>(&attr)) return text->append("x"), true;
  attr = int64_t{7};
  return true;
}
bool change_kind_of_attr(Plan& plan, Random& random) {
  Actor* actor = any_actor(plan, random);
  if (!actor || actor->attrs.empty()) return false;
  auto it = std::next(actor->attrs.begin(), pick(random, 0, static_cast<int>(actor->attrs.size()) - 1));
  const ir::Attr others[] = {int64_t{1}, 0.5, true, std::string("word"), std::vector<int64_t>{1, 2}};
  it->second = others[pick(random, 0, 4)];
  return true;
}
bool drop_attr(Plan& plan, Random& random) {
  Actor* actor = any_actor(plan, random);
  if (!actor || actor->attrs.empty()) return false;
  actor->attrs.erase(
      std::next(actor->attrs.begin(), pick(random, 0, static_cast<int>(actor->attrs.size()) - 1)));
  return true;
}
bool add_attr(Plan& plan, Random& random) {
  Actor* actor = any_actor(plan, random);
  if (!actor) return false;
  const char* names[] = {"axis_step_tp", "starts_by_dp", "offset_step_rank",
                         "in_place",     "seconds",      "strange"};
  return actor->attrs.emplace(names[pick(random, 0, 5)], int64_t{pick(random, 0, 3)}).second;
}

bool change_op(Plan& plan, Random& random) {
  Program& program = any_program(plan, random);
  Actor *a = any(random, program.actors), *b = any(random, program.actors);
  if (!a || a->op == b->op) return false;
  a->op = b->op;
  return true;
}

bool change_shape(Plan& plan, Random& random) {
  Register* reg = any_register(plan, random);
  if (!reg) return false;
  sbp::Shape& shape = reg->type.shape;
  switch (pick(random, 0, 3)) {
    case 0:
      return drop_any(random, shape);
    case 1:
      return double_any(random, shape);
    case 2:
      return swap_any(random, shape);
    default:
      int64_t* extent = any(random, shape);
      return extent && change_number(random, *extent);
  }
}

template <typename Enum>
bool change_enum(Random& random, Enum& value, int count) {
  const Enum before = value;
  value = static_cast<Enum>(pick(random, 0, count - 1));
  return value != before;
}

std::vector<int>* any_group(Plan& plan, Random& random) {
  ir::Comm* comm = any(random, plan.comms);
  return comm ? any(random, comm->groups) : nullptr;
}

template <typename List>
bool rename(Random& random, List& list) {
  auto *a = any(random, list), *b = any(random, list);
  if (!a || a == b || a->name == b->name) return false;
  a->name = b->name;
  return true;
}

// Changes a field of a random program.
template <typename Field>
auto of_program(Field field,
                bool (*change)(Random&, std::decay_t<decltype(std::declval<Program&>().*field)>&)) {
  return [=](Plan& plan, Random& random) { return change(random, any_program(plan, random).*field); };
}
template <typename Number>
auto number_of_register(Number Register::*field) {
  return [=](Plan& plan, Random& random) {
    Register* reg = any_register(plan, random);
    return reg && change_number(random, reg->*field);
  };
}
template <typename Number>
auto number_of_actor(Number Actor::*field) {
  return [=](Plan& plan, Random& random) {
    Actor* actor = any_actor(plan, random);
    return actor && change_number(random, actor->*field);
  };
}
template <typename Number>
auto number_of_input(Number Input::*field) {
  return [=](Plan& plan, Random& random) {
    Input* in = any_input(plan, random);
    return in && change_number(random, in->*field);
  };
}
template <typename Number>
auto number_of_program(Number Program::*field) {
  return [=](Plan& plan, Random& random) { return change_number(random, any_program(plan, random).*field); };
}

std::vector<Mutation> make() {
  using P = Plan&;
  using R = Random&;
  return {
      {"drop an actor", false, drop_actor},
      {"double an actor", true, double_actor},
      {"swap two actors", true, swap_any_actors},
      {"swap neighbouring actors", true, swap_next_actors},
      {"drop a control edge", true, [](P p, R r) { return drop_input(p, r, true); }},
      {"drop a done edge", true, drop_done},
      {"drop an operand", false, [](P p, R r) { return drop_input(p, r, false); }},
      {"double an operand", false,
       [](P p, R r) {
         Actor* a = any_actor(p, r);
         return a && double_any(r, a->inputs);
       }},
      {"swap two operands", false,
       [](P p, R r) {
         Actor* a = any_actor(p, r);
         return a && swap_any(r, a->inputs);
       }},
      {"another operand", false, number_of_input(&Input::reg)},
      {"an operand of elsewhere", false, number_of_input(&Input::program)},
      {"other peers of an operand", false, number_of_input(&Input::peers)},
      {"repeat", true, number_of_input(&Input::repeat)},
      {"a view", true,
       [](P p, R r) {
         Input* in = any_input(p, r);
         if (!in || !in->view) return false;
         if (pick(r, 0, 1) == 0) return in->view.reset(), true;
         int64_t* extent = any(r, *in->view);
         return extent && change_number(r, *extent);
       }},
      {"drop a register from its producer", false,
       [](P p, R r) {
         Actor* a = any_actor(p, r);
         return a && drop_any(r, a->outputs);
       }},
      {"double a result", false,
       [](P p, R r) {
         Actor* a = any_actor(p, r);
         return a && double_any(r, a->outputs);
       }},
      {"swap two results", false,
       [](P p, R r) {
         Actor* a = any_actor(p, r);
         return a && swap_any(r, a->outputs);
       }},
      {"drop a register", false,
       [](P p, R r) {
         const int i = index_in(r, p.programs);
         const int reg = index_in(r, at(p.programs, i).registers);
         if (reg >= 0) drop_registers(p, i, {reg});
         return reg >= 0;
       }},
      {"swap two registers", false, of_program(&Program::registers, swap_any)},
      {"slots", true, number_of_register(&Register::count)},
      {"a slot fewer", true,
       [](P p, R r) {
         Register* reg = any_register(p, r);
         return reg && reg->count > 1 && (--reg->count, true);
       }},
      {"bytes of a slot", true, number_of_register(&Register::bytes)},
      {"no bytes", false,
       [](P p, R r) {
         Register* reg = any_register(p, r);
         return reg && std::exchange(reg->bytes, 0) != 0;
       }},
      {"place in memory", true, number_of_register(&Register::offset)},
      {"the place of another", true,
       [](P p, R r) {
         Program& program = any_program(p, r);
         Register *a = any(r, program.registers), *b = any(r, program.registers);
         return a && std::exchange(a->offset, b->offset) != b->offset;
       }},
      {"initial", false, number_of_register(&Register::initial)},
      {"every", false, number_of_register(&Register::every)},
      {"producer", false, number_of_register(&Register::producer)},
      {"over an operand", true,
       [](P p, R r) {
         Register* reg = any_register(p, r);
         return reg && (reg->over = true);
       }},
      {"shape", false, change_shape},
      {"element type", false,
       [](P p, R r) {
         Register* reg = any_register(p, r);
         return reg && change_enum(r, reg->type.dtype, 9);
       }},
      {"kind of memory", true,
       [](P p, R r) {
         Register* reg = any_register(p, r);
         return reg && change_enum(r, reg->memory, ir::memory_kinds);
       }},
      {"name of a register", false, of_program(&Program::registers, rename)},
      {"name of an actor", true, of_program(&Program::actors, rename)},
      {"name of a queue", true, of_program(&Program::queues, rename)},
      {"queue of an actor", true, number_of_actor(&Actor::queue)},
      {"phase of an actor", true, number_of_actor(&Actor::phase)},
      {"communicator", false, number_of_actor(&Actor::comm)},
      {"bytes moved", true, number_of_actor(&Actor::comm_bytes)},
      {"workspace of an actor", true, number_of_actor(&Actor::workspace)},
      {"turn", true, number_of_actor(&Actor::source_queue)},
      {"collective", false,
       [](P p, R r) {
         Actor* a = any_actor(p, r);
         return a && change_enum(r, a->collective, 8);
       }},
      {"another collective", false,
       [](P p, R r) {
         Actor* a = any_actor(p, r);
         return a && a->comm >= 0 && change_enum(r, a->collective, 8);
       }},
      {"kind of an actor", false,
       [](P p, R r) {
         Actor* a = any_actor(p, r);
         return a && change_enum(r, a->kind, 5);
       }},
      {"joint act", false,
       [](P p, R r) {
         Actor* a = any_actor(p, r);
         return a && a->comm >= 0 && (a->joint = "another", true);
       }},
      {"op", false, change_op},
      {"attribute", false, change_attr},
      {"kind of an attribute", false, change_kind_of_attr},
      {"drop an attribute", false, drop_attr},
      {"add an attribute", false, add_attr},
      {"drop a queue", true, of_program(&Program::queues, drop_any)},
      {"double a queue", true, of_program(&Program::queues, double_any)},
      {"swap two queues", true, of_program(&Program::queues, swap_any)},
      {"order of a queue", true,
       [](P p, R r) {
         ir::Queue* queue = any(r, any_program(p, r).queues);
         return queue && (queue->ordered = !queue->ordered, true);
       }},
      {"kind of a queue", true,
       [](P p, R r) {
         ir::Queue* queue = any(r, any_program(p, r).queues);
         return queue && change_enum(r, queue->kind, 6);
       }},
      {"drop a phase", true, of_program(&Program::phases, drop_any)},
      {"double a phase", true, of_program(&Program::phases, double_any)},
      {"swap two phases", true, of_program(&Program::phases, swap_any)},
      {"drop a run", true, of_program(&Program::schedule, drop_any)},
      {"double a run", true, of_program(&Program::schedule, double_any)},
      {"swap two runs", true, of_program(&Program::schedule, swap_any)},
      {"micro-batch of a run", true,
       [](P p, R r) {
         ir::PhaseRun* run = any(r, any_program(p, r).schedule);
         return run && change_number(r, run->micro_batch);
       }},
      {"phase of a run", true,
       [](P p, R r) {
         ir::PhaseRun* run = any(r, any_program(p, r).schedule);
         return run && change_number(r, run->phase);
       }},
      {"arena", true, number_of_program(&Program::arena_bytes)},
      {"bytes of the workspace", true, number_of_program(&Program::workspace_bytes)},
      {"place of the workspace", true, number_of_program(&Program::workspace_offset)},
      {"micro-batches", true, [](P p, R r) { return change_number(r, p.micro_batches); }},
      {"devices", false, [](P p, R r) { return change_number(r, p.devices); }},
      {"drop a class", false, [](P p, R r) { return drop_any(r, p.classes); }},
      {"double a class", false, [](P p, R r) { return double_any(r, p.classes); }},
      {"program of a class", false,
       [](P p, R r) {
         ir::RankClass* cls = any(r, p.classes);
         return cls && change_number(r, cls->program);
       }},
      {"swap programs", false, [](P p, R r) { return swap_any(r, p.programs); }},
      {"a device of a class", false,
       [](P p, R r) {
         ir::RankClass* cls = any(r, p.classes);
         int* device = cls ? any(r, cls->devices) : nullptr;
         return device && change_number(r, *device);
       }},
      {"drop a communicator", false, [](P p, R r) { return drop_any(r, p.comms); }},
      {"swap communicators", false, [](P p, R r) { return swap_any(r, p.comms); }},
      {"name of a communicator", false, [](P p, R r) { return rename(r, p.comms); }},
      {"drop a group", false,
       [](P p, R r) {
         ir::Comm* comm = any(r, p.comms);
         return comm && drop_any(r, comm->groups);
       }},
      {"double a group", false,
       [](P p, R r) {
         ir::Comm* comm = any(r, p.comms);
         return comm && double_any(r, comm->groups);
       }},
      {"drop a member", false,
       [](P p, R r) {
         auto* group = any_group(p, r);
         return group && drop_any(r, *group);
       }},
      {"double a member", false,
       [](P p, R r) {
         auto* group = any_group(p, r);
         return group && double_any(r, *group);
       }},
      {"swap members", false,
       [](P p, R r) {
         auto* group = any_group(p, r);
         return group && swap_any(r, *group);
       }},
      {"swap members of two groups", false,
       [](P p, R r) {
         ir::Comm* comm = any(r, p.comms);
         if (!comm || comm->groups.size() < 2) return false;
         auto *a = any(r, comm->groups), *b = any(r, comm->groups);
         if (a == b) return false;
         std::swap(*any(r, *a), *any(r, *b));
         return true;
       }},
      {"another member", false,
       [](P p, R r) {
         auto* group = any_group(p, r);
         int* member = group ? any(r, *group) : nullptr;
         return member && change_number(r, *member);
       }},
      {"drop peers", false, [](P p, R r) { return drop_any(r, p.peers); }},
      {"swap peers", false, [](P p, R r) { return swap_any(r, p.peers); }},
      {"whom to pull from", false,
       [](P p, R r) {
         ir::Peers* peers = any(r, p.peers);
         int* source = peers ? any(r, peers->source) : nullptr;
         return source && change_number(r, *source);
       }},
  };
}

}  // namespace

const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all = make();
  return all;
}

std::string mutated_text(const std::string& text, Random& random) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  const int kind = pick(random, 0, 9);
  if (kind == 0) drop_any(random, lines);
  if (kind == 1) double_any(random, lines);
  if (kind == 2) swap_any(random, lines);
  if (kind > 2) {  // a word of one line becomes a word of another, or another number
    const auto words = [](const std::string& line) {
      std::vector<std::pair<size_t, size_t>> found;  // begin, length
      constexpr const char* apart = " ,()[]{}%@:=";
      for (size_t at = 0; (at = line.find_first_not_of(apart, at)) != line.npos;) {
        const size_t end = std::min(line.find_first_of(apart, at), line.size());
        found.push_back({at, end - at});
        at = end;
      }
      return found;
    };
    std::string& line = *any(random, lines);
    const std::string& from = *any(random, lines);
    auto mine = words(line), theirs = words(from);
    if (!mine.empty() && !theirs.empty()) {
      const auto [at, size] = *any(random, mine);
      const std::string old = line.substr(at, size);
      const bool number = old.find_first_not_of("0123456789") == old.npos && old.size() < 18;
      const auto [begin, length] = *any(random, theirs);
      line.replace(at, size,
                   number ? std::to_string(other(random, std::stoll(old))) : from.substr(begin, length));
    }
  }
  std::string result;
  for (const std::string& line : lines) result += line + '\n';
  return result;
}

}  // namespace boxcar::planner
