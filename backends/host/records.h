// Training data of a user's own graph: a tensor for each of its inputs, all with the same number of samples.
//
//   const RecordData data = RecordData::open("train.safetensors", ir::models::inputs_of(model));
//   data.size()                                        // 60000: the first extent of each tensor
//   const RecordSamples samples(data, seed);           // in training order (data.h)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/host/data.h"
#include "backends/host/safetensors.h"
#include "ir/models/graph_model.h"

namespace boxcar::backends::host {

// A value that shares its samples with its copies; they are in memory once.
class RecordData {
 public:
  // A safetensors file with a tensor of each input's name, [samples, the input's other extents]; other
  // tensors are ignored. Floating-point inputs take any such type, whole ones int64 and int32. Throws Error
  // (bad input), naming the file and the input, if one is missing, of another shape or kind, has no samples
  // or another number of them, or has a number outside the range of the op that reads it.
  static RecordData open(const std::string& path, const std::vector<ir::models::GraphInput>& inputs);
  // 256 samples: floating-point numbers normal with deviation 1, whole numbers uniform below the limit of the
  // op that reads them. Throws Error (bad input) if an input of whole numbers has no limit.
  static RecordData random(const std::vector<ir::models::GraphInput>& inputs, int64_t seed);

  int64_t size() const { return samples_; }
  // REQUIRES that `input` was among the inputs given.
  const StoredTensor& tensor(std::string_view input) const;
  // "60000 samples of fingerprint 91a3...": the same for the same samples, whatever their file is called.
  std::string identity() const;

 private:
  RecordData(StoredFile file, int64_t samples);

  std::shared_ptr<const StoredFile> file_;
  int64_t samples_;
};

// Inputs by their names.
class RecordSamples : public Samples {
 public:
  RecordSamples(RecordData data, int64_t seed) : data_(std::move(data)), seed_(seed) {}
  int64_t read(std::string_view input, int64_t index, std::span<const sbp::Range> ranges, bool wide,
               std::byte* out) const override;

 private:
  RecordData data_;
  int64_t seed_;
};

}  // namespace boxcar::backends::host
