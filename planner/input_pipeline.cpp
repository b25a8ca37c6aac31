#include "planner/input_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "planner/host_registers.h"
#include "sbp/at.h"

namespace boxcar::planner {
namespace {

class PreparedLoad {
 public:
  PreparedLoad(ir::Program& program, int load, int slots)
      : program_(program),
        load_(load),
        slots_(slots),
        name_(at(program.actors, load).name),
        phase_(at(program.actors, load).phase) {}

  void add(int64_t decoders) {
    const int files = act("read", "read", ir::QueueKind::disk, {}, {}, "files");
    for (int64_t part = 0; part < decoders; ++part) {
      const int pixels = act("decode", fmt::format("decode{}", part), ir::QueueKind::host, {files},
                             {{"decoders", decoders}, {"part", part}}, fmt::format("pixels{}", part));
      at(program_.actors, load_).inputs.push_back({pixels, 1, -1, -1, {}});
    }
  }

 private:
  // Adds an actor on a queue with this name; returns the register that it writes.
  int act(const char* op, const std::string& queue, ir::QueueKind kind, const std::vector<int>& reads,
          ir::Attrs attrs, const std::string& writes) {
    const int reg =
        add_host_register(program_, name_ + "." + writes, static_cast<int>(program_.actors.size()), slots_);
    ir::Actor actor;
    actor.name = name_ + "." + queue;
    actor.kind = ir::ActorKind::host;
    actor.op = op;
    actor.attrs = std::move(attrs);
    for (const int r : reads) actor.inputs.push_back({r, 1, -1, -1, {}});
    actor.outputs = {reg};
    actor.queue = static_cast<int>(program_.queues.size());
    actor.phase = phase_;
    program_.queues.push_back({queue, kind, true});
    program_.actors.push_back(std::move(actor));
    return reg;
  }

  ir::Program& program_;
  int load_, slots_;
  std::string name_;
  int phase_;
};

}  // namespace

void add_input_pipeline(ir::Plan& plan, std::string_view reg, int decoders, int slots) {
  for (ir::Program& program : plan.programs)
    for (int a = 0, end = static_cast<int>(program.actors.size()); a < end; ++a) {
      const ir::Actor& load = at(program.actors, a);
      if (!load.is(ir::OpKind::load)) continue;
      const ir::Register& loaded = at(program.registers, load.outputs[0]);
      if (loaded.name == reg)
        PreparedLoad(program, a, slots).add(std::min<int64_t>(decoders, loaded.type.shape[0]));
    }
}

Rows decoded_rows(int64_t rows, int64_t part, int64_t decoders) {
  return {rows * part / decoders, rows * (part + 1) / decoders};
}

}  // namespace boxcar::planner
