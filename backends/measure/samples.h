// Measurements by `boxcar profile` of a device and of the machine around it, before constants are fitted to
// them.
//
//   Samples samples = profile::measure_cpu(progress);             // actors/profile/; of GPUs: measure_gpus
//   backends::DeviceProfile device = fit::fit_device(samples);    // sim/fit/device_fit.h
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/device.h"
#include "sbp/boxing.h"

namespace boxcar::measure {

// A call and which of its results are added up over micro-batches.
struct Sampled {
  backends::Call call;
  std::vector<bool> adds;  // by output
};

// A kernel on one device: at its place in a training step, or by itself with operands that are no longer in
// the nearest caches.
struct KernelSample {
  backends::Call call;
  double seconds = 0;
  int64_t adds = 0;  // further kernels in it, which added results up
};

// A collective of devices of one process, with nothing beside it. `bytes`: the larger of a member's input and
// output.
struct GroupSample {
  sbp::Collective collective = sbp::Collective::none;
  int ranks = 0;
  int64_t bytes = 0;
  double seconds = 0;
};

struct Samples {
  std::string name = "cpu";             // of the device
  ir::DType type = ir::DType::float32;  // the type of training; curves are fitted to kernels in it
  int64_t memory_bytes = 0;
  int multiprocessors = 1;  // above 1 products run in tiles
  std::vector<KernelSample> kernels;
  std::vector<GroupSample> groups;
  double load_share = 1;        // share of its rate that a product keeps up for seconds
  double act_seconds = 0;       // of an act that does almost nothing, if a device's acts run on its thread
  double launch_seconds = 0;    // of the host for an act that it launches; 0: acts are not launched
  double message_seconds = 0;   // from an act's end until a thread that slept begins the next
  double copy_bandwidth = 0;    // bytes/s that one thread copies, or one device to another; 0: not measured
  double upload_bandwidth = 0;  // bytes/s from the host, if that is other memory
  double cores = 0;  // threads' worth of work when there is one for each of the machine's cores; 0: of GPUs
};

}  // namespace boxcar::measure
