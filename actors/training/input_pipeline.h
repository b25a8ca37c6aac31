// The acts `read` and `decode` of a plan (planner/input_pipeline.h): they turn a micro-batch of images from
// files into pixels, in host memory.
//
//   InputPipeline pipeline(samples, place, plan, global_batch);
//   pipeline.act(device, actor, moment);            // by each act's thread
//   pipeline.load(device, moment, bytes);           // by the load's thread: numbers from pixels
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/host/encoded_images.h"
#include "ir/plan.h"
#include "planner/places.h"

namespace boxcar::training {

class InputPipeline {
 public:
  // `images`: the place that the plan's loads fill. All arguments outlive it. It has memory for this
  // process's devices.
  InputPipeline(const backends::host::EncodedSamples& samples, const planner::Place& images,
                const ir::Plan& plan, int64_t global_batch, const backends::Backend& backend);

  // The plan's registers order the acts: a slot of files or pixels is not written before it has been read.
  // Throws Error (fault) naming a file that is gone or is not a JPEG file. This can happen in the middle of a
  // run.
  void act(int device, const ir::Actor& actor, const backends::Moment& moment);
  // Fills a load's register. Recorded steps have no acts on the host, so their loads read and decode
  // themselves.
  void load(int device, const backends::Moment& moment, std::span<std::byte> bytes) const;

 private:
  // The micro-batches of a device in memory.
  using Files = std::vector<std::vector<std::byte>>;  // by sample
  struct Pixels {
    std::vector<int64_t> numbers;  // by decoder: number of the micro-batch that it has decoded last
    std::vector<uint8_t> bytes;
  };
  struct Rings {
    std::vector<Files> files;  // one per slot of the plan's registers, used in turn
    std::vector<Pixels> pixels;
  };
  // The number of a micro-batch since training began.
  static int64_t number(const backends::Moment& moment) {
    return moment.step * moment.micro_batches + moment.micro_batch;
  }
  int64_t first_sample(const backends::Moment& moment) const {
    return moment.step * global_batch_ + moment.micro_batch * images_.type.shape[0];
  }
  void prepare(int device, const ir::Actor& actor, const backends::Moment& moment);
  int64_t sample_bytes() const { return samples_.pixels(); }

  const backends::host::EncodedSamples& samples_;
  const planner::Place& images_;
  int64_t global_batch_;
  std::vector<Rings> rings_;  // by device
};

}  // namespace boxcar::training
