#include "backends/cuda/cuda_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "backends/cuda/blas.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/kernel_table.h"
#include "backends/cuda/nccl_communicator.h"
#include "backends/cuda/placement.h"
#include "backends/cuda/shared_communicator.h"
#include "ir/plan.h"
#include "sbp/at.h"
#include "sbp/error.h"

namespace boxcar::backends::cuda {
namespace {

Gpus gpus_here() {
  Gpus gpus;
  if (cudaRuntimeGetVersion(&gpus.runtime) != cudaSuccess) gpus.runtime = CUDART_VERSION;
  if (cudaDriverGetVersion(&gpus.driver) != cudaSuccess) gpus.driver = 0;
  int count = 0;
  if (gpus.driver == 0 || cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  cudaGetLastError();
  for (int gpu = 0; gpu < count; ++gpu) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, gpu), "a GPU is asked");
    gpus.names.emplace_back(properties.name);
    std::string id;
    for (const char byte : properties.uuid.bytes)
      id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    gpus.ids.push_back(id);
  }
  return gpus;
}

// Copies between GPUs go straight from one to the other if they can.
void connect(const std::vector<int>& gpus) {
  for (const int gpu : gpus)
    for (const int other : gpus) {
      int can = 0;
      if (gpu == other || cudaDeviceCanAccessPeer(&can, gpu, other) != cudaSuccess || can == 0) continue;
      check(cudaSetDevice(gpu), "a device is chosen");
      const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
      if (error == cudaErrorPeerAccessAlreadyEnabled)
        cudaGetLastError();
      else
        check(error, "access between GPUs");
    }
}

constexpr const char* connections = "CUDA_DEVICE_MAX_CONNECTIONS";
constexpr int most_connections = 32;  // hardware queues of a GPU
constexpr int own_queues = 4;         // of them, for copies with the host, recordings and NCCL's own

class QueueStream : public NcclStream {
 public:
  explicit QueueStream(CudaQueue& queue) : queue_(queue) {
    queue_.use();
    check(cudaMalloc(&token_, 8), "memory for barriers");
  }
  ~QueueStream() override {
    cudaSetDevice(queue_.gpu());
    cudaFree(token_);
  }
  void* handle() override {
    queue_.use();
    return queue_.stream();
  }
  bool records() const override { return queue_.records(); }
  void follow() override { queue_.follow(); }
  void note(const std::string& act) override { queue_.note(act); }
  std::string act_in_flight(const std::string& end) const override { return queue_.act_in_flight(end); }
  std::unique_lock<std::mutex> turn() override { return queue_.turn(); }
  std::function<bool()> probe() override {
    return [mark = queue_.cuda_mark()] { return mark->passed(); };
  }
  void* token() override { return token_; }
  std::function<void()> chooser() const override {
    return [gpu = queue_.gpu()] { cudaSetDevice(gpu); };
  }

 private:
  CudaQueue& queue_;
  void* token_ = nullptr;
};

// The most memory that libraries take beside a device's arena, for the compute queue. Only when kernels are
// prepared is it known whether cuDNN is there and which engines it chooses.
int64_t most_scratch(const ir::Program& program, bool fast) {
  int64_t most = Blas::workspace;
  for (const ir::Actor& actor : program.actors) {
    if (actor.op.starts_with("conv2d")) most = std::max(most, Dnn::most_workspace);
    if (actor.op == "max_pool2d_grad")  // places of maxima, a byte each
      most = std::max(most, at(program.registers, actor.inputs[0].reg).type.elements());
    if (fast || actor.op != "scaled_dot_product_attention_grad" || actor.inputs.size() < 3) continue;
    const auto type = [&](size_t input) { return at(program.registers, actor.inputs[input].reg).type; };
    const ir::TensorType q = type(1), k = type(2);
    const int64_t scores = 2 * q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2];
    if (ir::size_of(q.dtype) == 2) most = std::max(most, std::min(scores, Libraries::most_scores_usually));
  }
  return most;
}

