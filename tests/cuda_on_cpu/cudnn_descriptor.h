// Attributes set on a cuDNN descriptor, and those that each kind of descriptor requires.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cudnn.h"

namespace cudnn_on_cpu {

struct Descriptor {
  using Pointer = std::shared_ptr<Descriptor>;
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<cudnnBackendAttributeName_t, std::vector<int64_t>> numbers;  // bit patterns if not integers
  std::map<cudnnBackendAttributeName_t, std::vector<Pointer>> descriptors;
  int64_t engine = -1;

  bool has(cudnnBackendAttributeName_t name) const {
    return numbers.contains(name) || descriptors.contains(name);
  }
  const std::vector<int64_t>& at(cudnnBackendAttributeName_t name) const { return numbers.at(name); }
  const Descriptor& of(cudnnBackendAttributeName_t name) const { return *descriptors.at(name)[0]; }
};

constexpr int64_t any = 0;  // any number, at least one

struct Row {
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t count;
  bool needed = true;
};
using Rows = std::vector<Row>;

constexpr auto descriptor = CUDNN_TYPE_BACKEND_DESCRIPTOR;
// By descriptor kind. A float entry also stands for double.
extern const std::map<cudnnBackendDescriptorType_t, Rows> kinds;

size_t size_of(cudnnBackendAttributeType_t type);
bool is_convolution(const Descriptor& operation);
bool is_norm(const Descriptor& operation);
// Element type of a tensor.
cudaDataType_t type_of(const Descriptor& tensor);
// Parts of a convolution: itself, x, w and y, in the order in which its kind lists them.
const Descriptor& part(const Descriptor& operation, size_t i);

}  // namespace cudnn_on_cpu
