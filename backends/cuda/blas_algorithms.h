// The algorithm timed fastest for each matrix product, by its description. The devices of a run share these,
// so that all take the same; with a file, so do runs.
//
//   Algorithms algorithms("h200.algorithms");                    // made by the first run
//   algorithms.keep("NVIDIA H200, cuBLASLt 130100: 4 x 5 x 6", choice);
//
// The file is text, a line for each product: its description and the choice, in hexadecimal digits. Processes
// may share one: it is written anew as a whole, with what others have written since, and renamed; where two
// do so at once, choices of one may be lost, and are timed again. From any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace boxcar::backends::cuda {

class Algorithms {
 public:
  using Choice = std::array<uint64_t, 8>;  // cublasLtMatmulAlgo_t, good for its version of cuBLASLt alone

  // Throws Error (bad input) naming the line where the file has another form; a missing file is no error.
  // Without a name nothing is read or written.
  explicit Algorithms(std::string file = "");

  std::optional<Choice> find(const std::string& product) const;
  // The one kept of this product first: this one, unless another thread or process was quicker. Throws Error
  // (fault) where the file cannot be written.
  Choice keep(const std::string& product, const Choice& choice);

 private:
  using Choices = std::map<std::string, Choice>;
  Choices read() const;
  void write() const;

  const std::string file_;
  mutable std::mutex mutex_;
  Choices choices_;
};

}  // namespace boxcar::backends::cuda
