// Padding of the vocabulary (ir/models/transformer.h): rows and columns of tables for words that do not
// exist. They are zero, no loss reads them, and no gradient changes them, so a run does not depend on their
// number.
#pragma once

#include <string_view>

#include "backends/host/safetensors.h"
#include "ir/models/model.h"

namespace boxcar::backends::host {

// Whether one axis of the weight is the vocabulary.
bool is_vocabulary(std::string_view weight);

// The shape of a weight without its padding: {50304, 768} of GPT-2's table is {50257, 768}.
ir::Shape without_padding(std::string_view weight, ir::Shape shape, const ir::models::Model& model);

// The elements that both shapes have, zero beyond. Both have one axis, or two.
StoredTensor fitted(const StoredTensor& tensor, const ir::Shape& shape);

}  // namespace boxcar::backends::host
