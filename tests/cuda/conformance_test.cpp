// The conformance tests on eight devices that share the available GPUs. Skipped if there is none.
#include "backends/conformance.h"

#include "gpu.h"

namespace boxcar::backends {
namespace {

class GpuWorld : public World {
 public:
  explicit GpuWorld(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}
  std::vector<Backend*> backends() override { return {backend_.get()}; }

 private:
  std::unique_ptr<Backend> backend_;
};

WorldMaker shared_gpus() {
  return {"SharedGpus", [] {
            std::string why;
            auto backend = tests::gpus(world_devices, why);
            if (!backend) throw Unavailable{why};
            return std::make_shared<GpuWorld>(std::move(backend));
          }};
}

INSTANTIATE_TEST_SUITE_P(Gpu, Conformance, testing::Values(shared_gpus()), world_name);

}  // namespace
}  // namespace boxcar::backends
