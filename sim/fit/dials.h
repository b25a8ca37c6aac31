// A search for constants, one after the other.
//
//   double share = 1;
//   turn_dials({{&share, 1e-3, 10}}, [&] { return std::abs(std::log(model(share) / measured)); });
#pragma once

#include <functional>
#include <vector>

namespace boxcar::fit {

// One constant under search.
struct Dial {
  double* value;
  double least, most;
};

// The error of a prediction: |log(predicted / measured)|. Errors below 3 % count less, so that constants
// which trade off against each other still have a best value.
double misfit(double predicted, double measured);

// Takes each constant a step up and down while `misfit` becomes less, with ever smaller steps.
void turn_dials(const std::vector<Dial>& dials, const std::function<double()>& misfit);

}  // namespace boxcar::fit
