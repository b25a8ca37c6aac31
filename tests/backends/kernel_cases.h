// The cases that kernels of every backend must pass, against the reference kernels: the registry's samples,
// in every float type and in mixtures of two, on the parts that layouts leave to a device (empty ones too),
// on long axes, on whole vectors, in blocks, and at some moment of training. A new op is covered by its row.
//
//   class KernelTest : public tests::KernelCases { ... Device& device() override ... };
//   TEST_P(KernelTest, EqualsTheReferenceInEveryType) { every_type(GetParam()); }
//
// Outputs start as nonzero bytes. Kernels run twice, and also in place if the op updates state.
//
// Every run draws new extents and inputs. Half of the calls draw multiples of a step (sums are exact, and
// elements repeat), half draw numbers between them. A failure prints its seed; BOXCAR_SEED=123 repeats the
// draw.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/reference.h"
#include "backends/device.h"

namespace boxcar::tests {

class KernelCases : public testing::TestWithParam<std::string> {
 protected:
  virtual backends::Device& device() = 0;
  // Memory of the device until the next forget().
  virtual void* memory(int64_t bytes) = 0;
  virtual void forget() = 0;
  // Relative to the result, or to 1 if the result is smaller.
  virtual double tolerance(ir::DType dtype) const = 0;
  // Whether a call is left out.
  virtual bool leaves_out(const backends::Call&) const { return false; }

  void every_type(const std::string& op);
  void parts(const std::string& op);
  void long_axes(const std::string& op);
  void whole_vectors(const std::string& op, std::initializer_list<int64_t> extents);
  void blocks(const std::string& op);

 public:
  static std::vector<std::string> ops();
  static std::vector<std::string> ops_in_blocks();

 private:
  class Buffer;
  void check(const backends::Call& call, const std::vector<ir::Domain>& domains);
  void check_types(const ir::OpDef& def, const ir::Sample& sample, ir::DType dtype);
  void check_sample(const ir::OpDef& def, const ir::Sample& sample);
  void check_parts(const ir::OpDef& def, const ir::Sample& sample, int64_t parts);
  bool near(double got, double want, ir::DType dtype, double scale) const;
  std::string difference(const backends::cpu::HostTensor& got, const backends::cpu::HostTensor& want,
                         double terms) const;

  const backends::Moment moment_{
      .step = 3, .micro_batch = 2, .micro_batches = 4, .seed = 11, .learning_rate = 0.25};
  uint64_t calls_ = 0;  // calls checked
};

}  // namespace boxcar::tests