class CudaBackend : public Backend {
 public:
  // The transport is the caller's until own() is called.
  CudaBackend(int devices, const CudaOptions& options, Transport* transport)
      : transport_(transport),
        fast_(options.fast),
        library_bytes_(options.library_bytes),
        waits_(transport),
        devices_(static_cast<size_t>(devices)) {
    std::vector<int> mine;
    for (int d = 0; d < devices; ++d)
      if (is_local(d)) mine.push_back(d);
    const Gpus here = gpus_here();
    place(here, {});  // errors of this process alone
    const std::string ids = fmt::format("{}", fmt::join(here.ids, " "));
    Wanted wanted = transport_ ? sharers(transport_->exchange(ids), transport_->process()) : Wanted{};
    wanted.devices = static_cast<int>(mine.size());
    wanted.share = options.share_gpus;
    gpus_.assign(devices_.size(), -1);
    const std::vector<int> gpus = place(here, wanted);
    for (size_t i = 0; i < mine.size(); ++i) at(gpus_, mine[i]) = gpus[i];
    shares_ = wanted.share && std::adjacent_find(gpus.begin(), gpus.end()) != gpus.end();
    if (shares_ && transport_)
      throw Error::cannot_run("cuda", "devices that share a GPU are of one process; run without mpirun");
    const auto algorithms = options.fast ? std::make_shared<Algorithms>(options.algorithms) : nullptr;
    for (size_t i = 0; i < mine.size(); ++i)
      at(devices_, mine[i]) = std::make_unique<CudaDevice>(
          gpus[i], waits_, [this] { look_for_failures(); }, recorder_, algorithms);
    std::vector<int> distinct = gpus;
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    connect(distinct);
    if (!shares_ && devices > 1) {
      nccl_.emplace(load_nccl("libnccl.so.2", BOXCAR_CUDA_LIBRARIES), waits_, mailboxes_, transport_,
                    options.collective_seconds);
      recorder_.limit(options.collective_seconds);
    }
    if (transport_)
      transport_->listen(Channel::control,
                         [this](int, std::span<const std::byte> bytes) { mailboxes_.put(bytes); });
  }

  int devices() const override { return static_cast<int>(devices_.size()); }
  int process_of(int device) const override {
    const int64_t processes = transport_ ? transport_->processes() : 1;
    return static_cast<int>(device * processes / devices());
  }
  bool is_local(int device) const override {
    return process_of(device) == (transport_ ? transport_->process() : 0);
  }
  Device& device(int device) override { return *devices_.at(static_cast<size_t>(device)); }

  std::unique_ptr<Communicator> communicator(const std::string& name, std::span<const int> group, int device,
                                             Queue& queue) override {
    const auto member = std::find(group.begin(), group.end(), device);
    if (member == group.end() || !is_local(device))
      throw Error::fault(name, fmt::format("device {} is no member in this process", device));
    auto& stream = dynamic_cast<CudaQueue&>(queue);
    if (nccl_)
      return nccl_->communicator(name, group, device, std::make_unique<QueueStream>(stream),
                                 [this](int d) { return process_of(d); });
    return std::make_unique<SharedCommunicator>(name, table(name, group),
                                                static_cast<int>(member - group.begin()), stream, waits_);
  }
  std::vector<Made> made() const override {
    std::set<Made> all;
    for (const auto& device : devices_)
      if (device) all.insert(device->made().begin(), device->made().end());
    return {all.begin(), all.end()};
  }
  void expect_room(const ir::Plan& plan, std::span<const Beside> beside) override {
    std::map<int, Needed> needed;  // by GPU
    std::map<int, Device*> one;
    for (const ir::RankClass& cls : plan.classes) {
      const ir::Program& program = at(plan.programs, cls.program);
      const int64_t bytes = program.arena_bytes + most_scratch(program, fast_);
      for (const int device : cls.devices)
        if (const auto d = static_cast<size_t>(device); devices_[d]) {
          Needed& sum = needed[gpus_[d]];
          sum.plan += bytes + beside[d].bytes;
          sum.libraries = library_bytes_;
          if (nccl_) sum.nccl += buffer_bytes(beside[d].groups);
          one[gpus_[d]] = devices_[d].get();
        }
    }
    for (const auto& [gpu, sum] : needed) {
      const DeviceFacts facts = one[gpu]->facts();
      check_memory(gpu, sum, facts.free_bytes, facts.memory_bytes);
    }
  }
  // Streams that wait for others need hardware queues of their own; otherwise one waits behind another's act.
  void expect_groups(int groups, int queues) override {
    if (!nccl_) return;
    const char* const set = std::getenv(connections);
    const int most = (set ? std::atoi(set) : most_connections) - own_queues;
    if (queues > most)
      throw Error::cannot_run(
          "cuda",
          fmt::format("a device of the plan has {} queues, and {} can be under way on a GPU at once{}; "
                      "use fewer kinds of parallelism, or fewer stages that exchange tensors",
                      queues, most, set ? fmt::format(" ({}={})", connections, set) : ""));
    nccl_->expect(groups);
  }
  bool sends() const override { return nccl_.has_value(); }
  Transport* transport() override { return transport_; }
  void own(std::unique_ptr<Transport> transport) { owned_ = std::move(transport); }
  // One thread at a time records, and NCCL's calls of several devices of a process would wait for each other.
  void check_recording() const override {
    const auto here =
        std::count_if(devices_.begin(), devices_.end(), [](const auto& d) { return d != nullptr; });
    if (nccl_ && here > 1)
      throw Error::input(
          "graphs of steps",
          fmt::format("{} devices in one process communicate by NCCL; start a process for each "
                      "with mpirun",
                      here));
  }
  void record(bool in_order) override { recorder_.start(in_order); }
  std::unique_ptr<Recording> recorded() override { return recorder_.stop(); }
  void abort(const std::string& why) override { waits_.abort(why); }

