// Layers that exporters write as many small operators, as the one operator that ONNX has for each since:
//
//   Mul(Div(d, Sqrt(Add(ReduceMean(Pow(d, 2)), 1e-5))), gamma) + beta, d = Sub(x, ReduceMean(x))
//     -> LayerNormalization(x, gamma, beta) {epsilon=1e-5}, and RMSNormalization where d is x
//   Mul(Mul(x, Add(Erf(Div(x, 1.41421)), 1)), 0.5)  -> Gelu(x); its form with Tanh {approximate="tanh"}
//   Mul(x, Sigmoid(x))                              -> Swish(x)
//   NegativeLogLikelihoodLoss(LogSoftmax(x), y)     -> SoftmaxCrossEntropyLoss(x, y)
//
// Weights that an exporter has merged because they began with equal values, Identity(weight), are weights of
// their own again. A weight that is another one transposed, a tied head of which an exporter made a copy, is
// Transpose(weight). Operators that nothing reads any more stay; who imports takes what is needed.
#pragma once

#include "backends/onnx/onnx_model.h"

namespace boxcar::backends::onnx {

void recognize_layers(OnnxModel& model);

}  // namespace boxcar::backends::onnx
