#include "backends/host/vocabulary.h"

#include <algorithm>
#include <cstring>

namespace boxcar::backends::host {

bool is_vocabulary(std::string_view weight) {
  return weight == "embedding.word" || weight == "head.weight" || weight == "head.bias";
}

ir::Shape without_padding(std::string_view weight, ir::Shape shape, const ir::models::Model& model) {
  if (!model.transformer() || !is_vocabulary(weight)) return shape;
  int64_t& words = shape[weight == "head.weight" ? 1 : 0];
  if (words > 1) words = model->vocab;  // a factored moment has an extent of 1 on one axis
  return shape;
}

StoredTensor fitted(const StoredTensor& tensor, const ir::Shape& shape) {
  StoredTensor result{{shape, tensor.type.dtype}, {}};
  result.bytes.resize(static_cast<size_t>(result.type.bytes()));
  const auto row_bytes = [&](const ir::Shape& of) {
    return static_cast<size_t>((of.size() > 1 ? of[1] : 1) * ir::size_of(tensor.type.dtype));
  };
  const size_t from = row_bytes(tensor.type.shape), to = row_bytes(shape);
  for (int64_t row = 0; row < std::min(shape[0], tensor.type.shape[0]); ++row)
    std::memcpy(result.bytes.data() + static_cast<size_t>(row) * to,
                tensor.bytes.data() + static_cast<size_t>(row) * from, std::min(from, to));
  return result;
}

}  // namespace boxcar::backends::host