 private:
  // For a thread that has waited for its GPU: throws Error if something failed meanwhile.
  void look_for_failures() {
    if (nccl_) nccl_->check();
    for (const auto& device : devices_)
      if (device) device->faults().check();
  }
  // The table of this name that members have, or a new one.
  std::shared_ptr<Table> table(const std::string& name, std::span<const int> group) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<Table>& entry = tables_[name];
    std::shared_ptr<Table> found = entry.lock();
    if (!found) entry = found = std::make_shared<Table>(group);
    if (!std::equal(group.begin(), group.end(), found->devices.begin(), found->devices.end()))
      throw Error::fault(name, "two groups of this name are in use at once");
    return found;
  }

  Transport* const transport_;  // null in one process
  const bool fast_;
  const int64_t library_bytes_;
  cpu::Waits waits_;
  Recorder recorder_{waits_, [this] { look_for_failures(); }};
  std::vector<std::unique_ptr<CudaDevice>> devices_;  // null for others'
  std::vector<int> gpus_;                             // by device; -1 for others'
  cpu::Mailboxes mailboxes_;
  bool shares_ = false;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Table>> tables_;
  std::unique_ptr<Transport> owned_;  // ends before what its listener uses
  std::optional<NcclGroups> nccl_;    // ends first: it watches the transport
};

}  // namespace

void prepare_environment(int members) {
  // Groups connect their members when they are set up, not at calls in a step.
  ::setenv("NCCL_RUNTIME_CONNECT", "0", 0);
  if (members < 2) return;
  // Streams that share a hardware queue wait for one another, and one may be in a receive whose send needs
  // the work of another. Hence as many queues as possible.
  ::setenv(connections, std::to_string(most_connections).c_str(), 0);
  // Loading a kernel may wait until the GPU is idle, which it is not while a collective waits. Kernels of
  // plans are run once before the first group begins; this is for the kernels of libraries.
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

int count_gpus() {
  const Gpus gpus = gpus_here();
  place(gpus, {});
  return static_cast<int>(gpus.names.size());
}

std::unique_ptr<Backend> make_cuda_backend(int devices, const CudaOptions& options,
                                           std::unique_ptr<Transport>&& transport) {
  if (devices < 1) throw Error::input("devices", fmt::format("{} is less than 1", devices));
  if (transport && transport->processes() > devices)
    throw Error::input("devices", fmt::format("{} for {} processes; start at most {}", devices,
                                              transport->processes(), devices));
  prepare_environment(options.share_gpus ? 1 : devices);
  auto backend = std::make_unique<CudaBackend>(devices, options, transport.get());
  backend->own(std::move(transport));
  return backend;
}

}  // namespace boxcar::backends::cuda
