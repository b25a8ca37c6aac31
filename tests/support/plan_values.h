// Values that a plan of ops "test" (support/random_plan.h, `real`) leaves in its registers, only by register
// versions: no queues, no slots, no time. Written from ir/plan.h, so that it can judge the runtime.
//
//   PlanValues values(plan);
//   values.run(3, 10);                // three steps, the first of them step 10
//   values.newest(device, "a0.0")     // as support/fake_backend.h computes it
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "support/fake_backend.h"

namespace boxcar::support {

using Values = std::vector<float>;

// A register's value before the first step, or the value loaded at a moment.
inline Values source_values(int device, const ir::Register& reg, const backends::Moment& moment) {
  uint64_t hash = mix(static_cast<uint64_t>(device * 100000 + moment.step * 100 + moment.micro_batch));
  for (const char c : reg.name) hash = mix(hash ^ static_cast<uint64_t>(c));
  Values values;
  for (int64_t i = 0; i < reg.type.elements(); ++i) values.push_back(test_value(hash, 0, i));
  return values;
}

class PlanValues {
 public:
  explicit PlanValues(const ir::Plan& plan) : plan_(plan), devices_(static_cast<size_t>(plan.devices)) {
    for (const ir::RankClass& cls : plan.classes)
      for (const int d : cls.devices) {
        Device& device = at(devices_, d);
        device.program = cls.program;
        const ir::Program& p = program(d);
        device.acts.resize(p.actors.size());
        device.registers.resize(p.registers.size());
        for (size_t r = 0; r < p.registers.size(); ++r) {
          const ir::Register& reg = p.registers[r];
          at(device.registers, static_cast<int>(r)).first = source_values(d, reg, {});
          for (int v = 0; v < reg.initial; ++v)
            at(device.registers, static_cast<int>(r))
                .versions.push_back({source_values(d, reg, {}), reg.every});
        }
      }
  }

  // False on deadlock.
  bool run(int64_t steps, int64_t first_step) {
    first_step_ = first_step;
    base_ = steps_;
    steps_ += steps;
    for (bool moved = true; moved;) {
      moved = false;
      for (int d = 0; d < plan_.devices; ++d)
        for (int a = 0; a < static_cast<int>(program(d).actors.size()); ++a)
          while (step(d, a)) moved = true;
    }
    for (int d = 0; d < plan_.devices; ++d)
      for (int a = 0; a < static_cast<int>(program(d).actors.size()); ++a)
        if (at(at(devices_, d).acts, a) < goal(d, a)) return false;
    return true;
  }

  const ir::Program& program(int device) const { return at(plan_.programs, at(devices_, device).program); }
  // The value that the runtime reads: the last whole version, else the initial one of an update in place.
  const Values& newest(int device, int reg) const {
    const Register& r = at(at(devices_, device).registers, reg);
    return r.versions.empty() ? r.first : r.versions.back().value;
  }

 private:
  struct Version {
    Values value;
    int writes = 0;
  };
  struct Register {
    Values first;
    std::vector<Version> versions;
  };
  struct Device {
    int program = 0;
    std::vector<int64_t> acts;
    std::vector<Register> registers;
  };
  struct Member {
    int device = 0, actor = 0;
  };

  template <typename T>
  static T& at(std::vector<T>& items, int64_t index) {
    return items.at(static_cast<size_t>(index));
  }
  template <typename T>
  static const T& at(const std::vector<T>& items, int64_t index) {
    return items.at(static_cast<size_t>(index));
  }
  const ir::Actor& actor(int d, int a) const { return at(program(d).actors, a); }
  const ir::Register& reg(int d, int r) const { return at(program(d).registers, r); }
  int64_t goal(int d, int a) const { return steps_ * program(d).acts_per_step(a); }

  bool ready(int d, int a) const {
    const int64_t act = at(at(devices_, d).acts, a);
    if (act >= goal(d, a)) return false;
    for (const ir::Input& in : actor(d, a).inputs) {
      const int from = in.program < 0 ? d : at(at(plan_.peers, in.peers).source, d);
      if (in.program < 0 && reg(d, in.reg).producer == a) continue;
      const auto& versions = at(at(devices_, from).registers, in.reg).versions;
      const int64_t v = act / in.repeat;
      if (v >= static_cast<int64_t>(versions.size()) || at(versions, v).writes < reg(from, in.reg).every)
        return false;
    }
    return true;
  }

