// Reads a plan's text; ir/plan.h shows the form. Lines are read in order; names of later programs (in class
// lines and pulls) are looked up at the end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <unordered_map>

#include "ir/plan.h"
#include "ir/plan_notation.h"
#include "ir/read_number.h"
#include "sbp/at.h"
#include "sbp/error.h"
#include "sbp/suggest.h"

namespace boxcar::ir {
namespace {

constexpr int most_count = std::numeric_limits<int>::max();
// A few words can list many devices, and each takes memory. More than any plan needs is a mistake in the
// text.
constexpr size_t most_listed = 1 << 25;  // devices in all lists of a plan

// Names of one kind, with their indices.
class Names {
 public:
  void add(PlanLine& in, size_t at, const char* what, const std::string& name) {
    if (!numbers_.emplace(name, static_cast<int>(list_.size())).second) {
      in.fail_at(at, fmt::format("there is a {} {} already", what, name));
    }
    list_.push_back(name);
  }
  int find(const PlanLine& in, size_t at, const char* what, const std::string& name) const {
    auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    in.fail_at(at, fmt::format("no {} {}{}", what, name, did_you_mean(name, list_)));
  }

 private:
  std::unordered_map<std::string, int> numbers_;
  std::vector<std::string> list_;
};

template <typename Kind>
std::string known_kinds(std::initializer_list<Kind> kinds) {
  std::string known;
  for (Kind kind : kinds) known += (known.empty() ? "" : ", ") + std::string(to_text(kind));
  return known;
}

template <typename Kind>
Kind parse_kind(PlanLine& in, std::initializer_list<Kind> kinds, const char* what) {
  for (Kind kind : kinds)
    if (in.take_word(to_text(kind))) return kind;
  in.fail(fmt::format("expected {}: {}", what, known_kinds(kinds)));
}

constexpr auto all_queue_kinds = {QueueKind::compute, QueueKind::copy_in, QueueKind::copy_out,
                                  QueueKind::network, QueueKind::disk,    QueueKind::host};
constexpr auto all_memory_kinds = {MemoryKind::parameters, MemoryKind::gradients, MemoryKind::optimizer,
                                   MemoryKind::activations, MemoryKind::workspace};
constexpr auto all_actor_kinds = {ActorKind::kernel, ActorKind::collective, ActorKind::pull, ActorKind::copy,
                                  ActorKind::host};
using sbp::Collective;
constexpr auto collectives = {Collective::none,           Collective::all_reduce, Collective::all_gather,
                              Collective::reduce_scatter, Collective::all_to_all, Collective::broadcast,
                              Collective::reduce,         Collective::transfer};

struct ProgramNames {
  Names phases, queues, registers, actors;
};

// A pull's operand, to be looked up after every program has been read.
struct Pending {
  int program = 0, actor = 0;
  PlanLine line{"", 0};
  size_t reg_at = 0, program_at = 0, turn_at = 0;
  std::string reg, from, turn;
};
struct PendingClass {
  PlanLine line{"", 0};
  size_t at = 0;
  std::string program;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Plan read() {
    int number = 0;
    for (size_t begin = 0; begin < text_.size();) {
      size_t end = std::min(text_.find('\n', begin), text_.size());
      PlanLine in(text_.substr(begin, end - begin), ++number);
      if (!in.done() && !in.peek('#')) read_line(in);
      begin = end + 1;
    }
    if (number == 0 || plan_.devices == 0) {
      throw Error::input("plan:1:1", "expected \"plan NAME\", then \"devices N\"");
    }
    for (size_t c = 0; c < classes_.size(); ++c) {
      plan_.classes[c].program =
          programs_.find(classes_[c].line, classes_[c].at, "program", classes_[c].program);
    }
    for (const Pending& pull : pulls_) look_up(pull);
    return std::move(plan_);
  }

 private:
  void read_line(PlanLine& in) {
    if (plan_.devices == 0) return read_first(in);
    if (in.take_word("program")) {
      in.done();
      size_t at = in.at();
      plan_.programs.emplace_back().name = in.name("a program");
      programs_.add(in, at, "program", plan_.programs.back().name);
      if (in.take_word("stage")) plan_.programs.back().stage = static_cast<int>(in.number(0, most_devices));
      names_.emplace_back();
      return in.expect_done();
    }
    plan_.programs.empty() ? read_head(in) : read_body(in);
    in.expect_done();
  }

