// Watches one device's memory while a plan runs. It knows the held slots, and checks that none is written
// over another or while it is read. A slot is held from the start of the first act that writes it until the
// last reader has ended. A slot updated in place is always held.
//
//   probe.write(reg, slot);    // an act begins to write it: throws Error (fault) if it may not
//   probe.written(reg, slot);  // it is complete; the register's readers may read it
//   probe.release(reg, slot);  // one of them has ended
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "sbp/at.h"

namespace boxcar::actors {

class Probe {
 public:
  // By register: readers of each slot, and whether it is updated in place.
  struct Use {
    int readers = 0;
    bool in_place = false;
  };
  // Throws Error (fault) if the slots held before the first act do not fit.
  Probe(const ir::Program& program, std::vector<Use> uses);

  void write(int reg, int slot);
  void written(int reg, int slot);
  void release(int reg, int slot);
  int64_t peak() const;   // most bytes held at once
  int64_t reach() const;  // the end of the highest slot ever held

 private:
  struct Slot {
    int readers = 0;
    bool held = false;
  };
  struct Span {
    int64_t end = 0;
    int reg = 0;
  };
  const ir::Register& reg(int index) const { return at(program_.registers, index); }
  Slot& slot(int reg, int slot) { return at(at(slots_, reg), slot); }
  void hold(int reg, int slot);
  void drop(int reg, int slot);

  const ir::Program& program_;
  std::vector<Use> uses_;
  mutable std::mutex mutex_;
  std::vector<std::vector<Slot>> slots_;  // by register
  std::map<int64_t, Span> spans_;         // held bytes of the arena, by first byte
  int64_t held_ = 0, peak_ = 0, reach_ = 0;
};

}  // namespace boxcar::actors
