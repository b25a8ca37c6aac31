// In place of chakra_write.cpp if protobuf was not found.
#include "sbp/error.h"
#include "sim/chakra/chakra.h"

namespace boxcar::chakra {

void write_chakra(const ir::Plan&, const backends::Cluster&, const ChakraRequest&) {
  throw Error::cannot_run(
      "--chakra",
      "this build lacks protobuf (install libprotobuf-dev and protobuf-compiler, configure "
      "again and build)");
}

}  // namespace boxcar::chakra
