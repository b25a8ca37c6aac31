#include "backends/conformance.h"

#include <optional>

#include "backends/cpu/cpu_backend.h"
#include "support/fake_transport.h"

namespace boxcar::backends {
namespace {

class CpuWorld : public World {
 public:
  explicit CpuWorld(int processes) {
    if (processes == 1) {
      backends_.push_back(cpu::make_cpu_backend(world_devices));
      return;
    }
    network_.emplace(processes, 7);
    for (int p = 0; p < processes; ++p) {
      backends_.push_back(cpu::make_cpu_backend(world_devices, network_->transport(p)));
      backends_.back()->transport()->start();
    }
  }
  std::vector<Backend*> backends() override {
    std::vector<Backend*> result;
    for (const auto& backend : backends_) result.push_back(backend.get());
    return result;
  }

 private:
  std::optional<support::FakeNetwork> network_;
  std::vector<std::unique_ptr<Backend>> backends_;
};

WorldMaker over(int processes) {
  return {"CpuOver" + std::to_string(processes),
          [processes] { return std::make_shared<CpuWorld>(processes); }};
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance, testing::Values(over(1), over(2), over(3)), world_name);

}  // namespace
}  // namespace boxcar::backends