  void read_first(PlanLine& in) {
    if (named_) {
      in.expect_word("devices");
      plan_.devices = static_cast<int>(in.number(1, most_devices));
    } else {
      in.expect_word("plan");
      plan_.name = in.name("the plan's name");
      named_ = true;
    }
    in.expect_done();
  }

  void read_head(PlanLine& in) {
    if (in.take_word("micro_batches")) {
      plan_.micro_batches = in.small(1);
    } else if (in.take_word("fact")) {
      std::string key = in.name("a fact");
      in.expect('=');
      in.done();
      const size_t at = in.at();
      const double value = in.real();
      if (!std::isfinite(value) || value < 0)
        in.fail_at(at, fmt::format("{} is {}, expected a number from 0 on", key, value));
      plan_.facts[key] = value;
    } else if (in.take_word("label")) {
      std::string key = in.name("a label");
      in.expect('=');
      std::string_view value = in.rest();
      bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
      plan_.labels[key] = quoted ? value.substr(1, value.size() - 2) : value;
    } else if (in.take_word("comm")) {
      std::string name = new_name(in, comms_, "communicator");
      plan_.comms.push_back({name, parse_groups(in, plan_.devices)});
      for (const auto& group : plan_.comms.back().groups) count(in, listed_, group.size());
    } else if (in.take_word("peers")) {
      std::string name = new_name(in, peers_, "list of peers");
      count(in, listed_, static_cast<size_t>(plan_.devices));
      plan_.peers.push_back({name, parse_peers(in, plan_.devices)});
    } else if (in.take_word("class")) {
      plan_.classes.push_back({0, parse_device_list(in, plan_.devices)});
      count(in, listed_, plan_.classes.back().devices.size());
      in.expect(':');
      in.done();
      size_t at = in.at();
      std::string program = in.name("a program");
      classes_.push_back({in, at, program});
    } else {
      in.fail("expected micro_batches, fact, label, comm, peers, class or program");
    }
  }

  static void count(const PlanLine& in, size_t& listed, size_t more) {
    if ((listed += more) > most_listed)
      in.fail(fmt::format("lists of more than {} devices together", most_listed));
  }

  // "NAME:", a name that is not yet in `names`.
  std::string new_name(PlanLine& in, Names& names, const char* what) {
    in.done();
    size_t at = in.at();
    std::string name = in.name(fmt::format("the name of a {}", what));
    names.add(in, at, what, name);
    in.expect(':');
    return name;
  }

  void read_body(PlanLine& in) {
    Program& program = plan_.programs.back();
    if (in.take('%')) return read_register(in);
    if (in.take_word("arena")) {
      program.arena_bytes = in.number(0, most_bytes);
    } else if (in.take_word("workspace")) {
      program.workspace_bytes = in.number(0, most_bytes);
      if (in.take('@')) program.workspace_offset = in.number(0, most_bytes);
    } else if (in.take_word("host_memory")) {
      program.host_bytes = in.number(0, most_bytes);
    } else if (in.take_word("phases")) {
      do {
        in.done();
        size_t at = in.at();
        program.phases.push_back(in.name("a phase"));
        names_.back().phases.add(in, at, "phase", program.phases.back().name);
      } while (in.take(','));
    } else if (in.take_word("schedule")) {
      if (!program.schedule.empty()) in.fail("there is a schedule already");
      program.schedule = parse_schedule(in, program.phases, most_runs - runs_);
      runs_ += static_cast<int64_t>(program.schedule.size());
    } else if (in.take_word("queue")) {
      std::string name = new_name(in, names_.back().queues, "queue");
      QueueKind kind = parse_kind(in, all_queue_kinds, "a kind of queue");
      program.queues.push_back({name, kind, !in.take_word("unordered")});
    } else {
      read_actor(in);
    }
  }

