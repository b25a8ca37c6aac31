// Times calls on a device: the one stopwatch of `boxcar profile`.
//
//   Bench bench(*backend, 96 << 20, 32 << 20);    // memory, of which 32 MiB are gone through before
//   bench.seconds(sampled)                        // operands come again; median of several turns
//
// If queues keep time by the device's clock, that clock is read: calls are launched while the device is still
// busy with something else, so that the host's time to launch them does not count. Otherwise the clock is the
// calling thread's processor time.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "backends/backend.h"
#include "backends/measure/samples.h"

namespace boxcar::measure {

// The median, since disturbances of a turn occur in training too. REQUIRES one or more.
double typical(std::vector<double> seconds);
// Seconds of one of many calls of `work`, by a clock that tells seconds.
double seconds_of(const std::function<double()>& clock, const std::function<void()>& work);
double wall_seconds();

// The call of an op with its defaults, except for `given`.
Sampled call_of(const char* op, ir::Types inputs, const ir::Attrs& given = {});

class Bench {
 public:
  // On device 0, whose memory it reserves.
  Bench(backends::Backend& backend, int64_t memory, int64_t footprint);

  backends::Device& device() { return backend_.device(0); }
  // Memory is filled with small positive numbers. Returns a negative number for a call that does not fit.
  double seconds(const Sampled& sampled);
  // Host time to launch a call that takes the device almost no time; 0 if the host does not launch.
  double launch_seconds();
  // Share of its rate that a call sustains when it is repeated for this long.
  double load_share(const Sampled& sampled, double for_seconds);
  // Bytes per second of copies: within the device; from the host.
  double copy_bandwidth(int64_t bytes);
  double upload_bandwidth(int64_t bytes);

 private:
  struct Sets;  // operands of a call, several times over
  std::unique_ptr<Sets> place(const Sampled& sampled);
  std::byte* fill(const ir::TensorType& type, std::byte*& next);
  double time(const std::function<void()>& work);
  double time_on_device(const std::function<void()>& work);
  // Device time of one of `calls` calls, launched behind `delay` fills of memory; the host's time for all
  // goes to `host`.
  double turn(const std::function<void()>& work, int64_t calls, int64_t delay, double* host = nullptr);

  backends::Backend& backend_;
  const std::unique_ptr<backends::Queue> queue_;
  const int64_t memory_, footprint_;
  const bool keeps_time_;
  double fill_seconds_ = 0;  // of one of the fills
};

}  // namespace boxcar::measure