  std::vector<Values> operands(int d, int a) const {
    std::vector<Values> result;
    const int64_t act = at(at(devices_, d).acts, a);
    for (const ir::Input& in : actor(d, a).inputs) {
      const int from = in.program < 0 ? d : at(at(plan_.peers, in.peers).source, d);
      const bool own = in.program < 0 && reg(d, in.reg).producer == a;
      result.push_back(own ? newest(d, in.reg)
                           : at(at(at(devices_, from).registers, in.reg).versions, act / in.repeat).value);
    }
    return result;
  }

  void write(int d, int a, const std::vector<Values>& results) {
    const int64_t act = at(at(devices_, d).acts, a)++;
    for (size_t o = 0; o < results.size(); ++o) {
      const int r = actor(d, a).outputs[o];
      auto& versions = at(at(devices_, d).registers, r).versions;
      const auto v = static_cast<size_t>(reg(d, r).initial + act / reg(d, r).every);
      if (v == versions.size()) {
        versions.push_back({results[o], 1});
        continue;
      }
      ++versions[v].writes;
      for (size_t i = 0; i < results[o].size(); ++i) versions[v].value[i] += results[o][i];
    }
  }

  bool step(int d, int a) {
    if (!ready(d, a)) return false;
    const ir::Actor& x = actor(d, a);
    if (x.kind == ir::ActorKind::collective) return joint(d, a);
    std::vector<Values> in = operands(d, a), out;
    if (x.kind == ir::ActorKind::pull) {
      if (x.attrs.contains("starts"))
        in[0] = Values(in[0].begin() + ir::attr_ints(x.attrs, "starts")[0],
                       in[0].begin() + ir::attr_ints(x.attrs, "ends")[0]);
      write(d, a, in);
      return true;
    }
    const backends::Moment now = moment(d, a);
    if (x.op == "load") {
      write(d, a, {source_values(d, reg(d, x.outputs[0]), now)});
      return true;
    }
    uint64_t hash = test_hash(x.attrs, now);
    for (const Values& values : in)
      hash = test_hash(hash, values.data(), static_cast<int64_t>(values.size()));
    for (size_t o = 0; o < x.outputs.size(); ++o) {
      out.emplace_back();
      for (int64_t e = 0; e < reg(d, x.outputs[o]).type.elements(); ++e)
        out.back().push_back(test_value(hash, o, e));
    }
    write(d, a, out);
    return true;
  }

  backends::Moment moment(int d, int a) const {
    const ir::Program& p = program(d);
    const int64_t per_step = p.acts_per_step(a), act = at(at(devices_, d).acts, a);
    backends::Moment result;
    result.step = first_step_ + act / per_step - base_;
    int64_t left = act % per_step;
    for (const ir::PhaseRun& run : p.schedule)
      if (run.phase == actor(d, a).phase && left-- == 0) result.micro_batch = run.micro_batch;
    return result;
  }

  bool joint(int d, int a) {
    std::vector<Member> members;
    for (const std::vector<int>& group : at(plan_.comms, actor(d, a).comm).groups) {
      if (std::find(group.begin(), group.end(), d) == group.end()) continue;
      for (const int m : group)
        for (int b = 0; b < static_cast<int>(program(m).actors.size()); ++b)
          if (actor(m, b).comm == actor(d, a).comm) members.push_back({m, b});
    }
    Values all, sum;
    std::vector<Values> parts;
    for (const Member& m : members) {
      if (!ready(m.device, m.actor)) return false;
      parts.push_back(operands(m.device, m.actor)[0]);
      all.insert(all.end(), parts.back().begin(), parts.back().end());
      sum.resize(std::max(sum.size(), parts.back().size()));
      for (size_t i = 0; i < parts.back().size(); ++i) sum[i] += parts.back()[i];
    }
    const sbp::Collective kind = actor(d, a).collective;
    auto begin = sum.begin();
    for (const Member& m : members) {
      Values own = kind == sbp::Collective::all_reduce  ? sum
                   : kind == sbp::Collective::broadcast ? parts[0]
                                                        : all;
      if (kind == sbp::Collective::reduce_scatter) {
        const int64_t n = reg(m.device, actor(m.device, m.actor).outputs[0]).type.elements();
        own.assign(begin, begin + n);
        begin += n;
      }
      write(m.device, m.actor, {own});
    }
    return true;
  }

  const ir::Plan& plan_;
  std::vector<Device> devices_;
  int64_t steps_ = 0, base_ = 0, first_step_ = 0;
};

}  // namespace boxcar::support
