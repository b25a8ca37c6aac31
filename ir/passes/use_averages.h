// A forward graph whose batch norms take running averages in place of a batch's statistics, for validation.
//
//   %y = batch_norm(%x, %gamma, %beta)      of op "norm1" becomes, with the states of running_averages.cpp,
//
//   %norm1.running_mean = parameter()       and %norm1.running_var
//   %norm1.scale = div(%gamma, sqrt(%norm1.running_var + eps))
//   %norm1.shift = sub(%beta, mul(%norm1.running_mean, %norm1.scale))
//   %norm1.normal = add(mul(%x, %norm1.scale), %norm1.shift)              by channel
#pragma once

#include "ir/graph.h"

namespace boxcar::ir {

Graph use_running_averages(Graph forward);

}  // namespace boxcar::ir
