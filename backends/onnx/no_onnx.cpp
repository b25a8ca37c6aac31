// In place of onnx_file.cpp if protobuf was not found.
#include "backends/onnx/onnx_model.h"
#include "sbp/error.h"

namespace boxcar::backends::onnx {

OnnxModel read_onnx(const std::string& path, ReadFile) {
  throw Error::cannot_run(
      path,
      "this build lacks protobuf (install libprotobuf-dev and protobuf-compiler, configure "
      "again and build)");
}

}  // namespace boxcar::backends::onnx
