// Neural-network ops that are neither products nor plain elementwise. Each subject has a file.
#include "ir/ops/nn_rows.h"

namespace boxcar::ir {

void add_nn_ops(std::vector<OpDef>& out) {
  add_dropout_ops(out);
  add_gated_ops(out);
  add_softmax_ops(out);
  add_norm_ops(out);
  add_embedding_ops(out);
  add_loss_ops(out);
  add_sampling_ops(out);
  add_moe_ops(out);
}

}  // namespace boxcar::ir
