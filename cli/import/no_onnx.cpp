// In place of onnx_file.cpp where protobuf was not found.
#include "cli/import/onnx_model.h"
#include "sbp/error.h"

namespace boxcar::cli::imports {

OnnxModel read_onnx(const std::string& path) {
  throw Error::cannot_run(
      path,
      "this build lacks protobuf (install libprotobuf-dev and protobuf-compiler, configure "
      "again and build)");
}

}  // namespace boxcar::cli::imports