  void read_register(PlanLine& in) {
    Register reg;
    reg.name = new_name(in, names_.back().registers, "register");
    in.done();
    size_t at = in.at();
    std::string type = in.name("a type");
    if (in.peek('[')) type += in.until('[', ']');
    reg.type = guarded(in, at, [&] { return parse_tensor_type(type); });
    double bytes = static_cast<double>(size_of(reg.type.dtype));
    for (int64_t extent : reg.type.shape) bytes *= static_cast<double>(extent);
    if (bytes > static_cast<double>(most_bytes)) in.fail_at(at, "a tensor of more than 1 EiB");
    reg.bytes = reg.type.bytes();
    in.done();
    at = in.at();
    std::string count = in.name("a count such as x2");
    reg.count = count.starts_with('x') ? read_number<int>(std::string_view(count).substr(1)).value_or(0) : 0;
    if (reg.count < 1)
      in.fail_at(at, fmt::format("expected a count from x1 to x{}, got {}", most_count, count));
    reg.memory = parse_kind(in, all_memory_kinds, "a kind of memory");
    if (in.take_word("host")) {
      reg.bytes = 0;
      reg.host_bytes = in.number(1, most_bytes);
    } else if (in.take_word("bytes")) {
      reg.bytes = in.number(0, most_bytes);
    }
    reg.over = in.take_word("over");
    if (in.take_word("initial")) reg.initial = in.small(0);
    if (in.take_word("every")) reg.every = in.small(1);
    if (in.take('@')) reg.offset = in.number(0, most_bytes);
    plan_.programs.back().registers.push_back(std::move(reg));
  }

  template <typename Parse>
  auto guarded(const PlanLine& in, size_t at, Parse parse) const -> decltype(parse()) {
    try {
      return parse();
    } catch (const Error& error) {
      in.fail_at(at, error.what());
    }
  }

  void read_actor(PlanLine& in) {
    Program& program = plan_.programs.back();
    Pending pull;
    pull.program = static_cast<int>(plan_.programs.size()) - 1;
    pull.actor = static_cast<int>(program.actors.size());
    Actor actor;
    size_t at = in.at();
    actor.name = in.name("an actor");
    names_.back().actors.add(in, at, "actor", actor.name);
    read_op(in, actor);
    in.expect('(');
    while (!in.take(')')) {
      if (!actor.inputs.empty()) in.expect(',');
      actor.inputs.push_back(read_input(in, pull));
    }
    if (in.peek('{')) actor.attrs = read_attrs(in);
    if (in.take('-')) {
      in.expect('>');
      do actor.outputs.push_back(read_output(in, pull.actor));
      while (in.take(','));
    }
    actor.queue = read_reference(in, "on", names_.back().queues, "queue");
    actor.phase = read_reference(in, "in", names_.back().phases, "phase");
    read_details(in, actor, pull);
    program.actors.push_back(std::move(actor));
    if (!pull.from.empty()) pulls_.push_back(std::move(pull));
  }

  // "[KIND] OP"
  void read_op(PlanLine& in, Actor& actor) {
    in.done();
    const size_t at = in.at();
    actor.op = in.name("an op");
    bool kind_said = !in.peek('(');
    if (kind_said) {
      const auto* kind = std::find_if(all_actor_kinds.begin(), all_actor_kinds.end(),
                                      [&](ActorKind known) { return actor.op == to_text(known); });
      if (kind == all_actor_kinds.end())
        in.fail_at(
            at, fmt::format("expected a kind of actor: {}, got {}", known_kinds(all_actor_kinds), actor.op));
      actor.kind = *kind;
      actor.op = in.name("an op");
    } else if (actor.op == "pull") {
      actor.kind = ActorKind::pull;
    }
    for (Collective collective : collectives) {
      if (actor.op != sbp::to_text(collective) || collective == Collective::none) continue;
      if (kind_said && actor.kind != ActorKind::collective) continue;
      actor.kind = ActorKind::collective;
      actor.collective = collective;
    }
  }

