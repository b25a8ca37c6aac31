#include "sim/fit/dials.h"

#include <algorithm>
#include <cmath>

namespace boxcar::fit {

double misfit(double predicted, double measured) {
  constexpr double small = 0.03;
  const double error = std::abs(std::log(predicted / measured));
  return error < small ? error * error / (2 * small) : error - small / 2;
}

void turn_dials(const std::vector<Dial>& dials, const std::function<double()>& misfit) {
  double least = misfit();
  for (const double step : {1.4, 1.2, 1.1, 1.05, 2.0, 1.4, 1.2, 1.1, 1.05, 1.02, 1.01})
    for (int round = 0; round < 30; ++round) {
      const double before = least;
      for (const Dial& dial : dials)
        for (const double factor : {step, 1 / step}) {
          const double old = *dial.value;
          *dial.value = std::clamp(old * factor, dial.least, dial.most);
          if (const double now = misfit(); now < least)
            least = now;
          else
            *dial.value = old;
        }
      if (before - least < 1e-5) break;
    }
}

}  // namespace boxcar::fit
