#include "backends/conformance.h"

#include <optional>

#include "backends/cpu/cpu_backend.h"
#include "backends/nccl_backend.h"
#include "support/fake_transport.h"

namespace boxcar::backends {
namespace {

using Make = std::function<std::unique_ptr<Backend>(std::unique_ptr<Transport> transport)>;

class PlayedWorld : public World {
 public:
  PlayedWorld(int processes, const Make& make) {
    if (processes == 1) {
      backends_.push_back(make(nullptr));
      return;
    }
    network_.emplace(processes, 7);
    for (int p = 0; p < processes; ++p) {
      backends_.push_back(make(network_->transport(p)));
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

WorldMaker over(const std::string& name, int processes, const Make& make) {
  return {name + "Over" + std::to_string(processes),
          [processes, make] { return std::make_shared<PlayedWorld>(processes, make); }};
}
WorldMaker cpu_over(int processes) {
  return over("Cpu", processes, [](std::unique_ptr<Transport> transport) {
    return cpu::make_cpu_backend(world_devices, std::move(transport));
  });
}
WorldMaker nccl_over(int processes) {
  return over("FakeNccl", processes, [](std::unique_ptr<Transport> transport) {
    return std::make_unique<tests::NcclBackend>(world_devices, std::move(transport));
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance,
                         testing::Values(cpu_over(1), cpu_over(2), cpu_over(3), nccl_over(3)), world_name);

}  // namespace
}  // namespace boxcar::backends