  Input read_input(PlanLine& in, Pending& pull) {
    Input input;
    in.expect('%');
    size_t at = in.at();
    std::string reg = in.name("a register");
    if (in.take_word("as")) {
      in.done();
      size_t view_at = in.at();
      std::string_view extents = in.until('[', ']');
      input.view =
          guarded(in, view_at, [&] { return parse_tensor_type("int8" + std::string(extents)).shape; });
    }
    if (in.take_word("of")) {
      in.done();
      pull.line = in;
      pull.reg = reg;
      pull.reg_at = at;
      pull.program_at = in.at();
      pull.from = in.name("a program");
    } else {
      input.reg = names_.back().registers.find(in, at, "register", reg);
    }
    if (in.take_word("via")) {
      in.done();
      size_t peers_at = in.at();
      input.peers = peers_.find(in, peers_at, "list of peers", in.name("a list of peers"));
    }
    if (in.take_word("repeat")) input.repeat = in.small(1);
    return input;
  }

  Attrs read_attrs(PlanLine& in) {
    Attrs attrs;
    in.expect('{');
    while (!in.take('}')) {
      if (!attrs.empty()) in.expect(',');
      std::string key = in.name("an attribute");
      in.expect('=');
      in.done();
      size_t at = in.at();
      if (in.peek('"')) {
        attrs[key] = in.name("a value");
        continue;
      }
      std::string value = in.peek('[') ? std::string(in.until('[', ']')) : in.name("a value");
      attrs[key] = guarded(in, at, [&] { return parse_attr(value); });
    }
    return attrs;
  }

  int read_output(PlanLine& in, int actor) {
    in.expect('%');
    const size_t where = in.at();
    int reg = names_.back().registers.find(in, where, "register", in.name("a register"));
    int& producer = at(plan_.programs.back().registers, reg).producer;
    if (producer >= 0) in.fail_at(where, "another output is written to this register");
    producer = actor;
    return reg;
  }

  int read_reference(PlanLine& in, const char* word, const Names& names, const char* what) {
    in.expect_word(word);
    in.done();
    size_t at = in.at();
    return names.find(in, at, what, in.name(fmt::format("a {}", what)));
  }

  void read_details(PlanLine& in, Actor& actor, Pending& pull) {
    if (in.take_word("layer")) actor.layer = in.small(0);
    if (in.take_word("moves")) actor.moves = in.name("a tensor");
    if (in.take_word("over")) {
      in.done();
      size_t at = in.at();
      actor.comm = comms_.find(in, at, "communicator", in.name("a communicator"));
    }
    if (in.take_word("does")) actor.collective = read_collective(in);
    if (in.take_word("joint")) actor.joint = in.name("a joint act");
    if (in.take_word("bytes")) actor.comm_bytes = in.number(0, most_bytes);
    if (in.take_word("workspace")) actor.workspace = in.number(0, most_bytes);
    if (in.take_word("turn")) {
      in.done();
      pull.turn_at = in.at();
      pull.turn = in.name("a queue");
      if (pull.from.empty()) in.fail_at(pull.turn_at, "a turn, but no operand is of another program");
    }
  }

  Collective read_collective(PlanLine& in) {
    for (Collective collective : collectives) {
      if (in.take_word(sbp::to_text(collective))) return collective;
    }
    in.fail("expected a collective such as all_reduce");
  }

  void look_up(const Pending& pull) {
    Actor& actor = at(at(plan_.programs, pull.program).actors, pull.actor);
    int from = programs_.find(pull.line, pull.program_at, "program", pull.from);
    const ProgramNames& names = at(names_, from);
    for (Input& input : actor.inputs) {
      if (input.reg >= 0) continue;
      input.program = from;
      input.reg = names.registers.find(pull.line, pull.reg_at, "register", pull.reg);
    }
    if (!pull.turn.empty()) {
      actor.source_queue = names.queues.find(pull.line, pull.turn_at, "queue", pull.turn);
    }
  }

  std::string_view text_;
  Plan plan_;
  bool named_ = false;
  size_t listed_ = 0;  // of devices, by classes, communicators and peers
  int64_t runs_ = 0;   // of all schedules
  Names programs_, comms_, peers_;
  std::vector<ProgramNames> names_;  // by program
  std::vector<Pending> pulls_;
  std::vector<PendingClass> classes_;
};

}  // namespace

Plan parse_plan(std::string_view text) { return Reader(text).read(); }

}  // namespace boxcar::ir
