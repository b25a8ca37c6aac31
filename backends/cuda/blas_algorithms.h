// The fastest timed algorithm of each matrix product, by the product's description. The devices of a run
// share them, so that all use the same; with a file, runs share them too.
//
//   Algorithms algorithms("h200.algorithms");                    // made by the first run
//   algorithms.keep("NVIDIA H200, cuBLASLt 130100: 4 x 5 x 6", choice);
//
// The file is text, a line for each product: its description and the choice in hexadecimal digits. Processes
// may share a file: each writes it anew, with the lines that others have added, and renames it. If two do so
// at once, choices of one may be lost and are timed again. From any thread.
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

  // Throws Error (bad input) naming the line if the file has another form; a missing file is no error.
  // Without a name nothing is read or written.
  explicit Algorithms(std::string file = "");

  std::optional<Choice> find(const std::string& product) const;
  // Returns the choice kept first for this product: this one, unless another thread or process was earlier.
  // Throws Error (fault) if the file cannot be written.
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
