// Replaces layers that exporters write as many small operators by the one operator that ONNX now has:
//
//   Mul(Div(d, Sqrt(Add(ReduceMean(Pow(d, 2)), 1e-5))), gamma) + beta, d = Sub(x, ReduceMean(x))
//     -> LayerNormalization(x, gamma, beta) {epsilon=1e-5}, and RMSNormalization if d is x
//   Mul(Mul(x, Add(Erf(Div(x, 1.41421)), 1)), 0.5)  -> Gelu(x); its form with Tanh {approximate="tanh"}
//   Mul(x, Sigmoid(x))                              -> Swish(x)
//   NegativeLogLikelihoodLoss(LogSoftmax(x), y)     -> SoftmaxCrossEntropyLoss(x, y)
//
// Weights that an exporter merged because they began with equal values, Identity(weight), become separate
// weights again. A weight that is the transpose of another, a tied head that an exporter copied, becomes
// Transpose(weight). Operators that nothing reads any more stay; the importer takes what is needed.
#pragma once

#include "backends/onnx/onnx_model.h"

namespace boxcar::backends::onnx {

void recognize_layers(OnnxModel& model);

}  // namespace boxcar::backends::onnx
