// Tests that every backend must pass, over a world of eight devices. A backend takes part by naming a way to
// make its world:
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, Conformance, testing::Values(WorldMaker{"threads", [] { return ...; }}),
//                            world_name);
//
// In a run of several processes, each runs the same tests and gives the backend of its own devices.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace boxcar::backends {

inline constexpr int world_devices = 8;

// The devices of this test program: one backend per process that it plays. Transports have been started.
class World {
 public:
  virtual ~World() = default;
  virtual std::vector<Backend*> backends() = 0;
};

// Thrown by a maker if this machine has no such world: the tests are skipped.
struct Unavailable {
  std::string why;
};

struct WorldMaker {
  std::string name;
  std::function<std::shared_ptr<World>()> make;  // a new world, or the only possible one
};
inline std::ostream& operator<<(std::ostream& out, const WorldMaker& maker) { return out << maker.name; }
inline std::string world_name(const testing::TestParamInfo<WorldMaker>& info) { return info.param.name; }

class Conformance : public testing::TestWithParam<WorldMaker> {
 protected:
  void SetUp() override;  // reserves the devices' memory

  // Runs the bodies of all local members, each on its own thread and with its end of a group of this name.
  // Reports their exceptions.
  using Body = std::function<void(Communicator& communicator, Device& device)>;
  void meet(const std::string& name, std::span<const int> group, const Body& body);

  // Groups of every size that the world can hold, within one process and across, in ascending order and not.
  static std::vector<std::vector<int>> groups();

  std::shared_ptr<World> world_;
};

}  // namespace boxcar::backends
